"""Which devices a kubelet knows and which container holds them: the device manager's memory, without its calls.

Follows kubelet 1.34 (``cm/devicemanager``) with the topology policy ``none``, the default; refusals have its texts.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from hami_plugins.model.units import PodUid
from hami_plugins.node.kubelet.checkpoint import Checkpoint, CheckpointEntry
from hami_plugins.node.kubelet.deviceplugin_pb2 import ContainerAllocateResponse


@dataclass(frozen=True, slots=True)
class DevicesRefused:
    """Devices cannot be given; ``why`` is the kubelet's text."""

    why: str


@dataclass(frozen=True, slots=True)
class PreferenceRequest:
    """Before choosing ``size`` devices the plugin is to be asked which of ``available`` it prefers."""

    available: tuple[str, ...]
    must_include: tuple[str, ...]
    size: int


@dataclass(frozen=True, slots=True)
class TakenDevices:
    """Devices set aside for a container; none where it holds what it asks for already."""

    ids: tuple[str, ...] = ()


class ContainerResource(NamedTuple):
    """One resource of one container of one pod."""

    uid: str
    container: str
    resource: str


class Counts(NamedTuple):
    """What a node's status says of one resource."""

    capacity: int
    allocatable: int


@dataclass(slots=True)
class _Resource:
    """Everything known of one resource. ``stopped`` is when its plugin went away, on the caller's clock."""

    healthy: set[str] = field(default_factory=set)
    unhealthy: set[str] = field(default_factory=set)
    stopped: float | None = None


