"""Regions read from their directories, whatever a container has put there."""

from __future__ import annotations

import gzip
import mmap
import os
import socket
import struct
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from structlog.testing import capture_logs

from hami_plugins.wire.shared_region import NotReady, UnreadableReason, UnreadableRegion
from tests.integration.volcano_vgpu.monitor.trees import OTHER, UID, WHOSE, put
from tests.shared_regions import OFFSETS, Booked, Made, Slot, uuid
from volcano_vgpu.core.edits import cache_name
from volcano_vgpu.core.monitor.regions import Region
from volcano_vgpu.monitor import files
from volcano_vgpu.monitor.files import MOST_FILES, MOST_LOOKS, RegionFiles, read

SAMPLES = Path(__file__).parents[3] / "golden" / "shared_region"
EXPECTED = yaml.safe_load((SAMPLES / "expected.yaml").read_text(encoding="utf-8"))


def region(directory: Path) -> Region:
    found = read(directory)
    assert isinstance(found, Region), found
    return found


def reason(directory: Path) -> UnreadableReason:
    found = read(directory)
    assert isinstance(found, UnreadableRegion), found
    return found.reason


@pytest.mark.parametrize("name", OFFSETS)
def test_every_layout_is_read_from_a_sparse_file(tmp_path: Path, name: str) -> None:
    put(tmp_path, Made(layout=name, slots=[Slot(booked=[Booked(data=5)])] * 8))
    found = region(tmp_path / WHOSE)
    assert found.header.layout.name == name
    assert [process.devices[0].data for process in found.processes] == [5] * 8


@pytest.mark.parametrize("kind", ["valid", "malformed"])
def test_every_sample_is_read_or_refused_and_none_is_an_error(tmp_path: Path, kind: str) -> None:
    for at, (name, about) in enumerate(EXPECTED[kind].items()):
        whose = f"{UID}_c{at}"
        put(tmp_path, None, whose=whose).write_bytes(gzip.decompress((SAMPLES / about["file"]).read_bytes()))
        found = read(tmp_path / whose)
        good = kind == "valid" or name == "garbage-uuid"
        later = name in ("uninitialised", "zero-size")
        assert isinstance(found, Region if good else NotReady if later else UnreadableRegion), name


def test_only_slots_in_use_are_read(tmp_path: Path) -> None:
    slots = [Slot(pid=1), Slot(pid=2, booked=[Booked(data=9)])]
    put(tmp_path, Made(slots=slots, counts={"proc_num": 1}))
    assert [process.pid for process in region(tmp_path / WHOSE).processes] == [1]


def test_a_container_that_has_used_nothing_has_no_file(tmp_path: Path) -> None:
    put(tmp_path, None)
    assert read(tmp_path / WHOSE) is None


@pytest.mark.parametrize("name", ["f1e2d3c4-0000-4000-8000-000000000001.cache", "usage.cache"])
def test_the_file_of_another_plugin_is_found_by_its_kind(tmp_path: Path, name: str) -> None:
    put(tmp_path, Made(), name=name)
    (tmp_path / WHOSE / "libvgpu.so").touch()
    assert len(region(tmp_path / WHOSE).processes) == 1


def test_the_agents_own_name_comes_before_all_others_and_those_in_their_order(tmp_path: Path) -> None:
    put(tmp_path, Made(slots=[Slot(pid=2)]), name="b.cache")
    put(tmp_path, Made(slots=[Slot(pid=1)]), name="a.cache")
    assert region(tmp_path / WHOSE).processes[0].pid == 1
    put(tmp_path, Made(slots=[Slot(pid=3)]))
    assert region(tmp_path / WHOSE).processes[0].pid == 3


def test_a_directory_full_of_files_takes_no_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, None)
    for number in range(MOST_FILES * 3):
        (tmp_path / WHOSE / f"{number}.txt").touch()
    seen: list[int] = []

    def counted(_entries: object, most: int) -> tuple[()]:
        seen.append(most)
        return ()

    monkeypatch.setattr(files, "islice", counted)
    assert read(tmp_path / WHOSE) is None
    assert seen == [MOST_FILES]


def link(path: Path, elsewhere: Path) -> None:
    path.symlink_to(Made().write(elsewhere / "real.cache"))


