"""The cheapest victims in a cluster for pods with equal demands, and the proof by the decision function."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import count
from typing import Final, NamedTuple

from hami_plugins.engine.apply import without_pods
from hami_plugins.engine.decide import Decider, PodDemand
from hami_plugins.engine.eligibility import objection
from hami_plugins.engine.intake import PodInfo
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.pods import NodeConstraints, PodRecord
from hami_plugins.model.units import NodeName
from hami_plugins.preemption.bounds import RoomBounds
from hami_plugins.preemption.costs import NEVER, CostScale
from hami_plugins.preemption.node_search import (
    Branch,
    NodeSearch,
    Unit,
    allowed_together,
    name_of,
    name_of_gang,
    units_of,
)
from hami_plugins.preemption.proof import Proof, Solution
from hami_plugins.preemption.rows import rows_of, summary_of
from hami_plugins.preemption.rules import EvictionRules
from hami_plugins.preemption.running import RunningOnNode
from hami_plugins.preemption.values import EvictedPod, NoVictims, Rule, Spared

MOST_BRANCHES: Final = 200
"""Ways in which rules that span nodes (gangs, budgets, queues) are tried to be met."""


class _Node:
    """A node as a search sees it: without pods that are being deleted, and with what is known of victims on it.

    ``is_searched`` says that more is known than lower bounds.
    """

    __slots__ = ("_names", "ending", "entry", "is_searched", "source", "values")

    def __init__(self, source: RunningOnNode) -> None:
        entry = source.entry
        self.source = source
        self.ending: tuple[EvictedPod, ...] = ()
        self.entry = entry
        if source.ending:
            self.ending = tuple(EvictedPod(record, entry.name) for record in entry.pods if record.terminating)
            self.entry = without_pods(entry, lambda record: record.terminating)
        self.values: dict[tuple[int, Branch], _Values] = {}
        self.is_searched = False
        self._names: set[str] | None = None

    def of_its(self, branch: Branch) -> Branch:
        """What of a branch is about this node."""
        if not any(branch):  # the first branch, about which every node is asked
            return branch
        spared = frozenset(name for name in branch.spared if name in self._unit_names)
        return Branch(spared, frozenset(filter(self.source.members.__contains__, branch.left)))

    @property
    def _unit_names(self) -> set[str]:
        if self._names is None:
            self._names = {*map(name_of, self.entry.pods), *map(name_of_gang, self.source.members)}
        return self._names


@dataclass(slots=True, eq=False)
class _Values:
    """What room for 1, 2 ... copies costs on one node: at least, or exactly where the units are known.

    ``is_quick`` says that it is the quick bound, and that no closer look has been taken.
    """

    least: list[int]
    is_quick: bool = False
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

    def reusable_by(self, rules: EvictionRules, demand: PodDemand) -> Mapping[NodeName, _Node]:
        """What also holds for other rules of the same context, as long as the nodes have not changed.

        Where the victims on one node depend on other nodes, these are the lower bounds alone. Members of a preemptor's
        own PodGroup are not victims.
        """
        found = self.nodes
        if rules.span_nodes or demand.headroom or rules.budgets != self.rules.budgets:
            found = {name: node for name, node in found.items() if not node.is_searched}
        if rules.preemptor.group != self.rules.preemptor.group:
            groups = rules.preemptor.group, self.rules.preemptor.group
            own = {name for group in groups for name in rules.running.nodes_of(group)}
            found = {name: node for name, node in found.items() if name not in own} if own else found
        return found


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
        within: Collection[NodeName] | None,
        devices_only: bool,
    ) -> None:
        self.rules = rules
        self.cut = False
        """Whether a search was given up, so that cheaper victims may exist."""
        self.proof = Proof(decider, snapshot, rules, members, devices_only=devices_only)
        self._members = members
        self._info = members[0]
        demand = self._info.demand
        self._bounds = known.bounds
        self._scale = known.scale
        plain = replace(demand.constraints, requests=())
        self.nodes: dict[NodeName, _Node] = {}
        reusable = known.reusable_by(rules, demand)
        for entry in snapshot.nodes if within is None else filter(None, map(snapshot.node, sorted(within))):
            pods = rules.running.at(entry.name)
            node = reusable.get(entry.name)
            if node is not None and node.source is pods:
                self.nodes[entry.name] = node
            elif self._is_eligible(entry, plain):
                self.nodes[entry.name] = _Node(pods)

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
        turn = count()
        waiting: list[tuple[int, int, Branch]] = [(0, next(turn), Branch())]
        best: tuple[int, Solution | None] = (NEVER, None)
        tries = iter(range(MOST_BRANCHES))
        while waiting and waiting[0][0] < best[0]:
            if next(tries, None) is None:
                self.cut = True
                break
            _, _, branch = heappop(waiting)
            left = [member for name in sorted(branch.left) for member in self.rules.gang(name).members]
            least, picks = self._assigned(threshold, branch)
            least += sum(map(self._cost, left))
            if least >= best[0]:
                continue
            units = [unit for pick in picks for unit in pick.units]
            if not allowed_together(units, self.rules, branch.left):
                successors = [branch._replace(spared=branch.spared | {unit.name}) for unit in units if unit.bound]
            else:
                solution = self._solution(picks, left)
                cost = sum(map(self._cost, solution.victims))
                best = min(best, (cost, solution), key=lambda each: each[0])
                parted = sorted({unit.gang for unit in units if unit.elsewhere})
                successors = [
                    each
                    for gang in parted[:1]
                    for each in (
                        branch._replace(spared=branch.spared | {name_of_gang(gang)}),
                        branch._replace(left=branch.left | {gang}),
                    )
                ]
            for successor in successors:
                heappush(waiting, (least, next(turn), successor))
        return best[1]

    def _assigned(self, threshold: int, branch: Branch) -> tuple[int, tuple[_Pick, ...]]:
        """The cheapest places for all copies, each node for itself; ``NEVER`` where there are too few.

        Of the nodes only those count that are among the cheapest for some number of copies: of these there is always
        one that the others do not use. For a single pod most nodes are not among them by their quick bounds, and are
        looked at no closer. A node's cost is computed exactly when the best assignment uses it.
        """
        copies = len(self._members)
        nodes = list(self.nodes.values())
        key = threshold, branch  # on most nodes no part of a branch is about others
        values = [node.values.get(key) or self._values(node, threshold, branch) for node in nodes]
        ranked = _Ranking(values, copies)
        while True:
            usable = ranked.usable()
            quick = [number for number in usable if values[number].is_quick]
            for number in quick:
                values[number].is_quick = False
                ranked.update(number, self._bounds_of(nodes[number], threshold, branch))
            if quick:
                continue
            least, picks = _cheapest_sum([(number, values[number].least) for number in usable], copies)
            unknown = [pick for pick in picks if pick.copies not in values[pick.node].units]
            if not unknown:
                self.cut = self.cut or any(each.is_cut for each in values)
                return least, tuple(pick._replace(units=values[pick.node].units[pick.copies]) for pick in picks)
            for pick in unknown:
                of_node, at = values[pick.node], pick.copies - 1
                search = of_node.search or self._node_search(nodes[pick.node], threshold, branch)
                of_node.search = search
                exact, of_node.units[pick.copies] = search.cheapest(pick.copies)
                ranked.update(pick.node, [*of_node.least[:at], exact, *of_node.least[pick.copies :]])

    def _values(self, node: _Node, threshold: int, branch: Branch) -> _Values:
        key = threshold, node.of_its(branch)
        found = node.values.get(key)
        if found is None:
            if len(self._members) == 1:
                entry = self._left_by(node, branch)
                leavers = summary_of(self._leavers(node, entry, threshold), self._scale)
                found = _Values([self._bounds.quick_cost(entry, leavers)], is_quick=True)
            else:  # many nodes are usable for a gang, so that most would be looked at twice
                found = _Values(self._bounds_of(node, threshold, branch))
            node.values[key] = found
        return found

    def _bounds_of(self, node: _Node, threshold: int, branch: Branch) -> list[int]:
        """What room costs on a node at least, by what each pod holds."""
        entry = self._left_by(node, branch)
        rows = rows_of(entry, self._leavers(node, entry, threshold), self._scale)
        return self._bounds.costs(entry, rows, len(self._members))

    def _leavers(self, node: _Node, entry: NodeEntry, threshold: int) -> list[tuple[PodRecord, int]]:
        if not self._bounds.may_serve(entry):
            return []
        return self.rules.evictable_on(node.source, entry.pods, threshold)

    def _left_by(self, node: _Node, branch: Branch) -> NodeEntry:
        """The node without the gangs that have left in a branch."""
        gang_of, left = self.rules.gang_of, branch.left
        return without_pods(node.entry, lambda record: gang_of(record) in left) if left else node.entry

    def _node_search(self, node: _Node, threshold: int, branch: Branch) -> NodeSearch:
        rules, left = self.rules, branch.left

        def may_go(record: PodRecord) -> bool:
            priority = rules.evictable_at(record)
            return priority is not None and priority <= threshold

        node.is_searched = True
        entry = self._left_by(node, branch)
        units = units_of(entry, may_go, rules, self._scale, whole_cost=len(self._members) == 1)
        units = [unit for unit in units if unit.name not in branch.spared]
        gone = [victim.pod for victim in node.ending]
        gone += [record for record in node.entry.pods if rules.gang_of(record) in left]

        def takes(leaving: Collection[PodRecord], copies: int) -> bool:
            return self.proof.takes(entry, leaving, copies, gone)

        return NodeSearch(entry, units, self._bounds, rules, takes)

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

    def refusal(self) -> NoVictims:
        """Why it found no victims: how many pods could go, and what protects the others."""
        if self.nodes and not any(self._bounds.may_serve(node.entry) for node in self.nodes.values()):
            return NoVictims(why=f"no node has room for it even without any pod ({_counted(len(self.nodes), 'node')})")
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


class _Ranking:
    """Nodes by what they cost at least, for each number of copies; of equal ones the first by number."""

    def __init__(self, values: Sequence[_Values], copies: int) -> None:
        self._values = values
        self._ranked = [sorted((each.least[at], number) for number, each in enumerate(values)) for at in range(copies)]

    def usable(self) -> list[int]:
        """The nodes that are among as many as there are copies for some number of copies, in the order of numbers."""
        return sorted({number for each in self._ranked for _, number in each[: len(self._ranked)]})

    def update(self, number: int, least: list[int]) -> None:
        """More is known of a node."""
        values = self._values[number]
        for ranked, before, now in zip(self._ranked, values.least, least, strict=True):
            if before != now:
                del ranked[bisect_left(ranked, (before, number))]
                insort(ranked, (now, number))
        values.least = least


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
