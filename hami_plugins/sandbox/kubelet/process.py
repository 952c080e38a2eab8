"""One life of a kubelet process, from start to stop: everything that a restart replaces."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hami_plugins.kube import paths
from hami_plugins.kube.events import EventRecorder
from hami_plugins.kube.port import KubeApi, Selection
from hami_plugins.kube.reflector import Backoff, Reflector
from hami_plugins.node.kubelet.sockets import CHECKPOINT
from hami_plugins.sandbox.kubelet.admission import CheckpointWriter, DeviceManager
from hami_plugins.sandbox.kubelet.admission_queue import AdmissionQueue, Roster
from hami_plugins.sandbox.kubelet.devices import DeviceRecords
from hami_plugins.sandbox.kubelet.fault_points import FaultJournal
from hami_plugins.sandbox.kubelet.nodes import NodeStatus
from hami_plugins.sandbox.kubelet.pod_resources import PodResourcesServer, Rate
from hami_plugins.sandbox.kubelet.pods import PodEnvironment
from hami_plugins.sandbox.kubelet.registration import Registrations
from hami_plugins.sandbox.kubelet.runtime import Runtime
from hami_plugins.sandbox.kubelet.status_writer import StatusWriter
from hami_plugins.sandbox.kubelet.times import Times


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletMachine:
    """What is there before a kubelet starts and after it ends."""

    api: KubeApi
    node: str
    plugin_directory: Path
    pod_resources_socket: Path
    volumes: Path
    runtime: Runtime
    journal: FaultJournal
    times: Times
    rate: Rate | None
    forgets: bool
    clock: Callable[[], float]


class KubeletProcess:
    """``start`` it once and ``stop`` it once."""

    def __init__(self, machine: KubeletMachine) -> None:
        self._machine = machine
        self.book = DeviceRecords(forgets=machine.forgets)
        self._roster = Roster()
        self._file = CheckpointWriter(machine.plugin_directory / CHECKPOINT, self.book)
        self._events = EventRecorder(machine.api, "kubelet", machine.node)
        self._node = NodeStatus(
            machine.api,
            machine.node,
            self.book,
            times=machine.times,
            clock=machine.clock,
            complete=self._roster.complete,
        )
        self._registrations = Registrations(
            machine.plugin_directory, self.book, times=machine.times, clock=machine.clock, on_devices=self._devices
        )
        self._pod_resources = PodResourcesServer(
            machine.pod_resources_socket,
            self.book,
            active=self._roster.active,
            release=self._release,
            rate=machine.rate,
            clock=machine.clock,
        )
        self.intake = AdmissionQueue(self._surroundings(), self._roster, on_complete=self._node.wake)
        self._pods = Reflector(
            machine.api,
            Selection(paths.PODS, "Pod", fields=f"spec.nodeName={machine.node}"),
            on_change=self.intake.tell,
            name=f"kubelet-{machine.node}",
            backoff=Backoff(first=0.05, most=5.0),
        )

    def start(self) -> None:
        """Sockets first; pods are looked at when plugins have had their moment to come back."""
        self._registrations.remember(self._file.restore(self._machine.clock()))
        self._look_whether_settled()
        self._registrations.start()
        self._pod_resources.start()
        self._events.start()
        self._node.start()
        self.intake.start()
        self._pods.start()

    def stop(self) -> None:
        """Closes every connection, which also ends waits for a plugin."""
        self._pods.stop()
        self._registrations.stop()
        self.intake.stop()
        self._pod_resources.stop()
        self._node.stop()
        self._events.stop()

    def _surroundings(self) -> PodEnvironment:
        machine = self._machine
        allocator = DeviceManager(
            self.book,
            self._file,
            machine.journal,
            endpoint=self._registrations.endpoint,
            active=self._roster.active,
            release=self._release,
            allocatable=self._node.allocatable,
        )
        return PodEnvironment(
            runtime=machine.runtime,
            allocator=allocator,
            journal=machine.journal,
            paper=StatusWriter(machine.api, self._events),
            times=machine.times,
            clock=machine.clock,
            volumes=machine.volumes,
            host="127.0.0.1",
        )

    def _release(self) -> None:
        if self._roster.complete.is_set():
            self.book.release_except({pod.uid for pod in self._roster.active()})

    def _devices(self) -> None:
        if not self._machine.journal.dead.is_set():
            self._file.write()
            self._node.wake()
            self._look_whether_settled()

    def _look_whether_settled(self) -> None:
        if self.book.all_listed():
            self.intake.settled()
