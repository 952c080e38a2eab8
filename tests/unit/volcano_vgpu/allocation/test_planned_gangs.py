"""For which pods of a job places are planned together, and which pods may have to leave for them at all."""

from __future__ import annotations

from typing import Any

import pytest

from hami_plugins.allocations.mode import PreemptionMode
from hami_plugins.allocator.kept_room import keep_again
from hami_plugins.kube.reflector import ObjectChange
from hami_plugins.preemption.search import VictimSearch
from hami_plugins.wire.fields import Json
from tests.unit.volcano_vgpu.allocation.cluster import a_node
from tests.unit.volcano_vgpu.allocation.sessions import Sessions, high, low, member

MAY_BE_MADE_TO, NEVER = 2, 3


def shown(cluster: Sessions, *pods: Json) -> tuple[Json, ...]:
    for pod in pods:
        cluster.shows(pod)
    return pods


def test_which_pods_are_kept_apart_is_volcanos_matter() -> None:
    node = a_node("n1")
    cluster = Sessions({**node, "metadata": {**node["metadata"], "labels": {"kubernetes.io/hostname": "n1"}}})
    apart = {"labelSelector": {"matchLabels": {"app": "other"}}, "topologyKey": "kubernetes.io/hostname"}
    waiting = high()
    spec = {
        **waiting["spec"],
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}},
    }
    beside = low("beside", "n1-0", 5_000, priority=1000)
    beside = {**beside, "metadata": {**beside["metadata"], "labels": {"app": "other"}}}
    waiting, *_ = shown(cluster, {**waiting, "spec": spec}, beside, low())
    assert cluster.asks(waiting, "n1") == {"n1": MAY_BE_MADE_TO}


def of_task(name: str, task: str, memory: int, **more: Any) -> Json:
    return member(high(name, memory, **more), "train", 1000, **{"volcano.sh/task-spec": task})


def test_what_tasks_have_running_is_not_planned_for_again() -> None:
    cluster = Sessions(a_node("n1"), a_node("n2"))
    cluster.group("train", 1, minTaskMember={"ps": 1, "worker": 2})
    runs = low("w0", "n2-0", 38_000, priority=1000, group="train", **{"volcano.sh/task-spec": "worker"})
    shown(cluster, runs, low("a", "n1-0"))
    worker, server = shown(cluster, of_task("w1", "worker", 19_000), of_task("ps0", "ps", 19_000))
    assert cluster.asks(worker, "n1") == {"n1": MAY_BE_MADE_TO}
    cluster.shows(server, "deleted")
    cluster.time += 5.0
    assert cluster.asks(worker, "n1") == {"n1": NEVER}


def test_pods_of_another_gang_or_namespace_are_no_members() -> None:
    cluster = Sessions(a_node("n1"), a_node("n2"))
    cluster.group("train", 2)
    stranger = high("b", group="train")
    stranger = {**stranger, "metadata": {**stranger["metadata"], "namespace": "y"}}
    first, *_ = shown(cluster, high("a", group="train"), high("c", group="other"), stranger)
    shown(cluster, low("d", "n1-0"), low("e", "n2-0"))
    assert cluster.asks(first, "n1") == {"n1": NEVER}
    shown(cluster, high("f", group="train"))
    cluster.time += 5.0
    assert cluster.asks(first, "n1") == {"n1": MAY_BE_MADE_TO}


@pytest.mark.parametrize(
    ("older", "younger"),
    [(("b", "10:00:00"), ("a", "10:00:01")), (("a", "10:00:00"), ("b", "10:00:00"))],
    ids=["age", "name"],
)
def test_of_a_gangs_pods_the_oldest_get_the_places(older: tuple[str, str], younger: tuple[str, str]) -> None:
    """Then those whose names come first; only the oldest fits together with the pod that stays."""
    cluster = Sessions(a_node("n1"))
    cluster.group("train", 2)

    def dated(name: str, at: str, memory: int) -> Json:
        pod = high(name, memory, group="train")
        return {**pod, "metadata": {**pod["metadata"], "creationTimestamp": f"2026-08-21T{at}Z"}}

    first, *_ = shown(cluster, dated("first", "10:00:00", 10_000), dated(*younger, 35_000), dated(*older, 20_000))
    shown(cluster, low("stays", "n1-0", 5_000, priority=1000), low("leaves", "n1-0", 35_000))
    assert cluster.asks(first, "n1") == {"n1": MAY_BE_MADE_TO}


