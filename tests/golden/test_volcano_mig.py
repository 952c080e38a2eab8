"""The vectors about Volcano's MIG slots."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest
import yaml

from hami_plugins.engine import mig
from hami_plugins.engine.policies import PolicyDefaults
from hami_plugins.engine.registry import Registry
from hami_plugins.model.devices import Device, DeviceUsage, Instance, Profile, SlicePlacement
from hami_plugins.model.units import CoreShare, MiB
from hami_plugins.vendors import volcano
from hami_plugins.wire import volcano_config
from tests.golden import volcano_rows as rows
from tests.golden.cases import Case, each

SEQUENCES: dict[str, tuple[str, list[str | None]]] = {
    "mig-sequence-161": ("a slot is given once, also in one session", ["group1-0", "group1-1", "group1-2"]),
    "mig-sequence-163": (
        "the slice of another profile of the group can be had",
        ["group2-3", "group2-0", "group2-1", "group2-2"],
    ),
    "mig-sequence-164": ("a card that is free again is not bound to its last geometry", ["group3-0"]),
}
"""Deviations of ``mig-sequence.yaml``: why, and the slots that we give."""

FACTOR = "memory is counted in register units throughout, as in 1.14.1; later versions multiply and divide"
HANDLERS = dict.fromkeys(("mig-handler-152", "mig-handler-154", "mig-handler-155b"), FACTOR)

SAMPLES = {
    "mig-geometries-a100-80": "the plugin's sample has other sizes than the configuration of the recorded answers"
}


@each("volcano/mig-fit.yaml")
def test_fit(case: Case) -> None:
    registry = Registry([rows.spec_of(geometries=True)])
    entry = rows.node(case.given["register"], registry)
    pod = rows.pod_of([{"limits": case.given["limits"]}])
    found = rows.decide(entry, pod, registry, PolicyDefaults(volcano=case.given["policy"]))
    if case.expect["id"] is None:
        assert found.placed is None
        return
    assert found.placed is not None
    assert found.ids.partition(",")[0] == case.expect["id"]
    assert found.placed.fit.score == pytest.approx(case.expect["score"], abs=case.expect["score_tolerance"])


@each("volcano/mig-sequence.yaml")
def test_sequence(case: Case) -> None:
    registry = Registry([rows.spec_of(geometries=True)])
    entry = rows.node(case.given["register"], registry)
    slots: list[str | None] = []
    booked: list[int] = []
    for at, memory in enumerate(case.given["requests"]):
        pod = rows.pod_of([{"limits": {"volcano.sh/vgpu-memory": str(memory)}}])
        found = rows.decide(entry, pod, registry, PolicyDefaults(volcano="binpack"))
        if found.placed is None:
            slots.append(None)
            continue
        entry = rows.holding(entry, found, f"p{at}")
        slots.append(re.sub(r".*\[(.*)\].*", r"\1", found.ids))
        booked.append(volcano.booked_memory(entry.state.shape.devices[0], entry.state.usage[0]))
    if case.id in SEQUENCES:
        assert sorted(map(str, slots)) == sorted(map(str, SEQUENCES[case.id][1]))
    else:
        assert slots == case.expect["slots"]
    if "used_memory" in case.expect:
        assert booked == case.expect["used_memory"]
    if "used_memory_after_seven" in case.expect:
        assert booked[6] == case.expect["used_memory_after_seven"]


@each("volcano/mig-slot.yaml")
def test_choice_of_a_slot(case: Case) -> None:
    given = case.given
    profiles = [
        profile
        for group, listed in given.get("groups", {"default": [{"name": "1g", "memory": 10}]}).items()
        for profile in cut(group, listed)
    ]
    held = []
    if given.get("usage") == "the only slot is taken":
        held = [Instance("default-0", SlicePlacement(0, 1), "default")]
    elif given.get("usage") == "lists 1g.10gb":
        held = [Instance("other-0", SlicePlacement(0, 1), "other")]
    found = mig.choose_in_group(profiles, MiB(given["request"]), held)
    if case.expect["id"] is None:
        assert found is None
        return
    assert found is not None
    profile, place = found
    assert f"{given['uuid']}[{profile.group}-{place.start}]" == case.expect["id"]
    assert profile.memory == case.expect["slice"]


@each("volcano/mig-handler.yaml")
def test_memory_of_slots(case: Case) -> None:
    given = case.given
    profiles = tuple(cut("group1", given.get("instances", [{"memory": 10240, "count": 2}])))
    device = _card(profiles)
    used = DeviceUsage()
    if given["op"] == "try_add_pod":
        found = mig.choose_in_group(profiles, MiB(given["request"]), [])
        assert found is not None
        profile, place = found
        used = used.plus(MiB(given["request"]), CoreShare(0), (Instance("s", place, profile.group),))
        wanted = 10240 if case.id in HANDLERS else case.expect["slice"]
        assert profile.memory == wanted
        assert profile.group == case.expect.get("group", profile.group)
    elif given["op"] == "add_pod":
        used = used.plus(MiB(1), CoreShare(0), (Instance("s", SlicePlacement(0, 1), "group1"),))
    wanted = case.expect["used_memory"]
    if case.id in HANDLERS and wanted:
        wanted = 10240
    assert volcano.booked_memory(device, used) == wanted


@each("volcano/mig-usage.yaml")
def test_memory_of_one_slot(case: Case) -> None:
    given = case.given
    if "group" in given:
        profiles, mark = tuple(cut("group1", [{"memory": 10240}])), Instance("s", SlicePlacement(0, 1), given["group"])
    else:
        listed = [{"name": given["instance"], "memory": given["memory"], "count": given.get("count", 1)}]
        profiles, mark = tuple(cut("group1", listed)), Instance("s", SlicePlacement(given["position"], 1), "group1")
    held = DeviceUsage().plus(MiB(1), CoreShare(0), (mark,))
    assert volcano.booked_memory(_card(profiles), held) == case.expect["add"]
    assert volcano.booked_memory(_card(profiles), DeviceUsage()) == 0


@each("volcano/mig-geometries.yaml")
def test_sample_geometries(case: Case) -> None:
    config = volcano_config.decode(yaml.safe_load(rows.CONFIG.read_text(encoding="utf-8")))
    models = {"A30": "A30", "A100-40GB": "A100-SXM4-40GB"}
    model = models.get(case.given["model"], "A100-SXM4-80GB")
    (geometry,) = [each_ for each_ in config.geometries if each_.fits(f"NVIDIA-NVIDIA {model}")]
    if "memories" in case.expect:
        assert sorted({profile.memory for profile in geometry.profiles}) == case.expect["memories"]
        assert geometry.profiles[-1].name == case.expect["largest_name"]
        return
    groups: dict[str, list[Profile]] = {}
    for profile in geometry.profiles:
        groups.setdefault(profile.group, []).append(profile)
    assert len(groups) == len(case.expect["groups"])
    for (name, ours), wanted in zip(groups.items(), case.expect["groups"], strict=True):
        assert wanted.get("name", name) == name
        assert [len(profile.placements) for profile in ours] == [each_["count"] for each_ in wanted["instances"]]
        if case.id not in SAMPLES:
            assert [profile.name for profile in ours] == [each_["name"] for each_ in wanted["instances"]]
            sizes = [
                each_.get("memory", profile.memory) for each_, profile in zip(wanted["instances"], ours, strict=True)
            ]
            assert [profile.memory for profile in ours] == sizes


def cut(group: str, listed: Sequence[dict[str, Any]]) -> list[Profile]:
    """One geometry as the configuration would give it."""
    instances = [{"name": "1g", "memory": 10, "count": 1, **each_} for each_ in listed]
    allowed = [{"group": group, "geometries": instances}]
    raw = {"nvidia": {"knownMigGeometries": [{"models": ["X"], "allowedGeometries": allowed}]}}
    return list(volcano_config.decode(raw).geometries[0].profiles)


def _card(profiles: tuple[Profile, ...]) -> Device:
    return Device(
        vendor=volcano.SPEC.name,
        model=rows.MODEL,
        slots=10,
        memory=MiB(40960),
        cores=CoreShare(100),
        index=0,
        mode="mig",
        profiles=profiles,
    )