def pipe(path: Path, _elsewhere: Path) -> None:
    os.mkfifo(path)


def folder(path: Path, _elsewhere: Path) -> None:
    path.mkdir()


def listener(path: Path, elsewhere: Path) -> None:
    with socket.socket(socket.AF_UNIX) as found:
        found.bind(str(elsewhere / "s"))
    (elsewhere / "s").rename(path)


def device(path: Path, _elsewhere: Path) -> None:
    os.mknod(path, 0o20666, os.makedev(1, 3))


@pytest.mark.parametrize("make", [link, pipe, folder, listener, device])
def test_whatever_is_no_plain_file_is_not_even_opened(tmp_path: Path, make: Callable[[Path, Path], None]) -> None:
    path = put(tmp_path, None)
    try:
        make(path, tmp_path)
    except PermissionError:
        pytest.skip("only root can make a device")
    assert reason(path.parent) is UnreadableReason.NO_FILE


def test_a_directory_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    put(tmp_path / "elsewhere", Made())
    (tmp_path / WHOSE).symlink_to(tmp_path / "elsewhere" / WHOSE)
    assert RegionFiles([tmp_path]).read_all() == {}
    assert reason(tmp_path / WHOSE) is UnreadableReason.NO_ACCESS


@pytest.mark.parametrize("left", [0, 3, 100, 2000, 3000, 100_000, 2_008_900])
def test_a_file_that_is_cut_while_it_is_read_is_refused_or_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: int
) -> None:
    path = put(tmp_path, Made(slots=[Slot()] * 4))
    really, calls = os.pread, 0

    def pread(file: int, length: int, at: int) -> bytes:
        nonlocal calls
        calls += 1
        if calls == 2:
            os.truncate(path, left)
        return really(file, length, at)

    monkeypatch.setattr(os, "pread", pread)
    assert reason(path.parent) is UnreadableReason.SHRUNK


def test_a_file_that_is_cut_between_its_end_and_its_slots_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = put(tmp_path, Made(slots=[Slot()] * 4))
    really, calls = os.pread, 0

    def pread(file: int, length: int, at: int) -> bytes:
        nonlocal calls
        calls += 1
        if calls == 3:
            os.truncate(path, 5000)
        return really(file, length, at)

    monkeypatch.setattr(os, "pread", pread)
    assert reason(path.parent) is UnreadableReason.SHRUNK


def test_slots_that_are_being_written_are_read_again_and_at_last_taken_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = put(tmp_path, Made(slots=[Slot(seqlock=2), Slot(seqlock=7, booked=[Booked(data=9)])]))
    really, calls = os.pread, 0

    def pread(file: int, length: int, at: int) -> bytes:
        nonlocal calls
        calls += 1
        return really(file, length, at)

    monkeypatch.setattr(os, "pread", pread)
    found = region(path.parent)
    assert calls == 3 + MOST_LOOKS
    assert found.unsettled == {1}
    assert found.processes[1].devices[0].data == 9


def test_a_writer_that_finishes_between_two_looks_leaves_no_doubt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = put(tmp_path, Made(slots=[Slot(seqlock=7, booked=[Booked(data=1)])]))
    really, calls = os.pread, 0

    def pread(file: int, length: int, at: int) -> bytes:
        nonlocal calls
        calls += 1
        if calls == 4:
            put(tmp_path, Made(slots=[Slot(seqlock=8, booked=[Booked(data=2)])]))
        return really(file, length, at)

    monkeypatch.setattr(os, "pread", pread)
    found = region(path.parent)
    assert found.unsettled == frozenset()
    assert found.processes[0].devices[0].data == 2


