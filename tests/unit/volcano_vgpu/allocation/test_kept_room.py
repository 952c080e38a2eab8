"""Room that is reserved for Volcano's pods: for which, for how long, and the log about it."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from hami_plugins.allocations.mode import PreemptionMode
from hami_plugins.allocator import volcano_preemption
from hami_plugins.allocator.kept_room import keep_again
from hami_plugins.web.documents import WouldWaitError
from hami_plugins.wire.fields import Json
from tests.unit.volcano_vgpu.allocation.cluster import a_node
from tests.unit.volcano_vgpu.allocation.sessions import Sessions, high, low

MAY_BE_MADE_TO, NEVER = 2, 3


def shown(cluster: Sessions, *pods: Json) -> tuple[Json, ...]:
    for pod in pods:
        cluster.shows(pod)
    return pods


def kept(cluster: Sessions) -> dict[str, str]:
    return {each.record.name: each.node for each in cluster.cache.nominations()}


def nominated(pod: Json, node: str, *, created: str = "2026-08-21T10:00:00Z") -> Json:
    """A waiting pod that names its node."""
    metadata = {**pod["metadata"], "creationTimestamp": created}
    return {**pod, "metadata": metadata, "status": {**pod["status"], "nominatedNodeName": node}}


def test_room_is_kept_for_four_hours_while_victims_end() -> None:
    cluster = Sessions(a_node("n1"))
    waiting, running = shown(cluster, high(), low())
    cluster.asks(waiting, "n1")
    cluster.may_evict(waiting, running)
    cluster.gives_up(running)
    assert cluster.pipelines(waiting, "n1") == ""
    cluster.deletes(running)
    cluster.time += 4 * 3600 - 1
    assert cluster.cache.expire_nominations() == ()
    cluster.time += 1
    assert [each.record.name for each in cluster.cache.expire_nominations()] == ["high"]


def test_the_node_where_room_is_kept_comes_first_and_no_other_is_named() -> None:
    cluster = Sessions(a_node("n1"), a_node("n2"))
    waiting, running = shown(cluster, nominated(high(), "n2"), low("gone", "n2-0"))
    cluster.deletes(running)
    keep_again(cluster.cache, volcano=True)
    assert cluster.ranks(waiting, "n1", "n2") == ["n2", "n1"]
    assert cluster.ranks(waiting, "n1") == ["n1"]


LATER = "2026-08-21T10:00:01Z"


@pytest.mark.parametrize(
    ("second", "first"),
    [
        (nominated(high("a", 30_000, priority=500), "n1"), nominated(high("b", 30_000), "n1", created=LATER)),
        (nominated(high("a", 30_000), "n1", created=LATER), nominated(high("b", 30_000), "n1")),
        (nominated(high("b", 30_000), "n1"), nominated(high("a", 30_000), "n1")),
    ],
    ids=["priority", "age", "name"],
)
def test_a_new_leader_keeps_room_in_the_order_in_which_volcano_takes_turns(second: Json, first: Json) -> None:
    cluster = Sessions(a_node("n1"))
    shown(cluster, second, first)
    keep_again(cluster.cache, volcano=True)
    assert kept(cluster) == {first["metadata"]["name"]: "n1"}


def test_the_log_says_where_room_is_kept_and_who_evicts_for_it() -> None:
    cluster = Sessions(a_node("n1", cards=2))
    waiting, *running = shown(cluster, high(), low("a", "n1-0"), low("b", "n1-1"))
    cluster.asks(waiting, "n1")
    cluster.may_evict(waiting, *running)
    cluster.pipelines(waiting, "n1")
    with capture_logs() as logs:
        cluster.closes()
    numbers = {"pods": 1, "evicted": 1, "evicted_by_volcano": 0}
    assert logs == [{"event": "room_kept", "log_level": "info", "job": "x/podgroup-high", "nodes": ["n1"], **numbers}]


def test_the_log_says_which_room_a_new_leader_keeps() -> None:
    cluster = Sessions(a_node("n1"))
    shown(cluster, nominated(high(), "n1"))
    with capture_logs() as logs:
        keep_again(cluster.cache, volcano=True)
    assert logs == [{"event": "room_kept_again", "log_level": "info", "pod": "x/high", "node": "n1"}]


def test_the_log_says_why_no_pod_is_evicted() -> None:
    cluster = Sessions(a_node("n1", cards=2))
    waiting, *running = shown(cluster, high(), low("a", "n1-0"), low("b", "n1-1"))
    cluster.asks(waiting, "n1")
    cluster.may_evict(waiting, *running)
    cluster.evictor.why = "budget keep"
    with capture_logs() as logs:
        cluster.pipelines(waiting, "n1")
    about = {"pod": "x/high", "node": "n1", "reason": "budget keep"}
    assert {"event": "eviction_refused", "log_level": "warning", **about} in logs


def test_a_gang_leaves_as_a_whole_whoever_else_leaves() -> None:
    cluster = Sessions(a_node("n1"), a_node("n2"))
    cluster.group("small", 2)
    single, member, rest = (
        low("single", "n1-0", 10_000),
        low("s0", "n1-0", 25_000, group="small"),
        low("s1", "n2-0", 38_000, priority=500, group="small"),
    )
    fixed = low("fixed", "n2-0", 2_000, priority=1000)
    waiting, *_ = shown(cluster, high(memory=40_000), single, member, rest, fixed)
    assert cluster.asks(waiting, "n1", "n2") == {"n1": MAY_BE_MADE_TO, "n2": NEVER}
    assert cluster.may_evict(waiting, single, member) == ["s0", "single"]
    assert cluster.pipelines(waiting, "n1") == ""
    cluster.closes()
    assert cluster.evictor.victims == ["s0", "s1", "single"]
    assert cluster.evictor.finishes


def test_a_thread_that_answers_others_meanwhile_does_not_search() -> None:
    cluster = Sessions(a_node("n1"))
    waiting, *_ = shown(cluster, high(), low())

    async def answering() -> dict[str, int]:
        return cluster.asks(waiting, "n1")

    with pytest.raises(WouldWaitError):
        asyncio.run(answering())
    assert cluster.asks(waiting, "n1") == {"n1": MAY_BE_MADE_TO}
    assert asyncio.run(answering()) == {"n1": MAY_BE_MADE_TO}


def test_a_thread_that_answers_others_meanwhile_does_not_ask_the_api_server() -> None:
    cluster = Sessions(a_node("n1", cards=2))
    waiting, *running = shown(cluster, high(), low("a", "n1-0"), low("b", "n1-1"))
    cluster.asks(waiting, "n1")
    cluster.may_evict(waiting, *running)

    async def answering() -> str:
        return cluster.pipelines(waiting, "n1")

    with pytest.raises(WouldWaitError):
        asyncio.run(answering())
    assert cluster.evictor.dry_runs == []
    assert cluster.pipelines(waiting, "n1") == ""


def test_jobs_for_which_no_pod_can_leave_are_forgotten_before_there_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(volcano_preemption, "MOST_JOBS", 2)
    cluster = Sessions(a_node("n1"))
    first, second, third, running = shown(cluster, *map(high, ("a", "b", "c")), low(priority=1000))
    assert [cluster.asks(each, "n1")["n1"] for each in (first, second)] == [NEVER, NEVER]
    cluster.shows(running, "deleted")
    shown(cluster, low())
    assert [cluster.asks(each, "n1")["n1"] for each in (first, second)] == [NEVER, NEVER]
    assert cluster.asks(third, "n1") == {"n1": MAY_BE_MADE_TO}
    cluster.shows(low(), "deleted")
    shown(cluster, running)
    assert cluster.asks(high("d"), "n1") == {"n1": NEVER}
    cluster.shows(running, "deleted")
    shown(cluster, low())
    assert cluster.asks(first, "n1") == {"n1": MAY_BE_MADE_TO}


def test_nodes_that_were_not_used_are_forgotten_where_there_are_too_many_such_jobs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(volcano_preemption, "MOST_JOBS", 1)
    for jobs, code in ((1, NEVER), (2, MAY_BE_MADE_TO)):
        cluster = Sessions(a_node("n1"), mode=PreemptionMode.SCHEDULER)
        waiting = shown(cluster, *map(high, ("a", "b")[:jobs]))
        (running,) = shown(cluster, low())
        for _ in range(3):
            assert [cluster.asks(each, "n1")["n1"] for each in waiting] == [MAY_BE_MADE_TO] * jobs
            for each in waiting:
                cluster.may_evict(each, running)
            cluster.closes()
        assert cluster.asks(waiting[0], "n1") == {"n1": code}
