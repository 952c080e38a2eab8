"""Allocator, agent and a region together: killed at each write, looking at old versions, with asks that change.

After every step the container can book no more than what the allocator counts, also if it began anew at that moment.
"""

from __future__ import annotations

import copy
import os
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hami_plugins.allocator.resizer import Resizer
from hami_plugins.errors import ContentionError
from hami_plugins.model.units import CoreShare, DeviceId, MiB, PodUid
from hami_plugins.wire.pod_devices import AssignedDevice
from tests.shared_regions import OFFSETS, Booked, Made, Slot, uuid
from tests.unit.volcano_vgpu.allocation.cluster import Cluster, a_pod
from volcano_vgpu.core.monitor.join import Allocations
from volcano_vgpu.core.resizes import AgentStep, LimitInForce
from volcano_vgpu.monitor.files import RegionFiles
from volcano_vgpu.monitor.resizer import SliceResizer

ASK, BOOKED = "hami-plugins.io/resize-memory", "hami-plugins.io/booked-memory"
IN_FORCE, REFUSED = "hami-plugins.io/memory-in-force", "hami-plugins.io/resize-refused"
MIB, GIVEN, CARD = 1 << 20, 10_000, 40_960
LIMIT_AT = OFFSETS["v1.2"]["limit"]


class KilledError(Exception):
    """The process ends here."""


def a_node() -> dict[str, Any]:
    register = f"{uuid(1)},10,{CARD},NVIDIA-A100,true,hami-core:"
    return {"metadata": {"name": "n1", "uid": "uid-n1", "annotations": {"volcano.sh/node-vgpu-register": register}}}


class World:
    """The API server's pod in all its versions, a region, an allocator, an agent, and what kills them."""

    def __init__(self, folder: Path, used: int = 0) -> None:
        pod = a_pod(memory=GIVEN, node="n1", ids=f"{uuid(1)},NVIDIA,{GIVEN},0:;")
        pod["status"] = {"phase": "Running"}
        pod["metadata"]["resourceVersion"] = "0"
        self.versions = [pod]
        self.kill: Callable[[str], None] = lambda _when: None
        directory = folder / "uid-p_main"
        directory.mkdir(parents=True)
        self.file = directory / "any.cache"
        slot = Slot(booked=[Booked(data=used * MIB)])
        self.file.write_bytes(Made(uuids=(uuid(1),), limits=(GIVEN * MIB,), slots=(slot,)).data())
        self.folder = folder
        self.new_allocator()
        self.new_agent()

    def new_allocator(self) -> None:
        """A process without memory, which lists what is there."""
        self.cluster = Cluster(a_node())
        self.resizer = Resizer(self, self.cluster.cache)  # type: ignore[arg-type]
        self.allocator_sees = len(self.versions) - 1
        self.cluster.shows(self.versions[-1])

    def new_agent(self) -> None:
        """A process without memory."""
        self.agent_sees = len(self.versions) - 1
        device = AssignedDevice(DeviceId(uuid(1)), "NVIDIA", MiB(GIVEN), CoreShare(0))
        handed: Allocations = {(PodUid("uid-p"), "main"): (device,)}
        self.agent = SliceResizer(
            self,
            RegionFiles([self.folder]),
            pods=lambda: [self.versions[self.agent_sees]],
            allocations=lambda: handed,
            factor=1,
        )

    def merge_patch(self, _path: str, body: Any) -> Any:
        """The API server: refuses a write that was decided on another version."""
        metadata = body["metadata"]
        self.kill("before")
        if metadata["resourceVersion"] != self.now["resourceVersion"]:
            raise ContentionError("conflict")
        self.write(metadata["annotations"])
        self.kill("after")
        return self.versions[-1]

    def write(self, annotations: dict[str, str]) -> None:
        """The next version of the pod."""
        pod = copy.deepcopy(self.versions[-1])
        pod["metadata"]["annotations"].update(annotations)
        pod["metadata"]["resourceVersion"] = str(len(self.versions))
        self.versions.append(pod)

    @property
    def now(self) -> Any:
        """The metadata of the newest version."""
        return self.versions[-1]["metadata"]

    @property
    def limit(self) -> int:
        """MiB that the container can book."""
        return int(struct.unpack_from("<Q", self.file.read_bytes(), LIMIT_AT)[0]) // MIB

    def amount(self, key: str) -> int:
        """What an annotation says."""
        text = self.now["annotations"].get(key, f"main={GIVEN}")
        return int(text.split(" ")[0].removeprefix("main="))

    @property
    def counted(self) -> int:
        """What the allocator counts now."""
        entry = self.cluster.cache._cache.entry("n1")  # type: ignore[arg-type]  # noqa: SLF001 - what others get
        assert entry is not None
        return entry.state.usage[0].memory

    def allocate(self, see: int = -1) -> None:
        """The allocator's watch shows a version, and it answers."""
        self.allocator_sees = max(self.allocator_sees, see % len(self.versions))
        raw = self.versions[self.allocator_sees]
        self.cluster.shows(raw)
        written = self.resizer.missing(raw)
        if written is not None:
            try:
                self.merge_patch("", {"metadata": written})
            except ContentionError:
                return

    def serve(self, see: int = -1) -> None:
        """The agent's watch shows a version, and it looks."""
        self.agent_sees = max(self.agent_sees, see % len(self.versions))
        self.agent.look()

    def check(self) -> None:
        """No more can be booked than is counted: by this allocator, and by the next one."""
        assert self.limit <= self.counted
        assert self.limit <= self.amount(BOOKED)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(tmp_path / "containers", used=3_000)
    plain = os.pwrite

    def pwrite(*given: Any) -> int:
        made.kill("before")
        written = plain(*given)
        made.kill("after")
        return written

    monkeypatch.setattr(os, "pwrite", pwrite)
    return made


