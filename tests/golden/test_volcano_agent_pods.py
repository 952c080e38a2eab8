"""The vectors about what Volcano's device plugin answers the kubelet, and what it writes on pods."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from hami_plugins.model.units import CoreShare, DeviceId, MiB, PodUid
from hami_plugins.node.kubelet import deviceplugin_pb2 as messages
from hami_plugins.wire import volcano
from hami_plugins.wire.pod_devices import AssignedDevice
from tests.golden.cases import Case, each
from tests.integration.volcano_vgpu.kubelets import Node
from tests.unit.volcano_vgpu.allocated_pods import LEFT, card, container, instances, offer, pod, question
from tests.unit.volcano_vgpu.test_allocations import GEOMETRY, MIG_SPEC
from volcano_vgpu.agent.bookkeeper import settled
from volcano_vgpu.core.allocations import allocations_of
from volcano_vgpu.core.dialects import DONE
from volcano_vgpu.core.edits import ContainerEdits, EditSettings, Owner, cdi_device, container_in, edits_of
from volcano_vgpu.core.model import MigInstance, NodeInventory, SharingMode
from volcano_vgpu.core.refusals import ContainerRefusal
from volcano_vgpu.core.shares import AllocatedContainer, ContainerShare
from volcano_vgpu.core.slots import Slots

NO_STRATEGIES = "cards are always named by UUID in NVIDIA_VISIBLE_DEVICES, which every runtime understands"
BY_RECORD = "the kubelet's own record says whose call it is; times and counts are not looked at"
NO_MEMORY_IDS = "memory and cores are sums in the node's capacity, of any size; the kubelet is never asked for them"
OWN_SPECIFICATION = "the agent writes its own CDI devices, so that nobody else's names are referred to"

DEVIATIONS = {
    "allocate-env-06": "CUDA_OVERSUBSCRIBE is about memory: it follows deviceMemoryScaling, as in HAMi",
    "allocate-env-08": NO_STRATEGIES,
    "allocate-env-09": NO_STRATEGIES,
    "allocate-mounts-04": "one place for the directories, where today's monitors look",
    "allocate-flow-01": "each request of a call is answered; the kubelet sends one",
    "allocate-flow-02": NO_MEMORY_IDS,
    "allocate-flow-03": NO_MEMORY_IDS,
    "allocate-flow-04": "Allocate is answered, and the start refused and asked again: the pod may be on its way",
    "allocate-flow-07": "the container has its slice already; the patch is tried again until it succeeds",
    "allocate-flow-11": "all containers of a pod are served at the first start of one",
    "plugin-cdi-188": OWN_SPECIFICATION,
    "plugin-cdi-189": OWN_SPECIFICATION,
    "plugin-cdi-190": OWN_SPECIFICATION,
    "plugin-cdi-191": OWN_SPECIFICATION,
    "plugin-cdi-192": OWN_SPECIFICATION,
    "plugin-entry-check-185": NO_MEMORY_IDS,
    "plugin-entry-check-187": NO_MEMORY_IDS,
    "plugin-next-request-182": "segments belong to the containers that ask: gpu1, not the one that stands second",
    "plugin-next-request-183": "vgpu-ids-new says what was allocated, also when everything was erased before",
    "plugin-pod-select-173": BY_RECORD,
    "plugin-pod-select-174": BY_RECORD,
    "plugin-pod-select-177": "every container is served by its own segment, so that 1+1 starts",
    "plugin-pod-select-178": BY_RECORD,
    "plugin-pod-select-179": "a pod that has finished is never served",
    "plugin-pod-select-180": BY_RECORD,
}

FLAGS = ("gdrcopy", "gds", "mofed")


def allocated(segment: Sequence[Mapping[str, Any]], *, visible: str = "") -> AllocatedContainer:
    return AllocatedContainer(
        tuple(
            ContainerShare(
                AssignedDevice(DeviceId(raw["uuid"]), "NVIDIA", MiB(raw["mem"]), CoreShare(raw["cores"])),
                DeviceId(visible or raw["uuid"]),
                DeviceId(raw["uuid"]),
            )
            for raw in segment
        )
    )


def made(given: AllocatedContainer, settings: EditSettings, *, env: Mapping[str, str] | None = None) -> ContainerEdits:
    owner = Owner(pod_uid=PodUid("uid-1"), container="c", raw=container_in(pod(container("c", env=env)), "c"))
    return edits_of(given, owner, settings, NodeInventory())


@each("volcano/allocate-env.yaml")
def test_environment_of_a_container(case: Case) -> None:
    given = case.given
    settings = EditSettings(
        mode=SharingMode(given["mode"]), factor=given["factor"], **{name: given["flags"][name] for name in FLAGS}
    )
    visible = "MIG-1" if given["mode"] == "mig" else ""
    env = dict(made(allocated(given["segment"], visible=visible), settings).env)
    wanted = dict(case.expect.get("env", {}))
    if case.id == "allocate-env-06":
        del wanted["CUDA_OVERSUBSCRIBE"]
        assert "CUDA_OVERSUBSCRIBE" not in env
        scaled = EditSettings(memory_scaling=given["core_scaling"])
        assert dict(made(allocated(given["segment"]), scaled).env)["CUDA_OVERSUBSCRIBE"] == "true"
    if DEVIATIONS.get(case.id) is NO_STRATEGIES:
        wanted = {"NVIDIA_VISIBLE_DEVICES": "GPU-a"}
    assert wanted.items() <= env.items()
    assert not env.keys() & set(case.expect.get("env_absent", []))
    for name, pattern in case.expect.get("env_pattern", {}).items():
        assert re.search(pattern, env[name])


@each("volcano/allocate-mounts.yaml")
def test_mounts_of_a_container(case: Case) -> None:
    given = case.given
    segment = [{"uuid": "GPU-a", "mem": 1, "cores": 0}]
    settings = EditSettings(mode=SharingMode(given["mode"]), hook_path=given["hook_path"])
    env = dict.fromkeys(given["container_env"], "true")
    mounts = [mount._asdict() for mount in made(allocated(segment), settings, env=env).mounts]
    if case.id == "allocate-mounts-04":
        assert mounts[1]["host_path"] == "/usr/local/vgpu/vgpu/containers/uid-1_c"
        return
    assert mounts == case.expect["mounts"]


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


SITUATIONS: dict[str, dict[str, Any]] = {
    "allocate-flow-05": {"ids": "GPU-a,NVIDIA,1,0:GPU-b,NVIDIA,1,0:"},
    "allocate-flow-06": {"ids": ""},
    "allocate-flow-07": {},
    "allocate-flow-08": {"ids": "GPU-a[group9-0],NVIDIA,1,0:"},
    "allocate-flow-10": {},
}


@each("volcano/allocate-flow.yaml")
def test_flow_of_a_call(case: Case, node: Node) -> None:
    name = case.id
    if name == "allocate-flow-01":
        requests = [messages.ContainerAllocateRequest(devices_ids=[slot]) for slot in ("s0", "s1")]
        answer = node.kubelet.calls.Allocate(messages.AllocateRequest(container_requests=requests))
        assert len({each.cdi_devices[0].name for each in answer.container_responses}) == 2
        return
    if name in {"allocate-flow-02", "allocate-flow-03"}:
        assert {node.slots.card_of(slot) for slot in node.offered} == {"GPU-a", "GPU-b"}
        return
    if name == "allocate-flow-09":
        node.cdi.rmdir()
        node.cdi.write_text("a file")
    raw = pod(**SITUATIONS.get(name, {}), bind_phase="allocating", vgpu_time="1")
    if name == "allocate-flow-11":
        raw = pod(container("main", count=1), container("b", count=1), ids="GPU-a,NVIDIA,1,0:;GPU-b,NVIDIA,1,0:")
    error, written = _started(node, raw, known=name != "allocate-flow-04")
    if name in {"allocate-flow-10", "allocate-flow-07"}:
        assert (error, written["volcano.sh/bind-phase"], written[LEFT]) == ("", "success", "")
    elif name == "allocate-flow-11":
        assert (error, written["volcano.sh/bind-phase"], written[LEFT]) == ("", "success", ";")
    else:
        assert error
        assert written.get("volcano.sh/bind-phase") == case.expect["bind_phase"]
    if case.expect.get("vgpu_time") is not None:
        assert written["volcano.sh/vgpu-time"] == case.expect["vgpu_time"] == DONE


def _started(node: Node, raw: dict[str, Any], *, known: bool) -> tuple[str, Mapping[str, str]]:
    """What held the pod's containers back, and what is written on it then."""
    if known:
        node.create(raw)
    uid = raw["metadata"]["uid"]
    assert node.kubelet.admit(raw) == "", "Allocate never fails"
    error = node.kubelet.start(uid, "main")
    served = {each.container for each in node.specifications.served}
    failed = any(not refusal.heals for _, _, refusal in node.told.refusals)
    return error, settled(raw, served, failed=failed)


