"""Samples of HAMi-core's shared region: all that was ever released, and what is wrong with files of that name."""

import gzip
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from hami_plugins.wire import shared_region
from hami_plugins.wire.shared_region import Header, NotReady, RegionProcess, Tail, UnreadableReason, UnreadableRegion

FOLDER = Path(__file__).parent / "shared_region"
EXPECTED = yaml.safe_load((FOLDER / "expected.yaml").read_text(encoding="utf-8"))

UUIDS = [f"GPU-{'1' * 8}-{'2' * 4}-{'3' * 4}-{'4' * 4}-{'5' * 12}", "GPU-aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"]

REFUSED = {
    "truncated-mid": UnreadableReason.SIZE,
    "truncated-tiny": UnreadableReason.SIZE,
    "wrong-magic": UnreadableReason.MAGIC,
    "future-major": UnreadableReason.VERSION,
    "future-minor": UnreadableReason.VERSION,
    "oversize-counts": UnreadableReason.COUNTS,
    "negative-counts": UnreadableReason.COUNTS,
    "v0-grown": UnreadableReason.MIXED,
}
"""What the column ``good_reader`` says of these: reject."""

LATER = ("uninitialised", "zero-size")
"""What it calls not ready."""


def sample(about: Mapping[str, Any]) -> bytes:
    data = gzip.decompress((FOLDER / about["file"]).read_bytes())
    assert hashlib.sha256(data).hexdigest() == about["sha256_uncompressed"]
    return data


def read(data: bytes) -> tuple[Header, Tail, tuple[RegionProcess, ...]]:
    """As a reader does: header, tail, the slots in use."""
    header = shared_region.header(data[: shared_region.HEADER_BYTES], len(data))
    assert isinstance(header, Header)
    layout = header.layout
    tail = shared_region.tail(layout, data[layout.tail : layout.tail + layout.tail_bytes])
    assert isinstance(tail, Tail)
    slots = data[layout.slots : layout.slots + tail.proc_num * layout.slot_size]
    return header, tail, shared_region.processes(header, slots)


valid = pytest.mark.parametrize("name", EXPECTED["valid"])


@valid
def test_a_sample_is_known_by_magic_size_and_version(name: str) -> None:
    about = EXPECTED["valid"][name]
    data = sample(about)
    layout = shared_region.layout_of(data[:2048], len(data))
    assert isinstance(layout, shared_region.RegionLayout)
    assert (layout.name, layout.size, len(data)) == (name, about["struct_size"], about["file_size"])
    assert layout.version == (None if about["version"] is None else tuple(about["version"]))
    assert shared_region.layout_of(data[:2048], about["struct_size"]) == layout


@valid
def test_header_and_tail_are_read_field_by_field(name: str) -> None:
    about = EXPECTED["valid"][name]
    header, tail, _ = read(sample(about))
    assert about["uuids"] == UUIDS
    found = {
        "magic": shared_region.MAGIC,
        "sm_init_flag": header.sm_init_flag,
        "owner_pid": header.owner_pid,
        "device_num": len(header.uuids),
        "proc_num": tail.proc_num,
        "utilization_switch": tail.utilization_switch,
        "recent_kernel": tail.recent_kernel,
        "priority": tail.priority,
    }
    if tail.last_kernel_time is not None:
        found["last_kernel_time"] = tail.last_kernel_time
    assert found == about["header"]
    assert list(header.uuids) == about["uuids"]
    assert list(header.memory_limits[:2]) == about["memory_limit_bytes"]
    assert list(header.core_limits[:2]) == about["sm_limit_percent"]
    assert header.core_limits[15] == about["sm_limit_entry_15"]


@valid
def test_every_slot_in_use_is_read_field_by_field(name: str) -> None:
    about = EXPECTED["valid"][name]
    _, _, processes = read(sample(about))
    # An unused word of 1.1 is read as the lock of 1.2, and is 0.
    extra = {"seqlock": 0} if name == "v1.1" else {}
    assert [as_expected(process) for process in processes] == [slot | extra for slot in about["slots"]]


@valid
def test_what_has_not_exited_adds_up(name: str) -> None:
    about = EXPECTED["valid"][name]
    _, _, processes = read(sample(about))
    live = [process for process in processes if process.counts]
    for at, wanted in enumerate(about["sum_of_live_slots"]):
        devices = [process.devices[at] for process in live]
        found = {key: sum(getattr(each, key) for each in devices) for key in wanted if key != "sm_util"}
        if "sm_util" in wanted:
            found["sm_util"] = sum(each.utilization or 0 for each in devices)
        assert found == wanted


@valid
def test_the_slot_that_is_being_written_is_known_where_there_is_a_lock(name: str) -> None:
    data = sample(EXPECTED["valid"][name])
    header, tail, _ = read(data)
    layout = header.layout
    slots = data[layout.slots : layout.slots + tail.proc_num * layout.slot_size]
    locked = {2} if name in ("v1.1-interim", "v1.2") else set()
    assert shared_region.unsettled(layout, slots, slots) == locked


def as_expected(process: RegionProcess) -> Mapping[str, Any]:
    """A process in the words of the samples' description."""
    names = ("context_size", "module_size", "data_size", "offset", "total", "monitorused")
    found: dict[str, Any] = {"pid": process.pid, "hostpid": process.hostpid, "status": process.status, "devices": []}
    for device in process.devices:
        entry = dict(zip(names, device, strict=False))
        if device.utilization is not None:
            entry["sm_util"] = device.utilization
        found["devices"].append(entry)
    if process.seqlock is not None:
        found["seqlock"] = process.seqlock
    return found


def outcome(data: bytes) -> object:
    """What comes of a file: why it is refused, or what was read."""
    header = shared_region.header(data[: shared_region.HEADER_BYTES], len(data))
    return read(data) if isinstance(header, Header) else header


def test_every_malformed_sample_is_judged_here() -> None:
    assert set(EXPECTED["malformed"]) == {*REFUSED, *LATER, "garbage-uuid"}
    wanted = {name: about["good_reader"].split()[0].rstrip(":") for name, about in EXPECTED["malformed"].items()}
    assert {name for name, verb in wanted.items() if verb == "reject"} == set(REFUSED)
    assert {name for name, verb in wanted.items() if verb == "not"} == set(LATER)


@pytest.mark.parametrize(("name", "reason"), REFUSED.items())
def test_a_malformed_sample_is_refused_with_what_it_is(name: str, reason: UnreadableReason) -> None:
    data = sample(EXPECTED["malformed"][name])
    found = outcome(data)
    assert isinstance(found, UnreadableRegion)
    assert found.reason is reason
    assert str(len(data)) in found.text


@pytest.mark.parametrize("name", LATER)
def test_a_file_that_is_being_made_is_waited_for(name: str) -> None:
    assert isinstance(outcome(sample(EXPECTED["malformed"][name])), NotReady)


def test_a_device_whose_name_is_none_is_passed_over_and_the_other_counters_stay() -> None:
    header, tail, processes = read(sample(EXPECTED["malformed"]["garbage-uuid"]))
    assert header.uuids == (None, None)
    assert (tail.proc_num, tail.utilization_switch) == (3, 1)
    assert processes[0].devices[0].data == 1073741824
