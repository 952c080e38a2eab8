"""Room that is kept for one member of a gang and that another may have, and room that is proven before it is kept."""

from __future__ import annotations

import pytest

from hami_plugins.allocations.answers import DeclineCode, Declined, Nomination, PodAllocation
from hami_plugins.allocations.cache import AllocationCache
from hami_plugins.engine.decide import Decider
from hami_plugins.engine.intake import PodInfo
from hami_plugins.model.units import NodeName, PodUid
from hami_plugins.model.verdicts import Fit
from hami_plugins.wire import objects
from tests.unit.allocations.objects import N1, N2, REGISTRY, Raw, a_node, a_pod, asking, bound

GROUP = "scheduling.k8s.io/group-name"
LOW, OTHER = PodUid("uid-low"), PodUid("uid-other")


@pytest.fixture
def cache() -> AllocationCache:
    """Two nodes with one card of 40,960 MiB each; on both a pod holds 30,000."""
    made = AllocationCache(Decider(REGISTRY))
    for name in ("n1", "n2"):
        made.see_node(objects.node_object(a_node(name)))
    see(made, low())
    see(made, bound(a_pod("other", memory=30_000), "n2", "GPU-n2-0,NVIDIA,30000,0:"))
    return made


def see(cache: AllocationCache, raw: Raw) -> None:
    cache.see_pod(objects.pod(raw), 0.0)


def low() -> Raw:
    return bound(a_pod("low", memory=30_000), "n1", "GPU-n1-0,NVIDIA,30000,0:")


def member(name: str, memory: int = 20_000, group: str = "train") -> PodInfo:
    raw = a_pod(name, memory=memory)
    raw["metadata"]["annotations"] = {**raw["metadata"].get("annotations", {}), GROUP: group}
    return asking(raw)


def keep(cache: AllocationCache, pod: PodInfo, *leaving: PodUid, node: NodeName = N1) -> Nomination | Declined:
    cache.confirm(pod)
    return cache.nominate_without(node, pod, leaving, 5.0, until=100.0)


def kept(cache: AllocationCache, pod: PodInfo, *leaving: PodUid, node: NodeName = N1) -> Nomination:
    found = keep(cache, pod, *leaving, node=node)
    assert isinstance(found, Nomination), found
    return found


def test_room_is_kept_where_the_pod_fits_when_these_have_left(cache: AllocationCache) -> None:
    found = kept(cache, member("m1"), LOW)
    assert (found.node, found.victims, found.made, found.until) == (N1, frozenset({LOW}), 5.0, 100.0)
    assert cache.nomination(PodUid("uid-m1")) is not None
    assert [share.memory for each in found.record.allocations for share in each.shares] == [20_000]


def test_no_room_is_kept_where_the_pod_does_not_fit_even_then(cache: AllocationCache) -> None:
    found = keep(cache, member("m1"))
    assert isinstance(found, Declined)
    assert found.code is DeclineCode.CARDS
    assert isinstance(keep(cache, member("m1", 50_000), LOW), Declined)
    assert cache.nominations == ()


