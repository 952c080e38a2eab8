"""Who uses which device, by ``neuron-ls``, and who was given it: processes that use what they were not given.

A pod was given what AWS's device plugin handed to the kubelet, or else what its annotations name. A pod that asks for
devices and of which neither is known may use any.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from hami_plugins.model.units import PodUid
from hami_plugins.vendors.awsneuron import IDS_KEY, KIND_KEY
from hami_plugins.wire import lenient
from hami_plugins.wire.cgroups import ProcessOwner
from hami_plugins.wire.fields import Json
from hami_plugins.wire.pods import finished
from neuron_topology.core.hardware.neuron_ls import device_list
from neuron_topology.core.names import CORES, DEVICES, LEGACY_DEVICES

_NODE: Final = re.compile(r"/dev/neuron(\d{1,4})")
_LONGEST_COMMAND: Final = 120
_DIGITS: Final = 6
_PARTS: Final = ("limits", "requests")
_ASKED: Final = (DEVICES, CORES, LEGACY_DEVICES)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceProcess:
    """One process on one device, as neuron-ls lists it; command and runtime version may be empty."""

    device: int
    pid: int
    command: str = ""
    runtime: str = ""


class StrangerReason(StrEnum):
    """Why a process should not be on a device."""

    OUTSIDE = "outside-pods"
    UNKNOWN = "unknown-pod"
    NOT_ALLOCATED = "not-allocated"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodDevices:
    """What one pod was given: by the kubelet's record, by its annotations; ``None`` where that says nothing.

    ``asking`` are its containers that ask for Neuron devices or cores, ``containers`` the names of all by container id.
    ``cores`` is how many cores it has of each device that it does not have whole.
    """

    uid: PodUid
    namespace: str
    name: str
    kubelet: frozenset[int] | None = None
    annotated: frozenset[int] | None = None
    asking: tuple[str, ...] = ()
    cores: Mapping[int, int] = field(default_factory=dict)
    containers: Mapping[str, str] = field(default_factory=dict)

    @property
    def full_name(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def differs(self) -> bool:
        """Whether the kubelet's record and the annotations name different devices."""
        return None not in (self.kubelet, self.annotated) and self.kubelet != self.annotated

    def may_use(self, device: int) -> bool:
        """Whether the device was given to the pod, or may have been."""
        return bool(self.asking) if self.devices is None else device in self.devices

    @property
    def devices(self) -> frozenset[int] | None:
        """What it was given, as the kubelet has it or else as it is annotated; ``None`` where neither is known."""
        return self.annotated if self.kubelet is None else self.kubelet


@dataclass(frozen=True, slots=True, kw_only=True)
class Stranger:
    """A process on devices that it was not given. ``pod`` is ``None`` for one of the host or of an unknown pod."""

    pid: int
    command: str
    devices: tuple[int, ...]
    reason: StrangerReason
    pod: PodDevices | None = None
    container: str = ""

    def __str__(self) -> str:
        """The sentence of the log and of the event."""
        said = f"process {self.pid} ({self.command or 'unknown command'}) uses Neuron {numbered(self.devices)}"
        if self.pod is not None:
            where = f"container {self.container} of " if self.container else ""
            return f"{said}; it is in {where}pod {self.pod.full_name}, which was not given that"
        if self.reason is StrangerReason.UNKNOWN:
            return f"{said}; the API server has no such pod on this node"
        return f"{said}; it is in no pod, so no scheduler counts it: end it, or drain the node"


def numbered(devices: Iterable[int]) -> str:
    """``device 3``, or ``devices 3, 4``."""
    listed = sorted(devices)
    return f"device{'s' if len(listed) != 1 else ''} {', '.join(map(str, listed))}"


def processes_of(place: str, printed: str) -> tuple[DeviceProcess, ...]:
    """The processes in the JSON of neuron-ls; entries that cannot be read are left out.

    Raises ``WireError`` without a list of devices.
    """
    return tuple(
        DeviceProcess(
            device=device,
            pid=pid,
            command=lenient.text(raw.get("command"))[:_LONGEST_COMMAND],
            runtime=lenient.text(raw.get("neuron_runtime_version")),
        )
        for holder in lenient.mappings(device_list(place, printed))
        if (device := lenient.whole(holder.get("neuron_device"))) is not None
        for raw in lenient.mappings(holder.get("neuron_processes"))
        if (pid := lenient.whole(raw.get("pid"))) is not None
    )


