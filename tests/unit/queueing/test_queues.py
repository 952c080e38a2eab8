"""Volcano's enqueue admission."""

from __future__ import annotations

from dataclasses import replace

from hami_plugins.model.cluster import ClusterSnapshot, PodGroup, Queue
from hami_plugins.model.nodes import NodeEntry, NodeFacts
from hami_plugins.model.pods import PodRecord
from hami_plugins.model.quantity import NANO
from hami_plugins.queueing import queues, usage
from hami_plugins.queueing.queues import EnqueueAdmission, QueueShortage
from tests.builders import a_node, a_record, amounts

GPU = "a.com/gpu"


def gpus(count: float) -> dict[str, int]:
    return {GPU: int(count * NANO)}


def a_cluster(
    *records: PodRecord, have: int = 10, more: dict[str, int] | None = None, **about: object
) -> ClusterSnapshot:
    facts = NodeFacts(allocatable=amounts({GPU: have, **(more or {})}))
    requested: dict[str, int] = {}
    for record in records:
        for name, amount in record.requests:
            requested[name] = requested.get(name, 0) + amount
    entry: NodeEntry = replace(a_node(), facts=facts, pods=records, requested=requested)
    known = {"queues": {"default": Queue(name="default")}, **about}
    return ClusterSnapshot(nodes=(entry,), **known)  # type: ignore[arg-type]


def held(count: int, group: str = "g", **about: object) -> PodRecord:
    return replace(a_record(), group=group, requests=tuple(gpus(count).items()), **about)  # type: ignore[arg-type]


def gate(*records: PodRecord, **about: object) -> EnqueueAdmission:
    found = usage.gate_of(a_cluster(*records, **about))  # type: ignore[arg-type]
    assert found is not None
    return found


def group(
    name: str = "g", *, queue: str = "default", phase: str = "Running", least: int | None = None
) -> dict[str, PodGroup]:
    needs = None if least is None else gpus(least)
    made = PodGroup(namespace="default", name=name, queue=queue, phase=phase, min_resources=needs)
    return {f"default/{name}": made}


def test_without_queues_there_is_no_gate() -> None:
    assert usage.gate_of(a_cluster(queues={})) is None


def test_one_queue_may_wait_for_the_whole_cluster_and_no_more() -> None:
    assert gate().objections("default", gpus(10)) == ()
    assert gate().objections("default", gpus(11)) == (QueueShortage(GPU, 11 * NANO, 10 * NANO, 10 * NANO, "default"),)


def test_several_queues_may_wait_for_a_fifth_more_than_there_is() -> None:
    both = {name: Queue(name=name) for name in ("a", "b")}
    found = gate(queues=both).let_in("a", gpus(8))
    assert found.objections("b", gpus(4)) == ()
    assert found.objections("b", gpus(5)) == (QueueShortage(GPU, 5 * NANO, 4 * NANO, 12 * NANO, inqueue=8 * NANO),)


def test_who_was_let_in_counts_until_it_has_its_place() -> None:
    waiting = gate(pod_groups=group(phase="Inqueue", least=7))
    assert waiting.objections("default", gpus(4)) != ()
    assert waiting.objections("default", gpus(3)) == ()


def test_a_capability_is_a_hard_limit() -> None:
    capped = {"team": Queue(name="team", capability=gpus(4))}
    found = gate(held(3), queues=capped, pod_groups=group(queue="team", least=3))
    shortage = QueueShortage(GPU, 2 * NANO, NANO, 4 * NANO, "team", allocated=3 * NANO)
    assert found.objections("team", gpus(2)) == (shortage,)
    assert found.overdrawn("team", gpus(2)) == (shortage,)
    assert found.overdrawn("team", gpus(1)) == ()
    assert found.given("team", gpus(1)).overdrawn("team", gpus(1)) != ()


def test_a_capability_of_no_cpu_is_none() -> None:
    capped = {"team": Queue(name="team", capability={"cpu": 0, GPU: 4 * NANO})}
    assert gate(queues=capped, more={"cpu": 8}).objections("team", {"cpu": 8 * NANO}) == ()


def test_what_others_are_guaranteed_is_kept_for_them() -> None:
    two = {"a": Queue(name="a", guarantee=gpus(4)), "b": Queue(name="b")}
    found = gate(queues=two)
    assert found.objections("b", gpus(7)) == (QueueShortage(GPU, 7 * NANO, 6 * NANO, 6 * NANO, "b"),)
    assert found.objections("a", gpus(10)) == ()


def test_what_a_gang_holds_above_its_least_does_not_keep_others_out() -> None:
    above = gate(held(6), pod_groups=group(least=2))
    assert above.objections("default", gpus(6)) == ()
    assert above.overdrawn("default", gpus(6)) != ()


def test_pods_of_a_group_that_is_not_listed_count_for_the_queue_they_name() -> None:
    two = {name: Queue(name=name) for name in ("default", "team")}
    assert gate(held(6, queue="team"), queues=two).overdrawn("team", gpus(5)) != ()
    assert gate(held(6), queues=two).overdrawn("default", gpus(5)) != ()


def test_pods_that_are_being_deleted_count_for_the_cluster_alone() -> None:
    leaving = gate(held(6, terminating=True), pod_groups=group())
    assert leaving.overdrawn("default", gpus(10)) == ()
    assert leaving.objections("default", gpus(7)) == (
        QueueShortage(GPU, 7 * NANO, 6 * NANO, 12 * NANO, allocated=6 * NANO),
    )


def test_a_listing_without_cpu_says_nothing_of_cpu_but_much_of_devices() -> None:
    assert gate().objections("default", {"cpu": NANO}) == ()
    assert gate().objections("default", {"other.com/gpu": NANO}) == (QueueShortage("other.com/gpu", NANO, 0, 0),)


