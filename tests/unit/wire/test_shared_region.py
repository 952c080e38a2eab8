"""HAMi-core's shared region: layouts told apart, what is refused, and what is read."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_plugins.wire import shared_region
from hami_plugins.wire.shared_region import (
    DeviceUse,
    Header,
    NotReady,
    RegionLayout,
    RegionProcess,
    Tail,
    UnreadableReason,
    UnreadableRegion,
)
from tests.shared_regions import GIB, OFFSETS, Booked, Made, Slot, uuid

LAYOUTS = {layout.name: layout for layout in shared_region.LAYOUTS}
every_layout = pytest.mark.parametrize("name", OFFSETS)


def header_of(data: bytes | bytearray) -> Header | NotReady | UnreadableRegion:
    return shared_region.header(bytes(data[: shared_region.HEADER_BYTES]), len(data))


def header(data: bytes | bytearray) -> Header:
    found = header_of(data)
    assert isinstance(found, Header), found
    return found


def refused(data: bytes | bytearray) -> UnreadableReason:
    found = header_of(data)
    assert isinstance(found, UnreadableRegion), found
    return found.reason


def tail_of(layout: RegionLayout, data: bytes | bytearray) -> Tail | UnreadableRegion:
    return shared_region.tail(layout, bytes(data[layout.tail : layout.tail + layout.tail_bytes]))


def slots_of(data: bytes | bytearray, count: int) -> bytes:
    layout = header(data).layout
    return bytes(data[layout.slots : layout.slots + count * layout.slot_size])


@every_layout
def test_every_field_lies_where_the_library_has_it(name: str) -> None:
    at, layout = OFFSETS[name], LAYOUTS[name]
    found = {
        "size": layout.size,
        "owner_pid": layout.owner,
        "device_num": layout.device_num,
        "procs": layout.slots,
        "slot": layout.slot_size,
        "used": layout.used,
        "used_size": layout.used_size,
        "monitorused": layout.measured,
        "status": layout.status,
        "proc_num": layout.tail,
    }
    assert found == {key: at[key] for key in found}
    assert (layout.switch_at, layout.recent_kernel_at) == (at["proc_num"] + 4, at["proc_num"] + 8)
    assert layout.utilization == at.get("device_util")
    assert layout.seqlock == (1936 if name == "v1.1" else at.get("seqlock"))


@every_layout
def test_what_a_library_writes_is_read(name: str) -> None:
    booked = Booked(data=5, context=3, utilization=40, measured=11)
    made = Made(layout=name, limits=(7, 9), core_limits=(20, 30), priority=4, slots=[Slot(1, 2, 1, 6, [booked])])
    data = made.data()
    found = header(data)
    assert found.layout is LAYOUTS[name]
    assert found.uuids == (uuid(1),)
    assert found.memory_limits == (7, *[9] * 15)
    assert found.core_limits == (20, *[30] * 15)
    end = tail_of(found.layout, data)
    assert isinstance(end, Tail)
    assert (end.proc_num, end.utilization_switch, end.recent_kernel, end.priority) == (1, 1, 2, 4)
    assert (end.last_kernel_time is None) == name.startswith("v0")
    (process,) = shared_region.processes(found, slots_of(data, 1))
    utilization = None if name == "v0-early" else 40
    assert process[:3] == (1, 2, 1)
    assert process.devices == (DeviceUse(3, 0, 5, 0, 8, 11, utilization),)


def test_a_kernel_that_never_ran_or_ran_beyond_time_has_no_time() -> None:
    for seconds in (0, 2**63):
        data = Made(last_kernel=seconds).data()
        end = tail_of(LAYOUTS["v1.2"], data)
        assert isinstance(end, Tail)
        assert end.last_kernel_time is None


@pytest.mark.parametrize("size", [0, 3, 12, 2008953])
def test_a_file_without_magic_is_not_ready_whatever_its_size(size: int) -> None:
    assert isinstance(header_of(bytes(size)), NotReady)


def test_cards_that_are_not_known_or_not_named_yet_are_waited_for() -> None:
    assert isinstance(header_of(Made(uuids=()).data()), NotReady)
    assert isinstance(header_of(Made(uuids=(uuid(1), b"")).data()), NotReady)


@pytest.mark.parametrize(
    ("name", "version"),
    [("v1.2", (0, 57)), ("v1.1-interim", (1, 2)), ("v0", (1, 2)), ("v0-early", (1, 1))],
    ids=["v0 grown by 1.2", "1.2 grown by interim", "1.2 cut to the size of v0", "1.1 cut to the size of v0-early"],
)
def test_a_size_beside_the_version_of_another_layout_is_a_file_that_two_libraries_wrote(
    name: str, version: tuple[int, int]
) -> None:
    data = Made(layout=name).data()
    struct.pack_into("<2I", data, 4, *version)
    assert refused(data) is UnreadableReason.MIXED


@pytest.mark.parametrize("version", [(1, 0), (1, 3), (1, 9), (2, 0), (2**32 - 1, 0)])
def test_a_version_that_nobody_released_is_refused(version: tuple[int, int]) -> None:
    for name in ("v1.2", "v1.1-interim"):
        data = Made(layout=name).data()
        struct.pack_into("<2I", data, 4, *version)
        assert refused(data) is UnreadableReason.VERSION


@pytest.mark.parametrize("size", [4, 8, 804679, 804682, 1197895, 1500000, 2008951, 2008954, 2008986, 2140033])
def test_a_size_that_no_layout_has_is_refused(size: int) -> None:
    data = bytearray(size)
    struct.pack_into("<i", data, 0, shared_region.MAGIC)
    if size > 8:
        struct.pack_into("<2I", data, 4, 1, 2)
    assert refused(data) is UnreadableReason.SIZE


def test_a_file_of_the_interim_layout_that_1_2_took_over_is_refused() -> None:
    data = Made(layout="v1.1-interim").data()
    text = uuid(1).encode()
    struct.pack_into("<Q", data, 56, 1)
    data[64 : 64 + len(text)] = text
    assert refused(data) is UnreadableReason.MIXED


def test_a_file_of_1_1_that_the_interim_library_grew_is_refused_for_its_limits_lie_elsewhere() -> None:
    older = Made(layout="v1.1", slots=[Slot(booked=[Booked(data=1)])]).data()
    data = bytearray(2008985)
    data[: len(older)] = older
    text = uuid(1).encode()
    struct.pack_into("<Q", data, 88, 1)
    data[96 : 96 + len(text)] = text
    assert refused(data) is UnreadableReason.MIXED


def test_the_interim_layout_is_read_while_its_container_has_not_looked_at_its_cards() -> None:
    assert isinstance(header_of(Made(layout="v1.1-interim", uuids=()).data()), NotReady)


def test_a_header_that_was_cut_off_while_it_was_read_is_refused() -> None:
    for name in ("v1.2", "v1.1-interim"):
        data = Made(layout=name).data()
        found = shared_region.header(bytes(data[:100]), len(data))
        assert isinstance(found, UnreadableRegion)
        assert found.reason is UnreadableReason.SHRUNK


def test_a_tail_that_was_cut_off_while_it_was_read_is_refused() -> None:
    found = shared_region.tail(LAYOUTS["v1.2"], bytes(20))
    assert isinstance(found, UnreadableRegion)
    assert found.reason is UnreadableReason.SHRUNK


@pytest.mark.parametrize("count", [17, 70000, 2**64 - 1])
def test_more_devices_than_there_can_be_is_refused(count: int) -> None:
    assert refused(Made(counts={"device_num": count}).data()) is UnreadableReason.COUNTS


@pytest.mark.parametrize("count", [-5, 1025, 70000])
def test_more_or_less_processes_than_there_can_be_is_refused(count: int) -> None:
    found = tail_of(LAYOUTS["v1.2"], Made(counts={"proc_num": count}).data())
    assert isinstance(found, UnreadableRegion)
    assert found.reason is UnreadableReason.COUNTS


@pytest.mark.parametrize(
    "name",
    [b"G" * 96, b"\x80\xff\xfe", b"GPU-1", f"{uuid(1)}x".encode(), f"{uuid(1)}\n".encode(), uuid(1).encode().lower()],
)
def test_a_name_that_is_no_uuid_is_passed_over_and_its_neighbour_is_not(name: bytes) -> None:
    assert header(Made(uuids=(name, uuid(2))).data()).uuids == (None, uuid(2))


def test_an_instance_of_a_card_has_a_name_of_its_own() -> None:
    name = uuid(1).replace("GPU", "MIG")
    assert header(Made(uuids=(name,)).data()).uuids == (name,)


def test_sixteen_devices_and_1024_processes_are_read() -> None:
    made = Made(uuids=[uuid(at) for at in range(16)], slots=[Slot(booked=[Booked(data=1)] * 16)] * 1024)
    data = made.data()
    found = shared_region.processes(header(data), slots_of(data, 1024))
    assert len(found) == 1024
    assert {len(process.devices) for process in found} == {16}
    assert sum(device.total for process in found for device in process.devices) == 16 * 1024


@pytest.mark.parametrize(("pid", "status", "counts"), [(7, 1, True), (7, 2, True), (7, 0, False), (0, 1, False)])
def test_exited_processes_do_not_count_and_suspended_ones_do(pid: int, status: int, *, counts: bool) -> None:
    assert RegionProcess(pid, 0, status, None, ()).counts is counts


def test_a_counter_below_zero_is_handed_on_as_the_huge_number_that_it_has_become() -> None:
    data = Made(slots=[Slot(booked=[Booked(data=7, total=2**64 - 5)])]).data()
    (process,) = shared_region.processes(header(data), slots_of(data, 1))
    assert process.devices[0].booked == (0, 0, 7, 0, 2**64 - 5)


def twice(first: Sequence[Slot], second: Sequence[Slot], name: str = "v1.2") -> frozenset[int]:
    """What two reads of the slots show about concurrent writes."""
    before, after = Made(layout=name, slots=first).data(), Made(layout=name, slots=second).data()
    return shared_region.unsettled(LAYOUTS[name], slots_of(before, len(first)), slots_of(after, len(second)))


def test_what_is_the_same_twice_under_an_even_lock_is_settled() -> None:
    assert twice([Slot(seqlock=4)], [Slot(seqlock=4)]) == set()


def test_an_odd_lock_a_moved_lock_and_moved_numbers_are_not_settled() -> None:
    plain = Slot(seqlock=4, booked=[Booked(data=1)])
    odd, moved = Slot(seqlock=5, booked=[Booked(data=1)]), Slot(seqlock=6, booked=[Booked(data=1)])
    torn = Slot(seqlock=4, booked=[Booked(data=2)])
    for name in ("v1.2", "v1.1-interim"):
        assert twice([plain] * 4, [plain, odd, moved, torn], name) == {1, 2, 3}


def test_what_the_watcher_writes_needs_no_lock() -> None:
    idle = Slot(seqlock=4, booked=[Booked(utilization=1)])
    busy = Slot(seqlock=4, booked=[Booked(utilization=9, measured=8)])
    assert twice([idle], [busy]) == set()


def test_a_layout_without_lock_is_taken_as_it_is() -> None:
    assert twice([Slot(booked=[Booked(data=1)])], [Slot(booked=[Booked(data=2)])], "v0") == set()


def process(pid: int, *utilization: int | None) -> RegionProcess:
    return RegionProcess(pid, pid, 1, 0, tuple(DeviceUse(0, 0, 0, 0, 0, 0, each) for each in utilization))


def test_the_higher_of_two_reads_is_the_utilisation() -> None:
    found = shared_region.busiest(
        [process(1, 0, 50), process(2, 7), process(3, None), process(4, 1)],
        [process(1, 30, 20), process(3, None, 1), process(4, 1), process(9, 99)],
    )
    assert found == (process(1, 30, 50), process(2, 7), process(3, None), process(4, 1))


@given(st.sampled_from(sorted(OFFSETS)), st.binary(min_size=1, max_size=64), st.integers(0, 2000))
def test_whatever_a_workload_writes_it_is_read_or_refused(name: str, junk: bytes, at: int) -> None:
    data = Made(layout=name, slots=[Slot()] * 2).data()
    data[at : at + len(junk)] = junk
    found = header_of(data)
    if isinstance(found, Header):
        assert all(each is None or each.isascii() for each in found.uuids)
        assert len(shared_region.processes(found, slots_of(data, 2))) == 2


@given(st.binary(max_size=2048), st.sampled_from([0, *(layout.size + 1 for layout in shared_region.LAYOUTS)]))
def test_no_bytes_are_taken_for_a_region_by_chance(head: bytes, size: int) -> None:
    if head[:4] != struct.pack("<i", shared_region.MAGIC):
        assert isinstance(shared_region.header(head, size), NotReady | UnreadableRegion)


def test_memory_limits_are_bytes() -> None:
    assert header(Made().data()).memory_limits[0] == 3 * GIB
