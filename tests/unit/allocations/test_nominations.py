"""Room that is reserved for a waiting pod while its victims leave: for no other pod, and not for ever."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from hami_plugins.allocations.answers import Declined, Nomination, PodAllocation
from hami_plugins.allocations.cache import AllocationCache
from hami_plugins.engine.decide import Decider
from hami_plugins.engine.intake import PodInfo
from hami_plugins.model.cluster import NamespaceQuota
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.units import NodeName, PodUid
from hami_plugins.model.verdicts import Fit
from hami_plugins.wire import objects
from tests.unit.allocations.objects import N1, N2, REGISTRY, Raw, a_node, a_pod, asking, bound

HIGH, LOW = PodUid("uid-high"), PodUid("uid-low")
LATE = 10_000.0


@pytest.fixture
def cache() -> AllocationCache:
    """Two nodes with one card of 40,960 MiB each; on the first a pod holds 30,000."""
    made = AllocationCache(Decider(REGISTRY))
    for name in ("n1", "n2"):
        made.see_node(objects.node_object(a_node(name)))
    see(made, low())
    return made


def see(cache: AllocationCache, raw: Raw) -> None:
    cache.see_pod(objects.pod(raw), 0.0)


def low() -> Raw:
    return bound(a_pod("low", memory=30_000), "n1", "GPU-n1-0,NVIDIA,30000,0:")


def ending() -> Raw:
    raw = low()
    return {**raw, "metadata": {**raw["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}


def high(memory: int = 20_000) -> PodInfo:
    return asking(a_pod("high", memory=memory))


def nominate(
    cache: AllocationCache,
    pod: PodInfo | None = None,
    node: NodeName = N1,
    until: float = LATE,
    victims: Iterable[PodUid] = (LOW,),
) -> None:
    """Keeps for a pod what it would have on the node without the low pod."""
    pod = pod or high()
    empty = AllocationCache(Decider(REGISTRY))
    empty.see_node(objects.node_object(a_node(node)))
    assert isinstance(empty.reserve(node, pod, 0.0), PodAllocation)
    record = empty.assumptions(pod.pod.uid)[0].record
    devices = pod.demand.devices
    cache.nominate(
        Nomination(node=node, record=record, devices=devices, victims=frozenset(victims), made=0.0, until=until)
    )


def fits(cache: AllocationCache, name: str, memory: int, node: NodeName = N1) -> bool:
    return isinstance(cache.answer(node, asking(a_pod(name, memory=memory))), Fit)


def kept(cache: AllocationCache) -> set[PodUid]:
    return {each.record.uid for each in cache.nominations}


def test_nobody_else_gets_the_room_neither_before_nor_after_the_victim_has_left(cache: AllocationCache) -> None:
    assert fits(cache, "other", 10_000)
    nominate(cache)
    assert not fits(cache, "other", 10_000)
    cache.forget_pod(LOW, 0.0)
    assert fits(cache, "other", 20_000)
    assert not fits(cache, "other", 25_000)


def test_the_pod_itself_gets_the_room_when_the_victim_has_left_and_not_earlier(cache: AllocationCache) -> None:
    nominate(cache)
    assert not isinstance(cache.answer(N1, high()), Fit)
    assert isinstance(cache.allocate(N1, high(), 0.0), Declined)
    cache.forget_pod(LOW, 0.0)
    assert isinstance(cache.answer(N1, high()), Fit)
    assert isinstance(cache.allocate(N1, high(), 0.0), PodAllocation)


def test_what_a_scheduler_reserves_and_gives_up_again_does_not_end_it(cache: AllocationCache) -> None:
    nominate(cache)
    cache.forget_pod(LOW, 0.0)
    cache.reserve(N1, high(), 0.0)
    cache.look_again(HIGH)
    assert not fits(cache, "other", 25_000)
    cache.reserve(N1, high(), 0.0)
    assert cache.release(HIGH)
    assert not fits(cache, "other", 25_000)
    cache.reserve(N2, high(), 0.0)
    assert not fits(cache, "other", 25_000)
    cache.expire(1_000.0)
    assert not fits(cache, "other", 25_000)


def test_the_overlap_takes_nothing_from_pods_that_have_reserved_beside_the_victim(cache: AllocationCache) -> None:
    beside = asking(a_pod("beside", memory=10_000))
    cache.reserve(N1, beside, 0.0)
    nominate(cache)
    assert isinstance(cache.allocate(N1, beside, 0.0), PodAllocation)


def test_the_overlap_is_no_finding(cache: AllocationCache) -> None:
    nominate(cache)
    assert cache.findings() == ()
    see(cache, bound(a_pod("forged", memory=30_000), "n1", "GPU-n1-0,NVIDIA,30000,0:"))
    assert {each.finding.value for each in cache.findings()} == {"over-memory"}


@pytest.mark.parametrize("node", ["n1", "n2"])
def test_it_ends_when_the_pod_is_bound_wherever_that_is(cache: AllocationCache, node: str) -> None:
    nominate(cache)
    cache.forget_pod(LOW, 0.0)
    see(cache, bound(a_pod("high", memory=20_000), node, f"GPU-{node}-0,NVIDIA,20000,0:"))
    assert not kept(cache)
    assert fits(cache, "other", 40_000) is (node == "n2")
    assert fits(cache, "other", 40_000, N2) is (node == "n1")


def test_it_ends_when_the_pod_is_gone_also_where_it_had_reserved(cache: AllocationCache) -> None:
    nominate(cache)
    cache.forget_pod(LOW, 0.0)
    cache.reserve(N1, high(), 0.0)
    cache.forget_pod(HIGH, 0.0)
    assert not kept(cache)
    assert fits(cache, "other", 40_000)


def test_it_ends_when_the_node_is_gone(cache: AllocationCache) -> None:
    nominate(cache)
    nominate(cache, asking(a_pod("second")), N2)
    cache.forget_node(N1)
    assert kept(cache) == {PodUid("uid-second")}


def test_it_ends_when_the_pod_asks_for_something_else_or_may_not_start(cache: AllocationCache) -> None:
    nominate(cache)
    cache.confirm(high())
    assert kept(cache) == {HIGH}
    cache.confirm(high(21_000))
    assert not kept(cache)
    nominate(cache)
    cache.confirm(asking(a_pod("high", memory=20_000, schedulingGates=[{"name": "wait"}])))
    assert not kept(cache)


def test_it_ends_where_nobody_begins_to_evict_within_half_a_minute(cache: AllocationCache) -> None:
    nominate(cache)
    assert cache.expire_nominations(29.0) == ()
    assert [each.record.uid for each in cache.expire_nominations(30.0)] == [HIGH]
    assert fits(cache, "other", 10_000)


def test_one_victim_that_has_left_is_a_beginning(cache: AllocationCache) -> None:
    see(cache, bound(a_pod("gone", memory=1_000), "n1", "GPU-n1-0,NVIDIA,1000,0:"))
    nominate(cache, victims=(LOW, PodUid("uid-gone")))
    cache.forget_pod(PodUid("uid-gone"), 0.0)
    assert cache.expire_nominations(60.0) == ()


def test_it_waits_for_its_victims_and_then_a_minute_for_the_scheduler(cache: AllocationCache) -> None:
    nominate(cache)
    see(cache, ending())
    assert cache.expire_nominations(5_000.0) == ()
    cache.forget_pod(LOW, 5_000.0)
    assert cache.expire_nominations(5_001.0) == ()
    cache.claim(HIGH, 5_040.0)
    assert cache.expire_nominations(5_099.0) == ()
    assert [each.record.uid for each in cache.expire_nominations(5_100.0)] == [HIGH]
    assert fits(cache, "other", 40_000)


def test_a_victim_that_never_leaves_does_not_keep_it_for_ever(cache: AllocationCache) -> None:
    nominate(cache, until=600.0)
    see(cache, ending())
    assert cache.expire_nominations(599.0) == ()
    assert [each.record.uid for each in cache.expire_nominations(600.0)] == [HIGH]
    assert fits(cache, "other", 10_000)


def test_a_claim_before_the_victims_have_left_says_nothing(cache: AllocationCache) -> None:
    nominate(cache)
    cache.claim(HIGH, 9_000.0)
    cache.forget_pod(LOW, 0.0)
    cache.expire_nominations(100.0)
    assert cache.expire_nominations(159.0) == ()
    assert cache.expire_nominations(160.0)


def test_another_nomination_of_the_pod_replaces_the_first(cache: AllocationCache) -> None:
    nominate(cache)
    nominate(cache, node=N2)
    assert [each.node for each in cache.nominations] == [N2]
    assert fits(cache, "other", 10_000)
    assert not fits(cache, "other", 25_000, N2)
    assert cache.statistics().nominated == 1


def test_it_counts_for_its_own_quota_and_not_against_the_pod_itself(cache: AllocationCache) -> None:
    hard = {"limits.volcano.sh/vgpu-number": 10 * 10**9, "limits.volcano.sh/vgpu-memory": 50_000 * 10**9}
    cache.see_quota("q", NamespaceQuota(namespace="team", hard=hard, used={}))
    before = dict(cache.left("team"))
    nominate(cache)
    assert dict(cache.left("team", HIGH)) == before
    assert dict(cache.left("team")) != before or not before


def test_a_search_sees_victims_of_others_as_leaving_and_not_what_is_kept_for_its_own_pod(
    cache: AllocationCache,
) -> None:
    nominate(cache)
    other = cache.search_view((N1, N2), {PodUid("uid-other")})
    assert {(each.uid, each.terminating, each.preemptable) for each in other.nodes[0].pods} == {
        (LOW, True, True),
        (HIGH, False, False),
    }
    own = cache.search_view((N1, N2, NodeName("unknown")), {HIGH})
    assert [(each.uid, each.terminating) for each in own.nodes[0].pods] == [(LOW, False)]
    assert own.nodes[1] is cache.entry(N2)


def test_a_search_sees_the_same_node_until_it_changes(cache: AllocationCache) -> None:
    nominate(cache)

    def seen() -> NodeEntry:
        return cache.search_view((N1,), {HIGH}).nodes[0]

    before = seen()
    assert seen() is before
    see(cache, bound(a_pod("late", memory=1_000), "n1", "GPU-n1-0,NVIDIA,1000,0:"))
    assert [each.name for each in seen().pods] == ["low", "late"]


def test_a_search_does_not_count_a_tentative_pod_twice(cache: AllocationCache) -> None:
    """Its kept room counts and its reservation elsewhere does not, unless a Binding has been answered with that."""

    def seen() -> list[list[PodUid]]:
        view = cache.search_view((N1, N2), {PodUid("uid-other")}, tentative={HIGH, PodUid("uid-unknown")})
        return [[each.uid for each in entry.pods] for entry in view.nodes]

    cache.reserve(N2, high(), 0.0)
    assert seen() == [[LOW], []]
    nominate(cache)
    assert seen() == [[LOW, HIGH], []]
    cache.reserve(N1, high(10_000), 0.0)
    assert seen() == [[LOW, HIGH], []], "what is reserved where room is kept"
    cache.allocate(N2, high(), 0.0)
    assert seen() == [[LOW, HIGH], [HIGH]]


def test_a_pod_that_has_reserved_the_room_keeps_it_when_the_reservation_ends(cache: AllocationCache) -> None:
    cache.forget_pod(LOW, 0.0)
    cache.reserve(N1, high(), 0.0)
    nominate(cache)
    assert not fits(cache, "other", 25_000)
    assert cache.release(HIGH)
    assert not fits(cache, "other", 25_000)
    assert cache.withdraw(HIGH) is not None
    assert fits(cache, "other", 40_000)
