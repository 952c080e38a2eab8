"""What is the smallest change that makes a refused pod fit.

Single changes come before pairs, cheap ones before dear ones. What a change costs:

* asking for less of something: the share of it that is given up (0 to 1);
* giving up a wish (a selector, a policy, a node constraint), or tolerating a taint: 0.5, as much as half of an amount;
* another label of a node, which says in which sets its devices are allocated: 1;
* a raised quota: 1, and up to 1 more by how much it is raised;
* another pod's place: 2 and up to 1 more by how much of the node it holds; 0.25 if that pod is going already; several
  pods may have to go together where no single one would do;
* one more node: 4.

Every change offered has been decided, so it is known to work; what is not offered may still exist, because only the
nodes that arithmetic holds for the nearest are tried, within a fixed number of trials.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations, islice
from typing import Final

from hami_plugins.engine.decide import Decider, DecisionRequest, PodDemand
from hami_plugins.engine.eligibility import repelling
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.nodes import NodeEntry, NodeState
from hami_plugins.model.pods import PodRecord
from hami_plugins.model.policy import Policy
from hami_plugins.model.units import NodeName, VendorName
from hami_plugins.model.verdicts import Fit, Reason
from hami_plugins.suggest.additions import newcomers
from hami_plugins.suggest.changes import AddedNode, ChangeKind, Counterfactual, Labelled, Settle
from hami_plugins.suggest.knobs import Knob, device_levers, node_levers
from hami_plugins.suggest.preemption import without_victims
from hami_plugins.suggest.refusals import Refusals
from hami_plugins.suggest.search import MOST_NODES, Search

MOST_PAIRS: Final = 48
"""Pairs of changes that are tried."""

MOST_TAINTS: Final = 4
"""Taints that are tried, the most frequent ones."""


def relax(  # noqa: PLR0913 - the arguments of decide, and what may be offered
    decider: Decider,
    snapshot: ClusterSnapshot,
    demand: PodDemand,
    policy: Policy,
    *,
    limit: int = 3,
    spare_shapes: Sequence[NodeEntry] = (),
    priority: int = 0,
    spared: Callable[[PodRecord], bool] | None = None,
    settle: Settle | None = None,
) -> tuple[Counterfactual, ...]:
    """The smallest changes that let a refused pod fit, at most ``limit``, one of each kind; none when it fits.

    ``spare_shapes`` are nodes that could be added, as they would be when new. ``priority`` is the pod's: pods above it
    are offered as victims only when nothing else helps, those that are ``spared`` never. ``settle`` says what the
    question really becomes once a change is written into the pod; without it every amount is taken for what it says.
    """
    question = DecisionRequest(demand, policy)
    answers = decider.answers(snapshot, demand, policy)
    if limit <= 0 or any(isinstance(answer, Fit) for _, answer in answers):
        return ()
    refusals = Refusals.of(question, answers, decider.registry, decider.uncounted)
    search = Search(decider, snapshot, refusals, settle)
    found: dict[tuple[ChangeKind, ...], Counterfactual] = {}
    stuck = [lever for lever in _levers(refusals) if not _keep(found, search.single(lever))]
    for vendor, headroom in demand.headroom:
        _keep(found, search.quota(vendor, headroom))
    _keep(found, _relabelled(search, refusals))
    _keep(found, without_victims(search, refusals, partial(_may_go, priority=priority, spared=spared)))
    _keep(found, _with_newcomer(search, newcomers(snapshot, refusals, spare_shapes)))
    if len(found) < limit:
        for one, other in islice(_pairs(stuck, refusals), MOST_PAIRS):
            _keep(found, search.pair(one, other))
    if not found:
        _keep(found, without_victims(search, refusals, partial(_may_go, priority=None, spared=spared)))
    return tuple(sorted(found.values(), key=_rank)[:limit])


def _rank(found: Counterfactual) -> tuple[int, float, tuple[int, ...]]:
    order = list(ChangeKind)
    return len(found.changes), found.cost, tuple(order.index(kind) for kind in found.kinds)


def _keep(found: dict[tuple[ChangeKind, ...], Counterfactual], new: Counterfactual | None) -> bool:
    """Remember a counterfactual, if it is the best of its kind; says whether there is one at all."""
    if new is not None and (new.kinds not in found or new.cost < found[new.kinds].cost):
        found[new.kinds] = new
    return new is not None


def _levers(refusals: Refusals) -> list[Knob]:
    """The levers of the question that can move at all."""
    question, registry = refusals.question, refusals.registry
    constraints = question.demand.constraints
    taints = Counter(
        taint for entry in refusals.objecting if (taint := repelling(entry.facts, constraints)) is not None
    )
    levers = (
        *device_levers(question, registry, _largest_cards(refusals)),
        *node_levers(question, (taint for taint, _ in taints.most_common(MOST_TAINTS)), registry),
    )
    return [lever for lever in levers if lever.low <= lever.high]


def _largest_cards(refusals: Refusals) -> dict[VendorName, int]:
    """The memory of the largest card of each vendor, in MiB."""
    largest: dict[VendorName, int] = {}
    for shape in {entry.state.shape for entry in refusals.nodes()}:
        for device in shape.devices:
            largest[device.vendor] = max(largest.get(device.vendor, 0), device.memory)
    return largest


def _pairs(levers: Sequence[Knob], refusals: Refusals) -> Iterator[tuple[Knob, Knob]]:
    """Pairs that may help: the nodes must have objected to what one of the two is about."""
    heard = {reason for cause in refusals.by_cause for reason, _ in cause.reasons}
    for one, other in combinations(levers, 2):
        if any(heard & each.lifts if each.lifts else refusals.objecting for each in (one, other)):
            yield one, other


def _may_go(pod: PodRecord, *, priority: int | None, spared: Callable[[PodRecord], bool] | None) -> bool:
    return (priority is None or pod.priority <= priority) and (spared is None or not spared(pod))


def _relabelled(search: Search, refusals: Refusals) -> Counterfactual | None:
    """The first node that takes the pod with another label."""
    for entry in islice(refusals.lifted_by({Reason.TOPOLOGY}), MOST_NODES):
        for vendor in entry.state.shape.positions:
            hook = refusals.registry[vendor].topology.relabelled
            for other in () if hook is None else hook(entry.state.shape):
                labels = {**entry.facts.labels, other.key: other.value}
                node = replace(
                    entry,
                    state=NodeState(other.shape, entry.state.usage),
                    facts=replace(entry.facts, labels=labels),
                )
                change = Labelled(node=entry.name, key=other.key, value=other.value)
                if (found := search.proven((change,), node)) is not None:
                    return found
    return None


def _with_newcomer(search: Search, candidates: Iterable[tuple[NodeName, NodeEntry]]) -> Counterfactual | None:
    """The smallest new node that takes the pod."""
    for like, entry in sorted(candidates, key=lambda each: _size(each[1])):
        found = search.proven((AddedNode(like=like),), entry)
        if found is not None:
            return found
    return None


def _size(entry: NodeEntry) -> tuple[int, int]:
    shape = entry.state.shape
    return shape.total_memory, len(shape.devices)
