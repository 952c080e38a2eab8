"""By which rules victims are evicted: a claim for each, on cards of the plain vendor."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hami_plugins.engine.intake import PodInfo
from hami_plugins.engine.inventory import with_pods
from hami_plugins.model.cluster import ClusterSnapshot, DisruptionBudget, PodGroup, Queue
from hami_plugins.model.nodes import NodeFacts
from hami_plugins.model.pods import NodeConstraints, Requirement
from hami_plugins.model.quantity import NANO
from hami_plugins.preemption.search import VictimSearch
from hami_plugins.preemption.values import EvictionPlan
from tests.builders import MEMORY, a_device, a_node, a_record, a_snapshot, allocated, amounts
from tests.unit.clusters import REGISTRY
from tests.unit.preemption.clusters import a_cluster, in_queue, running, waiting


def grounds(snapshot: ClusterSnapshot, *infos: PodInfo) -> dict[str, list[tuple[str, str]]]:
    """The rules of each victim, with their words."""
    search = VictimSearch(REGISTRY)
    asked = infos or (waiting(),)
    found = search.find(snapshot, asked)
    assert isinstance(found, EvictionPlan)
    told = search.grounds(snapshot, asked, found)
    return {
        victim.pod.name: [(each.rule.value, each.words) for each in rules]
        for victim, rules in zip(found.victims, told, strict=True)
    }


def gang(least: int, **fields: Any) -> dict[str, PodGroup]:
    return {"default/g": PodGroup(namespace="default", name="g", min_member=least, **fields)}


def test_a_lower_priority_is_a_ground() -> None:
    assert grounds(a_cluster([running("a", priority=7)], cards=1)) == {"a": [("priority", "priority 7 < 100")]}


def test_the_priorities_of_podgroups_count_under_volcano() -> None:
    groups = gang(1, queue="mine", priority_class="silver")
    snapshot = a_cluster([running("a", group="g", priority=999)], cards=1, pod_groups=groups, priorities={"silver": 3})
    assert grounds(snapshot, in_queue()) == {"a": [("priority", "priority 3 < 100")]}


def test_a_queue_above_its_share_is_a_ground() -> None:
    queues = {
        "mine": Queue(name="mine", deserved={MEMORY: 10_000 * NANO}),
        "theirs": Queue(name="theirs", deserved={MEMORY: 5_000 * NANO}),
    }
    groups = gang(1, queue="theirs")
    snapshot = a_cluster([running("a", group="g", priority=500)], cards=1, pod_groups=groups, queues=queues)
    words = f"its queue theirs holds 10000 of the 5000 {MEMORY} it deserves"
    assert grounds(snapshot, in_queue()) == {"a": [("share", words)]}


def test_the_youngest_of_equal_pods_says_so() -> None:
    pods = [running("old", 0, made_at=1), running("young", 1, made_at=2)]
    assert grounds(a_cluster(pods))["young"][1:] == [("youngest", "it is younger than another equal pod")]
    more = a_cluster(pods, [running("older", 0, made_at=0), running("unknown", 1)])
    assert grounds(more)["young"][1:] == [("youngest", "it is younger than 3 other equal pods")]


def test_pods_without_devices_are_equals_by_what_they_request() -> None:
    cpu = (("cpu", 2 * NANO),)
    pods = [replace(a_record(allocated(), name=name, requests=cpu), made_at=at) for at, name in enumerate("ab", 1)]
    node = with_pods(a_node("n", a_device(), facts=NodeFacts(allocatable=amounts({"cpu": 4}))), pods)
    info = waiting(10)
    asked = replace(info, demand=replace(info.demand, constraints=NodeConstraints(requests=cpu)))
    assert grounds(a_snapshot(node), asked)["b"][1:] == [("youngest", "it is younger than another equal pod")]


def test_pods_that_hold_something_else_are_no_equals() -> None:
    pods = [running("old", 0, 12_000, made_at=1), running("young", 1, made_at=2)]
    assert len(grounds(a_cluster(pods))["young"]) == 1


def test_equal_pods_are_found_beside_others() -> None:
    nodes = [[running("other", 0, 6_000), running("old", 1, made_at=1)], [running("young", 0, made_at=2)]]
    snapshot = a_cluster(*nodes, cards=2)
    snapshot = replace(snapshot, nodes=(snapshot.nodes[0], a_cluster(*nodes, cards=1).nodes[1]))
    assert grounds(snapshot, waiting(12_000))["young"][1:] == [("youngest", "it is younger than another equal pod")]


def test_pods_that_end_or_stay_are_no_equals() -> None:
    ends, stays = running("ends", made_at=1, terminating=True), running("stays", made_at=1, preemptable=False)
    snapshot = a_cluster(
        [running("young", made_at=2)], [ends, running("big", 0, 6_000, priority=900)], [stays], cards=1
    )
    assert grounds(snapshot, waiting(12_000)) == {"young": [("priority", "priority 0 < 100")]}


def test_an_equal_pod_that_is_younger_where_it_does_not_help_leaves_it_unsaid() -> None:
    elsewhere = [running("younger", 0, made_at=9), running("stays", 0, 6_000, priority=900)]
    snapshot = a_cluster([running("old", 0, made_at=1)], [running("young", 0, made_at=2)], elsewhere, cards=1)
    assert grounds(snapshot, waiting(12_000)) == {"young": [("priority", "priority 0 < 100")]}


def test_an_equal_pod_of_the_same_age_leaves_the_choice_open() -> None:
    assert grounds(a_cluster([running("a", 0, made_at=1), running("b", 1, made_at=1)]))["a"] == [
        ("priority", "priority 0 < 100")
    ]


def test_a_gang_that_leaves_as_a_whole_says_so() -> None:
    nodes = [[running(f"a{at}", group="g")] for at in range(2)]
    told = grounds(a_cluster(*nodes, cards=1, pod_groups=gang(2)))
    assert told["a0"] == [
        ("priority", "priority 0 < 100"),
        ("gang", "its gang default/g needs 2 members and leaves as a whole"),
    ]
    assert told["a1"] == told["a0"]


def test_a_gang_that_keeps_its_minimum_says_so() -> None:
    nodes = [[running(f"a{at}", group="g", made_at=at)] for at in range(3)]
    told = grounds(a_cluster(*nodes, cards=1, pod_groups=gang(2)))
    assert told["a2"][1] == ("gang", "its gang default/g needs 2 members and keeps 2")


def test_a_budget_that_allows_it_is_a_ground() -> None:
    app = (Requirement("app", "In", ("web",)),)
    budget = DisruptionBudget(namespace="default", name="web", requirements=app, allowed=2)
    told = grounds(a_cluster([running("a", labels={"app": "web"})], cards=1, budgets=(budget,)))
    assert told["a"][1] == ("budget", "its PodDisruptionBudget web allows 2")


def test_a_pod_of_unknown_age_counts_as_one_of_the_first_second_of_all() -> None:
    assert grounds(a_cluster([running("unknown", 0), running("young", 1, made_at=1)]))["young"][1:] == [
        ("youngest", "it is younger than another equal pod")
    ]
    assert len(grounds(a_cluster([running("a", 0), running("b", 1, made_at=0)]))["a"]) == 1