def test_a_resource_that_no_node_has_is_refused_inside_the_queue_as_well() -> None:
    assert gate().overdrawn("default", {"other.com/gpu": 1}) == (QueueShortage("other.com/gpu", 1, 0, 0, "default"),)


def test_a_request_of_zero_passes_even_where_more_is_held_than_there_is() -> None:
    crowded = gate(held(12), pod_groups=group(least=12))
    assert crowded.objections("default", gpus(0)) == ()
    assert crowded.overdrawn("default", gpus(0)) == ()


def test_an_unknown_queue_is_held_to_the_cluster() -> None:
    assert gate().objections("nobody", gpus(12)) == ()
    assert gate().let_in("nobody", gpus(12)).objections("nobody", gpus(1)) != ()
    assert gate().overdrawn("nobody", gpus(100)) == ()
    assert gate().given("nobody", gpus(1)) == gate()
    assert gate().turn("nobody").parts == ()
    assert gate().turn("nobody") < gate().turn("default")


TWO = {name: Queue(name=name, weight=weight) for name, weight in (("a", 1), ("b", 4))}


class TestShares:
    def test_queues_that_all_ask_are_held_to_their_weight(self) -> None:
        found = gate(queues=TWO).divided({"a": gpus(10), "b": gpus(10)})
        assert found.overdrawn("a", gpus(3)) == (QueueShortage(GPU, 3 * NANO, 2 * NANO, 2 * NANO, "a", by_weight=True),)
        assert found.overdrawn("b", gpus(8)) == ()

    def test_who_asks_alone_may_have_all(self) -> None:
        assert gate(queues=TWO).divided({"a": gpus(10)}).overdrawn("a", gpus(10)) == ()

    def test_under_the_capacity_plugin_nobody_is_held_to_weights(self) -> None:
        borrowing = {**TWO, "a": Queue(name="a", deserved=gpus(1))}
        found = gate(queues=borrowing).divided({"a": gpus(10), "b": gpus(10)})
        assert found.overdrawn("a", gpus(10)) == ()

    def test_a_share_names_what_the_queue_holds_of_it(self) -> None:
        found = gate(held(1, "x"), queues=TWO, pod_groups=group("x", queue="a", least=1))
        (shortage,) = found.divided({"a": gpus(9), "b": gpus(10)}).overdrawn("a", gpus(2))
        assert shortage == QueueShortage(GPU, 2 * NANO, NANO, 2 * NANO, "a", by_weight=True, allocated=NANO)

    def test_a_queue_that_deserves_nothing_comes_after_one_that_holds_all_it_deserves(self) -> None:
        borrowing = {"a": Queue(name="a"), "b": Queue(name="b", deserved=gpus(1))}
        found = gate(held(1, "x"), queues=borrowing, pod_groups=group("x", queue="b", least=1))
        assert found.turn("b") < found.turn("a")

    def test_the_part_of_a_share_tells_whose_turn_it_is(self) -> None:
        found = gate(held(1, "x"), queues=TWO, pod_groups=group("x", queue="a", least=1))
        assert found.turn("a").parts == ((0.1, False),)
        shared = found.divided({"a": gpus(9), "b": gpus(10)})
        assert shared.turn("a").parts == ((0.5, False),)
        assert shared.turn("b").parts == ((0.0, False),)


class TestWords:
    def test_the_clusters_limit(self) -> None:
        assert queues.words([QueueShortage("b", 1, 0, 0), QueueShortage("a", 1, 0, 0)]) == (
            "resource in cluster is overused: overused a, overused b"
        )

    def test_a_queues_limit(self) -> None:
        assert queues.words([QueueShortage("a", 1, 0, 0, "q")]) == "queue resource quota insufficient: insufficient a"

    def test_volcano_says_nothing_of_shares(self) -> None:
        assert queues.words([QueueShortage("a", 1, 0, 0, "q", by_weight=True)]) == ""

    def test_ours_say_who_has_the_rest(self) -> None:
        shortage = QueueShortage(GPU, 2 * NANO, NANO, 9 * NANO, "q", allocated=6 * NANO, inqueue=3 * NANO, elastic=NANO)
        assert shortage.missing == NANO
        assert str(shortage) == "a.com/gpu: asks 2, queue q has 1 of 9 left (6 allocated, 3 inqueue, 1 of it elastic)"

    def test_ours_have_numbers(self) -> None:
        assert (
            str(QueueShortage(GPU, NANO, NANO // 2, 12 * NANO))
            == "a.com/gpu: asks 1, the cluster (with overcommit) has 0.5 of 12 left"
        )
        assert (
            str(QueueShortage("memory", 2**30 * NANO, -1, 2**31 * NANO, "q"))
            == "memory: asks 1Gi, queue q has 0 of 2Gi left"
        )
        assert str(QueueShortage("cpu", 1500 * 10**6, 0, NANO, "q", by_weight=True)) == (
            "cpu: asks 1500m, queue q (share by weight) has 0 of 1 left"
        )


def test_amounts_are_added_and_subtracted_by_resource() -> None:
    assert queues.plus({"a": 1, "b": 2}, {"b": 3, "c": 4}) == {"a": 1, "b": 5, "c": 4}
    assert queues.minus({"a": 1, "b": 3, "c": 2, "d": 2}, {"b": 2, "c": 2, "d": 5}) == {"a": 1, "b": 1}


def test_of_minimum_resources_only_what_nodes_have_is_compared() -> None:
    listed = {"cpu": 1, "requests.cpu": 1, "limits.cpu": 1, "count/pods": 1, "pods": 1, GPU: 2}
    assert queues.plain(listed) == {"cpu": 1, GPU: 2}