class DeviceRecords:
    """The kubelet's memory of devices; safe to use from several threads, never waits.

    ``forgets`` keeps a fault of the real kubelet (``trials.md`` K8): devices that are set aside for a container
    whose Allocate is under way are forgotten when meanwhile another pod is found to be gone.
    """

    def __init__(self, *, forgets: bool = True) -> None:
        self._lock = threading.RLock()
        self._forgets = forgets
        self._resources: dict[str, _Resource] = {}
        self._in_use: dict[str, set[str]] = {}
        self._under_way: dict[str, set[str]] = {}
        self._entries: dict[ContainerResource, CheckpointEntry] = {}

    def offer(self, resource: str, healthy: Iterable[str], unhealthy: Iterable[str]) -> None:
        """The plugin's list: it replaces what was known."""
        with self._lock:
            known = self._resources.setdefault(resource, _Resource())
            known.healthy, known.unhealthy = set(healthy), set(unhealthy)

    def connect(self, resource: str) -> None:
        """A plugin serves the resource (again)."""
        with self._lock:
            if (known := self._resources.get(resource)) is not None:
                known.stopped = None

    def disconnect(self, resource: str, now: float) -> None:
        """The plugin has gone: its devices stay, none of them healthy."""
        with self._lock:
            known = self._resources.setdefault(resource, _Resource())
            known.unhealthy |= known.healthy
            known.healthy = set()
            known.stopped = now

    def counts(self, now: float, *, grace: float) -> Mapping[str, Counts]:
        """What the node's status is to say; a plugin gone for more than ``grace`` seconds leaves zeros once."""
        found: dict[str, Counts] = {}
        with self._lock:
            for name, known in sorted(self._resources.items()):
                if known.stopped is not None and now - known.stopped > grace:
                    del self._resources[name]
                    found[name] = Counts(0, 0)
                else:
                    found[name] = Counts(len(known.healthy) + len(known.unhealthy), len(known.healthy))
        return found

    def knows(self, resource: str) -> bool:
        """Whether a plugin serves the resource, or has served it a short while ago."""
        with self._lock:
            return resource in self._resources

    def all_listed(self) -> bool:
        """Whether every known resource has a plugin that has told its devices."""
        with self._lock:
            return all(known.stopped is None and known.healthy | known.unhealthy for known in self._resources.values())

    def manages(self, resource: str) -> bool:
        """Whether a container's request for the resource is this kubelet's business."""
        with self._lock:
            return resource in self._resources or resource in self._in_use

    def choose(
        self, claim: ContainerResource, needed: int, reusable: Collection[str]
    ) -> DevicesRefused | PreferenceRequest | TakenDevices:
        """The first step of giving devices: those of ended init containers, a refusal, or a question to the plugin."""
        with self._lock:
            known = self._resources.get(claim.resource)
            held = self._entries.get(claim)
            if isinstance(healthy := _usable(claim, needed, known, held), DevicesRefused):
                return healthy
            if held is not None or needed == 0:
                return TakenDevices()
            reused = sorted(reusable)[:needed]
            available = healthy - self._in_use.get(claim.resource, set()) - set(reused)
            missing = needed - len(reused)
            self._set_aside(claim.resource, reused)
            if not missing:
                return TakenDevices(tuple(reused))
            if len(available) < missing:
                return DevicesRefused(
                    f"requested number of devices unavailable for {claim.resource}. "
                    f"Requested: {missing}, Available: {len(available)}"
                )
            return PreferenceRequest(tuple(sorted({*available, *reused})), tuple(reused), needed)

    def take(self, resource: str, question: PreferenceRequest, preferred: Iterable[str]) -> TakenDevices:
        """The second step: what the plugin prefers, as far as it was offered, and then any."""
        with self._lock:
            free = [one for one in question.available if one not in question.must_include]
            wanted = set(preferred)
            ranked = sorted(free, key=lambda one: one not in wanted)
            chosen = (*question.must_include, *ranked)[: question.size]
            self._set_aside(resource, chosen)
            return TakenDevices(tuple(sorted(chosen)))

    def insert(self, claim: ContainerResource, ids: Iterable[str], response: ContainerAllocateResponse) -> None:
        """The last step: the plugin has answered, the container holds the devices."""
        with self._lock:
            self._entries[claim] = CheckpointEntry(
                pod_uid=PodUid(claim.uid),
                container=claim.container,
                resource=claim.resource,
                device_ids=frozenset(ids),
                response=response,
            )
            self._under_way.pop(claim.resource, None)

    def undo(self) -> None:
        """An Allocate failed: only what containers hold is in use."""
        with self._lock:
            self._under_way.clear()
            self._recount()

    def release_except(self, active: Collection[str]) -> None:
        """Frees what pods hold that are not ``active`` any more (by UID)."""
        with self._lock:
            gone = [key for key in self._entries if key.uid not in active]
            for key in gone:
                del self._entries[key]
            if gone:
                self._recount()

    def lose(self, uid: str) -> None:
        """What the real kubelet's fault does to a pod: its devices count as free although it holds them."""
        with self._lock:
            for claim, entry in self._entries.items():
                if claim.uid == uid:
                    self._in_use.get(claim.resource, set()).difference_update(entry.device_ids)

    def held(self, uid: str, container: str) -> Mapping[str, CheckpointEntry]:
        """What a container holds, by resource."""
        with self._lock:
            return {
                claim.resource: self._entries[claim] for claim in sorted(self._entries) if claim[:2] == (uid, container)
            }

    def held_by_pod(self, uid: str) -> bool:
        """Whether any container of the pod holds anything."""
        with self._lock:
            return any(claim.uid == uid for claim in self._entries)

    def in_use(self) -> Mapping[str, int]:
        """How many devices of each resource are in use."""
        with self._lock:
            return {name: len(ids) for name, ids in self._in_use.items()}

    def allocatable(self) -> Mapping[str, tuple[str, ...]]:
        """The healthy devices of each resource."""
        with self._lock:
            return {name: tuple(sorted(known.healthy)) for name, known in sorted(self._resources.items())}

    def checkpoint(self) -> Checkpoint:
        """What is written to the kubelet's file."""
        with self._lock:
            return Checkpoint(tuple(self._entries[key] for key in sorted(self._entries)), self.allocatable())

    def restore(self, checkpoint: Checkpoint, now: float) -> None:
        """What a kubelet remembers when it starts: who holds what, and which resources have yet to come back."""
        with self._lock:
            self._entries = {ContainerResource(e.pod_uid, e.container, e.resource): e for e in checkpoint.entries}
            self._resources = {name: _Resource(stopped=now) for name in checkpoint.registered or {}}
            self._recount()

    def _set_aside(self, resource: str, ids: Iterable[str]) -> None:
        chosen = set(ids)
        self._in_use.setdefault(resource, set()).update(chosen)
        self._under_way.setdefault(resource, set()).update(chosen)

    def _recount(self) -> None:
        self._in_use = {} if self._forgets else {name: set(ids) for name, ids in self._under_way.items()}
        for claim, entry in self._entries.items():
            self._in_use.setdefault(claim.resource, set()).update(entry.device_ids)


def _usable(
    claim: ContainerResource, needed: int, known: _Resource | None, held: CheckpointEntry | None
) -> DevicesRefused | set[str]:
    """The healthy devices, or why nothing may be given at all, in the order in which the kubelet looks."""
    ids = held.device_ids if held is not None else frozenset[str]()
    resource = claim.resource
    if held is not None and len(ids) != needed:
        changed = f'pod "{claim.uid}" container "{claim.container}" changed request for resource "{resource}"'
        return DevicesRefused(f"{changed} from {len(ids)} to {needed}")
    if known is None:
        return DevicesRefused(f"cannot allocate unregistered device {resource}")
    if not known.healthy:
        return DevicesRefused(f"no healthy devices present; cannot allocate unhealthy devices {resource}")
    if not ids <= known.healthy:
        return DevicesRefused(
            f"previously allocated devices are no longer healthy; cannot allocate unhealthy devices {resource}"
        )
    return known.healthy
