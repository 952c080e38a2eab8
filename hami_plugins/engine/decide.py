"""The one decision function, and the cache of verdicts that makes it fast without ever being wrong.

A verdict depends on nothing but its key (state, demand, policy, wanted positions) and the headroom of the pod's quota,
so it is cached with the headrooms for which it holds. Entries are never invalidated; they are evicted only when the
cache is full. Besides the verdicts, a *column* keeps the answer of each node of the last snapshot to one demand, so
that a decision after a change examines only the changed nodes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from operator import is_not
from typing import Final, NamedTuple

from hami_plugins.engine.claims import verdicts
from hami_plugins.engine.claims.check import AskedClaims, ClaimChecker
from hami_plugins.engine.claims.needs import ClaimNeeds, ClaimTrouble
from hami_plugins.engine.claims.rules import ClaimRules
from hami_plugins.engine.claims.verdicts import JudgedNodes, OtherAnswers
from hami_plugins.engine.device_names import allocated, positions_of
from hami_plugins.engine.eligibility import objection
from hami_plugins.engine.headroom import ANY_HEADROOM, HeadroomComparison, HeadroomRange
from hami_plugins.engine.place import Mask, Placer
from hami_plugins.engine.registry import Registry
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.decisions import UNREGISTERED, Decision, FilterReason, Placed, Refusal, Refused
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.nodes import NodeEntry, NodeState
from hami_plugins.model.pods import ANYWHERE, ContainerAllocation, NodeConstraints
from hami_plugins.model.policy import NodePolicy, Policy
from hami_plugins.model.requests import DeviceDemand, DeviceSelector
from hami_plugins.model.units import DeviceId, NodeName, VendorName
from hami_plugins.model.vendor import Left
from hami_plugins.model.verdicts import Fit, NoFit, Verdict
from hami_plugins.wire.koordinator import WHOLE_CARDS

_OUT: Final = float("-inf")


@dataclass(frozen=True, slots=True)
class PodDemand:
    """Everything about a pod that a decision depends on: devices, where it may go, and what its quota leaves.

    ``claims`` are its claims; ``None`` for a pod that has nothing to do with any.
    """

    devices: DeviceDemand
    constraints: NodeConstraints = ANYWHERE
    headroom: Left = ()
    claims: ClaimNeeds | None = None


@dataclass(slots=True)
class CacheStatistics:
    """How the verdict cache fares, for metrics and benchmarks."""

    verdicts: int = 0
    hits: int = 0
    misses: int = 0
    columns: int = 0


class Decider:
    """``decide`` with its caches. One per process; not shared between threads.

    ``verdicts`` bounds the number of remembered verdicts, ``columns`` the number of demands whose nodes are remembered.
    ``uncounted`` are resources that no node sum is checked for, because this decision answers for them. ``claim_rules``
    are those of the release that allocates claims; by default of the newest kubelet of each snapshot.
    """

    def __init__(
        self,
        registry: Registry,
        *,
        verdicts: int = 400_000,
        columns: int = 64,
        uncounted: Collection[str] | None = None,
        claim_rules: ClaimRules | None = None,
    ) -> None:
        self.registry = registry
        self.statistics = CacheStatistics()
        self.uncounted = (
            frozenset(name for name, spec in registry.resources.items() if name not in spec.counted_by_scheduler)
            if uncounted is None
            else frozenset(uncounted)
        )
        self._limit = verdicts
        self._most_columns = columns
        self._columns: OrderedDict[_ColumnKey, _Column] = OrderedDict()
        self._claims = ClaimChecker(claim_rules)
        self._latest: _Column | None = None
        self._asked: tuple[PodDemand, Policy] | None = None

    def decide(self, snapshot: ClusterSnapshot, demand: PodDemand, policy: Policy) -> Decision:
        """Where the pod goes, or why no node takes it. Pure: the same arguments give the same answer, cached or not.

        Among the nodes that fit, the best score by the pod's node policy wins; equals go to the first by name.
        """
        column = self._column(demand, policy)
        asked = self._asked_of(snapshot, demand)
        if asked is None:
            return column.decide(snapshot, demand.headroom)
        if isinstance(asked, ClaimTrouble):
            why = verdicts.troubled(asked)
            return Refused(by_node=tuple((entry.name, why) for entry in snapshot.nodes))
        return column.choice_of(self._judged(snapshot, demand, policy, asked))

    def _asked_of(self, snapshot: ClusterSnapshot, demand: PodDemand) -> AskedClaims | ClaimTrouble | None:
        """What nodes are asked besides devices of vendors and plain resources; nothing for most pods."""
        if demand.claims is None and not snapshot.dynamic.stands_for:
            return None
        return self._claims.asked(snapshot, demand.claims, demand.constraints.requests)

    def place(self, state: NodeState, demand: PodDemand, policy: Policy) -> Verdict:
        """The verdict of one node in one state, without looking at names or plain resources."""
        return self._column(demand, policy).judged(state, None, demand.headroom)[0]

    def answers(
        self, snapshot: ClusterSnapshot, demand: PodDemand, policy: Policy
    ) -> Sequence[tuple[NodeEntry, Fit | Refusal]]:
        """What every node says to the pod, in node order: what ``decide`` chose from."""
        asked = self._asked_of(snapshot, demand)
        if isinstance(asked, ClaimTrouble):
            why = verdicts.troubled(asked)
            return [(entry, why) for entry in snapshot.nodes]
        if asked is not None:
            return self._judged(snapshot, demand, policy, asked).answers()
        return self._column(demand, policy).answers(snapshot, demand.headroom)

    def _judged(self, snapshot: ClusterSnapshot, demand: PodDemand, policy: Policy, asked: AskedClaims) -> JudgedNodes:
        """What every node says to the pod and to its claims."""
        column, bare = self._column(demand, policy), None
        if asked.mapped:
            left = tuple(each for each in demand.constraints.requests if each[0] not in asked.mapped)
            bare = self._column(replace(demand, constraints=replace(demand.constraints, requests=left)), policy)
        return column.judged_by(asked, snapshot, demand.headroom, bare)

    def answer(self, entry: NodeEntry, demand: PodDemand, policy: Policy) -> Fit | Refusal:
        """What one node says to the pod: what ``answers`` would say of it, without a look at claims.

        Those depend on the whole snapshot: several nodes may reach a device, and a claim may be another pod's as well.
        """
        return self._column(demand, policy).answer(entry, demand.headroom)[0]

    def asking(self, demand: PodDemand, policy: Policy) -> DeviceAsker:
        """What the devices of one node say to the pod, for one call about many nodes; its constraints do not count."""
        return DeviceAsker(self._column(demand, policy), demand.headroom)

    def accepts(
        self, entry: NodeEntry, demand: PodDemand, policy: Policy, allocations: Sequence[ContainerAllocation]
    ) -> bool:
        """Whether a node's devices can be had just as they were allocated: by every rule that ``place`` knows."""
        return self._column(demand, policy).accepts(entry, demand.headroom, allocations)

    def _column(self, demand: PodDemand, policy: Policy) -> _Column:
        latest, asked = self._latest, self._asked
        if latest is not None and asked is not None and asked[0] is demand and asked[1] is policy:
            return latest  # it is the newest already, and asking for the hash of a demand costs more than all of this
        key = _ColumnKey(demand.devices, demand.constraints, policy, limited=bool(demand.headroom))
        column = self._columns.get(key)
        if column is None:
            column = _Column(demand.devices, demand.constraints, policy, self)
            self._columns[key] = column
            while len(self._columns) > self._most_columns:
                self._drop_oldest()
        else:
            self._columns.move_to_end(key)
        self.statistics.columns = len(self._columns)
        self._latest, self._asked = column, (demand, policy)
        return column

    def make_room(self, asking: _Column) -> None:
        """Forget the least recently used demands until one more verdict may be remembered."""
        while self.statistics.verdicts >= self._limit and len(self._columns) > 1:
            self._drop_oldest()
        if self.statistics.verdicts >= self._limit:
            self.statistics.verdicts -= asking.forget()

    def _drop_oldest(self) -> None:
        _, oldest = self._columns.popitem(last=False)
        self.statistics.verdicts -= oldest.forget()


