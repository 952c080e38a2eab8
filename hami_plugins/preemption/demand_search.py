"""The cheapest victims in a cluster for pods with equal demands, and the proof by the decision function."""

from __future__ import annotations

from bisect import insort
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import count
from operator import itemgetter
from typing import Final, NamedTuple

from hami_plugins.engine import neighbours, quota
from hami_plugins.engine.apply import record_of, record_with, with_pod, without_pods
from hami_plugins.engine.decide import Decider, PodDemand, allocated
from hami_plugins.engine.eligibility import objection
from hami_plugins.engine.intake import PodInfo
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.decisions import Placed
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.pods import NodeConstraints, Pod, PodRecord
from hami_plugins.model.units import NodeName, VendorName
from hami_plugins.model.vendor import Headroom
from hami_plugins.model.verdicts import Fit
from hami_plugins.preemption.bounds import RoomBounds, Row, freed_by
from hami_plugins.preemption.costs import NEVER, CostScale
from hami_plugins.preemption.node_search import Branch, NodeSearch, Unit, allowed_together, name_of, units_of
from hami_plugins.preemption.rules import EvictionRules
from hami_plugins.preemption.values import EvictedPod, NoVictims, Rule, Spared
from hami_plugins.queueing.queues import requests_of

MOST_BRANCHES: Final = 200
"""Ways in which rules that span nodes (gangs, budgets, queues) are tried to be met."""


class _Node:
    """A node as a search sees it: without pods that are being deleted, and with what is known of victims on it."""

    __slots__ = ("ending", "entry", "source", "values")

    def __init__(self, entry: NodeEntry) -> None:
        self.source = entry
        self.ending = tuple(EvictedPod(record, entry.name) for record in entry.pods if record.terminating)
        self.entry = without_pods(entry, lambda record: record.terminating) if self.ending else entry
        self.values: dict[tuple[int, Branch], _Values] = {}

    def of_its(self, branch: Branch, rules: EvictionRules) -> Branch:
        """What of a branch is about this node."""
        if not any(branch):
            return branch
        gangs = {rules.gang_of(record) for record in self.entry.pods}
        names = {f"gang {gang}" for gang in gangs} | {name_of(record) for record in self.entry.pods}
        return Branch(branch.spared & names, branch.left & gangs)


@dataclass(slots=True, eq=False)
class _Values:
    """What room for 1, 2 ... copies costs on one node: at least, or exactly where the units are known."""

    least: list[int]
    units: dict[int, tuple[Unit, ...]] = field(default_factory=dict)
    search: NodeSearch | None = None

    @property
    def is_cut(self) -> bool:
        """Whether a search on the node was given up."""
        return self.search is not None and self.search.cut


class _Pick(NamedTuple):
    """So many copies on a node (by number), and the units that leave it."""

    node: int
    copies: int
    units: tuple[Unit, ...] = ()


class Knowledge(NamedTuple):
    """What a search for one demand found out of nodes, by name; it holds while the context of the rules is the same."""

    rules: EvictionRules
    scale: CostScale
    bounds: RoomBounds
    nodes: Mapping[NodeName, _Node]


class Solution(NamedTuple):
    """Pods to evict, and pods that leave the same nodes anyway; ``copies`` are how many pods go to which node."""

    victims: tuple[EvictedPod, ...] = ()
    ending: tuple[EvictedPod, ...] = ()
    copies: tuple[tuple[NodeName, int], ...] = ()


class PlacedPods(NamedTuple):
    """Where the pods go, and the cluster afterwards."""

    places: tuple[tuple[Pod, Placed], ...]
    after: ClusterSnapshot


