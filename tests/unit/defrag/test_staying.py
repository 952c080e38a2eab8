"""Which pods never move: one claim for each rule, on two nodes where one pod would have to move."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from hami_plugins.defrag.movable import MoveRules
from hami_plugins.defrag.values import RunningCluster, StayRule
from hami_plugins.engine.intake import Rules, take_in
from hami_plugins.model.cluster import DisruptionBudget, PodGroup
from hami_plugins.model.pods import Neighbours, Pod, PodClaim, PodRecord, PodTerm, Requirement
from hami_plugins.preemption.values import Rule
from tests.builders import COUNT, MEMORY, a_container, a_pod
from tests.unit.defrag.clusters import CARD, REGISTRY, a_cluster, planned, refused, told, waiting

APP = Requirement("app", "In", ("x",))
GROUP = "scheduling.k8s.io/group-name"


def a_case(about: Mapping[str, Any] | None = None, controller: str = "ReplicaSet", **fields: Any) -> RunningCluster:
    """Only ``other`` could make room for a pod of 12,000 MiB."""

    def change(record: PodRecord) -> PodRecord:
        return replace(record, **fields) if record.name == "other" else record

    return a_cluster(change, a=[{"fixed": 8192}], b=[{"other": 6000}], controllers={"other": controller}, about=about)


def stays(cluster: RunningCluster, **options: Any) -> tuple[str, str]:
    """The rule that forbids the move, and why."""
    assert refused(cluster, waiting(12_000), **options).placed == 0
    (record,) = cluster.snapshot.nodes[1].pods
    found = MoveRules(cluster, REGISTRY, Rules(), **options).staying(record)
    assert found is not None
    return found.rule.value, found.why


def test_a_plain_pod_moves() -> None:
    assert told(planned(a_case(), waiting(12_000)).moves) == ["other: b/card-0 -> a/card-0"]


def test_a_pod_of_the_system_stays() -> None:
    assert stays(a_case(priority=2_000_000_000)) == (
        Rule.CRITICAL.value,
        "it belongs to the system (namespace default, priority 2000000000)",
    )


def test_a_pod_of_kube_system_stays() -> None:
    def change(record: PodRecord) -> PodRecord:
        return replace(record, namespace="kube-system" if record.name == "other" else "default", preemptable=False)

    cluster = a_cluster(change, a=[{"small": 8192}], b=[{"other": 6000}])
    found = refused(cluster, waiting(12_000))
    assert {each.rule for each, _ in found.staying} == {Rule.CRITICAL, Rule.MARKED}


def test_the_highest_priority_below_the_system_may_move() -> None:
    assert planned(a_case(priority=1_999_999_999), waiting(12_000)).moves


def test_a_pod_that_is_marked_as_not_preemptable_stays() -> None:
    assert stays(a_case(preemptable=False)) == (Rule.MARKED.value, 'volcano.sh/preemptable is "false"')


def test_a_pod_that_ends_is_not_moved() -> None:
    assert stays(a_case(terminating=True)) == (StayRule.ENDING.value, "it is being deleted")


def test_a_pod_without_a_controller_stays_unless_it_is_allowed() -> None:
    alone = a_case(controller="")
    assert stays(alone) == (StayRule.CONTROLLER.value, "no controller creates it again; --alone allows the move")
    assert told(planned(alone, waiting(12_000), alone=True).moves) == ["other: b/card-0 -> a/card-0"]


@pytest.mark.parametrize("controller", ["DaemonSet", "Node"])
def test_a_pod_that_is_made_anew_on_its_node_stays(controller: str) -> None:
    rule, _ = stays(a_case(controller=controller), alone=True)
    assert rule == StayRule.NODE_BOUND.value


def test_a_pod_with_claims_stays() -> None:
    claims = {"other": {"claims": (PodClaim("c"),)}}
    cluster = a_cluster(a=[{"fixed": 8192}], b=[{"other": 6000}], pods=claims)
    assert stays(cluster) == (StayRule.REQUEST.value, "it has claims, and no move of their devices is worked out")


def test_a_pod_whose_specification_is_not_known_stays() -> None:
    cluster = a_case()
    unknown = RunningCluster(cluster.snapshot, {})
    assert stays(unknown) == (StayRule.REQUEST.value, "the listing does not have its specification")


def test_a_pod_whose_request_means_nothing_stays() -> None:
    cluster = a_case()
    running = cluster.pods["default/other"]
    pod: Pod = replace(running.pod, containers=waiting(0, count=-1).submitted.containers)
    odd = RunningCluster(cluster.snapshot, {**cluster.pods, "default/other": running._replace(pod=pod)})
    rule, why = stays(odd)
    assert rule == StayRule.REQUEST.value
    assert why


def a_budget(allowed: int, name: str = "budget") -> DisruptionBudget:
    return DisruptionBudget(namespace="default", name=name, requirements=(APP,), allowed=allowed)


def test_a_budget_without_evictions_left_keeps_its_pods() -> None:
    cluster = a_case({"budgets": (a_budget(0),)}, labels={"app": "x"})
    assert stays(cluster) == (Rule.BUDGET.value, "its PodDisruptionBudget budget allows 0 more")


def test_two_budgets_of_one_pod_forbid_every_eviction() -> None:
    cluster = a_case({"budgets": (a_budget(3, "one"), a_budget(3, "two"))}, labels={"app": "x"})
    assert stays(cluster)[0] == Rule.BUDGET.value


def test_a_budget_of_one_lets_pods_move_one_after_another() -> None:
    def change(record: PodRecord) -> PodRecord:
        return replace(record, labels={"app": "x"})

    cluster = a_cluster(
        change, a=[{"one": 6000}, {"two": 6000}], b=[{"x": 9000}, {"y": 9000}], about={"budgets": (a_budget(1),)}
    )
    assert len(planned(cluster, waiting(CARD, count=2)).moves) == 2


def a_gang(minimum: int) -> dict[str, Any]:
    groups = {"default/gang": PodGroup(namespace="default", name="gang", min_member=minimum)}
    return {"pod_groups": groups}


def in_gang(record: PodRecord) -> PodRecord:
    return replace(record, group="gang")


def test_a_gang_at_its_minimum_keeps_its_members() -> None:
    cluster = a_cluster(in_gang, a=[{"small": 8192}], b=[{"other": 6000}], about=a_gang(2))
    found = refused(cluster, waiting(12_000))
    ((example, number),) = found.staying
    assert (example.rule, number) == (Rule.GANG, 2)
    assert example.why == "its gang default/gang needs 2 of its 2 members, and 1 would leave"


def test_a_gang_above_its_minimum_may_move_a_member() -> None:
    cluster = a_cluster(in_gang, a=[{"fixed": 8192}], b=[{"other": 6000}], about=a_gang(1))
    assert told(planned(cluster, waiting(12_000)).moves) == ["other: b/card-0 -> a/card-0"]
    spare = a_cluster(in_gang, a=[{"small": 8192}, {"full": CARD}], b=[{"other": 6000}], about=a_gang(2))
    assert len(planned(spare, waiting(12_000)).moves) == 1


def test_members_of_the_gang_that_waits_stay() -> None:
    cluster = a_case({}, group="mine")
    found = refused(cluster, waiting(12_000, annotations={GROUP: "mine"}))
    assert ("same-gang", "it is a member of the gang that waits") in {
        (each.rule.value, each.why) for each, _ in found.staying
    }


def test_a_pod_that_the_waiting_one_has_to_be_near_stays() -> None:
    near = Neighbours(near=(PodTerm("name", (APP,), frozenset({"default"})),))
    found = refused(a_case(labels={"app": "x"}), waiting(12_000, neighbours=near))
    assert Rule.AFFINITY in {each.rule for each, _ in found.staying}


def test_the_pods_that_stay_are_counted_by_rule_and_the_first_by_name_is_named() -> None:
    controllers = dict.fromkeys(("p1", "p2", "p3"), "")
    cluster = a_cluster(a=[{"p2": 6000, "p3": 9000}], b=[{"p1": 6000, "free": 9000}], controllers=controllers)
    found = refused(cluster, waiting(CARD), most=1)
    assert [(each.pod.name, number) for each, number in found.staying] == [("p1", 3)]
    assert found.movable == 1
    assert str(found.staying[0][0]) == "default/p1 stays: no controller creates it again; --alone allows the move"


def test_pods_without_devices_are_not_counted() -> None:
    def change(record: PodRecord) -> PodRecord:
        return replace(record, allocations=()) if record.name == "plain" else record

    cluster = a_cluster(change, a=[{"plain": 1, "full": CARD}], controllers={"plain": ""})
    assert refused(cluster, waiting(CARD)).staying == ()


def test_what_a_scheduler_wrote_on_a_pod_is_no_request_of_the_pod_that_is_made_anew() -> None:
    only_card_1 = {"acme.example/use-uuid": "card-1"}
    cluster = a_cluster(a=[{"fixed": 8192}], b=[{"other": 6000}], pods={"other": {"annotations": only_card_1}})
    assert refused(cluster, waiting(12_000)).movable == 1
    written = {"hami.io/acme-devices-allocated": "card-0,Acme,6000,0:;"}
    cluster = a_cluster(a=[{"fixed": 8192}], b=[{"other": 6000}], pods={"other": {"annotations": written}})
    (move,) = planned(cluster, waiting(12_000)).moves
    assert told([move]) == ["other: b/card-0 -> a/card-0"]


def test_a_running_pod_is_read_as_it_is_whatever_the_webhook_would_say_to_it_now() -> None:
    asks = a_container({COUNT: 1, MEMORY: 6000}, privileged=True)
    new = take_in(a_pod(asks), REGISTRY, Rules())
    assert new.refusal or not new.demand.devices.wants_devices
    cluster = a_cluster(a=[{"fixed": 8192}], b=[{"other": 6000}], pods={"other": {"containers": (asks,)}})
    assert told(planned(cluster, waiting(12_000)).moves) == ["other: b/card-0 -> a/card-0"]
