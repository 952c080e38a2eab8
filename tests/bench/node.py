"""One agent on its node: what it takes, how long it keeps the kubelet waiting, and what that time is made of."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import grpc

from hami_plugins.model.units import DeviceId, MiB, NodeName, PodUid
from hami_plugins.node.kubelet import checkpoint
from hami_plugins.node.kubelet import deviceplugin_pb2 as messages
from hami_plugins.node.kubelet.checkpoint import Checkpoint, CheckpointEntry
from hami_plugins.node.kubelet.deviceplugin_pb2 import CDIDevice, ContainerAllocateResponse
from hami_plugins.wire import volcano
from hami_plugins.wire.node_devices import RegisteredDevice
from tests.bench.measuring import Figure, figure, timed
from tests.bench.processes import ROOT, Load, Worker, load
from tests.bench.starts import environment
from tests.bench.station import NODE, NUMBER, card_uuid, pod
from volcano_vgpu.agent.ports import Ports
from volcano_vgpu.agent.server import Slot, VolcanoDevicePlugin
from volcano_vgpu.core.allocations import AllocationLookup, Answers, allocations_of
from volcano_vgpu.core.assignments import record_of
from volcano_vgpu.core.identity import KIND, allocations
from volcano_vgpu.core.model import NodeInventory, PhysicalDevice, SlotId
from volcano_vgpu.core.shares import AllocatedContainer, NodeOffer
from volcano_vgpu.core.slots import Slots

_CARDS = 8
_BURST = 10
_STANDING = 100
_STARTS = 500
_IDLE_SECONDS = 30.0
_SETTLE_SECONDS = 3.0


def process() -> Iterator[Figure]:
    """``hami-plugins volcano-vgpu agent`` with 8 cards of 10 slots, before and after 500 pods in bursts of 10."""
    with tempfile.TemporaryDirectory(prefix="vg") as root, Worker("tests.bench.station") as station:
        kubeconfig = station.ask("start", root=root, cards=_CARDS)
        agent = subprocess.Popen(
            [sys.executable, "-m", "hami_plugins.cli", "volcano-vgpu", "agent", "--kubeconfig", kubeconfig],
            env={**os.environ, **environment(Path(root), split=10)},
            cwd=ROOT,
        )
        try:
            station.ask("offers", slots=80)
            time.sleep(_SETTLE_SECONDS)
            station.ask("clear")
            before = load(agent.pid)
            time.sleep(_IDLE_SECONDS)
            after = load(agent.pid)
            yield from _taken("the agent's process, after the start", after)
            share = (after.cpu_seconds - before.cpu_seconds) / _IDLE_SECONDS * 100
            yield figure("the agent's process, idle for 30 s, share of a core", [share], unit="%", at_most=0.5)
            yield figure("its writes meanwhile", [station.ask("asked")["writes"]], unit="", at_most=0)
            for _ in range(_STARTS // _BURST):
                station.ask("end", names=station.ask("burst", pods=_BURST))
            yield from _taken("the agent's process, after 500 pods", load(agent.pid))
        finally:
            agent.send_signal(signal.SIGTERM)
            agent.wait()


def _taken(name: str, found: Load) -> Iterator[Figure]:
    yield figure(f"{name}, resident memory", [found.resident_mib], unit="MiB", at_most=100)
    yield figure(f"{name}, threads", [found.threads], unit="")
    yield figure(f"{name}, CPU time since its start", [found.cpu_seconds], unit="s")


def starts() -> Iterator[Figure]:
    """500 starts in bursts of 10 with 100 running pods, over gRPC, each timed in the agent."""
    with (
        tempfile.TemporaryDirectory(prefix="vg") as root,
        Worker("tests.bench.station") as station,
        Worker("tests.bench.starts") as agent,
    ):
        kubeconfig = station.ask("start", root=root, cards=_CARDS)
        agent.ask("start", root=root, kubeconfig=kubeconfig, split=20)
        station.ask("offers", slots=_CARDS * 20)
        for _ in range(_STANDING // _BURST):
            station.ask("burst", pods=_BURST)
        agent.ask("starts")
        station.ask("clear")
        for _ in range(_STARTS // _BURST):
            station.ask("end", names=station.ask("burst", pods=_BURST))
        found = agent.ask("starts")
        asked = station.ask("asked")
    name = "Allocate + PreStartContainer, bursts of 10 with 100 pods"
    yield figure(name, [clock for clock, _ in found], p99_at_most=20)
    yield figure(f"{name}, CPU time", [thread for _, thread in found])
    yield figure("API requests per started container", [asked["requests"] / len(found)], unit="", at_most=3)


def listing(repeats: int = 20) -> Iterator[Figure]:
    """The message to the kubelet about 16 cards of 100 slots."""
    cards = tuple(_card(number) for number in range(16))
    slots = Slots.of(cards, 100)
    # The list needs nothing of what containers are served from.
    plugin = VolcanoDevicePlugin(cast(Ports, None), cards=lambda: slots, nonce=lambda: "", clock=time.monotonic)
    plugin.offer(Slot(slot, numa=card.numa) for card in cards for slot in slots.slots_of(card.uuid))
    times = [timed(_sent, plugin) for _ in range(repeats)]
    yield figure(
        "ListAndWatch, 16 cards x 100 slots", [len(data) / 1024 for _, data in times], unit="KiB", at_most=99.9
    )
    yield figure("the same, made and serialized", [taken for taken, _ in times])


class _Caller:
    """As much of gRPC's context as a list needs."""

    def add_callback(self, _callback: Callable[[], None]) -> bool:
        """No client hangs up."""
        return True

    def is_active(self) -> bool:
        """A client listens."""
        return True


