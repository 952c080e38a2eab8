"""Feedback: which bytes it writes, and when it writes none."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.integration.volcano_vgpu.monitor.trees import OTHER, UID, put
from tests.shared_regions import OFFSETS, Made, uuid
from tests.waiting import wait_for
from volcano_vgpu.core.monitor import feedback
from volcano_vgpu.monitor.files import RegionFiles
from volcano_vgpu.monitor.writer import FeedbackLoop, FeedbackWriter, WriterLock

HIGH, LOW = f"{UID}_high", f"{OTHER}_low"


class Node:
    """Containers on one card, and who writes feedback to them."""

    def __init__(self, root: Path) -> None:
        self.root = root / "containers"
        self.lock = root / "hook" / "feedback.lock"
        self.pods: tuple[Mapping[str, Any], ...] = ()
        self.wrote = 0
        self.writer = self.another()

    def another(self) -> FeedbackWriter:
        return FeedbackWriter(RegionFiles([self.root]), WriterLock(self.lock), lambda: self.pods, wrote=self._count)

    def _count(self) -> None:
        self.wrote += 1

    def tick(self) -> tuple[str, ...]:
        self.writer.step()
        return self.fields()

    def fields(self) -> tuple[str, ...]:
        """``recent_kernel/utilization_switch`` of every container, in the order of their names."""
        return tuple(self._fields(path) for path in sorted(self.root.glob("*/*.cache"), key=lambda path: path.parent))

    @staticmethod
    def _fields(path: Path) -> str:
        data = path.read_bytes()
        at = next(at for at in OFFSETS.values() if at["size"] + 1 == len(data))["proc_num"]
        switch, recent = (int.from_bytes(data[at + off : at + off + 4], "little", signed=True) for off in (4, 8))
        return f"{recent}/{switch}"


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    found = Node(tmp_path)
    yield found
    found.writer.let_go()


@pytest.mark.parametrize("name", OFFSETS)
def test_the_course_of_two_priorities_is_that_of_the_real_monitor_in_every_layout(node: Node, name: str) -> None:
    put(node.root, Made(layout=name, priority=0, recent=3), whose=HIGH)
    put(node.root, Made(layout=name, priority=5, recent=3), whose=LOW)
    assert [node.tick() for _ in range(3)] == [("2/0", "-1/1"), ("1/0", "-1/1"), ("0/0", "0/0")]


def test_the_course_of_equals_is_that_of_the_real_monitor(node: Node) -> None:
    for whose in (HIGH, LOW):
        put(node.root, Made(priority=1, recent=3), whose=whose)
    assert [node.tick() for _ in range(3)] == [("2/1", "2/1"), ("1/1", "1/1"), ("0/0", "0/0")]


@pytest.mark.parametrize("name", OFFSETS)
def test_no_other_byte_changes_and_no_file_grows(node: Node, name: str) -> None:
    made = {HIGH: Made(layout=name, priority=0, recent=3), LOW: Made(layout=name, priority=2, recent=3)}
    for whose, each in made.items():
        put(node.root, each, whose=whose)
    node.tick()
    at = OFFSETS[name]["proc_num"]
    for whose, each in made.items():
        before, after = bytes(each.data()), next((node.root / whose).iterdir()).read_bytes()
        assert len(before) == len(after)
        changed = {place for place, (one, two) in enumerate(zip(before, after, strict=True)) if one != two}
        assert changed
        assert changed <= set(range(at + 4, at + 12))


def test_what_stays_as_it_is_is_not_written(node: Node) -> None:
    put(node.root, Made(priority=0, recent=3), whose=HIGH)
    node.tick()
    assert node.wrote == 2
    node.tick()
    assert node.wrote == 3
    node.tick()
    node.tick()
    assert node.wrote == 4


@pytest.mark.parametrize(("offset", "value"), [(0, 1), (4, 2), (8, 9)], ids=["magic", "major", "minor"])
def test_a_file_that_is_not_known_for_certain_is_never_written(node: Node, offset: int, value: int) -> None:
    path = put(node.root, Made(recent=3), whose=HIGH)
    data = bytearray(path.read_bytes())
    data[offset] = value
    path.write_bytes(data)
    for whose, recent in ((LOW, 3), (f"{UID}_empty", 0)):
        put(node.root, Made(recent=recent, uuids=() if recent == 0 else (uuid(1),)), whose=whose)
    node.writer.step()
    assert path.read_bytes() == data
    assert node.fields()[-1] == "2/0"


def before_writing(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], object]) -> None:
    """Lets something happen after everything was read and before anything is written."""
    really = feedback.tick

    def tick(standings: Any) -> Any:
        happens()
        return really(standings)

    monkeypatch.setattr(feedback, "tick", tick)


def test_a_launch_between_reading_and_writing_is_not_lost(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    put(node.root, Made(recent=1), whose=HIGH)
    before_writing(monkeypatch, lambda: put(node.root, Made(recent=2), whose=HIGH))
    assert node.tick() == ("2/1",)


@pytest.mark.parametrize("change", ["anew", "cut", "link", "gone"])
def test_a_file_that_is_another_one_by_now_is_not_written(
    node: Node, monkeypatch: pytest.MonkeyPatch, change: str, tmp_path: Path
) -> None:
    path = put(node.root, Made(recent=3), whose=HIGH)
    other = Made(recent=3).write(tmp_path / "other.cache")

    def happens() -> None:
        if change == "cut":
            os.truncate(path, 100)
            return
        path.unlink()
        if change == "anew":
            other.rename(path)
        if change == "link":
            path.symlink_to(other)

    before_writing(monkeypatch, happens)
    with capture_logs() as logs:
        node.writer.step()
    if change == "cut":
        assert path.stat().st_size == 100
    elif change != "gone":
        assert path.read_bytes() == bytes(Made(recent=3).data())
    assert [each["event"] for each in logs] == (["feedback_not_written"] if change == "link" else [])


def test_two_writers_of_one_node_are_one_writer(node: Node) -> None:
    put(node.root, Made(recent=3), whose=HIGH)
    node.writer.step()
    second = node.another()
    with capture_logs() as logs:
        second.step()
        second.step()
    assert second.blocking_reason == "another process of this node writes feedback"
    assert [each["event"] for each in logs] == ["feedback_paused"]
    assert node.fields() == ("2/0",)
    second.let_go()
    assert node.fields() == ("2/0",)
    node.writer.let_go()
    second.step()
    assert second.blocking_reason == ""
    second.let_go()


def test_nothing_is_written_beside_the_monitor_of_hami(node: Node) -> None:
    put(node.root, Made(recent=3), whose=HIGH)
    container = {"name": "vgpu-monitor", "command": ["vGPUmonitor"]}
    metadata = {"namespace": "kube-system", "name": "hami-device-plugin-x"}
    node.pods = ({"metadata": metadata, "spec": {"containers": [container]}},)
    assert node.tick() == ("3/1",)
    assert "kube-system/hami-device-plugin-x container vgpu-monitor" in node.writer.blocking_reason
    node.pods = ()
    assert node.tick() == ("2/0",)


def test_without_a_lock_nothing_is_written(node: Node) -> None:
    put(node.root, Made(recent=3), whose=HIGH)
    node.lock.parent.touch()
    assert node.tick() == ("3/1",)
    assert "no lock" in node.writer.blocking_reason


def test_who_ends_lets_everybody_compute_and_leaves_no_lock(node: Node) -> None:
    put(node.root, Made(priority=0, recent=3), whose=HIGH)
    put(node.root, Made(priority=1, recent=3), whose=LOW)
    assert node.tick() == ("2/0", "-1/1")
    node.writer.let_go()
    assert node.fields() == ("2/1", "0/1")
    assert not node.lock.exists()


def test_containers_that_a_killed_writer_left_blocked_are_let_go_by_the_next_process(node: Node) -> None:
    put(node.root, Made(recent=-1, switch=1), whose=LOW)
    node.lock.parent.mkdir()
    node.lock.touch()
    node.another().let_go()
    assert node.fields() == ("0/1",)
    assert not node.lock.exists()


def test_without_a_lock_left_nobody_is_let_go_for_nobody_was_blocked_by_us(node: Node) -> None:
    put(node.root, Made(recent=-1, switch=0), whose=LOW)
    node.another().let_go()
    assert node.fields() == ("-1/0",)


@pytest.mark.parametrize("made_anew", [True, False])
def test_a_lock_that_its_holder_removed_locks_nobody_out(
    node: Node, monkeypatch: pytest.MonkeyPatch, *, made_anew: bool
) -> None:
    """Another process opens the file just before its holder removes and releases it: that lock has no file left."""
    lock = WriterLock(node.lock)
    really = fcntl.flock

    def flock(file: int, how: int) -> None:
        node.lock.unlink(missing_ok=True)
        if made_anew:
            node.lock.touch()
        really(file, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    assert not lock.acquire()
    node.lock.touch()
    monkeypatch.setattr(fcntl, "flock", really)
    assert lock.acquire()
    assert lock.acquire()
    lock.release()
    lock.release()


def test_the_loop_steps_goes_on_after_an_error_and_lets_go_at_the_end(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(node.root, Made(priority=0, recent=3), whose=HIGH)
    put(node.root, Made(priority=1, recent=3), whose=LOW)
    stepped = threading.Event()
    really, calls = node.writer.step, 0

    def step() -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise RuntimeError("broken")
        if calls == 2:
            really()
            stepped.set()

    monkeypatch.setattr(node.writer, "step", step)
    loop = FeedbackLoop(node.writer, seconds=0.01)
    with capture_logs() as logs:
        loop.start()
        wait_for(stepped.is_set, "a step after the failed one")
        loop.stop()
    assert [each["event"] for each in logs] == ["feedback_failed"]
    assert node.fields() == ("2/1", "0/1")
