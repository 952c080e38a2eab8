"""Which units may leave one node, and which of their sets the search looks at: on cards of the plain vendor."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import pytest

from hami_plugins.engine.intake import PodInfo
from hami_plugins.model.cluster import ClusterSnapshot, PodGroup
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.pods import PodRecord
from hami_plugins.model.policy import Policy
from hami_plugins.preemption import node_search
from hami_plugins.preemption.bounds import RoomBounds
from hami_plugins.preemption.costs import NEVER
from hami_plugins.preemption.node_search import NodeSearch, Unit, name_of, units_of
from hami_plugins.preemption.preemptor import Preemptor
from hami_plugins.preemption.rows import Row, rows_of
from hami_plugins.preemption.rules import EvictionRules
from tests.unit.clusters import REGISTRY
from tests.unit.preemption.clusters import WEB, a_cluster, running, waiting, web_budget


class ByAge:
    """A pod costs the seconds of its creation."""

    def of(self, record: PodRecord, priority: int) -> int:
        """See ``Scale``."""
        return (record.made_at or 0) + 1_000 * priority


class CountedBounds(RoomBounds):
    """Bounds that note for which units they were asked: those gone, and how many may still go."""

    def __init__(self, info: PodInfo) -> None:
        super().__init__(info.demand, Policy(), REGISTRY, ())
        self.asked: list[tuple[int, int]] = []

    def costs(self, entry: NodeEntry, rows: Sequence[Row], copies: int, gone: Iterable[Row] = ()) -> list[int]:
        self.asked.append((len(list(gone)), len(rows)))
        return super().costs(entry, rows, copies, gone)


def rules_of(snapshot: ClusterSnapshot) -> EvictionRules:
    return EvictionRules(snapshot, Preemptor.of(snapshot, [waiting()]), None)


def units(snapshot: ClusterSnapshot, *, whole_cost: bool = True) -> list[Unit]:
    """Those of the first node whose pods may be evicted."""
    return units_of(
        snapshot.nodes[0], lambda record: record.preemptable, rules_of(snapshot), ByAge(), whole_cost=whole_cost
    )


def group(name: str, least: int) -> PodGroup:
    return PodGroup(namespace="default", name=name, min_member=least)


def member(name: str, gang: str, **fields: Any) -> PodRecord:
    return running(name, group=gang, **fields)


class TestUnits:
    def test_a_pod_is_told_apart_by_its_uid_and_without_one_by_its_name(self) -> None:
        assert name_of(running("a", uid="u")) == "u"
        assert name_of(running("a", uid="")) == "default/a"

    def test_the_cheapest_pods_come_first_for_the_bounds(self) -> None:
        (entry,) = a_cluster([running("a", 0, made_at=3), running("b", 1, made_at=1), running("c", 0, made_at=2)]).nodes
        rows = rows_of(entry, [(record, 1) for record in entry.pods if record.name != "b"], ByAge())
        assert [row.cost for row in rows] == [1_002, 1_003]

    @pytest.mark.parametrize(("whole_cost", "expected"), [(True, 7), (False, 3)])
    def test_a_gang_costs_its_members_on_the_node_or_all(self, whole_cost: bool, expected: int) -> None:
        nodes = [member("a", "g", made_at=1), member("b", "g", made_at=2)], [member("c", "g", made_at=4)]
        snapshot = a_cluster(*nodes, pod_groups={"default/g": group("g", 3)})
        (unit,) = units(snapshot, whole_cost=whole_cost)
        assert (unit.row.cost, unit.gang, unit.bound) == (expected, "default/g", True)
        assert [each.name for each in unit.records] == ["a", "b"]
        assert [(each.pod.name, each.node) for each in unit.elsewhere] == [("c", "n1")]

    def test_a_gang_with_a_member_that_stays_does_not_keep_others(self) -> None:
        pods = [member("a", "g"), member("b", "g", preemptable=False), member("c", "h"), member("d", "h")]
        snapshot = a_cluster(pods, pod_groups={"default/g": group("g", 2), "default/h": group("h", 2)})
        assert [unit.name for unit in units(snapshot)] == ["gang default/h"]

    def test_pods_of_no_rule_are_equal_whatever_their_labels_and_tasks(self) -> None:
        pods = [running("a", 0, labels={"app": "a"}, task="x"), running("b", 0, labels={"app": "b"}, task="y")]
        one, other = units(a_cluster(pods))
        assert one.effect == other.effect
        assert not one.bound

    def test_pods_of_a_budget_differ_in_their_labels(self) -> None:
        labels = [{"app": "web"}, {"app": "web", "tier": "x"}]
        pods = [running(name, 0, labels=each) for name, each in zip("ab", labels, strict=True)]
        one, other = units(a_cluster(pods, budgets=(web_budget(1),)))
        assert one.bound
        assert one.effect != other.effect

    def test_members_of_a_gang_differ_in_their_tasks(self) -> None:
        pods = [member(name, "g", task=task) for name, task in (("a", "x"), ("b", "y"), ("c", "y"))]
        snapshot = a_cluster(pods, pod_groups={"default/g": group("g", 2)})
        effects = {unit.name: unit.effect for unit in units(snapshot)}
        assert len({effects[name] for name in map(name_of, pods)}) == 2
        assert effects[name_of(pods[1])] == effects[name_of(pods[2])]


class Looked:
    """One search on a node: what it finds, the sets that it has tried and the bounds for which it has asked."""

    def __init__(self, info: PodInfo, *pods: PodRecord, enough: Collection[str] = (), **about: Any) -> None:
        snapshot = a_cluster(pods, **({"cards": 1} | about))
        self.tried: list[str] = []
        self.bounds = CountedBounds(info)

        def takes(leaving: Collection[PodRecord], _copies: int) -> bool:
            names = "".join(sorted(record.name for record in leaving))
            self.tried.append(names)
            return names in enough

        search = NodeSearch(snapshot.nodes[0], units(snapshot), self.bounds, rules_of(snapshot), takes)
        cost, found = search.cheapest(1)
        self.cost, self.found = cost, [unit.records[0].name for unit in found]
        self.cut = search.cut


def sized(name: str, memory: int, made_at: int) -> PodRecord:
    return running(name, 0, memory, made_at=made_at)


class TestTheSearchOnANode:
    def test_each_set_that_may_be_enough_is_tried_once_and_the_cheapest_first(self) -> None:
        """Any one of the pods is enough by arithmetic, and none for the decision."""
        looked = Looked(waiting(2_000), sized("a", 5_000, 1), sized("b", 5_001, 2), sized("c", 5_002, 4))
        assert looked.tried == ["a", "b", "ab", "c", "ac", "bc", "abc"]
        assert (looked.cost, looked.found, looked.cut) == (NEVER, [], False)

    def test_no_set_is_tried_that_is_not_enough_by_arithmetic(self) -> None:
        looked = Looked(waiting(11_000), sized("a", 5_000, 1), sized("b", 5_001, 2), sized("c", 5_002, 4))
        assert looked.tried == ["ab", "ac", "bc", "abc"]

    def test_no_branch_is_followed_in_which_too_little_may_go(self) -> None:
        """Both pods have to leave: without either one nothing else is asked."""
        looked = Looked(waiting(16_000), sized("a", 8_000, 1), sized("b", 8_001, 2))
        assert looked.tried == ["ab"]
        assert sorted(looked.bounds.asked) == [(0, 1), (0, 2), (1, 0), (1, 1), (2, 0)]

    def test_of_equal_pods_the_dearer_ones_leave_only_after_the_cheaper_ones(self) -> None:
        looked = Looked(waiting(2_000), *(sized(name, 5_000, at) for at, name in enumerate("abc", 1)))
        assert looked.tried == ["a", "ab", "abc"]

    def test_no_set_is_tried_that_may_not_leave_together(self) -> None:
        pods = [running(name, 0, 5_000 + at, made_at=at, labels=WEB) for at, name in enumerate("ab", 1)]
        looked = Looked(waiting(2_000), *pods, sized("c", 5_000, 4), budgets=(web_budget(1),))
        assert looked.tried == ["a", "b", "c", "ac", "bc"]

    def test_the_first_set_that_is_enough_is_the_answer(self) -> None:
        pods = sized("a", 5_000, 1), sized("b", 5_001, 2), sized("c", 5_002, 4)
        looked = Looked(waiting(2_000), *pods, enough=("c", "ac"))
        assert (looked.cost, looked.found) == (4, ["c"])
        assert looked.tried == ["a", "b", "ab", "c"]

    def test_of_sets_with_equal_bounds_the_one_about_which_most_is_decided_comes_first(self) -> None:
        pods = [sized(name, 5_000 + at, 1) for at, name in enumerate("abc")]
        looked = Looked(waiting(2_000), *pods, enough=("a", "b", "c"))
        assert (looked.tried, len(looked.bounds.asked)) == (["a"], 3)

    def test_a_search_that_is_given_up_lets_the_dearest_stay_first(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(node_search, "MOST_STEPS", 1)
        pods = sized("a", 5_000, 1), sized("b", 5_001, 2), sized("c", 5_002, 4)
        looked = Looked(waiting(2_000), *pods, enough=("abc", "ab", "bc", "b", "c"))
        assert (looked.found, looked.cost, looked.cut) == (["b"], 2, True)
        assert looked.tried == ["abc", "ab", "a", "b"]

    def test_a_search_that_is_given_up_tries_only_what_may_leave_together(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(node_search, "MOST_STEPS", 1)
        pods = [running(name, 0, 5_000, made_at=at, labels=WEB) for at, name in enumerate("ab", 1)]
        looked = Looked(waiting(2_000), *pods, sized("c", 5_000, 4), budgets=(web_budget(1),))
        assert looked.tried == ["ac"]
        assert (looked.cost, looked.found, looked.cut) == (NEVER, [], True)
