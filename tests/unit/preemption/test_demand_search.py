"""Which branches a search over several nodes looks at, what it says when it is given up, and why it finds nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from hami_plugins.engine.inventory import with_pods
from hami_plugins.model.cluster import ClusterSnapshot, PodGroup
from hami_plugins.model.nodes import NodeEntry, NodeFacts, NodeShape, NodeState
from hami_plugins.model.pods import NodeConstraints, PodRecord
from hami_plugins.model.quantity import NANO
from hami_plugins.model.units import NodeName
from hami_plugins.preemption import demand_search, node_search
from hami_plugins.preemption.bounds import RoomBounds
from hami_plugins.preemption.node_search import Branch, Unit
from hami_plugins.preemption.rows import LeaverSummary
from hami_plugins.preemption.search import VictimSearch
from hami_plugins.preemption.values import EvictionPlan, NoVictims
from tests.builders import a_node, a_pod, a_snapshot, amounts
from tests.unit.clusters import REGISTRY
from tests.unit.preemption.clusters import WEB, a_cluster, running, waiting, web_budget

PAIR = waiting(), waiting(name="high-1")


def plan(snapshot: ClusterSnapshot, *infos: Any) -> EvictionPlan:
    found = VictimSearch(REGISTRY).find(snapshot, infos)
    assert isinstance(found, EvictionPlan), found
    return found


def names(found: EvictionPlan) -> list[str]:
    return sorted(victim.pod.name for victim in found.victims)


def refusal(snapshot: ClusterSnapshot, *infos: Any) -> NoVictims:
    found = VictimSearch(REGISTRY).find(snapshot, infos or [waiting()])
    assert isinstance(found, NoVictims), found
    return found


@pytest.fixture
def bounds(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often bounds are worked out for each node."""
    asked = Counter[str]()
    costs = RoomBounds.costs

    def noted(self: RoomBounds, entry: NodeEntry, *arguments: Any) -> list[int]:
        asked[entry.name] += 1
        return costs(self, entry, *arguments)

    monkeypatch.setattr(RoomBounds, "costs", noted)
    return asked


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the quick bound is worked out for each node."""
    asked = Counter[str]()
    quick_cost = RoomBounds.quick_cost

    def noted(self: RoomBounds, entry: NodeEntry, leavers: LeaverSummary) -> int:
        asked[entry.name] += 1
        return quick_cost(self, entry, leavers)

    monkeypatch.setattr(RoomBounds, "quick_cost", noted)
    return asked


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The sets of units that are judged by the rules about several victims: one for each branch that is looked at."""
    sets: list[list[str]] = []
    allowed = node_search.allowed_together

    def noted(units: Sequence[Unit], *arguments: Any) -> bool:
        sets.append(sorted(unit.name for unit in units))
        return allowed(units, *arguments)

    monkeypatch.setattr(demand_search, "allowed_together", noted)
    return sets