def device_of(path: str) -> int | None:
    """The index of a device file such as ``/dev/neuron3``; ``None`` for any other path."""
    found = _NODE.fullmatch(path)
    return int(found[1]) if found else None


def pods_of(pods: Iterable[Json], kubelet: Mapping[PodUid, frozenset[int]], *, cores: int) -> dict[PodUid, PodDevices]:
    """What each pod was given. ``cores`` are the logical ones of a device, by which core numbers become devices."""
    return {
        PodUid(lenient.uid(raw)): PodDevices(
            uid=PodUid(lenient.uid(raw)),
            namespace=lenient.text(metadata.get("namespace")),
            name=lenient.text(metadata.get("name")),
            kubelet=kubelet.get(PodUid(lenient.uid(raw))),
            annotated=frozenset(held) if held is not None else None,
            asking=tuple(_asking(raw)),
            cores={device: count for device, count in (held or {}).items() if count},
            containers=dict(_containers(raw)),
        )
        for raw in pods
        if not finished(raw)
        for metadata in (lenient.inside(raw, "metadata"),)
        for held in (_annotated(lenient.texts(metadata.get("annotations")), cores),)
    }


def strangers(
    processes: Iterable[DeviceProcess], owner: Callable[[int], ProcessOwner | None], pods: Mapping[PodUid, PodDevices]
) -> tuple[Stranger, ...]:
    """The processes on devices that they were not given; one that has ended meanwhile (``None``) is none."""
    by_pid: dict[int, list[DeviceProcess]] = {}
    for process in processes:
        by_pid.setdefault(process.pid, []).append(process)
    found = (_stranger(held, owned, pods) for pid, held in by_pid.items() if (owned := owner(pid)) is not None)
    return tuple(each for each in found if each is not None)


def _stranger(held: list[DeviceProcess], owner: ProcessOwner, pods: Mapping[PodUid, PodDevices]) -> Stranger | None:
    """One process with all of its devices; ``None`` where it may use them all."""
    known = [pods[uid] for uid in sorted(owner.pods) if uid in pods]
    wrong = tuple(sorted(each.device for each in held if not any(pod.may_use(each.device) for pod in known)))
    if not wrong:
        return None
    if known:
        container = known[0].containers.get(owner.container_id, "")
        reason, pod = StrangerReason.NOT_ALLOCATED, known[0]
    else:
        container, pod = "", None
        reason = StrangerReason.UNKNOWN if owner.pods else StrangerReason.OUTSIDE
    return Stranger(
        pid=held[0].pid, command=held[0].command, devices=wrong, reason=reason, pod=pod, container=container
    )


def _annotated(annotations: Mapping[str, str], cores: int) -> Mapping[int, int] | None:
    """The devices that AWS's plugin is configured to hand out, with the cores of each; 0 cores is a whole device."""
    numbers = [part.strip() for part in annotations.get(IDS_KEY, "").split(",")]
    if not all(each.isascii() and each.isdecimal() and len(each) <= _DIGITS for each in numbers):
        return None
    if KIND_KEY not in annotations:
        return dict.fromkeys(map(int, numbers), 0)
    return Counter(int(each) // cores for each in numbers) if cores else None


def _asking(raw: Json) -> Iterator[str]:
    spec = lenient.inside(raw, "spec")
    for each in (*lenient.mappings(spec.get("containers")), *lenient.mappings(spec.get("initContainers"))):
        amounts = (lenient.inside(each, "resources", part).get(name) for part in _PARTS for name in _ASKED)
        if any(amount not in (None, 0, "0") for amount in amounts):
            yield lenient.text(each.get("name"))


def _containers(raw: Json) -> Iterator[tuple[str, str]]:
    status = lenient.inside(raw, "status")
    for part in ("containerStatuses", "initContainerStatuses"):
        for each in lenient.mappings(status.get(part)):
            yield lenient.text(each.get("containerID")).rpartition("/")[2], lenient.text(each.get("name"))