MOST_WISHES: Final = 16
"""Wishes for claims of one demand whose nodes are remembered."""

MOST_NAMED: Final = 1_024
"""Allocations of one demand that are remembered with the names of their nodes."""


class _Named(NamedTuple):
    """The allocations that were made of a fit on a node of these devices; both are kept: no other has their ids."""

    fit: Fit
    ids: tuple[DeviceId, ...]
    allocations: tuple[ContainerAllocation, ...]


class _ColumnKey(NamedTuple):
    """What verdicts have in common. Those of namespaces without a quota were compared with nothing."""

    devices: DeviceDemand
    constraints: NodeConstraints
    policy: Policy
    limited: bool


_Key = NodeState | tuple[NodeState, tuple[tuple[VendorName, frozenset[int]], ...]]

_Judged = tuple[Verdict, HeadroomRange]
"""A verdict, and the headrooms with which it is the same."""


class DeviceAsker:
    """See ``Decider.asking``. ``range`` are the headrooms with which all nodes asked so far would say the same."""

    __slots__ = ("_column", "_left", "range")

    def __init__(self, column: _Column, left: Left) -> None:
        self._column = column
        self._left = left
        self.range = ANY_HEADROOM

    def __call__(self, entry: NodeEntry) -> Fit | Refusal:
        answer, same = self._column.of_devices(entry, self._left)
        self.range = self.range.both(same)
        return answer