@each("volcano/plugin-cdi.yaml")
def test_cdi_names_are_our_own(case: Case, node: Node) -> None:
    raw = node.create(pod())
    node.kubelet.admit(raw)
    response = node.kubelet.entries["uid-p", "main"].response
    assert dict(response.annotations) == {}
    assert [device.name.partition("=")[0] for device in response.cdi_devices] == ["volcano.sh/vgpu"]
    device = cdi_device("n", made(allocated([{"uuid": "GPU-a", "mem": 1, "cores": 0}]), EditSettings()), {})
    assert {"NVIDIA_GDS=enabled", "NVIDIA_MOFED=enabled"} <= set(device["containerEdits"]["env"])


@each("volcano/plugin-entry-check.yaml")
def test_any_amount_of_memory_can_be_listed(case: Case) -> None:
    memory, cards = case.given["args"]
    found = [card(f"GPU-{chr(ord('a') + at)}", memory=memory) for at in range(cards)]
    slots = Slots.of(found, 10)
    assert sum(len(slots.slots_of(each.uuid)) for each in found) == 10 * cards
    assert case.expect["ok"] is (case.id not in DEVIATIONS)


@each("volcano/plugin-next-request.yaml")
def test_next_container_to_serve(case: Case) -> None:
    ids = "GPU-a,NVIDIA,2000,0:;GPU-b,NVIDIA,3000,0:"
    first, plain, second = case.given["containers"]
    raw = pod(
        container(first, count=1),
        container(plain),
        container(second, count=1),
        ids=ids,
        devices_to_allocate=case.given["devices_to_allocate"],
    )
    if case.refused:
        answers = allocations_of(raw, question({first: 1, second: 1}), offer())
        assert all(isinstance(answer, AllocatedContainer) for answer in answers.values())
        return
    served = second if case.id in DEVIATIONS else case.expect["container"]
    answer = allocations_of(raw, question({served: 1}), offer())[served]
    assert isinstance(answer, AllocatedContainer)
    assert list(answer.cards) == case.expect["uuids"]
    assert settled(raw, [served], failed=False)[LEFT] == case.expect["erased"]