def _sent(plugin: VolcanoDevicePlugin) -> bytes:
    return next(plugin.ListAndWatch(messages.Empty(), cast(grpc.ServicerContext, _Caller()))).SerializeToString()


def pieces(repeats: int = 100) -> Iterator[Figure]:
    """The parts of a start."""
    text = checkpoint.encode(Checkpoint(tuple(_entry(number) for number in range(500))))
    record = checkpoint.decode(text)
    yield _repeated("kubelet's checkpoint of 500 entries, decoded", repeats, lambda: checkpoint.decode(text))
    yield _repeated("the same, to allocations", repeats, lambda: allocations(record, NUMBER))
    offer = _offer()
    others = [_bound(number) for number in range(_STANDING)]
    yield _repeated("100 pods to what they hold", repeats, lambda: [record_of(raw, offer) for raw in others])
    held = tuple(found for raw in others if (found := record_of(raw, offer)) is not None)
    asked = _bound(_STANDING)
    question = AllocationLookup(
        uid=PodUid(asked["metadata"]["uid"]), held={"main": frozenset({SlotId("vgpu-x-1")})}, others=held
    )

    def answered() -> Answers:
        found = allocations_of(asked, question, offer)
        if not isinstance(found["main"], AllocatedContainer):
            raise TypeError(f"the pod is no longer served: {found}")
        return found

    yield _repeated("allocations_of with 100 other pods", repeats, answered)


def _repeated(name: str, repeats: int, action: Callable[[], object]) -> Figure:
    return figure(name, [timed(action)[0] for _ in range(repeats)])


def _card(number: int) -> PhysicalDevice:
    return PhysicalDevice(
        uuid=DeviceId(card_uuid(number)), index=number, minor=number, model="A100", memory=MiB(40960), numa=number // 8
    )


def _offer() -> NodeOffer:
    cards = tuple(_card(number) for number in range(_CARDS))
    register = volcano.encode_register(
        RegisteredDevice(
            id=card.uuid, slots=20, memory=card.memory, model="NVIDIA-A100", healthy=True, mode="hami-core"
        )
        for card in cards
    )
    return NodeOffer.of(NodeName(NODE), register, NodeInventory(cards=cards))


def _bound(number: int) -> dict[str, Any]:
    raw = pod(f"pod-{number}", number % _CARDS)
    raw["metadata"] |= {"uid": f"00000000-0000-4000-8000-{number:012x}", "resourceVersion": "1"}
    return {**raw, "status": {"phase": "Running"}}


def _entry(number: int) -> CheckpointEntry:
    name = f"{KIND}=vgpu-00000001-123abc-{number:03}-{number:012x}"
    return CheckpointEntry(
        pod_uid=PodUid(f"00000000-0000-4000-8000-{number:012x}"),
        container="main",
        resource=NUMBER,
        device_ids=frozenset({f"vgpu-00000001-123abc-{number:03}"}),
        response=ContainerAllocateResponse(cdi_devices=[CDIDevice(name=name)]),
    )