def settle(world: World, rounds: int = 8) -> None:
    for _ in range(rounds):
        for act, again in ((world.allocate, world.new_allocator), (world.serve, world.new_agent)):
            try:
                act()
            except KilledError:
                again()
            world.check()


@pytest.mark.parametrize("asked", [20_000, 4_000, 40_960])
def test_a_slice_is_booked_and_in_force_after_a_few_looks(world: World, asked: int) -> None:
    world.write({ASK: f"main={asked}"})
    settle(world)
    assert (world.limit, world.counted, world.amount(BOOKED), world.amount(IN_FORCE)) == (asked,) * 4
    versions = len(world.versions)
    settle(world)
    assert len(world.versions) == versions


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("write", range(4))
@pytest.mark.parametrize("asked", [20_000, 4_000])
def test_whoever_is_killed_at_a_write_the_slice_ends_as_it_was_asked_for(
    world: World, asked: int, write: int, when: str
) -> None:
    left = [write]

    def kill(moment: str) -> None:
        if moment == when:
            left[0] -= 1
            if left[0] == -1:
                raise KilledError

    world.kill = kill
    world.write({ASK: f"main={asked}"})
    settle(world)
    assert (world.limit, world.counted, world.amount(BOOKED), world.amount(IN_FORCE)) == (asked,) * 4


def test_growth_and_then_the_first_size_again(world: World) -> None:
    for asked in (20_000, GIVEN, 4_000, GIVEN):
        world.write({ASK: f"main={asked}"})
        settle(world)
        assert (world.limit, world.counted) == (asked, asked)


def test_growth_that_does_not_fit_is_refused_with_numbers_and_changes_nothing(world: World) -> None:
    world.write({ASK: f"main={CARD + 1}"})
    settle(world)
    assert (world.limit, world.counted) == (GIVEN, GIVEN)
    assert f"card {uuid(1)} has {CARD} of {CARD} MiB for this pod" in world.now["annotations"][REFUSED]


def test_a_slice_does_not_shrink_below_what_is_used(world: World) -> None:
    world.write({ASK: "main=2999"})
    settle(world)
    assert (world.limit, world.counted) == (GIVEN, GIVEN)
    assert "3000 MiB are in use now" in world.now["annotations"][REFUSED]
    world.write({ASK: "main=3000"})
    settle(world)
    assert (world.limit, world.counted) == (3_000, 3_000)


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        ("8192", "expected CONTAINER=MIB with MIB above 0, such as main=8192"),
        ("other=8192", "the pod has no container other; it has main"),
    ],
)
def test_an_ask_that_means_nothing_is_refused_with_what_to_write(world: World, ask: str, words: str) -> None:
    world.write({ASK: ask})
    settle(world)
    assert words in world.now["annotations"][REFUSED]
    assert world.limit == GIVEN


@pytest.mark.parametrize("asked", [20_000, 4_000])
def test_growth_is_taken_back_where_the_region_cannot_be_changed(world: World, asked: int) -> None:
    with world.file.open("r+b") as file:
        file.seek(8)
        file.write(struct.pack("<I", 9))
    world.write({ASK: f"main={asked}"})
    settle(world)
    assert (world.limit, world.counted, world.amount(BOOKED)) == (GIVEN, GIVEN, GIVEN)
    assert "no known layout has that version" in world.now["annotations"][REFUSED]


def test_a_slice_of_a_container_that_has_not_started_is_refused(world: World) -> None:
    content = world.file.read_bytes()
    world.file.unlink()
    world.write({ASK: "main=20000"})
    for _ in range(4):
        world.allocate()
        world.serve()
    assert "it has not used its card yet" in world.now["annotations"][REFUSED]
    assert world.counted == GIVEN
    world.file.write_bytes(content)


@pytest.mark.parametrize("seed", range(60))
def test_old_views_deaths_and_changing_asks_never_let_a_container_book_more_than_is_counted(
    world: World, seed: int
) -> None:
    draw = random.Random(seed)

    def kill(_moment: str) -> None:
        if draw.random() < 0.08:
            raise KilledError

    world.kill = kill
    for turn in range(80):
        match draw.randrange(6):
            case 0 if draw.random() < 0.5:
                world.write({ASK: f"main={draw.choice((4_000, GIVEN, 20_000, 50_000, 2_000))} {turn}"})
            case 1 | 2:
                act(world.allocate, draw.randrange(len(world.versions)), world.new_allocator)
            case 3 | 4:
                act(world.serve, draw.randrange(len(world.versions)), world.new_agent)
            case 5 if draw.random() < 0.2:
                world.new_allocator()
        world.check()
    world.kill = lambda _when: None
    world.write({ASK: "main=7000 last"})
    settle(world, 12)
    assert (world.limit, world.counted, world.amount(BOOKED), world.amount(IN_FORCE)) == (7_000,) * 4


def test_a_limit_that_another_process_has_changed_meanwhile_is_left_alone(world: World) -> None:
    decided = LimitInForce(index=0, limit=(GIVEN - 1) * MIB, used=0)
    SliceResizer._put(world.file.parent, decided, AgentStep(limit=5 * MIB))  # noqa: SLF001 - what a race leads to
    assert world.limit == GIVEN


def test_a_pod_that_was_never_to_be_resized_costs_no_look_at_its_files(world: World) -> None:
    world.file.unlink()
    world.file.parent.rmdir()
    world.serve()
    assert len(world.versions) == 1


def act(step: Callable[[int], None], see: int, again: Callable[[], None]) -> None:
    try:
        step(see)
    except KilledError:
        again()
