"""The agent's next step for a slice that is to be resized, by the limits in force and the usage."""

from __future__ import annotations

from typing import Any

import pytest

from hami_plugins.model.units import MiB
from hami_plugins.wire import resizes, shared_region
from hami_plugins.wire.resizes import PodResize
from hami_plugins.wire.shared_region import Header, NotReady, Tail, UnreadableReason, UnreadableRegion
from tests.shared_regions import GIB, OFFSETS, Booked, Made, Slot, uuid
from volcano_vgpu.core.monitor.regions import Content, Region
from volcano_vgpu.core.resizes import AgentStep, LimitInForce, in_force, next_step

ASK, BOOKED = "hami-plugins.io/resize-memory", "hami-plugins.io/booked-memory"
IN_FORCE, REFUSED = "hami-plugins.io/memory-in-force", "hami-plugins.io/resize-refused"
MIB = 1 << 20


def a_resize(**annotations: str) -> PodResize:
    keys = {"ask": ASK, "booked": BOOKED, "in_force": IN_FORCE, "refused": REFUSED}
    found = resizes.decode({keys[name]: text for name, text in annotations.items()})
    assert found is not None
    return found


def step(limit: int, used: int = 0, *, plain: int = 10, factor: int = 1, **annotations: str) -> AgentStep:
    """The next step for a container with 10 MiB, of which its region says this (MiB)."""
    region = LimitInForce(index=0, limit=limit * MIB, used=used * MIB)
    return next_step(a_resize(**annotations), "main", MiB(plain), region, factor=factor)


def test_growth_waits_for_the_allocator() -> None:
    assert step(10, ask="main=20") == AgentStep()


def test_growth_that_is_booked_is_declared_before_it_is_in_force() -> None:
    found = step(10, ask="main=20", booked="main=20")
    assert found == AgentStep(annotations={IN_FORCE: "main=20"}, limit=20 * MIB)
    again = step(10, ask="main=20", booked="main=20", in_force="main=20")
    assert again == AgentStep(limit=20 * MIB)
    assert step(20, ask="main=20", booked="main=20", in_force="main=20") == AgentStep()


def test_a_slice_shrinks_in_force_and_a_later_look_declares_it() -> None:
    assert step(10, 5, ask="main=5") == AgentStep(limit=5 * MIB)
    assert step(5, 5, ask="main=5") == AgentStep(annotations={IN_FORCE: "main=5"})
    assert step(5, 5, ask="main=5", in_force="main=5") == AgentStep()


def test_a_slice_does_not_shrink_below_what_is_used() -> None:
    found = step(10, 6, ask="main=5")
    why = "container main: 6 MiB are in use now; free memory in the container, then ask again"
    assert found == AgentStep(annotations={REFUSED: f"main=5: {why}"})


def test_memory_that_was_booked_while_the_limit_went_down_takes_it_back() -> None:
    found = step(5, 6, ask="main=5")
    assert found.annotations is not None
    assert "6 MiB are in use now" in found.annotations[REFUSED]
    assert step(5, 6, ask="main=5", refused=found.annotations[REFUSED]) == AgentStep(limit=10 * MIB)


def test_a_slice_that_is_booked_smaller_already_follows_as_memory_is_freed() -> None:
    assert step(10, 6, ask="main=5", booked="main=5", in_force="main=5") == AgentStep()
    assert step(10, 5, ask="main=5", booked="main=5", in_force="main=5") == AgentStep(limit=5 * MIB)


def test_a_container_that_started_again_with_its_first_limit_gets_what_is_booked() -> None:
    assert step(10, booked="main=20", in_force="main=20") == AgentStep(limit=20 * MIB)


def test_amounts_are_in_the_unit_of_the_allocation() -> None:
    assert step(100, plain=10, factor=10, ask="main=5") == AgentStep(limit=50 * MIB)
    assert step(50, plain=10, factor=10, ask="main=5") == AgentStep(annotations={IN_FORCE: "main=5"})


def test_what_is_in_force_of_other_containers_stays_declared() -> None:
    found = step(5, ask="main=5", in_force="side=3")
    assert found == AgentStep(annotations={IN_FORCE: "main=5,side=3"})


def test_a_region_that_cannot_be_changed_is_a_reason_to_refuse_once() -> None:
    found = next_step(a_resize(ask="main=5"), "main", MiB(10), "no file", factor=1)
    assert found == AgentStep(annotations={REFUSED: "main=5: container main: no file"})
    refused = a_resize(ask="main=5", refused="main=5: x")
    assert next_step(refused, "main", MiB(10), "no file", factor=1) == AgentStep()
    done = a_resize(ask="main=20", booked="main=20", in_force="main=20")
    assert next_step(done, "main", MiB(10), "no file", factor=1) == AgentStep()


def region(layout: str = "v1.2", *slots: Slot, **made: Any) -> Region:
    data = bytes(Made(layout=layout, slots=slots or (Slot(),), **made).data())
    header = shared_region.header(data[:2048], len(data))
    assert isinstance(header, Header)
    tail = shared_region.tail(header.layout, data[header.layout.tail : header.layout.tail + header.layout.tail_bytes])
    assert isinstance(tail, Tail)
    count = max(len(slots), 1)
    read = shared_region.processes(header, data[header.layout.slots :][: count * header.layout.slot_size])
    return Region(header=header, tail=tail, processes=read)


def test_what_is_used_is_what_living_processes_have_booked() -> None:
    slots = (Slot(booked=[Booked(data=GIB)]), Slot(pid=8, booked=[Booked(data=GIB)], status=0), Slot(pid=9, status=2))
    assert in_force(region("v1.2", *slots), uuid(1)) == LimitInForce(index=0, limit=3 * GIB, used=GIB)


def test_the_limit_is_that_of_the_card() -> None:
    two = region("v1.2", Slot(booked=[Booked(), Booked()]), uuids=(uuid(1), uuid(2)), limits=(GIB, 2 * GIB))
    assert in_force(two, uuid(2)) == LimitInForce(index=1, limit=2 * GIB, used=0)


@pytest.mark.parametrize("layout", OFFSETS)
@pytest.mark.parametrize("device", [0, 3])
def test_every_known_layout_has_its_limit_where_hami_core_has_it(layout: str, device: int) -> None:
    assert region(layout).header.layout.memory_limit_at(device) == OFFSETS[layout]["limit"] + 8 * device


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "it has not used its card yet"),
        (NotReady("x"), "its processes are just starting"),
        (UnreadableRegion(UnreadableReason.VERSION, "no known layout has that version"), "no known layout has that"),
        (region(uuids=(uuid(2),)), "does not name its card"),
        (region(limits=(0,)), "HAMi-core enforces no memory limit in it"),
    ],
)
def test_a_region_that_is_not_certain_is_never_changed(content: Content, words: str) -> None:
    found = in_force(content, uuid(1))
    assert isinstance(found, str)
    assert words in found
