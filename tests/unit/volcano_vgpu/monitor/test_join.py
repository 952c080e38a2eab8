"""Whose region is whose, and what it adds up to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_plugins.model.units import CoreShare, DeviceId, MiB, NodeName, PodUid
from hami_plugins.wire import documents, shared_region, usage
from hami_plugins.wire.pod_devices import AssignedDevice
from hami_plugins.wire.shared_region import Header, NotReady, Tail, UnreadableReason, UnreadableRegion
from hami_plugins.wire.usage import CardUsage, ContainerUsage, MemoryUse, NodeUsage, ReadStatus, UsageDoubt
from tests import raw_objects
from tests.shared_regions import GIB, LAST_KERNEL, Booked, Made, Slot, uuid
from volcano_vgpu.core.monitor.join import Known, usage_of
from volcano_vgpu.core.monitor.regions import ContainerRegion, Content, Presence, Region

A, B = DeviceId(uuid(1)), DeviceId(uuid(2))
HERE, GONE, UNSEEN = Presence.RUNNING, Presence.GONE, Presence.UNKNOWN
WHOSE = "u1_main"


def region(*slots: Slot, unsettled: Sequence[int] = (), **made: Any) -> Region:
    data = bytes(Made(slots=slots, **made).data())
    header = shared_region.header(data[:2048], len(data))
    assert isinstance(header, Header)
    layout = header.layout
    tail = shared_region.tail(layout, data[layout.tail : layout.tail + layout.tail_bytes])
    assert isinstance(tail, Tail)
    read = shared_region.processes(header, data[layout.slots : layout.slots + len(slots) * layout.slot_size])
    return Region(header=header, tail=tail, processes=read, unsettled=frozenset(unsettled))


def pod(name: str = "p", uid: str = "u1", phase: str = "Running") -> dict[str, Any]:
    return raw_objects.pod(name, metadata={"namespace": "ml", "uid": uid}, phase=phase)


def allocated(card: DeviceId = A, memory: int = 20 * 1024, cores: int = 50) -> AssignedDevice:
    return AssignedDevice(card, "NVIDIA", MiB(memory), CoreShare(cores))


def known(*allocations: AssignedDevice, **changes: Any) -> Known:
    return Known(
        **{"pods": (pod(),), "allocations": {(PodUid("u1"), "main"): allocations} if allocations else {}, **changes}
    )


def only(
    content: Content, presence: Sequence[Presence] = (), about: Known | None = None, now: float = LAST_KERNEL
) -> ContainerUsage:
    (found,) = usage_of([ContainerRegion(WHOSE, content, presence)], about or known(), now=now)
    return found


def test_a_container_is_told_with_its_pod_its_allocation_and_what_it_uses() -> None:
    found = only(region(Slot(booked=[Booked(data=2 * GIB, context=GIB, utilization=40)])), [HERE], known(allocated()))
    assert (found.namespace, found.pod, found.pod_uid, found.container) == ("ml", "p", "u1", "main")
    assert found.cards == (
        CardUsage(
            card=A,
            allocated=20 * GIB,
            cores_allocated=0.5,
            limit=3 * GIB,
            used=MemoryUse(GIB, 0, 2 * GIB, 0),
            utilization=0.4,
        ),
    )
    assert (found.processes, found.unconfirmed, found.gone, found.doubts) == (1, 0, 0, frozenset())
    assert found.unused == 17 * GIB


def test_an_allocation_is_in_units_of_the_register() -> None:
    found = only(None, about=known(allocated(memory=10), factor=4))
    assert found.cards[0].allocated == 40 << 20


def test_processes_add_up_each_as_one_whole_card_at_most() -> None:
    slots = [Slot(pid=at, booked=[Booked(data=GIB, utilization=share)]) for at, share in ((1, 80), (2, 999), (3, 30))]
    card = only(region(*slots), [HERE] * 3).cards[0]
    assert card.used is not None
    assert card.used.total == 3 * GIB
    assert card.utilization == pytest.approx(2.1)


def test_what_exited_or_was_killed_does_not_count() -> None:
    live, exited = Slot(pid=1, booked=[Booked(data=1)]), Slot(pid=2, status=0, booked=[Booked(data=100)])
    cleared, killed = Slot(pid=0, booked=[Booked(data=100)]), Slot(pid=4, booked=[Booked(data=100, utilization=9)])
    found = only(region(live, exited, cleared, killed), [HERE, GONE, GONE, GONE])
    assert found.cards[0].used == MemoryUse(0, 0, 1, 0)
    assert found.cards[0].utilization == 0
    assert (found.processes, found.gone) == (1, 1)


def test_who_may_have_been_killed_counts_and_is_doubted() -> None:
    found = only(region(Slot(booked=[Booked(data=5)])), [UNSEEN])
    assert found.cards[0].used == MemoryUse(0, 0, 5, 0)
    assert (found.unconfirmed, found.doubts) == (1, frozenset({UsageDoubt.STALE}))


def test_what_was_being_written_counts_and_is_doubted_where_it_counts() -> None:
    slots = [Slot(pid=1, booked=[Booked(data=5)]), Slot(pid=2, booked=[Booked(data=9)])]
    assert only(region(*slots, unsettled=[0]), [HERE, GONE]).doubts == {UsageDoubt.UNSETTLED}
    assert only(region(*slots, unsettled=[1]), [HERE, GONE]).doubts == frozenset()


def test_a_wrapped_counter_is_no_usage_and_hides_no_other_process() -> None:
    slots = [Slot(pid=1, booked=[Booked(total=2**64 - 4096)]), Slot(pid=2, booked=[Booked(data=7)])]
    found = only(region(*slots), [HERE, HERE])
    assert found.cards[0].used == MemoryUse(0, 0, 7, 0)
    assert found.doubts == {UsageDoubt.INVALID}


def test_more_than_card_and_limit_is_no_usage() -> None:
    slots = [Slot(booked=[Booked(data=5 * GIB)])]
    assert only(region(*slots), [HERE], known(sizes={A: 5 * GIB})).doubts == frozenset()
    assert only(region(*slots), [HERE], known(sizes={A: 4 * GIB})).doubts == {UsageDoubt.INVALID}
    assert only(region(*slots, limits=(6 * GIB,)), [HERE], known(sizes={A: 4 * GIB})).doubts == frozenset()


def test_more_than_any_card_has_is_no_usage_and_no_limit() -> None:
    found = only(region(Slot(booked=[Booked(data=2**60)]), limits=(2**64 - 1,)), [HERE])
    assert (found.cards[0].used, found.cards[0].limit) == (MemoryUse(0, 0, 0, 0), None)
    assert found.doubts == {UsageDoubt.INVALID}


@given(
    st.lists(st.tuples(st.integers(1000, 2048 + 4 * 1960), st.binary(min_size=1, max_size=64)), max_size=4),
    st.sampled_from(["v0-early", "v0", "v1.1", "v1.2"]),
    st.sampled_from([HERE, GONE, UNSEEN]),
)
def test_whatever_a_workload_writes_becomes_a_document_that_can_be_read(
    junk: list[tuple[int, bytes]], layout: str, presence: Presence
) -> None:
    data = Made(layout=layout, slots=[Slot(pid=at, booked=[Booked(data=GIB)]) for at in range(1, 5)]).data()
    for at, written in junk:
        data[at : at + len(written)] = written
    whole = bytes(data)
    header = shared_region.header(whole[:2048], len(whole))
    if not isinstance(header, Header):
        return
    start, size = header.layout.slots, header.layout.slot_size
    tail = shared_region.tail(header.layout, whole[header.layout.tail :])
    assert isinstance(tail, Tail)
    read = Region(header=header, tail=tail, processes=shared_region.processes(header, whole[start : start + 4 * size]))
    containers = usage_of([ContainerRegion(WHOSE, read, [presence] * 4)], known(), now=0)
    found = NodeUsage(node=NodeName("n"), time="", containers=containers)
    assert usage.decode(documents.load("usage", documents.dump(usage.encode(found)))) == found


def test_a_forged_total_makes_nothing_negative() -> None:
    used = only(region(Slot(booked=[Booked(data=5, context=5, total=3)])), [HERE]).cards[0].used
    assert used == MemoryUse(5, 0, 5, 0)


def test_what_belongs_to_no_kind_is_told_beside_them() -> None:
    used = only(region(Slot(booked=[Booked(data=5, total=8)])), [HERE]).cards[0].used
    assert used == MemoryUse(0, 0, 5, 3)


def test_a_card_without_a_name_is_passed_over_and_doubted() -> None:
    found = only(region(Slot(booked=[Booked(data=1), Booked(data=2)]), uuids=(b"\x80", uuid(2))), [HERE])
    assert [(card.card, card.used) for card in found.cards] == [(B, MemoryUse(0, 0, 2, 0))]
    assert found.doubts == {UsageDoubt.UNNAMED}


def test_each_card_has_its_own_numbers_and_an_allocated_one_that_is_not_seen_is_told() -> None:
    found = only(
        region(Slot(booked=[Booked(data=1, utilization=10)]), uuids=(uuid(1),), limits=(0,)),
        [HERE],
        known(allocated(B), allocated()),
    )
    assert [card.card for card in found.cards] == [A, B]
    assert (found.cards[0].allocated, found.cards[0].limit) == (20 * GIB, None)
    assert (found.cards[1].used, found.cards[1].utilization) == (None, None)


@pytest.mark.parametrize(
    ("content", "reading", "problem"),
    [
        (None, ReadStatus.NO_FILE, ""),
        (NotReady("being made"), ReadStatus.NOT_READY, "being made"),
        (UnreadableRegion(UnreadableReason.SIZE, "3 bytes"), ReadStatus.UNREADABLE, "3 bytes"),
    ],
)
def test_a_container_that_cannot_be_read_is_told_with_its_allocation(
    content: Content, reading: ReadStatus, problem: str
) -> None:
    found = only(content, about=known(allocated()))
    assert (found.reading, found.problem) == (reading, problem)
    assert found.cards == (CardUsage(card=A, allocated=20 * GIB, cores_allocated=0.5),)


def test_a_container_without_a_directory_is_told_with_its_allocation() -> None:
    (found,) = usage_of([], known(allocated()), now=0)
    assert (found.full_name, found.reading) == ("ml/p", ReadStatus.NO_FILE)


def test_a_pod_that_nobody_knows_is_told_by_its_uid() -> None:
    found = only(region(Slot(booked=[Booked(data=1)])), [HERE], Known())
    assert (found.full_name, found.container) == ("pod u1", "main")
    assert found.cards[0].used == MemoryUse(0, 0, 1, 0)


def test_an_allocation_of_a_pod_that_is_gone_is_not_told() -> None:
    assert usage_of([], known(allocated(), pods=()), now=0) == ()


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_is_not_told(phase: str) -> None:
    about = known(allocated(), pods=(pod(phase=phase),))
    assert usage_of([ContainerRegion(WHOSE, region(Slot()), [HERE])], about, now=0) == ()


def test_everything_behind_the_first_underscore_is_the_container() -> None:
    (found,) = usage_of([ContainerRegion("u1_a_b", None)], known(), now=0)
    assert (found.pod_uid, found.container) == ("u1", "a_b")


@pytest.mark.parametrize(("now", "age"), [(LAST_KERNEL + 90.5, 90.5), (LAST_KERNEL - 5, 0)])
def test_the_last_kernel_is_told_by_its_age_which_is_never_negative(now: float, age: float) -> None:
    assert only(region(Slot()), [HERE], now=now).last_kernel_age == age


def test_layouts_that_do_not_say_tell_no_age_and_no_utilisation() -> None:
    found = only(region(Slot(), layout="v0-early"), [HERE])
    assert (found.last_kernel_age, found.cards[0].utilization) == (None, None)
    assert only(region(Slot(booked=[Booked(utilization=50)]), layout="v0"), [HERE]).cards[0].utilization == 0.5


def test_containers_are_told_in_the_order_of_their_names() -> None:
    about = known(pods=(pod("b", "u2"), pod("a", "u1")))
    found = usage_of(
        [ContainerRegion("u2_x", None), ContainerRegion("u1_y", None), ContainerRegion("u1_x", None)], about, now=0
    )
    assert [(each.pod, each.container) for each in found] == [("a", "x"), ("a", "y"), ("b", "x")]