def test_a_pod_without_a_time_of_creation_counts_as_the_oldest() -> None:
    cluster = Sessions(a_node("n1"))
    cluster.group("train", 2)
    late = high("a", 35_000, group="train")
    late = {**late, "metadata": {**late["metadata"], "creationTimestamp": "1970-01-01T00:00:01Z"}}
    first, *_ = shown(cluster, high("first", 10_000, group="train"), late, high("b", 20_000, group="train"))
    shown(cluster, low("stays", "n1-0", 5_000, priority=1000), low("leaves", "n1-0", 35_000))
    assert cluster.asks(first, "n1") == {"n1": MAY_BE_MADE_TO}


@pytest.mark.parametrize("late", [0.0, 3.0], ids=["now", "in a session that died"])
def test_a_member_with_kept_room_does_not_keep_the_room_that_a_session_tries_for_it(late: float) -> None:
    """A new leader kept room for the first member on n1. The second has n2 when the session takes its try back."""
    cluster = Sessions(a_node("n1"), a_node("n2"), a_node("n3"))
    cluster.group("train", 2)
    stays, ends = low("leaves", "n3-0", 20_000), low("ends", "n1-0")
    first, second, *_ = shown(cluster, high("a", 38_000, group="train"), high("b", 38_000, group="train"), stays, ends)
    cluster.deletes(ends)
    keep_again(cluster.cache, volcano=True)
    assert {each.record.name: each.node for each in cluster.cache.nominations()} == {"a": "n1"}
    assert not cluster.event("allocate", first, "n2", job="x/train")
    cluster.time += late
    assert cluster.asks(second, "n3") == {"n3": NEVER}


def searched(cluster: Sessions, waiting: Json, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether places are looked for when a session asks about the pod."""
    calls: list[object] = []
    find = VictimSearch.find

    def noted(self: VictimSearch, *arguments: Any, **options: Any) -> Any:
        calls.append(arguments)
        return find(self, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(VictimSearch, "find", noted)
        cluster.asks(waiting, "n1")
    return bool(calls)


def test_one_pod_of_a_lower_priority_is_enough_to_look_for_places(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Sessions(a_node("n1"))
    waiting, *_ = shown(cluster, high(), low("equal", memory=20_000, priority=1000), low("lower", memory=15_000))
    assert searched(cluster, waiting, monkeypatch)


def test_one_pod_that_ends_is_enough_to_look_for_places(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Sessions(a_node("n1"))
    waiting, first, _ = shown(
        cluster, high(), low("ends", memory=20_000, priority=1000), low("equal", memory=15_000, priority=1000)
    )
    assert not searched(cluster, waiting, monkeypatch)
    cluster.deletes(first)
    cluster.time += 1.0
    assert searched(cluster, waiting, monkeypatch)


def test_one_pod_of_another_queue_is_enough_to_look_for_places(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Sessions(a_node("n1"))
    cluster.group("podgroup-other", 1, queue="another")
    waiting, *_ = shown(
        cluster, high(), low("own", memory=20_000, priority=1000), low("other", memory=15_000, priority=1000)
    )
    assert searched(cluster, waiting, monkeypatch)


@pytest.mark.parametrize("of_group", [10, 2000])
def test_a_pod_may_be_of_a_lower_priority_than_its_podgroup_or_a_higher(
    of_group: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search says which of the two counts."""
    cluster = Sessions(a_node("n1"))
    body = {"metadata": {"name": "class", "uid": "class"}, "value": of_group}
    cluster.objects.class_changed(ObjectChange("added", body, "class"))
    cluster.group("podgroup-low", 1, priorityClassName="class")
    waiting, *_ = shown(cluster, high(), low(priority=1000 if of_group == 10 else 100))
    assert searched(cluster, waiting, monkeypatch)


@pytest.mark.parametrize(("minimum", "members", "helps"), [(1, 1, True), (2, 3, True), (2, 2, False)])
def test_where_volcano_alone_evicts_no_gang_falls_below_its_minimum(minimum: int, members: int, helps: bool) -> None:
    nodes = [f"n{at}" for at in range(members)]
    cluster = Sessions(*map(a_node, nodes), mode=PreemptionMode.SCHEDULER)
    cluster.group("small", minimum)
    waiting, *_ = shown(cluster, high(), *(low(f"s-{node}", f"{node}-0", group="small") for node in nodes))
    assert (MAY_BE_MADE_TO in cluster.asks(waiting, *nodes).values()) is helps
