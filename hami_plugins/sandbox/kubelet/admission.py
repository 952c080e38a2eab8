"""Giving devices to the containers of a pod, or turning it away: all calls to plugins in the kubelet's own order."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import structlog

from hami_plugins.errors import KubeletError, WireError
from hami_plugins.node.kubelet import checkpoint
from hami_plugins.node.kubelet.deviceplugin_pb2 import ContainerAllocateResponse
from hami_plugins.sandbox.kubelet.cdi import CdiMount, Edits
from hami_plugins.sandbox.kubelet.devices import ContainerResource, DeviceRecords, DevicesRefused, PreferenceRequest
from hami_plugins.sandbox.kubelet.fault_points import FaultJournal, FaultPoint
from hami_plugins.sandbox.kubelet.plugins import PluginEndpoint
from hami_plugins.sandbox.kubelet.runtime import Configuration
from hami_plugins.sandbox.kubelet.specs import ContainerSpec, PodSpec, Role

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Rejection:
    """A pod is turned away for good; ``reason`` and ``message`` go into its status."""

    reason: str
    message: str


class ResourceRequest(NamedTuple):
    """So many devices of a resource, those of ended init containers first."""

    resource: str
    amount: int
    reusable: frozenset[str]


class CheckpointWriter:
    """``kubelet_internal_checkpoint``, replaced as a whole at every write."""

    def __init__(self, path: Path, book: DeviceRecords) -> None:
        self._path = path
        self._book = book
        self._lock = threading.Lock()

    def write(self) -> None:
        """Saves the book as it is now."""
        with self._lock:
            text = checkpoint.encode(self._book.checkpoint())
            unfinished = self._path.with_name(f".{self._path.name}")
            unfinished.write_bytes(text)
            unfinished.replace(self._path)

    def restore(self, now: float) -> Sequence[str]:
        """Takes over what an earlier kubelet saved, as far as there is something to be read.

        The resources whose plugins have to come back.
        """
        try:
            found = checkpoint.decode(self._path.read_bytes())
        except FileNotFoundError:
            return ()
        except WireError as error:
            _log.warning("checkpoint_unreadable", error=str(error))
            return ()
        self._book.restore(found, now)
        return tuple(found.registered or {})


class DeviceManager:
    """Speaks with plugins on behalf of pods.

    ``active`` gives the pods that have not ended, ``release`` frees what others held, ``allocatable`` is what the
    node's status says of extended resources.
    """

    def __init__(  # noqa: PLR0913 - wiring
        self,
        book: DeviceRecords,
        file: CheckpointWriter,
        journal: FaultJournal,
        *,
        endpoint: Callable[[str], PluginEndpoint | None],
        active: Callable[[], Sequence[PodSpec]],
        release: Callable[[], None],
        allocatable: Callable[[], Mapping[str, int]],
    ) -> None:
        self._book = book
        self._file = file
        self._journal = journal
        self._endpoint = endpoint
        self._active = active
        self._release = release
        self._allocatable = allocatable
        self._reusable: tuple[str, dict[str, set[str]]] = ("", {})

    def admit(self, pod: PodSpec, *, running: Collection[str] = ()) -> Rejection | None:
        """Gives every container its devices, or says why the pod cannot run here.

        ``running`` names containers that ran when the kubelet came up: they are taken as they are.
        """
        try:
            for container in pod.containers:
                if container.name not in running:
                    self._allocate(pod, container)
        except KubeletError as error:
            why = f"Allocate failed due to {error}, which is unexpected"
            rejection: Rejection | None = Rejection("UnexpectedAdmissionError", why)
        else:
            rejection = self._shortage(pod)
        self._journal.step(FaultPoint.ADMITTED if rejection is None else FaultPoint.REJECTED, pod)
        return rejection

    def configuration(self, pod: PodSpec, container: ContainerSpec) -> Configuration:
        """The runtime's container configuration; plugins are notified of the start first.

        Raises ``KubeletError``.
        """
        missing = False
        for resource, amount in container.limits.items():
            if amount and self._book.manages(resource):
                self._pre_start(pod, container, resource)
                missing = missing or resource not in self._book.held(pod.uid, container.name)
        if missing and pod.uid in {active.uid for active in self._active()}:
            self._allocate(pod, container)
        return _merged([entry.response for entry in self._book.held(pod.uid, container.name).values()])

    def _allocate(self, pod: PodSpec, container: ContainerSpec) -> None:
        owner, reusable = self._reusable
        if owner != pod.uid:
            reusable = {}
            self._reusable = pod.uid, reusable
        changed = False
        for resource, amount in container.limits.items():
            if self._book.manages(resource):
                self._release()
                changed |= self._give(
                    pod, container, ResourceRequest(resource, amount, frozenset(reusable.get(resource, ())))
                )
        if changed:
            self._file.write()
            self._journal.step(FaultPoint.CHECKPOINTED, pod, container.name)
        for resource, entry in self._book.held(pod.uid, container.name).items():
            if container.role is Role.INIT:
                reusable.setdefault(resource, set()).update(entry.device_ids)
            else:
                reusable.get(resource, set()).difference_update(entry.device_ids)

    def _give(self, pod: PodSpec, container: ContainerSpec, ask: ResourceRequest) -> bool:
        claim = ContainerResource(pod.uid, container.name, ask.resource)
        choice = self._book.choose(claim, ask.amount, ask.reusable)
        if isinstance(choice, PreferenceRequest):
            preferred = self._preferred(pod, container, ask.resource, choice)
            choice = self._book.take(ask.resource, choice, preferred)
        if isinstance(choice, DevicesRefused):
            raise KubeletError(choice.why)
        if not choice.ids:
            return False
        self._journal.step(FaultPoint.ALLOCATE, pod, container.name)
        try:
            response = self._asked(ask.resource, f"unknown Device Plugin {ask.resource}").allocate(choice.ids)
        except KubeletError:
            self._book.undo()
            raise
        self._journal.step(FaultPoint.ALLOCATED, pod, container.name)
        self._book.insert(claim, choice.ids, response)
        self._journal.step(FaultPoint.RECORDED, pod, container.name)
        return True

    def _asked(self, resource: str, otherwise: str = "") -> PluginEndpoint:
        endpoint = self._endpoint(resource)
        if endpoint is None:
            raise KubeletError(otherwise or f"endpoint not found in cache for a registered resource: {resource}")
        return endpoint

    def _preferred(
        self, pod: PodSpec, container: ContainerSpec, resource: str, question: PreferenceRequest
    ) -> tuple[str, ...]:
        endpoint = self._asked(resource)
        if not endpoint.options.get_preferred_allocation_available:
            return ()
        self._journal.step(FaultPoint.PREFER, pod, container.name)
        return endpoint.preferred(question.available, question.must_include, question.size)

    def _pre_start(self, pod: PodSpec, container: ContainerSpec, resource: str) -> None:
        endpoint = self._asked(resource)
        if not endpoint.options.pre_start_required:
            return
        entry = self._book.held(pod.uid, container.name).get(resource)
        if entry is None:
            raise KubeletError(
                f"no devices found allocated in local cache for pod {pod.uid}, container {container.name}, "
                f"resource {resource}"
            )
        self._journal.step(FaultPoint.PRE_START, pod, container.name)
        endpoint.pre_start(sorted(entry.device_ids))
        self._journal.step(FaultPoint.PRE_STARTED, pod, container.name)

    def _shortage(self, pod: PodSpec) -> Rejection | None:
        """The check against the node's status, raised to what is given out already where this pod got something."""
        allocatable = dict(self._allocatable())
        if self._book.held_by_pod(pod.uid):
            for resource, count in self._book.in_use().items():
                allocatable[resource] = max(allocatable.get(resource, 0), count)
        others = [other for other in self._active() if other.uid != pod.uid]
        for resource, wanted in sorted(pod.requests.items()):
            used = sum(other.requests.get(resource, 0) for other in others)
            if resource in allocatable and wanted and wanted > allocatable[resource] - used:
                return Rejection(
                    f"OutOf{resource}",
                    f"Node didn't have enough resource: {resource}, requested: {wanted}, used: {used}, "
                    f"capacity: {allocatable[resource]}",
                )
        return None


def _merged(answers: Sequence[ContainerAllocateResponse]) -> Configuration:
    """The answers of several plugins as one; where two say something different, the first is heard."""
    env: dict[str, str] = {}
    mounts: dict[str, CdiMount] = {}
    devices: dict[str, str] = {}
    annotations: dict[str, str] = {}
    names: dict[str, None] = {}
    for answer in answers:
        env = {**answer.envs, **env}
        annotations = {**answer.annotations, **annotations}
        for mount in answer.mounts:
            made = CdiMount(mount.host_path, mount.container_path, read_only=mount.read_only, made=True)
            mounts.setdefault(mount.container_path, made)
        for device in answer.devices:
            devices.setdefault(device.container_path, device.host_path)
        names.update((device.name, None) for device in answer.cdi_devices)
    return Configuration(
        edits=Edits(
            env=tuple(sorted(env.items())),
            mounts=tuple(mounts.values()),
            devices=tuple((host, inside) for inside, host in devices.items()),
        ),
        cdi=tuple(names),
        annotations=annotations,
    )