@dataclass(slots=True)
class _Column:
    """One demand: its verdicts by state, and what each node of the last snapshot answered."""

    devices: DeviceDemand
    constraints: NodeConstraints
    policy: Policy
    owner: Decider
    _placer: Placer = field(init=False)
    _uncounted: frozenset[str] = field(init=False)
    _selectors: Mapping[VendorName, DeviceSelector] = field(init=False)
    _verdicts: dict[_Key, Verdict] = field(init=False, default_factory=dict)
    _limited: dict[_Key, tuple[_Judged, ...]] = field(init=False, default_factory=dict)
    _ranges: dict[HeadroomRange, HeadroomRange] = field(init=False, default_factory=dict)
    _nodes: tuple[NodeEntry, ...] = field(init=False, default=())
    _range: HeadroomRange = field(init=False, default=ANY_HEADROOM)
    _answers: list[Fit | Refusal] = field(init=False, default_factory=list)
    _ranks: list[float] = field(init=False, default_factory=list)
    _fitting: int = field(init=False, default=0)
    _allocated: dict[tuple[int, int], _Named] = field(init=False, default_factory=dict)
    _judged_nodes: dict[object, JudgedNodes] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._placer = Placer(self.devices, self.policy, self.owner.registry)
        requests = [request for container in self.devices.containers for request in container.requests]
        self._selectors = {request.vendor: request.selector for request in requests if request.selector.names_ids}
        vendors = {request.vendor for request in requests}
        # Koordinator's scheduler compares what device plugins offer, HAMi's leaves that to its extender
        compared = any(self.owner.registry[vendor].dialect is Dialect.KOORDINATOR for vendor in vendors)
        self._uncounted = self.owner.uncounted - frozenset(WHOLE_CARDS) if compared else self.owner.uncounted

    def forget(self) -> int:
        """Drop the verdicts and say how many there were."""
        dropped = len(self._verdicts) + sum(map(len, self._limited.values()))
        self._verdicts.clear()
        self._limited.clear()
        self._ranges.clear()
        self._allocated.clear()
        self._judged_nodes.clear()
        return dropped

    def judged(self, state: NodeState, mask: Mask | None, left: Left) -> _Judged:
        """The verdict for a state (and the positions that id lists accept there), from the cache or made now."""
        key: _Key = state if mask is None else (state, tuple(sorted(mask.items())))
        statistics = self.owner.statistics
        if (found := self._remembered(key, left)) is not None:
            statistics.hits += 1
            return found
        comparison = HeadroomComparison(left) if left else None
        verdict = self._placer(state, mask, quota=comparison)
        statistics.misses += 1
        self.owner.make_room(self)
        statistics.verdicts += 1
        if comparison is None:
            self._verdicts[key] = verdict
            return verdict, ANY_HEADROOM
        found = verdict, self._ranges.setdefault(comparison.range, comparison.range)
        self._limited[key] = (found, *self._limited.get(key, ()))
        return found

    def _remembered(self, key: _Key, left: Left) -> _Judged | None:
        if left:
            return next((each for each in self._limited.get(key, ()) if each[1].holds(left)), None)
        verdict = self._verdicts.get(key)
        return None if verdict is None else (verdict, ANY_HEADROOM)

    def decide(self, snapshot: ClusterSnapshot, left: Left) -> Decision:
        """Bring the answers up to date with the snapshot and choose."""
        self._catch_up(snapshot.nodes, left)
        if not self._ranks:
            return Refused(by_node=())
        at = self._ranks.index(max(self._ranks))
        entry, fit = self._nodes[at], self._answers[at]
        if not isinstance(fit, Fit):  # any fit would have ranked above it
            return Refused(by_node=self._refusals())
        return Placed(
            node=entry.name,
            containers=self._named(entry, fit),
            fit=fit,
            candidates=self._fitting,
        )

    def judged_by(self, asked: AskedClaims, snapshot: ClusterSnapshot, left: Left, bare: _Column | None) -> JudgedNodes:
        """What every node says to the pod and to its claims. ``bare`` is as in ``verdicts.OtherAnswers``."""
        judged = self._judged_nodes.get(asked.key)
        if judged is None:
            if len(self._judged_nodes) >= MOST_WISHES:
                self._judged_nodes.clear()
            judged = self._judged_nodes[asked.key] = JudgedNodes(spread=self.policy.node is NodePolicy.SPREAD)
        counted = self.said(snapshot, left)
        others = OtherAnswers(snapshot.nodes, counted, counted if bare is None else bare.said(snapshot, left))
        judged.catch_up(asked, others)
        return judged

    def said(self, snapshot: ClusterSnapshot, left: Left) -> Sequence[Fit | Refusal]:
        """What every node of the snapshot answers; it changes with the next snapshot."""
        self._catch_up(snapshot.nodes, left)
        return self._answers

    def choice_of(self, judged: JudgedNodes) -> Decision:
        """The choice among nodes that were also asked about claims, by the same ranks as ``decide``."""
        at = judged.best()
        if at is None:
            refusals = ((entry.name, why) for entry, why in judged.answers() if not isinstance(why, Fit))
            return Refused(by_node=tuple(refusals))
        entry, fit, claims, candidates = judged.fit(at)
        containers = self._named(entry, fit)
        return Placed(node=entry.name, containers=containers, fit=fit, candidates=candidates, claims=claims)

    def _named(self, entry: NodeEntry, fit: Fit) -> tuple[ContainerAllocation, ...]:
        """The fit with the node's names put in, kept for as long as both are the same objects."""
        key = (id(fit), id(entry.ids))
        known = self._allocated.get(key)
        if known is None:
            if len(self._allocated) >= MOST_NAMED:
                self._allocated.clear()
            allocations = allocated(entry, fit, self.devices, self.owner.registry)
            known = self._allocated[key] = _Named(fit, entry.ids, allocations)
        return known.allocations

    def answers(self, snapshot: ClusterSnapshot, left: Left) -> Sequence[tuple[NodeEntry, Fit | Refusal]]:
        """What every node of the snapshot answers, in node order."""
        return tuple(zip(snapshot.nodes, self.said(snapshot, left), strict=True))

    def _refusals(self) -> tuple[tuple[NodeName, Refusal], ...]:
        answered = zip(self._nodes, self._answers, strict=True)
        return tuple((entry.name, answer) for entry, answer in answered if not isinstance(answer, Fit))

    def _catch_up(self, nodes: tuple[NodeEntry, ...], left: Left) -> None:
        known = self._nodes
        if not self._range.holds(left):
            known, self._range = (), ANY_HEADROOM
        elif nodes is known:
            return
        changed: Iterable[int] = range(len(nodes))
        if known and len(nodes) == len(known):
            changed = compress(changed, map(is_not, nodes, known))
        else:
            self._answers = [UNREGISTERED] * len(nodes)
            self._ranks = [_OUT] * len(nodes)
            self._fitting = 0
        for at in changed:
            self._renew(at, nodes[at], left)
        self._nodes = nodes

    def _renew(self, at: int, entry: NodeEntry, left: Left) -> None:
        answer, same = self.answer(entry, left)
        self._range = self._range.both(same)
        self._fitting -= self._ranks[at] != _OUT
        self._answers[at] = answer
        if isinstance(answer, Fit):
            self._ranks[at] = -answer.score if self.policy.node is NodePolicy.SPREAD else answer.score
            self._fitting += 1
        else:
            self._ranks[at] = _OUT

    def answer(self, entry: NodeEntry, left: Left) -> tuple[Fit | Refusal, HeadroomRange]:
        """What one node answers, and the headrooms with which it answers the same."""
        why = objection(entry, self.constraints, self._uncounted)
        if why is not None and not self._is_about_devices(why):
            return why, ANY_HEADROOM
        found, same = self.of_devices(entry, left)
        return why if why is not None and isinstance(found, Fit) else found, same

    def of_devices(self, entry: NodeEntry, left: Left) -> tuple[Fit | Refusal, HeadroomRange]:
        """What one node's devices answer, and the headrooms with which they answer the same."""
        if not entry.ids and self.devices.wants_devices:
            return UNREGISTERED, ANY_HEADROOM
        verdict, same = self.judged(entry.state, self._mask(entry) if self._selectors else None, left)
        return verdict.on(entry.name) if isinstance(verdict, NoFit) else verdict, same

    def accepts(self, entry: NodeEntry, left: Left, allocations: Sequence[ContainerAllocation]) -> bool:
        """Whether the placer, given just these devices container by container, makes just these shares of them."""
        devices, registry = self.devices, self.owner.registry
        given = positions_of(entry, allocations)
        if given is None or len(allocations) != len(devices.containers):
            return False
        quota = HeadroomComparison(left) if left else None
        verdict = self._placer(entry.state, self._mask(entry) if self._selectors else None, given, quota)
        if isinstance(verdict, NoFit):
            return False
        made = allocated(entry, verdict, devices, registry)
        return all(
            len(one.shares) == len(other.shares) and set(one.shares) == set(other.shares)
            for one, other in zip(made, allocations, strict=True)
        )

    def _is_about_devices(self, why: FilterReason) -> bool:
        """Whether a node sum is short of something that HAMi looks up card by card: the cards then say more."""
        spec = self.owner.registry.owner_of(why.resource)
        return spec is not None and spec.dialect is Dialect.HAMI

    def _mask(self, entry: NodeEntry) -> Mask:
        positions = entry.state.shape.positions
        return {
            vendor: frozenset(at for at in positions.get(vendor, ()) if selector.accepts_id(entry.ids[at]))
            for vendor, selector in self._selectors.items()
        }


class DecisionRequest(NamedTuple):
    """The question to every node: the arguments of ``decide`` except the snapshot."""

    demand: PodDemand
    policy: Policy