def test_beside_a_busy_writer_settled_numbers_belong_together(tmp_path: Path) -> None:
    """A process books under its lock without a pause: the parts of what is read always make up the whole."""
    path = put(tmp_path, Made(slots=[Slot(booked=[Booked(data=1)])]))
    at, stop = OFFSETS["v1.2"], threading.Event()
    slot = at["procs"]

    def book() -> None:
        with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as region:
            amount = lock = 0
            while not stop.is_set():
                amount = (amount + 1) % 1000
                for place, words in (
                    (0, (lock + 1,)),
                    (1, (amount, 0, amount, 0)),
                    (2, (2 * amount,)),
                    (0, (lock + 2,)),
                ):
                    start = slot + (at["seqlock"], at["used"], at["used"] + 32)[place]
                    struct.pack_into(f"<{len(words)}Q", region, start, *words)
                lock += 2

    writer = threading.Thread(target=book, daemon=True)
    writer.start()
    settled = []
    try:
        for _ in range(20_000):
            if not (found := region(path.parent)).unsettled:
                settled.append(found.processes[0].devices[0])
            if len(settled) == 100:
                break
    finally:
        stop.set()
        writer.join()
    assert settled
    assert [use for use in settled if use.context + use.data != use.total] == []


def test_a_file_that_is_made_anew_is_read_the_next_time(tmp_path: Path) -> None:
    path = put(tmp_path, Made(slots=[Slot(pid=1)]))
    looking = RegionFiles([tmp_path])
    looking.read_all()
    path.unlink()
    put(tmp_path, Made(slots=[Slot(pid=2)]))
    (found,) = looking.read_all().values()
    assert isinstance(found, Region)
    assert found.processes[0].pid == 2


def test_what_cannot_be_read_is_logged_once_for_each_file_and_reason(tmp_path: Path) -> None:
    path = put(tmp_path, Made(layout="v1.2"))
    data = bytearray(path.read_bytes())
    data[4] = 9
    path.write_bytes(data)
    put(tmp_path, Made(), whose=f"{OTHER}_main")
    looking = RegionFiles([tmp_path])
    with capture_logs() as logs:
        looking.read_all()
        looking.read_all()
    assert [(each["event"], each["path"], each["reason"]) for each in logs] == [
        ("region_unreadable", str(path.parent), "version")
    ]
    assert "magic 19920718, 2008953 bytes, version words 9.2" in logs[0]["error"]
    with capture_logs() as logs:
        path.write_bytes(b"\x01" * 100)
        looking.read_all()
        path.unlink()
        path.parent.rmdir()
        looking.read_all()
        put(tmp_path, None).write_bytes(b"\x01" * 100)
        looking.read_all()
    assert [each["reason"] for each in logs] == ["magic", "magic"]


def test_one_broken_file_hides_no_other(tmp_path: Path) -> None:
    put(tmp_path, None).write_bytes(b"\x01" * 4096)
    put(tmp_path, Made(), whose=f"{OTHER}_main")
    found = {path.name: content for path, content in RegionFiles([tmp_path]).read_all().items()}
    assert isinstance(found[WHOSE], UnreadableRegion)
    assert isinstance(found[f"{OTHER}_main"], Region)


def test_directories_are_looked_for_below_every_root_and_the_first_counts(tmp_path: Path) -> None:
    put(tmp_path / "ours", Made(uuids=(uuid(1),)))
    put(tmp_path / "theirs", Made(uuids=(uuid(2),)))
    put(tmp_path / "theirs", Made(uuids=(uuid(3),)), whose=f"{OTHER}_main", name="x.cache")
    for odd in ("no-underscore", "_main", f"{UID}_", f"{UID}_Main", "containers.d"):
        (tmp_path / "ours" / odd).mkdir()
    (tmp_path / "ours" / f"{UID}_file").touch()
    looking = RegionFiles([tmp_path / "ours", tmp_path / "none", tmp_path / "theirs", tmp_path / "ours"])
    assert looking.directories() == {
        WHOSE: tmp_path / "ours" / WHOSE,
        f"{OTHER}_main": tmp_path / "theirs" / f"{OTHER}_main",
    }


def test_a_file_that_goes_between_being_found_and_being_opened_is_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = put(tmp_path, Made(), name="x.cache")
    really = os.open

    def opening(name: object, *arguments: int, **named: int) -> int:
        if name == "x.cache":
            path.unlink()
        return really(name, *arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", opening)
    assert read(path.parent) is None


def test_the_name_is_the_one_that_containers_are_told() -> None:
    assert cache_name(WHOSE).endswith(".cache")
    assert cache_name(WHOSE) != cache_name(f"{OTHER}_main")