class TestBranches:
    def test_of_equal_nodes_the_first_ones_are_taken(self) -> None:
        assert names(plan(a_cluster([running("b")], [running("a")], cards=1), waiting())) == ["b"]
        assert [placed.node for _, placed in plan(a_cluster([], []), *PAIR).places] == ["n0", "n0"]

    def test_of_two_ways_to_keep_a_budget_the_one_that_is_a_second_younger_is_found(self) -> None:
        """The second way costs one less than the first: its bound must not be rounded up."""
        for young, other in (("a", "b"), ("b", "a")):
            web = [[running(name, labels=WEB, made_at=11 if name == young else 10)] for name in "ab"]
            snapshot = a_cluster(*web, [running("c", made_at=0)], cards=1, budgets=(web_budget(1),))
            found = plan(snapshot, *PAIR)
            assert names(found) == [young, "c"], f"and not {other}"
            assert not found.cut

    def test_a_way_that_cannot_be_cheaper_is_not_looked_at(self, bounds: Counter[str]) -> None:
        """Where the first pod of the budget stays, the plan costs as little as it did with both.

        So the second one never stays. Four bounds are worked out for a node that its only pod leaves: one for all of
        its pods, and three for sets of them. Where that pod stays, there are two more.
        """
        web = [[running(name, labels=WEB, made_at=10)] for name in "ab"]
        found = plan(a_cluster(*web, [running("c", made_at=10)], cards=1, budgets=(web_budget(1),)), *PAIR)
        assert names(found) == ["b", "c"]
        assert bounds == {"n0": 6, "n1": 4, "n2": 4}

    @pytest.mark.parametrize("nodes", [1, 5])
    def test_the_first_branch_is_about_all_nodes_and_not_worked_out_for_each(
        self, monkeypatch: pytest.MonkeyPatch, nodes: int
    ) -> None:
        made: list[Branch] = []

        def noted(*parts: frozenset[str]) -> Branch:
            made.append(Branch(*parts))
            return made[-1]

        monkeypatch.setattr(demand_search, "Branch", noted)
        assert names(plan(a_cluster(*([running(f"p{at}")] for at in range(nodes)), cards=1), waiting())) == ["p0"]
        assert made == [Branch()]

    def test_gangs_that_leave_as_a_whole_are_parted_one_after_another(self, judged: list[list[str]]) -> None:
        """On their nodes gangs look cheap, and as a whole they cost more than two pods that are older."""
        groups = {f"default/{name}": PodGroup(namespace="default", name=name, min_member=2) for name in "gh"}
        gangs = [[running(f"{name}-{at}", group=name, made_at=9)] for at in range(2) for name in "gh"]
        snapshot = a_cluster(*gangs, [running("x", made_at=1)], [running("y", made_at=1)], cards=1, pod_groups=groups)
        away = [
            replace(entry, facts=replace(entry.facts, unschedulable=at in (2, 3)))
            for at, entry in enumerate(snapshot.nodes)
        ]
        found = plan(replace(snapshot, nodes=tuple(away)), *PAIR)
        assert (names(found), found.cut) == (["x", "y"], False)
        both, one, with_x, neither = ["gang g", "gang h"], ["gang h"], ["gang h", "x"], ["x", "y"]
        assert [[name.replace("default/", "").removeprefix("uid-") for name in each] for each in judged] == [
            both,
            with_x,
            one,
            neither,
        ], "without g there is x; where g has left, h alone would follow; without both there are x and y"

    def test_bounds_of_nodes_that_were_not_searched_are_remembered_also_where_gangs_run(
        self, bounds: Counter[str], quick: Counter[str]
    ) -> None:
        groups = {"default/g": PodGroup(namespace="default", name="g", min_member=1, min_by_task={"": 1})}
        pods = [running("a"), running("b", priority=50, group="g")]
        snapshot = a_cluster(*([each] for each in pods), cards=1, pod_groups=groups)
        search = VictimSearch(REGISTRY)
        for times in (1, 2):
            assert isinstance(search.find(snapshot, [waiting()]), EvictionPlan)
            assert bounds == {"n0": 4 * times}
            assert quick == {"n0": times, "n1": 1}

    def test_a_search_says_that_it_was_given_up_on_any_node(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(node_search, "MOST_STEPS", 1)
        assert plan(a_cluster([running("a")], [running("b", priority=50)], cards=1), waiting()).cut

    @pytest.mark.parametrize(("branches", "cut"), [(1, True), (2, True), (3, False)])
    def test_a_search_is_given_up_only_where_a_branch_is_left(
        self, monkeypatch: pytest.MonkeyPatch, branches: int, cut: bool
    ) -> None:
        """A budget of one for two pods of different ages makes three: both, and each without one of them."""
        monkeypatch.setattr(demand_search, "MOST_BRANCHES", branches)
        web = [[running(name, labels=WEB, made_at=at)] for at, name in enumerate("ab", 5)]
        snapshot = a_cluster(*web, [running("c", made_at=0)], cards=1, budgets=(web_budget(1),))
        found = VictimSearch(REGISTRY).find(snapshot, PAIR)
        assert found.cut is cut


class TestQuickBounds:
    """Which nodes are looked at pod by pod: as few as possible, because in a large cluster most of the time goes there.

    Each look counts as one bound that is worked out in full; a search on a node works out three more at least.
    """

    def test_for_one_pod_only_nodes_that_could_be_cheapest_are_looked_at(self, bounds: Counter[str]) -> None:
        """Each node would lose both of its pods, and n1's are the youngest together."""
        ages = enumerate(((1, 90), (80, 80), (1, 70), (10, 10), (60, 60)))
        nodes = [[running(f"{at}a", made_at=one), running(f"{at}b", made_at=other)] for at, (one, other) in ages]
        assert names(plan(a_cluster(*nodes, cards=1), waiting())) == ["1a", "1b"]
        assert set(bounds) == {"n1"}

    def test_pods_on_different_cards_do_not_make_room_together(self, bounds: Counter[str]) -> None:
        """The youngest pair is spread over both cards of n0, where older pods would have to leave as well."""
        spread = [running(f"{card}{made_at}", card, made_at=made_at) for card in (0, 1) for made_at in (1, 90)]
        pair = [running(f"n1-{name}", card, made_at=50) for card in (0, 1) for name in "ab"]
        found = plan(a_cluster(spread, pair), waiting())
        assert {victim.node for victim in found.victims} == {"n1"}
        assert set(bounds) == {"n1"}

    def test_a_node_that_has_to_lose_more_pods_is_not_looked_at(self, bounds: Counter[str]) -> None:
        nodes = [running(f"a{at}", made_at=90) for at in range(3)], [running(f"b{at}", made_at=10) for at in range(2)]
        assert names(plan(a_cluster(*nodes, cards=1), waiting())) == ["b0", "b1"]
        assert set(bounds) == {"n1"}

    def test_pods_of_a_higher_priority_than_is_enough_make_no_node_cheap(self, bounds: Counter[str]) -> None:
        nodes = [running("middle", priority=50)], [running("low-0"), running("low-1")]
        assert names(plan(a_cluster(*nodes, cards=1), waiting())) == ["low-0", "low-1"]
        assert set(bounds) == {"n1"}

    def test_the_next_pod_looks_at_one_more_node(self, bounds: Counter[str]) -> None:
        snapshot = a_cluster(*([running(f"p{at}", made_at=at)] for at in range(6)), cards=1)
        search, looked = VictimSearch(REGISTRY), list[set[str]]()
        for at in range(2):
            found = search.find(snapshot, [waiting(name=f"high-{at}")])
            assert isinstance(found, EvictionPlan)
            snapshot = found.after
            looked.append(set(bounds))
        assert looked == [{"n5"}, {"n5", "n4"}]

    def test_for_a_gang_all_nodes_are_looked_at_at_once(self, bounds: Counter[str], quick: Counter[str]) -> None:
        plan(a_cluster(*([running(f"p{at}")] for at in range(5)), cards=1), *PAIR)
        assert (len(bounds), len(quick)) == (5, 0)


def without_devices() -> NodeEntry:
    return replace(a_node("n"), ids=(), state=NodeState(NodeShape(()), ()))


class TestRefusals:
    def test_a_node_without_devices_is_no_node_with_such_devices(self) -> None:
        assert (
            refusal(a_snapshot(without_devices())).why
            == "no node with such devices allows the pod, whatever runs there"
        )

    def test_a_pod_without_devices_has_victims_on_a_node_without_devices(self) -> None:
        node = replace(without_devices(), facts=NodeFacts(allocatable=amounts({"cpu": 1})))
        node = with_pods(node, [replace(running("a", requests=(("cpu", NANO),)), allocations=())])
        constraints = NodeConstraints(requests=(("cpu", NANO),))
        pod = a_pod(name="plain", priority=100, constraints=constraints)
        info = replace(waiting(), pod=pod)
        demand = replace(info.demand, devices=replace(info.demand.devices, containers=()), constraints=constraints)
        assert names(plan(a_snapshot(node), replace(info, demand=demand))) == ["a"]

    def test_one_node_that_could_serve_is_enough_for_running_pods_to_be_the_reason(self) -> None:
        small = a_cluster([running("a", preemptable=False)], cards=1).nodes
        large = a_cluster([running("b", preemptable=False), running("c", 1, preemptable=False)]).nodes
        snapshot = a_snapshot(*small, replace(large[0], name=NodeName("large")))
        assert refusal(snapshot, waiting(count=2)).why == "no pod on 2 nodes may be evicted for it"

    def test_the_example_of_a_rule_is_the_first_by_name(self) -> None:
        def kept(name: str, card: int) -> PodRecord:
            return running(name, card, preemptable=False)

        for order in ("ab", "ba"):
            found = refusal(a_cluster([kept(name, at) for at, name in enumerate(order)]))
            assert [(each.pod.name, count) for each, count in found.spared] == [("a", 2)]
