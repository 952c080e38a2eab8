"""Compares who uses devices with who was given them, and reports what is new: log, events, metrics."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import structlog

from hami_plugins.errors import WireError
from hami_plugins.kube.events import EventRecorder, ObjectRef
from hami_plugins.kube.store import Store
from hami_plugins.model.units import PodUid
from hami_plugins.node.kubelet import checkpoint
from hami_plugins.vendors.awsneuron import IDS_KEY, KIND_KEY
from hami_plugins.wire import lenient
from hami_plugins.wire.fields import Json
from neuron_topology.agent.lister import MachineListing
from neuron_topology.agent.machine import Machine, MachineError
from neuron_topology.core.agent.processes import PodDevices, Stranger, device_of, numbered, pods_of, strangers
from neuron_topology.core.names import CORES, DEVICES, LEGACY_DEVICES

CHECKPOINT: Final = "kubelet_internal_checkpoint"
STRANGER: Final = "NeuronDeviceStranger"
DIFFERS: Final = "NeuronDevicesDiffer"
WITHOUT_PLUGIN: Final = "NeuronDevicePluginMissing"
"""Reasons of events."""

_RESOURCES: Final = frozenset({DEVICES, CORES, LEGACY_DEVICES})

_log = structlog.get_logger(__name__)


def trimmed(pod: Json) -> Json:
    """What the agent reads of a pod."""
    metadata, spec, status = (lenient.inside(pod, name) for name in ("metadata", "spec", "status"))
    annotations = lenient.texts(metadata.get("annotations"))
    containers = ("containers", "initContainers")
    return {
        "metadata": {
            **{name: metadata[name] for name in ("namespace", "name", "uid") if name in metadata},
            "annotations": {key: annotations[key] for key in (IDS_KEY, KIND_KEY) if key in annotations},
        },
        "spec": {
            name: [{"name": each.get("name"), "resources": each.get("resources")} for each in held]
            for name in containers
            if (held := lenient.mappings(spec.get(name)))
        },
        "status": {
            "phase": status.get("phase"),
            **{
                name: [{key: each.get(key) for key in ("name", "containerID")} for each in held]
                for name in ("containerStatuses", "initContainerStatuses")
                if (held := lenient.mappings(status.get(name)))
            },
        },
    }


class UserCheck:
    """``strangers`` and ``differing`` (pods by name) are those of the last comparison; each is reported once."""

    def __init__(self, machine: Machine, pods: Store, events: EventRecorder, *, node: str, kubelet: Path) -> None:
        self._machine = machine
        self._pods = pods
        self._events = events
        self._node = node
        self._checkpoint = kubelet / CHECKPOINT
        self._reported: frozenset[str] = frozenset()
        self._unreadable = ""
        self._without_plugin = False
        self.strangers: tuple[Stranger, ...] = ()
        self.differing: tuple[str, ...] = ()

    def compare(self, listing: MachineListing, *, with_plugin: bool) -> None:
        """Looks at the processes of a listing."""
        observed = listing.observed
        pods = self.pods(listing.cores)
        try:
            self.strangers = strangers(listing.processes, self._machine.owner, pods)
        except MachineError as error:
            _log.warning("processes_not_matched", error=str(error))
            return
        differing = [pod for pod in pods.values() if pod.differs]
        self.differing = tuple(sorted(pod.full_name for pod in differing))
        reports = [(self._about(each.pod), STRANGER, str(each)) for each in self.strangers]
        reports += [(self._about(pod), DIFFERS, _difference(pod)) for pod in differing]
        if not with_plugin and self._without_plugin:
            said = f"the machine has {len(observed.devices)} Neuron devices and the node offers no {DEVICES}"
            reports.append(
                (self._about(None), WITHOUT_PLUGIN, f"{said}: deploy AWS's neuron-device-plugin, or look at its log")
            )
        # A node that is just starting has the plugin a moment later.
        self._without_plugin = not with_plugin
        self._report(reports)

    def pods(self, cores: int) -> dict[PodUid, PodDevices]:
        """What the pods of the node were given, on devices of so many cores."""
        return pods_of(self._pods.all(), self._handed_out(), cores=cores)

    def _report(self, reports: list[tuple[ObjectRef, str, str]]) -> None:
        """Reports what the last comparison did not report."""
        for about, reason, said in reports:
            if said not in self._reported:
                _log.warning("neuron_use", reason=reason, message=said)
                self._events.emit(about, reason, said, now=datetime.now(UTC))
        self._reported = frozenset(said for _, _, said in reports)

    def _about(self, pod: PodDevices | None) -> ObjectRef:
        """The pod, or the node where there is none."""
        if pod is None:
            return ObjectRef("Node", self._node, self._node)
        return ObjectRef("Pod", pod.name, pod.uid, pod.namespace)

    def _handed_out(self) -> dict[PodUid, frozenset[int]]:
        """The devices that AWS's plugin handed to each pod, by the device files in its answers."""
        try:
            record = checkpoint.decode(self._checkpoint.read_bytes())
        except (OSError, WireError) as error:
            if str(error) != self._unreadable:
                self._unreadable = str(error)
                _log.warning("kubelet_record_unreadable", error=str(error))
            return {}
        self._unreadable = ""
        found: dict[PodUid, frozenset[int]] = {}
        for entry in record.entries:
            if entry.resource not in _RESOURCES:
                continue
            numbers = (device_of(each.host_path) for each in entry.response.devices)
            devices = frozenset(number for number in numbers if number is not None)
            if devices:
                found[entry.pod_uid] = found.get(entry.pod_uid, frozenset()) | devices
        return found


def _difference(pod: PodDevices) -> str:
    given, named = numbered(pod.kubelet or ()), numbered(pod.annotated or ())
    return f"AWS's device plugin gave the pod {given}, its annotations name {named}; recreate the pod"