@each("volcano/plugin-pod-select.yaml")
def test_a_call_is_for_the_pod_in_the_kubelets_record(case: Case, node: Node) -> None:
    """Every pod of the case is asked for: whatever its time, it is served if and only if the allocation is its own."""
    served: list[str] = []
    for given in case.given["pods"]:
        segments = given["segments"] or [case.given["want"]]
        ids = ";".join("".join(f"GPU-{'ab'[at]},NVIDIA,1,0:" for at in range(count)) for count in segments)
        names = [f"c{at}" for at in range(len(segments))]
        finished = given.get("vgpu_time") == DONE
        raw = pod(
            *(container(name, count=case.given["want"]) for name in names),
            name=given["name"],
            ids=ids,
            allocated_for="n1" if given["node"] == case.given["node"] else given["node"],
            phase="Succeeded" if finished else "Pending",
            vgpu_time=given.get("vgpu_time") or "",
        )
        if finished:
            continue  # the kubelet never asks for it
        node.create(raw)
        node.kubelet.admit(raw)
        uid = raw["metadata"]["uid"]
        if all(node.kubelet.start(uid, name) == "" for name in names):
            served.append(given["name"])
    chosen = [] if case.expect["chosen"] is None else [case.expect["chosen"]]
    if case.id in DEVIATIONS:
        unfinished = [given["name"] for given in case.given["pods"] if given.get("vgpu_time") != DONE]
        assert served == unfinished
    else:
        assert served == chosen


@each("volcano/plugin-smi-parse.yaml")
def test_a_mig_instance_is_looked_up_under_its_own_card(case: Case) -> None:
    first = instances("2g.10gb", "2g.10gb", "1g.5gb")
    second = tuple(
        MigInstance(uuid=DeviceId(f"MIG-b{each.start}"), profile=each.profile, memory=each.memory, start=at, size=1)
        for at, each in enumerate(first)
    )
    there = offer(
        card("GPU-a", mig=True, instances=first), card("GPU-b", mig=True, instances=second), mode="mig", spec=MIG_SPEC
    )
    position = case.given["position"] if isinstance(case.given["position"], int) else 7
    slot = volcano.encode_slot(volcano.MigSlot(DeviceId("GPU-b"), GEOMETRY.profiles[0].group, position))
    answer = allocations_of(pod(ids=f"{slot},NVIDIA,5000,0:"), question(), there)["main"]
    if case.expect["result"]:
        assert isinstance(answer, AllocatedContainer)
        assert [share.visible for share in answer.shares] == ["MIG-b1"]
    else:
        assert isinstance(answer, ContainerRefusal)
