"""Finds how far one lever has to be moved (or two together) for a refused pod to fit, by trying it on near nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from heapq import nlargest
from itertools import chain, islice
from typing import Final, NamedTuple

from hami_plugins.engine.bounds import RequestBounds
from hami_plugins.engine.decide import Decider, DecisionRequest
from hami_plugins.engine.quota import counted_cores
from hami_plugins.engine.usage import held_by
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.decisions import Placed
from hami_plugins.model.nodes import NodeEntry, NodeState
from hami_plugins.model.pods import NodeConstraints
from hami_plugins.model.units import INT32_MAX, VendorName
from hami_plugins.model.vendor import Headroom, VendorSpec
from hami_plugins.model.verdicts import Reason
from hami_plugins.suggest.apply import literally
from hami_plugins.suggest.changes import Change, ChangeKind, Counterfactual, RaisedQuota, Settle
from hami_plugins.suggest.cost import cost_of
from hami_plugins.suggest.knobs import Knob
from hami_plugins.suggest.refusals import Refusals

MOST_TRIALS: Final = 5_000
"""Decisions that one search may take; after them nothing fits any more."""

MOST_NODES: Final = 32
"""Nodes on which one change is tried, those with the most left first."""

SHORT_RANGE: Final = 16
"""Amounts with no more steps than this are tried one by one: two devices may do where three do not, but four would."""


class _Step(NamedTuple):
    """A lever that has been moved to a value at which a node takes the pod."""

    value: int
    node: NodeEntry
    placed: Placed


class Search:
    """The trials for one refused question. Uses a decider of its own, so that the caller's keeps what it remembers."""

    def __init__(
        self,
        decider: Decider,
        snapshot: ClusterSnapshot,
        refusals: Refusals,
        settle: Settle | None = None,
        *,
        trials: int = MOST_TRIALS,
    ) -> None:
        self._decider = Decider(decider.registry, uncounted=decider.uncounted)
        self._frame = replace(snapshot, nodes=())
        self._refusals = refusals
        self._literally = literally(refusals.question, decider.registry)
        self._settle = settle or self._literally
        self._unlocked: dict[NodeConstraints, Sequence[NodeEntry]] = {}
        self._settled: dict[tuple[Change, ...], DecisionRequest | None] = {}
        self._trials = trials

    def proven(self, changes: tuple[Change, ...], node: NodeEntry) -> Counterfactual | None:
        """The counterfactual of these changes on a node (as it would be then), if the node takes the pod so."""
        question = self._question(changes)
        placed = None if question is None else self._fits(node, question)
        return None if question is None or placed is None else _counterfactual(changes, question, node, placed)

    def single(self, lever: Knob) -> Counterfactual | None:
        """The least that this lever alone has to be moved."""
        return self._moved(lever, ())

    def pair(self, one: Knob, other: Knob) -> Counterfactual | None:
        """The least that two levers have to be moved together, keeping as much as possible of one or of the other."""
        if not one.is_amount:
            one, other = other, one
        found = [self._together(one, other)]
        if other.is_amount:
            found.append(self._together(other, one))
        return cheapest(found)

    def quota(self, vendor: VendorName, headroom: Headroom) -> Counterfactual | None:
        """The least that the namespace's quota for one vendor has to be raised; ``headroom`` is what it leaves now."""
        spec = self._refusals.registry[vendor]
        limits: list[tuple[ChangeKind, str, int]] = []
        if headroom.memory is not None:
            limits.append((ChangeKind.QUOTA_MEMORY, spec.resources.memory, headroom.memory // spec.memory_factor()))
        if headroom.cores is not None:
            limits.append((ChangeKind.QUOTA_CORES, spec.resources.cores, headroom.cores))

        def raised(memory: int, cores: int) -> tuple[Change, ...]:
            needed = {ChangeKind.QUOTA_MEMORY: -(-memory // spec.memory_factor()), ChangeKind.QUOTA_CORES: cores}
            return tuple(
                RaisedQuota(kind=kind, resource=resource, left=left, needed=needed[kind], vendor=vendor)
                for kind, resource, left in limits
                if needed[kind] > left
            )

        found: list[Counterfactual | None] = []
        for node in islice(self._refusals.lifted_by({Reason.QUOTA}), MOST_NODES):
            unlimited = self.proven(raised(INT32_MAX, INT32_MAX), node)
            if unlimited is not None:
                found.append(self.proven(raised(*_booked(spec, node, unlimited.placed)), node))
        return cheapest(found)

    def _moved(self, lever: Knob, fixed: tuple[tuple[Knob, int], ...]) -> Counterfactual | None:
        step = self._furthest(lever, fixed)
        if step is None:
            return None
        changes = (lever.change(step.value), *(each.change(value) for each, value in fixed))
        question = self._question(changes)
        return None if question is None else _counterfactual(changes, question, step.node, step.placed)

    def _together(self, first: Knob, second: Knob) -> Counterfactual | None:
        """Keep as much as possible of ``first``, then as much as possible of ``second``."""
        with_least = self._furthest(first, ((second, second.low),))
        if with_least is None:
            return None
        kept = ((first, with_least.value),)
        return self._moved(second, kept) if second.is_amount else self._moved(first, ((second, second.low),))

    def _furthest(self, lever: Knob, fixed: tuple[tuple[Knob, int], ...]) -> _Step | None:
        """The highest value of the lever that some node takes, while others stand fixed."""
        others = tuple(each.change(value) for each, value in fixed)
        best: _Step | None = None
        for cap, node in self._candidates(lever, tuple(each for each, _ in fixed), others):
            low = lever.low if best is None else best.value + 1
            high = min(lever.high, cap)
            if high < low:
                break
            best = self._highest(lever, others, node, low, high) or best
            if not lever.is_amount and best is not None:
                break
        return best

    def _highest(self, lever: Knob, others: tuple[Change, ...], node: NodeEntry, low: int, high: int) -> _Step | None:
        """The highest value in a range that one node takes.

        Fitting is taken for monotone between powers of two, so that a few trials do; a vendor for whom it is not may
        have a higher value that works.
        """

        def at(value: int) -> _Step | None:
            question = self._question((lever.change(value), *others))
            placed = None if question is None else self._fits(node, question)
            return None if placed is None else _Step(value, node, placed)

        if high - low <= SHORT_RANGE:
            return next((step for value in range(high, low - 1, -1) if (step := at(value)) is not None), None)
        if low > lever.low and at(low) is None and self._question((lever.change(low), *others)) is not None:
            return None  # the node takes no more than another one does; only a value that means nothing proves nothing
        too_high = high
        found = at(high)
        for value in _landmarks(low, high) if found is None else ():
            found = at(value)
            if found is not None:
                return _halved(at, found, too_high)
            too_high = value
        return found

    def _candidates(
        self, lever: Knob, others: tuple[Knob, ...], changes: tuple[Change, ...]
    ) -> list[tuple[int, NodeEntry]]:
        """Nodes that could fit with the lever at its most modest, and the most that each could give; best first."""
        modest = (lever.change(lever.low), *changes)
        question = self._question(modest) or self._literally(modest)
        levers = (lever, *others)
        lifts = frozenset(reason for each in levers for reason in each.lifts)
        fewer = any(each.kind is ChangeKind.COUNT for each in levers)
        gauges = self._refusals.gauges(question)
        measured = _gauge_of(lever, question, gauges)
        near: dict[NodeState | int, tuple[int, NodeEntry]] = {}
        by_state = not question.demand.devices.names_ids
        for node in chain(self._refusals.lifted_by(lifts, fewer=fewer), self._unlocked_by(question)):
            cap = _cap(lever, measured, node)
            key = node.state if by_state else id(node)
            if cap < lever.low or (key in near and near[key][0] >= cap):
                continue
            if all(gauge is measured or gauge.capable(node) >= gauge.request.count for gauge in gauges):
                near[key] = (cap, node)
        return nlargest(MOST_NODES, near.values(), key=lambda each: each[0])

    def _unlocked_by(self, question: DecisionRequest) -> Sequence[NodeEntry]:
        """The same for all questions with the same constraints, of which there are few among many changes."""
        constraints = question.demand.constraints
        if constraints not in self._unlocked:
            self._unlocked[constraints] = tuple(self._refusals.unlocked_by(constraints))
        return self._unlocked[constraints]

    def _question(self, changes: tuple[Change, ...]) -> DecisionRequest | None:
        if changes not in self._settled:
            self._settled[changes] = self._settle(changes)
        return self._settled[changes]

    def _fits(self, node: NodeEntry, question: DecisionRequest) -> Placed | None:
        if not self._trials:
            return None
        self._trials -= 1
        decision = self._decider.decide(replace(self._frame, nodes=(node,)), question.demand, question.policy)
        return decision if isinstance(decision, Placed) else None


def cheapest(found: Iterable[Counterfactual | None]) -> Counterfactual | None:
    """The counterfactual that gives up least, the first of equals."""
    return min((each for each in found if each is not None), key=lambda each: each.cost, default=None)


def _counterfactual(
    changes: tuple[Change, ...], question: DecisionRequest, node: NodeEntry, placed: Placed
) -> Counterfactual:
    return Counterfactual(
        changes=changes,
        demand=question.demand,
        policy=question.policy,
        node=node,
        placed=placed,
        cost=sum(cost_of(change, node, placed) for change in changes),
    )


def _gauge_of(lever: Knob, question: DecisionRequest, gauges: Iterable[RequestBounds]) -> RequestBounds | None:
    """The gauge of the request that a lever is about; ``None`` when it is about none, or the request is gone."""
    if lever.request is None:
        return None
    at, vendor = lever.request
    requests = question.demand.devices.containers[at].requests
    return next(
        (gauge for gauge in gauges for each in requests if each.vendor == vendor and each == gauge.request), None
    )


def _cap(lever: Knob, gauge: RequestBounds | None, node: NodeEntry) -> int:
    """A value of the lever above which the node cannot take the pod, as far as arithmetic can tell."""
    if lever.kind is ChangeKind.RESOURCE:
        return _plain_cap(lever, node)
    if gauge is None:
        return lever.high
    spec = gauge.spec
    cap = lever.high
    match lever.kind:
        case ChangeKind.MEMORY if spec.fitting.memory_of is None:
            cap = gauge.most_memory(node) // lever.unit
        case ChangeKind.PERCENTAGE if spec.fitting.memory_of is None:
            cap = gauge.most_percent(node)
        case ChangeKind.CORES if spec.fitting.cores_of is None and spec.fitting.takes_no_cores is None:
            cap = gauge.most_cores(node)
        case ChangeKind.COUNT if not gauge.request.slices:
            cap = gauge.capable(node)
    return cap


def _plain_cap(lever: Knob, node: NodeEntry) -> int:
    free = node.facts.allocatable.get(lever.resource)
    return lever.high if free is None else (free.nano - node.requested.get(lever.resource, 0)) // lever.unit


def _landmarks(low: int, high: int) -> Iterator[int]:
    """Values below ``high``, from the highest: powers of two, and ``low``."""
    value = 1 << ((high - 1).bit_length() - 1) if high > 1 else 0
    while value > low:
        yield value
        value >>= 1
    yield low


def _halved(at: Callable[[int], _Step | None], found: _Step, too_high: int) -> _Step:
    """The highest step between one that works and one that does not, found by halving."""
    while too_high - found.value > 1:
        middle = (found.value + too_high) // 2
        step = at(middle)
        if step is None:
            too_high = middle
        else:
            found = step
    return found


def _booked(spec: VendorSpec, node: NodeEntry, placed: Placed) -> tuple[int, int]:
    """Memory (MiB) and cores that a placement holds of one vendor, as a quota counts them."""
    devices = dict(zip(node.ids, node.state.shape.devices, strict=True))
    vendors = {share.device: share.vendor for share in placed.shares()}
    held = {name: each for name, each in held_by(placed.containers).items() if vendors[name] == spec.name}
    cores = sum(counted_cores(spec, devices[name], each.cores) for name, each in held.items())
    return sum(each.memory for each in held.values()), cores
