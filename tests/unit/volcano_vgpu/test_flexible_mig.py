"""Which MIG instance is created or removed next, the reports about impossible ones, and the state after a crash."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_plugins.errors import WireError
from hami_plugins.model.devices import Profile, SlicePlacement
from hami_plugins.model.units import CoreShare, DeviceId, MiB
from hami_plugins.vendors import nvidia
from hami_plugins.wire import mig_allocations
from hami_plugins.wire.mig_allocations import MigAllocation
from tests import raw_objects
from tests.unit.volcano_vgpu.cards import card
from volcano_vgpu.core import flexible_mig
from volcano_vgpu.core.flexible_mig import (
    GpuInstance,
    Journal,
    JournalEntry,
    JournalState,
    MigPlace,
    MigStep,
    MigStepKind,
    MigView,
    blocked,
    next_step,
    offered,
    promised,
    settled,
)

A = DeviceId("GPU-a")


def place(start: int, profile: str = "1g.5gb", size: int = 1, on: str = A) -> MigPlace:
    return MigPlace(DeviceId(on), profile, start, size)


def instance(where: MigPlace, uuid: str = "MIG-1", processes: int = 0) -> GpuInstance:
    return GpuInstance(where, DeviceId(uuid), processes)


def profile(name: str, size: int, *starts: int) -> Profile:
    return Profile(name, MiB(4864 * size), CoreShare(15), size, tuple(SlicePlacement(at, size) for at in starts))


POSSIBLE = {A: (profile("1g.5gb", 1, *range(7)), profile("3g.20gb", 4, 0, 4))}
LARGE = place(0, "3g.20gb", 4)


def view(
    existing: Iterable[GpuInstance] = (),
    wanted: Mapping[MigPlace, tuple[str, ...]] | None = None,
    handed: Iterable[tuple[DeviceId, str, int]] = (),
) -> MigView:
    return MigView(existing=tuple(existing), possible=POSSIBLE, promised=wanted or {}, handed=frozenset(handed))


def journal(*entries: tuple[MigPlace, JournalState, str]) -> Journal:
    return {where: JournalEntry(where, state, DeviceId(uuid)) for where, state, uuid in entries}


MADE, CREATING, REMOVING = JournalState.MADE, JournalState.CREATING, JournalState.REMOVING
OURS = journal((place(0), MADE, "MIG-1"))


def test_a_promised_instance_is_made() -> None:
    assert next_step({}, view(wanted={place(3): ("ns/p",)})) == MigStep(MigStepKind.CREATE, place(3), ("ns/p",))
    beside = view([instance(place(2))], {place(3): ("ns/p",)})
    assert next_step({}, beside) == MigStep(MigStepKind.CREATE, place(3), ("ns/p",))


def test_one_that_exists_is_not_made_again_whoever_made_it() -> None:
    assert next_step({}, view([instance(place(3))], {place(3): ("ns/p",)})) is None
    assert next_step(OURS, view([instance(place(0))], {place(0): ("ns/p",)})) is None


def test_one_of_ours_that_no_pod_has_promised_is_removed_first() -> None:
    found = next_step(OURS, view([instance(place(0))], {LARGE: ("ns/p",)}))
    assert found == MigStep(MigStepKind.REMOVE, place(0))


@pytest.mark.parametrize(
    ("existing", "handed"),
    [(instance(place(0), processes=1), []), (instance(place(0)), [(A, "1g.5gb", 0)])],
    ids=["a process runs on it", "a container was handed it"],
)
def test_one_with_work_on_it_is_never_removed(existing: GpuInstance, handed: list[tuple[DeviceId, str, int]]) -> None:
    assert next_step(OURS, view([existing], handed=handed)) is None


def test_one_of_somebody_else_is_never_removed() -> None:
    assert next_step({}, view([instance(place(0))], {LARGE: ("ns/p",)})) is None


def test_one_without_compute_instance_is_removed_also_where_it_is_promised() -> None:
    assert next_step(OURS, view([instance(place(0), "")], {place(0): ("ns/p",)})) == MigStep(
        MigStepKind.REMOVE, place(0)
    )


WAITS = {
    "a foreign instance in the way": (
        {},
        view([instance(place(2))], {LARGE: ("ns/p",)}),
        "1g.5gb at 2 is in the way, and is not the agent's",
    ),
    "one of ours in use": (
        OURS,
        view([instance(place(0), processes=1)], {LARGE: ("ns/p",)}),
        "1g.5gb at 0 is in the way, and was made by this agent and is still in use",
    ),
    "a card that is not cut": ({}, view(wanted={place(0, on="GPU-b"): ("ns/p",)}), "the card is not in mode MIG"),
    "a profile that the card does not have": (
        {},
        view(wanted={place(0, "2g.10gb", 2): ("ns/p",)}),
        "the card has no such place (profiles: 1g.5gb, 3g.20gb)",
    ),
    "a place that the profile does not have": ({}, view(wanted={place(1, "3g.20gb", 4): ("ns/p",)}), "no such place"),
    "two pods": ({}, view(wanted={place(0): ("ns/p", "ns/q")}), "it is promised to ns/p and ns/q"),
}


@pytest.mark.parametrize(("held", "seen", "why"), WAITS.values(), ids=WAITS)
def test_what_cannot_be_made_now_is_told_with_the_reason(held: Journal, seen: MigView, why: str) -> None:
    assert next_step(held, seen) is None
    (found,) = blocked(held, seen)
    assert why in found.why
    assert found.pods


def test_of_two_promises_that_exclude_each_other_one_is_kept() -> None:
    wanted = {place(1): ("ns/p",), LARGE: ("ns/q",)}
    first = next_step({}, view(wanted=wanted))
    assert first is not None
    (other,) = wanted.keys() - {first.place}
    (told,) = blocked(journal((first.place, MADE, "MIG-1")), view([instance(first.place)], wanted))
    assert (told.place, f"is promised to {wanted[first.place][0]}" in told.why) == (other, True)


def test_a_card_without_any_profile_says_so() -> None:
    bare = MigView(existing=(), possible={A: ()}, promised={place(0): ("ns/p",)})
    assert blocked({}, bare)[0].why == "the card has no such place (profiles: none)"


CRASHES = {
    "before the driver was asked to make it": (journal((place(0), CREATING, "")), [], {}),
    "after it was made": (journal((place(0), CREATING, "")), [instance(place(0))], OURS),
    "after half of it was made": (
        journal((place(0), CREATING, "")),
        [instance(place(0), "")],
        journal((place(0), MADE, "")),
    ),
    "before the driver was asked to remove it": (
        journal((place(0), REMOVING, "MIG-1")),
        [instance(place(0))],
        journal((place(0), REMOVING, "MIG-1")),
    ),
    "after half of it was removed": (
        journal((place(0), REMOVING, "MIG-1")),
        [instance(place(0), "")],
        journal((place(0), REMOVING, "MIG-1")),
    ),
    "after it was removed": (journal((place(0), REMOVING, "MIG-1")), [], {}),
    "a reboot": (OURS, [], {}),
    "nothing": (OURS, [instance(place(0))], OURS),
    "another's instance at the place of ours": (OURS, [instance(place(0), "MIG-2")], {}),
}


@pytest.mark.parametrize(("before", "existing", "after"), CRASHES.values(), ids=CRASHES)
def test_the_journal_agrees_with_the_driver_after_any_crash(
    before: Journal, existing: list[GpuInstance], after: Journal
) -> None:
    assert settled(before, existing) == after
    assert settled(settled(before, existing), existing) == after


def test_a_card_offers_every_place_that_no_foreign_instance_lies_on() -> None:
    existing = [instance(place(0)), instance(place(5), "MIG-2"), instance(place(5, on="GPU-b"), "MIG-3")]
    found = offered(card(0, uuid=A), POSSIBLE[A], OURS, existing)
    assert {each.name: [where.start for where in each.placements] for each in found} == {
        "1g.5gb": [0, 1, 2, 3, 4, 5, 6],
        "3g.20gb": [0],
    }
    foreign = [instance(place(4, "3g.20gb", 4)), instance(place(0, "3g.20gb", 4), "MIG-2")]
    found = offered(card(0, uuid=A), POSSIBLE[A], {}, foreign)
    assert [(each.name, len(each.placements)) for each in found] == [("3g.20gb", 2)]


def a_pod(name: str, *places: MigPlace, node: str = "n1", phase: str = "Running", **notes: str) -> dict[str, Any]:
    reserved = [MigAllocation(0, at, each.card, each.profile, each.placement) for at, each in enumerate(places)]
    shares = "".join(f"{each.card},NVIDIA,4864,15:" for each in places)
    metadata = {
        "namespace": "ns",
        "uid": name,
        "annotations": {
            "hami.io/vgpu-devices-allocated": f"{shares};",
            "hami.io/vgpu-mig-allocations": mig_allocations.encode(reserved),
            "hami.io/vgpu-node": node,
            **notes,
        },
    }
    limits = {"nvidia.com/gpu": str(len(places))}
    return raw_objects.pod(name, raw_objects.container(limits=limits), metadata=metadata, node=node, phase=phase)


def test_promises_are_those_of_live_pods_of_the_node() -> None:
    pods = [
        a_pod("p", place(0), place(1)),
        a_pod("q", place(1), place(1)),
        a_pod("done", place(2), phase="Succeeded"),
        a_pod("elsewhere", place(3), node="n2"),
        a_pod("earlier", place(5), **{"hami.io/vgpu-node": "n2"}),
        {"metadata": {"name": 7}},
        a_pod("plain", place(4), **{"hami.io/vgpu-mig-allocations": ""}),
    ]
    assert promised(pods, "n1", nvidia.SPEC) == {place(0): ("ns/p",), place(1): ("ns/p", "ns/q")}


places = st.builds(place, st.integers(0, 9), st.sampled_from(["1g.5gb", "3g.20gb"]), st.integers(1, 8))
entries = st.builds(JournalEntry, places, st.sampled_from(JournalState), st.sampled_from(["", "MIG-1"]).map(DeviceId))


@given(st.lists(entries).map(lambda found: {each.place: each for each in found}))
def test_decode_undoes_encode(found: Journal) -> None:
    assert flexible_mig.decode(flexible_mig.encode(found)) == found


GOOD = {"card": "GPU-a", "profile": "1g.5gb", "start": 0, "size": 1, "state": "made", "uuid": "MIG-1"}


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("", "journal"),
        ("[]", "journal"),
        (json.dumps({"version": 2, "instances": []}), r"journal\.version"),
        (json.dumps({"version": 1, "instances": [{**GOOD, "state": "lost"}]}), r"journal\.instances\[0\]\.state"),
        (json.dumps({"version": 1, "instances": [{**GOOD, "card": ""}]}), r"journal\.instances\[0\]"),
        (json.dumps({"version": 1, "instances": [{**GOOD, "start": -1}]}), r"journal\.instances\[0\]\.start"),
    ],
)
def test_a_journal_that_cannot_be_read_is_refused_with_the_place(text: str, where: str) -> None:
    with pytest.raises(WireError, match=where):
        flexible_mig.decode(text)


def test_a_place_is_named_by_profile_start_and_card() -> None:
    assert str(place(3)) == "1g.5gb at 3 of GPU-a"
