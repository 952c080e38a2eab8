"""A kubelet's device manager as far as a plugin can tell, and a node for the agent to live on.

The order of calls, the sharing of ids with init containers, the checkpoint and what a restart forgets are as seen on a
real kubelet (``trials.md`` K1 to K13).
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Never, Protocol

import grpc

from hami_plugins.errors import KubeError
from hami_plugins.model.units import PodUid
from hami_plugins.node.kubelet import checkpoint
from hami_plugins.node.kubelet import deviceplugin_pb2 as messages
from hami_plugins.node.kubelet.checkpoint import Checkpoint, CheckpointEntry
from hami_plugins.node.kubelet.pod_resources import ContainerDevices
from tests.unit.volcano_vgpu.allocated_pods import COUNT, NODE, card, offer
from volcano_vgpu.agent.cdi import CdiDirectory
from volcano_vgpu.agent.containers import ContainerDirectories, GarbageCollector
from volcano_vgpu.agent.kubelet import CheckpointReader
from volcano_vgpu.agent.ports import Ports
from volcano_vgpu.agent.server import Slot, VolcanoDevicePlugin
from volcano_vgpu.core.edits import EditSettings
from volcano_vgpu.core.refusals import ContainerRefusal
from volcano_vgpu.core.shares import AllocatedContainer, NodeOffer
from volcano_vgpu.core.slots import Slots


class Calls(Protocol):
    """What a kubelet calls: a gRPC stub, or the plugin itself."""

    GetPreferredAllocation: Callable[..., messages.PreferredAllocationResponse]
    Allocate: Callable[..., messages.AllocateResponse]
    PreStartContainer: Callable[..., messages.PreStartContainerResponse]


class CallError(Exception):
    """The plugin answered with an error."""


class Direct:
    """Calls a plugin without a socket between."""

    def __init__(self, plugin: VolcanoDevicePlugin) -> None:
        context: Any = _Context()
        self.GetPreferredAllocation = lambda request: plugin.GetPreferredAllocation(request, context)
        self.Allocate = lambda request: plugin.Allocate(request, context)
        self.PreStartContainer = lambda request: plugin.PreStartContainer(request, context)


class _Context:
    def abort(self, code: grpc.StatusCode, details: str) -> Never:
        raise CallError(f"{code.name}: {details}")


class FakeKubelet:
    """Admits pods, starts their containers, and keeps its record in a file."""

    def __init__(self, directory: Path, offered: Iterable[str], calls: Calls) -> None:
        self.calls = calls
        self.offered = tuple(offered)
        self.file = directory / "kubelet_internal_checkpoint"
        self.pods: dict[str, Mapping[str, Any]] = {}
        self.entries: dict[tuple[str, str], CheckpointEntry] = {}
        self.handed_out_anyway: set[str] = set()
        self._under_admission: tuple[str, ...] = ()

    def admit(self, raw: Mapping[str, Any], *, killed_in_last: bool = False) -> str:
        """Allocate for every container that asks; the error that rejected the pod, or nothing.

        ``killed_in_last``: the kubelet dies before it can write down the last answer, and starts again.
        """
        uid = raw["metadata"]["uid"]
        self.pods[uid] = raw
        reusable: set[str] = set()
        wanted = [(each, count) for each in _containers(raw) if (count := _count(each))]
        for place, (container, count) in enumerate(wanted):
            if (uid, container["name"]) in self.entries:
                continue
            last = killed_in_last and place == len(wanted) - 1
            try:
                ids, response = self._allocate(reusable, count)
            except (CallError, grpc.RpcError) as error:
                self.forget(uid)
                return str(error)
            if last:
                self.restart()
                return ""
            self._record(uid, container["name"], ids, response)
            if container in (raw["spec"].get("initContainers") or ()) and container.get("restartPolicy") != "Always":
                reusable |= ids
            else:
                reusable -= ids
        return ""

    def start(self, uid: str, container: str) -> str:
        """Ask before a container starts; the error that holds it back, or nothing."""
        ids = sorted(self.entries[uid, container].device_ids)
        try:
            self.calls.PreStartContainer(messages.PreStartContainerRequest(devices_ids=ids))
        except CallError as error:
            return str(error)
        except grpc.RpcError as error:
            return str(error)
        return ""

    def forget(self, uid: str) -> None:
        """The pod has ended: its ids are free, and the record is not written for that."""
        self.pods.pop(uid, None)
        self.entries = {key: entry for key, entry in self.entries.items() if key[0] != uid}

    def restart(self, before: bytes | None = None) -> None:
        """Start again with what the file says (or what it said ``before``) about pods that have not ended."""
        if before is not None:
            self.file.write_bytes(before)
        record = checkpoint.decode(self.file.read_bytes()) if self.file.exists() else Checkpoint()
        kept = (entry for entry in record.entries if entry.pod_uid in self.pods)
        self.entries = {(entry.pod_uid, entry.container): entry for entry in kept}

    def listed(self) -> tuple[ContainerDevices, ...]:
        """The list of pod-resources: without init containers and UIDs."""
        rows: list[ContainerDevices] = []
        for uid, raw in self.pods.items():
            names = raw["metadata"]["namespace"], raw["metadata"]["name"]
            for each in _containers(raw):
                if each in (raw["spec"].get("initContainers") or ()) and each.get("restartPolicy") != "Always":
                    continue
                entry = self.entries.get((uid, each["name"]))
                held = (entry.resource, entry.device_ids) if entry else ("", frozenset[str]())
                rows.append(ContainerDevices(*names, each["name"], *held))
        return tuple(rows)

    def names_of(self, uid: str, container: str) -> list[str]:
        """The CDI names that the runtime gets for a container."""
        return [device.name for device in self.entries[uid, container].response.cdi_devices]

    def _allocate(self, reusable: set[str], count: int) -> tuple[set[str], messages.ContainerAllocateResponse]:
        used = {slot for entry in self.entries.values() for slot in entry.device_ids} - self.handed_out_anyway
        chosen = set(sorted(reusable)[:count])
        free = [slot for slot in self.offered if slot not in used and slot not in reusable]
        missing = count - len(chosen)
        if missing > len(free):
            raise CallError(f"requested {missing}, available {len(free)}")
        if 0 < missing < len(free):
            request = messages.ContainerPreferredAllocationRequest(
                available_deviceIDs=free, must_include_deviceIDs=[], allocation_size=missing
            )
            answer = self.calls.GetPreferredAllocation(
                messages.PreferredAllocationRequest(container_requests=[request])
            )
            asked_for = [slot for each in answer.container_responses for slot in each.deviceIDs if slot in free]
            free = [*asked_for, *(slot for slot in free if slot not in asked_for)]
        chosen.update(free[:missing])
        allocate = messages.ContainerAllocateRequest(devices_ids=sorted(chosen))
        answered = self.calls.Allocate(messages.AllocateRequest(container_requests=[allocate]))
        return chosen, answered.container_responses[0]

    def _record(
        self, uid: str, container: str, ids: Collection[str], response: messages.ContainerAllocateResponse
    ) -> None:
        self.entries[uid, container] = CheckpointEntry(
            pod_uid=PodUid(uid), container=container, resource=COUNT, device_ids=frozenset(ids), response=response
        )
        draft = self.file.with_suffix(".tmp")
        draft.write_bytes(checkpoint.encode(Checkpoint(tuple(self.entries.values()))))
        draft.replace(self.file)


class NodePods:
    """The pods of the node, as the watch and as the API server have them."""

    def __init__(self) -> None:
        self.watched: dict[str, Mapping[str, Any]] = {}
        self.stored: dict[str, Mapping[str, Any]] = {}
        self.seen: dict[str, Mapping[str, str]] = {}
        self.away = False
        self.reads = 0

    def put(self, raw: Mapping[str, Any]) -> None:
        self.watched[raw["metadata"]["uid"]] = self.stored[raw["metadata"]["uid"]] = raw

    def delete(self, uid: str) -> None:
        self.watched.pop(uid, None)
        self.stored.pop(uid, None)

    def get(self, uid: str) -> Mapping[str, Any] | None:
        return self.watched.get(uid)

    def by_name(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        return _named(self.watched.values(), namespace, name)

    def all(self) -> tuple[Mapping[str, Any], ...]:
        return tuple(self.watched.values())

    def first(self, uid: str) -> Mapping[str, str] | None:
        return self.seen.get(uid)

    def read(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        self._ask()
        return _named(self.stored.values(), namespace, name)

    def read_of_node(self) -> tuple[Mapping[str, Any], ...]:
        self._ask()
        return tuple(self.stored.values())

    def _ask(self) -> None:
        self.reads += 1
        if self.away:
            raise KubeError("connection refused")


class Told:
    """What was said about containers."""

    def __init__(self) -> None:
        self.done: list[tuple[str, tuple[str, ...]]] = []
        self.refusals: list[tuple[str, str, ContainerRefusal]] = []

    def served(self, uid: PodUid, containers: Mapping[str, AllocatedContainer]) -> None:
        self.done.append((uid, tuple(sorted(containers))))

    def refused(self, uid: PodUid, container: str, refusal: ContainerRefusal) -> None:
        self.refusals.append((uid, container, refusal))


class Node:
    """A node with two cards, a kubelet that was never started before, and an agent that can be lost and made anew."""

    def __init__(self, directory: Path, *, slots: int = 10, settings: EditSettings | None = None) -> None:
        self.directory = directory
        self.cards = (card("GPU-a"), card("GPU-b"))
        self.offer: NodeOffer = offer(*self.cards, slots=slots)
        self.slots = Slots.of(self.cards, slots)
        self.settings = settings or EditSettings(hook_path=str(directory / "hook"))
        self.pods = NodePods()
        self.told = Told()
        self.cdi = directory / "cdi"
        self.now = 0.0
        self.nonces = itertools.count(1)
        self.plugin = self.made()
        self.kubelet = FakeKubelet(directory, self.offered, Direct(self.plugin))

    @property
    def offered(self) -> list[str]:
        return [slot for each in self.cards for slot in self.slots.slots_of(each.uuid)]

    def made(self, *, cdi: bool = True) -> VolcanoDevicePlugin:
        """An agent that remembers nothing but what is on the disk."""
        self.specifications = CdiDirectory(self.cdi)
        assert self.specifications.open() is None
        self.directories = ContainerDirectories(self.directory / "hook", self.directory / "vgpulock")
        self.checkpoint = CheckpointReader(self.directory)
        ports = Ports(
            resource=COUNT,
            offer=lambda: self.offer,
            settings=lambda: self.settings,
            pods=self.pods,
            checkpoint=self.checkpoint.read,
            listed=lambda: self.kubelet.listed(),  # noqa: PLW0108 - the kubelet is made after the agent
            specifications=self.specifications,
            directories=self.directories,
            outcomes=self.told,
        )
        self.leftovers = GarbageCollector(
            self.specifications,
            self.directories,
            recorded=self.checkpoint.pods,
            live=lambda: frozenset(map(PodUid, self.pods.watched)),
        )
        self.plugin = VolcanoDevicePlugin(
            ports,
            cards=lambda: self.slots,
            nonce=lambda: f"{next(self.nonces):012x}",
            clock=lambda: self.now,
            cdi=cdi,
        )
        self.plugin.offer(Slot(slot, numa=each.numa) for each in self.cards for slot in self.slots.slots_of(each.uuid))
        return self.plugin

    def restart_agent(self, *, cdi: bool = True) -> None:
        """The agent is killed and comes back."""
        self.kubelet.calls = Direct(self.made(cdi=cdi))

    def create(self, raw: Mapping[str, Any]) -> Mapping[str, Any]:
        """A pod is bound to this node."""
        assert raw["spec"]["nodeName"] == NODE
        self.pods.put(raw)
        return raw

    def given(self, uid: str, container: str) -> dict[str, str] | None:
        """The variables that the runtime gives to a container; ``None`` where it cannot create it."""
        env: dict[str, str] = {}
        devices = self.specified()
        for name in self.kubelet.names_of(uid, container):
            if name not in devices:
                return None
            env |= dict(each.split("=", 1) for each in devices[name]["containerEdits"]["env"])
        return env

    def specified(self) -> dict[str, Any]:
        """Every device that the runtime knows, by its full name."""
        found: dict[str, Any] = {}
        for path in self.cdi.glob("*.json"):
            document = json.loads(path.read_bytes())
            for device in document["devices"]:
                name = f"{document['kind']}={device['name']}"
                assert name not in found, "two files define one device: the runtime refuses both"
                found[name] = device
        return found


def _named(pods: Iterable[Mapping[str, Any]], namespace: str, name: str) -> Mapping[str, Any] | None:
    wanted = (namespace, name)
    return next((raw for raw in pods if (raw["metadata"]["namespace"], raw["metadata"]["name"]) == wanted), None)


def _containers(raw: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [*(raw["spec"].get("initContainers") or ()), *raw["spec"]["containers"]]


def _count(container: Mapping[str, Any]) -> int:
    return int(container["resources"]["limits"].get(COUNT, 0))