class DemandSearch:
    """The search for places for pods with equal demands."""

    def __init__(  # noqa: PLR0913 - one question, and what is known of it
        self,
        decider: Decider,
        snapshot: ClusterSnapshot,
        rules: EvictionRules,
        members: Sequence[PodInfo],
        known: Knowledge,
        *,
        within: Collection[NodeName] | None = None,
        devices_only: bool = False,
    ) -> None:
        self.rules = rules
        self.cut = False
        """Whether a search was given up, so that cheaper victims may exist."""
        self._decider = decider
        self._devices_only = devices_only
        self._snapshot = snapshot
        self._members = members
        self._info = members[0]
        demand = self._info.demand
        self._bounds = known.bounds
        self._scale = known.scale
        self._left = quota.left_in(snapshot, self._info.pod.namespace, decider.registry) if demand.headroom else None
        plain = replace(demand.constraints, requests=())
        self.nodes: dict[NodeName, _Node] = {}
        for entry in snapshot.nodes if within is None else filter(None, map(snapshot.node, sorted(within))):
            node = known.nodes.get(entry.name)
            if node is not None and node.source is entry:
                self.nodes[entry.name] = node
            elif self._is_eligible(entry, plain):
                self.nodes[entry.name] = _Node(entry)

    def _is_eligible(self, entry: NodeEntry, plain: NodeConstraints) -> bool:
        """Whether a node could take the pod, whatever holds its devices and its sums."""
        why = objection(entry, plain)
        return (why is None or why.resource == "pods") and bool(
            entry.ids or not self._info.demand.devices.wants_devices
        )

    def cheapest(self) -> Solution | None:
        """The cheapest victims; priorities that are enough keep all higher ones out."""
        tried: set[int] = set()
        waiting = [self._scale.priorities[0]]
        while waiting:
            found = self._within(waiting[0])
            if found is not None:
                return found
            tried.add(waiting[0])
            waiting = sorted(self.rules.priorities - tried)
        return None

    def _within(self, threshold: int) -> Solution | None:
        """The cheapest victims of priorities up to this one.

        Rules that span nodes are met by branching: a set that breaks one is taken apart into those without one of its
        units. A gang that leaves as a whole first costs its members on the node alone, then all.
        """
        waiting: list[tuple[int, int, Branch]] = [(0, 0, Branch())]
        turn = count(1)
        best: tuple[int, Solution | None] = (NEVER, None)
        for _ in range(MOST_BRANCHES):
            if not waiting or waiting[0][0] >= best[0]:
                break
            _, _, branch = heappop(waiting)
            left = [member for name in sorted(branch.left) for member in self.rules.gangs[name].members]
            least, picks = self._assigned(threshold, branch)
            least += sum(map(self._cost, left))
            if least >= best[0]:
                continue
            units = [unit for pick in picks for unit in pick.units]
            if len(self._members) > 1 and not allowed_together(units, self.rules, branch.left):
                successors = [branch._replace(spared=branch.spared | {unit.name}) for unit in units if unit.bound]
            else:
                solution = self._solution(picks, left)
                cost = sum(map(self._cost, solution.victims))
                best = min(best, (cost, solution), key=lambda each: each[0])
                parted = sorted({unit.gang for unit in units if unit.elsewhere}) if cost > least else []
                successors = [
                    each
                    for gang in parted[:1]
                    for each in (
                        branch._replace(spared=branch.spared | {f"gang {gang}"}),
                        branch._replace(left=branch.left | {gang}),
                    )
                ]
            for successor in successors:
                heappush(waiting, (least, next(turn), successor))
        else:
            self.cut = self.cut or bool(waiting and waiting[0][0] < best[0])
        return best[1]

    def _assigned(self, threshold: int, branch: Branch) -> tuple[int, tuple[_Pick, ...]]:
        """The cheapest places for all copies, each node for itself; ``NEVER`` where there are too few.

        Of the nodes only those count that are among the cheapest for some number of copies: of these there is always
        one that the others do not use. What a node costs is worked out exactly when the best assignment uses it.
        """
        copies = len(self._members)
        nodes = list(self.nodes.values())
        values = [self._values(node, threshold, branch) for node in nodes]
        ranked = [
            sorted((each.least[at], number) for number, each in enumerate(values) if each.least[at] < NEVER)
            for at in range(copies)
        ]
        while True:
            usable = sorted({number for each in ranked for _, number in each[:copies]})
            least, picks = _cheapest_sum([(number, values[number].least) for number in usable], copies)
            unknown = [pick for pick in picks if pick.copies not in values[pick.node].units]
            if least >= NEVER or not unknown:
                self.cut = self.cut or any(each.is_cut for each in values)
                return least, tuple(pick._replace(units=values[pick.node].units[pick.copies]) for pick in picks)
            for pick in unknown:
                of_node, at = values[pick.node], pick.copies - 1
                ranked[at].remove((of_node.least[at], pick.node))
                search = of_node.search or self._node_search(nodes[pick.node], threshold, branch)
                of_node.search = search
                of_node.least[at], of_node.units[pick.copies] = search.cheapest(pick.copies)
                if of_node.least[at] < NEVER:
                    insort(ranked[at], (of_node.least[at], pick.node))

    def _values(self, node: _Node, threshold: int, branch: Branch) -> _Values:
        key = threshold, node.of_its(branch, self.rules)
        found = node.values.get(key)
        if found is None:
            entry = self._left_by(node, branch)
            rows = self._rows(entry, threshold)
            found = node.values[key] = _Values(self._bounds.costs(entry, rows, len(self._members)))
        return found

    def _left_by(self, node: _Node, branch: Branch) -> NodeEntry:
        """The node without the gangs that have left in a branch."""
        gang_of, left = self.rules.gang_of, branch.left
        return without_pods(node.entry, lambda record: gang_of(record) in left) if left else node.entry

    def _rows(self, entry: NodeEntry, threshold: int) -> list[Row]:
        """The pods of a node that may be evicted, up to a priority, the cheapest first."""
        evictable_at, cost_of = self.rules.evictable_at, self._scale.of
        position = {device: at for at, device in enumerate(entry.ids)}
        rows = [
            Row(cost_of(record, priority), freed_by(record, position), record.requests)
            for record in entry.pods
            if (priority := evictable_at(record)) is not None and priority <= threshold
        ]
        rows.sort(key=itemgetter(0))
        return rows

    def _node_search(self, node: _Node, threshold: int, branch: Branch) -> NodeSearch:
        rules, left = self.rules, branch.left

        def may_go(record: PodRecord) -> bool:
            priority = rules.evictable_at(record)
            return priority is not None and priority <= threshold

        entry = self._left_by(node, branch)
        units = units_of(entry, may_go, rules, self._scale, whole_cost=len(self._members) == 1)
        units = [unit for unit in units if unit.name not in branch.spared]
        gone = [victim.pod for victim in node.ending]
        gone += [record for record in node.entry.pods if rules.gang_of(record) in left]

        def takes(leaving: Collection[PodRecord], copies: int) -> bool:
            return self._takes(entry, leaving, copies, gone)

        return NodeSearch(entry, units, self._bounds, rules, takes)

    def _takes(
        self, entry: NodeEntry, leaving: Collection[PodRecord], copies: int, gone: Collection[PodRecord]
    ) -> bool:
        """Whether a node takes so many copies, one after another, when these pods have left besides those gone."""
        info, registry = self._info, self._decider.registry
        chosen = set(map(id, leaving))
        after = without_pods(entry, lambda record: id(record) in chosen) if chosen else entry
        gate = self.rules.reclaim.usage_after([*leaving, *gone])
        demand = info.demand
        returned = self._counted(entry, (*leaving, *gone))
        for copy in range(copies):
            if gate is not None and gate.overdrawn(self.rules.preemptor.queue, requests_of(info.pod)):
                return False
            if self._left is not None:
                taken = self._counted(after, after.pods[len(after.pods) - copy :])
                demand = replace(demand, headroom=_headroom(self._left, returned, taken))
            fit = self._decider.answer(after, demand, info.policy)
            if not isinstance(fit, Fit):
                return False
            if copy + 1 < copies:
                after = with_pod(after, record_with(info.pod, allocated(after, fit, demand.devices, registry)))
                gate = None if gate is None else gate.given(self.rules.preemptor.queue, requests_of(info.pod))
        return True

    def _counted(self, entry: NodeEntry, records: Iterable[PodRecord]) -> Mapping[VendorName, tuple[int, int]]:
        """What pods of the namespace hold of its quota."""
        namespace = self._info.pod.namespace
        held = ((entry, record) for record in records if record.namespace == namespace)
        return {} if self._left is None else quota.used(held, self._decider.registry)

    def _cost(self, victim: EvictedPod) -> int:
        return self._scale.of(victim.pod, self.rules.priority_of(victim.pod))

    def _solution(self, picks: Sequence[_Pick], left: Iterable[EvictedPod]) -> Solution:
        nodes = list(self.nodes.values())
        victims = {id(victim.pod): victim for victim in left}
        for pick in picks:
            for unit in pick.units:
                victims.update((id(record), EvictedPod(record, nodes[pick.node].entry.name)) for record in unit.records)
                victims.update((id(victim.pod), victim) for victim in unit.elsewhere)
        ordered = sorted(victims.values(), key=lambda each: (self._cost(each), each.pod.full_name))
        ending = tuple(victim for pick in picks for victim in nodes[pick.node].ending)
        return Solution(tuple(ordered), ending, tuple((nodes[pick.node].entry.name, pick.copies) for pick in picks))

    def placed(self, solution: Solution) -> PlacedPods | None:
        """The proof: the pods are decided one after another on the cluster without the victims; ``None`` where not."""
        gone = {id(victim.pod) for victim in (*solution.victims, *solution.ending)}
        after = self._snapshot
        for name in {victim.node for victim in (*solution.victims, *solution.ending)}:
            entry = without_pods(after.nodes[after.position[name]], lambda record: id(record) in gone)
            after = after.with_node(entry)
        places: list[tuple[Pod, Placed]] = []
        members = iter(self._members)
        for name, copies in solution.copies:
            for _ in range(copies):
                info = next(members)
                one = replace(after, nodes=(after.nodes[after.position[name]],))
                decision = self._decider.decide(one, self._demand_after(after, info), info.policy)
                if not isinstance(decision, Placed):
                    return None
                places.append((info.pod, decision))
                after = after.with_node(with_pod(one.nodes[0], record_of(info.pod, decision)))
        return PlacedPods(tuple(places), after)

    def _demand_after(self, after: ClusterSnapshot, info: PodInfo) -> PodDemand:
        """What a member asks for when the victims have left: with its quota, and away from pods that are left."""
        demand = info.demand
        if demand.headroom:
            left = quota.left_in(after, info.pod.namespace, self._decider.registry) or {}
            demand = replace(demand, headroom=tuple(sorted(left.items())))
        if not self._devices_only and (any(info.pod.neighbours) or neighbours.matter(after)):
            barred = tuple(each for each in demand.constraints.barred if each[0] not in neighbours.REASONS)
            barred += neighbours.barred(after, info.pod)
            demand = replace(demand, constraints=replace(demand.constraints, barred=barred))
        return demand

    def refusal(self) -> NoVictims:
        """Why there are no victims: how many pods could go, and what protects the others."""
        spared: dict[Rule, list[Spared]] = {}
        allowed = 0
        for node in self.nodes.values():
            for record in node.entry.pods:
                found = self.rules.objection(record)
                allowed += found is None
                if found is not None and record.allocations:
                    spared.setdefault(found.rule, []).append(found)
        if not self.nodes:
            why = "no node with such devices allows the pod, whatever runs there"
        elif allowed:
            where = f"{_counted(allowed, 'pod')} on {_counted(len(self.nodes), 'node')}"
            why = f"no node has room even without pods that may be evicted ({where})"
        else:
            why = f"no pod on {_counted(len(self.nodes), 'node')} may be evicted for it"
        examples = (min(each, key=lambda one: one.pod.full_name) for each in spared.values())
        return NoVictims(why=why, spared=tuple((one, len(spared[one.rule])) for one in examples), cut=self.cut)


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _cheapest_sum(nodes: Sequence[tuple[int, Sequence[int]]], copies: int) -> tuple[int, tuple[_Pick, ...]]:
    """The cheapest way to divide copies among nodes, given what 1, 2 ... copies cost on each (by number)."""
    best: list[tuple[int, tuple[_Pick, ...]]] = [(0, ()), *[(NEVER, ())] * copies]
    for number, costs in nodes:
        for wanted in range(copies, 0, -1):
            for taken in range(1, wanted + 1):
                cost, picks = best[wanted - taken]
                if cost + costs[taken - 1] < best[wanted][0]:
                    best[wanted] = cost + costs[taken - 1], (*picks, _Pick(number, taken))
    return best[copies]


def _headroom(
    left: Mapping[VendorName, Headroom],
    returned: Mapping[VendorName, tuple[int, int]],
    taken: Mapping[VendorName, tuple[int, int]],
) -> tuple[tuple[VendorName, Headroom], ...]:
    """What a quota leaves when some pods have returned what they hold, and others have taken theirs."""
    return tuple(
        sorted(
            quota.less(
                quota.less(left, taken), {vendor: (-memory, -cores) for vendor, (memory, cores) in returned.items()}
            ).items()
        )
    )
