"""What containers use of their devices: the last report of neuron-monitor, joined with what pods were given."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from hami_plugins.model.units import NodeName, PodUid
from hami_plugins.wire.cgroups import ProcessOwner
from hami_plugins.wire.usage import ContainerUsage
from neuron_topology.agent.lister import MachineListing
from neuron_topology.agent.machine import Machine, MachineError
from neuron_topology.agent.users import UserCheck
from neuron_topology.core.agent.monitor import MachineFacts, MonitorReport, owned, usage_of
from neuron_topology.core.agent.sensors import DeviceErrors

COMPLETED = "completed"
"""The kind of executions that went well; any other is neuron-monitor's word for an error."""


class ExecutionKey(NamedTuple):
    """Whose executions, and how they ended."""

    namespace: str
    pod: str
    container: str
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UseFindings:
    """What is measured now: containers, busy ratio by core of the machine, executions since the agent began."""

    containers: tuple[ContainerUsage, ...] = ()
    cores: tuple[tuple[str, str, str, int, float], ...] = ()
    executions: tuple[tuple[ExecutionKey, int], ...] = ()
    reporting: bool = False


class UseMeter:
    """Takes reports from the stream's thread, and is asked from others."""

    def __init__(
        self, node: NodeName, machine: Machine, users: UserCheck, listing: Callable[[], MachineListing | None]
    ) -> None:
        self._node = node
        self._machine = machine
        self._users = users
        self._listing = listing
        self._lock = threading.Lock()
        self._report: MonitorReport | None = None
        self._executions: Counter[ExecutionKey] = Counter()
        self._uids: dict[ExecutionKey, PodUid] = {}

    @property
    def devices(self) -> tuple[DeviceErrors, ...]:
        """The errors by the hardware's counters; none without a report."""
        with self._lock:
            return () if self._report is None else self._report.devices

    def heard(self, report: MonitorReport | None) -> None:
        """Takes a report; ``None`` where the stream has ended, so that no old figure is taken for a new one."""
        with self._lock:
            self._report = report
        listing = self._listing()
        if report is None or listing is None or not report.runtimes:
            return
        pods = self._users.pods(listing.cores)
        with self._lock:
            for runtime, uid, container in owned(report.runtimes, self._owner, pods):
                if uid not in pods:
                    continue
                for kind, count in {**runtime.errors, COMPLETED: runtime.completed}.items():
                    key = ExecutionKey(pods[uid].namespace, pods[uid].name, container, kind)
                    self._executions[key] += count
                    self._uids[key] = uid
            for key in [each for each, uid in self._uids.items() if uid not in pods]:
                del self._uids[key], self._executions[key]

    def findings(self) -> UseFindings:
        """What is measured now."""
        with self._lock:
            report, executions = self._report, tuple(sorted(self._executions.items()))
        listing = self._listing()
        if report is None or listing is None:
            return UseFindings(executions=executions, reporting=report is not None)
        pods = self._users.pods(listing.cores)
        facts = MachineFacts(node=self._node, cores=listing.cores, memory=listing.observed.devices[0].memory)
        cores = tuple(
            (known.namespace if known else "", known.name if known else uid, container, core, ratio)
            for runtime, uid, container in owned(report.runtimes, self._owner, pods)
            for known in (pods.get(uid),)
            for core, ratio in sorted(runtime.cores.items())
        )
        return UseFindings(
            containers=usage_of(report, self._owner, pods, facts), cores=cores, executions=executions, reporting=True
        )

    def _owner(self, pid: int) -> ProcessOwner | None:
        """The owner of a process; ``None`` for one that cannot be read."""
        try:
            return self._machine.owner(pid)
        except MachineError:
            return None