def test_a_pod_that_is_being_deleted_leaves_anyway(cache: AllocationCache) -> None:
    raw = low()
    see(cache, {**raw, "metadata": {**raw["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}})
    assert kept(cache, member("m1")).victims == {LOW}


def test_who_leaves_for_another_leaves_and_the_room_of_that_one_is_taken(cache: AllocationCache) -> None:
    kept(cache, member("m1"), LOW)
    assert kept(cache, member("m2")).victims == {LOW}
    assert isinstance(keep(cache, member("m3")), Declined)


@pytest.mark.parametrize(
    ("node", "code"), [(NodeName("n9"), DeclineCode.NODE), (N1, DeclineCode.BOUND)], ids=["unknown", "bound"]
)
def test_no_room_is_kept_on_an_unknown_node_nor_for_a_bound_pod(
    cache: AllocationCache, node: NodeName, code: DeclineCode
) -> None:
    pod = member("m1") if code is DeclineCode.NODE else member("low")
    found = keep(cache, pod, LOW, node=node)
    assert isinstance(found, Declined)
    assert found.code is code


def fits(cache: AllocationCache, pod: PodInfo, node: NodeName = N1) -> bool:
    return isinstance(cache.answer(node, pod), Fit)


def gang(cache: AllocationCache) -> tuple[PodInfo, PodInfo]:
    """Two members with a card of their own each, whose victims have gone."""
    first, second = member("m1", 38_000), member("m2", 38_000)
    kept(cache, first, LOW)
    kept(cache, second, OTHER, node=N2)
    for uid in (LOW, OTHER):
        cache.forget_pod(uid, 6.0)
    return first, second


def test_members_swap_their_rooms_once_these_are_shared_and_not_before(cache: AllocationCache) -> None:
    first, second = gang(cache)
    assert [fits(cache, first, N2), fits(cache, second, N1)] == [False, False]
    cache.share([PodUid("uid-m1"), PodUid("uid-m2"), PodUid("uid-gone")])
    assert [fits(cache, first, N2), fits(cache, second, N1)] == [True, True]
    assert [each.node for each in cache.shared_with(PodUid("uid-m1"))] == [N2]


def test_what_a_member_has_reserved_is_not_there_for_the_others(cache: AllocationCache) -> None:
    first, second = gang(cache)
    cache.share([PodUid("uid-m1"), PodUid("uid-m2")])
    assert isinstance(cache.reserve(N2, first, 7.0), PodAllocation)
    assert not fits(cache, second, N2)
    assert isinstance(cache.reserve(N1, second, 7.0), PodAllocation)
    cache.look_again(PodUid("uid-m1"))
    cache.look_again(PodUid("uid-m2"))
    assert [fits(cache, first, N1), fits(cache, second, N2)] == [True, True]


def test_a_member_that_reserved_its_own_room_holds_it(cache: AllocationCache) -> None:
    first, second = gang(cache)
    cache.share([PodUid("uid-m1"), PodUid("uid-m2")])
    assert isinstance(cache.reserve(N1, first, 7.0), PodAllocation)
    assert not fits(cache, second, N1)


def test_shared_room_is_for_the_same_gang_alone(cache: AllocationCache) -> None:
    gang(cache)
    cache.share([PodUid("uid-m1"), PodUid("uid-m2")])
    for stranger in (member("s", 38_000, group="other"), asking(a_pod("alone", memory=38_000))):
        cache.confirm(stranger)
        assert not fits(cache, stranger)


def test_more_room_is_kept_beside_shared_room_and_not_in_it(cache: AllocationCache) -> None:
    gang(cache)
    cache.share([PodUid("uid-m1"), PodUid("uid-m2")])
    assert isinstance(keep(cache, member("m3", 38_000)), Declined)


def test_a_pod_that_is_bound_or_gone_is_of_no_gang_that_waits(cache: AllocationCache) -> None:
    gang(cache)
    cache.share([PodUid("uid-m1"), PodUid("uid-m2")])
    cache.forget_pod(PodUid("uid-m1"), 8.0)
    assert cache.shared_with(PodUid("uid-m1")) == ()
    see(cache, bound(a_pod("m2", memory=38_000), "n2", "GPU-n2-0,NVIDIA,38000,0:"))
    assert cache.shared_with(PodUid("uid-m2")) == ()
    third = member("m3", 38_000)
    kept(cache, third)
    cache.share([PodUid("uid-m3")])
    assert cache.shared_with(PodUid("uid-m1")) == ()


def test_a_gang_lacks_room_while_a_waiting_member_has_none(cache: AllocationCache) -> None:
    gang(cache)
    assert not cache.lacks_room(PodUid("uid-m1"))
    cache.confirm(member("m3", 38_000))
    cache.confirm(member("other", 38_000, group="else"))
    assert cache.lacks_room(PodUid("uid-m1"))
    assert cache.lacks_room(PodUid("uid-m2"))
    assert not cache.lacks_room(PodUid("uid-alone"))
    cache.forget_pod(PodUid("uid-m3"), 9.0)
    assert not cache.lacks_room(PodUid("uid-m1"))


def test_a_pod_departs_once_it_is_being_deleted(cache: AllocationCache) -> None:
    assert cache.departing([LOW, OTHER]) == set()
    raw = low()
    see(cache, {**raw, "metadata": {**raw["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}})
    assert cache.departing([LOW, OTHER]) == {LOW}
    cache.forget_pod(OTHER, 9.0)
    assert cache.departing([LOW, OTHER]) == {LOW, OTHER}


def test_reservations_are_told_by_their_age_and_answered_ones_are_none(cache: AllocationCache) -> None:
    young, old, answered = member("young", 1_000), member("old", 1_000), member("answered", 1_000)
    cache.reserve(N1, old, 1.0)
    cache.reserve(N1, young, 2.0)
    cache.allocate(N1, answered, 1.0)
    assert cache.reserved_before(0.9) == frozenset()
    assert cache.reserved_before(1.0) == {PodUid("uid-old")}
    assert cache.reserved_before(2.0) == {PodUid("uid-old"), PodUid("uid-young")}
