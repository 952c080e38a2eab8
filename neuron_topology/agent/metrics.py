"""The agent's Prometheus metrics of its node: devices, errors, strangers, and its own work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from hami_plugins.observe.metrics import Metrics
from neuron_topology.agent.use import UseFindings
from neuron_topology.core.agent.processes import Stranger, StrangerReason
from neuron_topology.core.agent.sensors import Sensors
from neuron_topology.core.hardware.machines import MachineHealth

PRODUCT: Final = "neuron_agent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What the agent knows now.

    ``differing`` are pods whose annotations and kubelet name different devices; ``checks`` are those of ``/readyz`` by
    name: whether each passes.
    """

    sensors: Sensors = field(default=Sensors())
    health: MachineHealth = field(default=MachineHealth())
    strangers: tuple[Stranger, ...] = ()
    differing: tuple[str, ...] = ()
    without_plugin: bool = False
    checks: Mapping[str, bool] = field(default_factory=dict)


class NeuronAgentMetrics:
    """The agent's metrics; ``read_from`` adds those that are looked up."""

    def __init__(self) -> None:
        self.metrics = Metrics(PRODUCT)
        self._writes = self.metrics.counter("node_writes_total", "Writes of the node's annotations")
        self._runs = self.metrics.counter("listings_total", "Runs of neuron-ls by result", ("result",))
        self._seconds = self.metrics.histogram("listing_seconds", "Time that a run of neuron-ls took")
        self._refused = self.metrics.counter(
            "monitor_lines_refused_total", "Lines of neuron-monitor that are not reports"
        )
        self._looks = self.metrics.counter("failed_looks_total", "Looks at the driver's counters that failed")

    def wrote(self) -> None:
        """The node was written."""
        self._writes.inc()

    def ran(self, seconds: float, good: bool) -> None:
        """Neuron-ls ran."""
        self._runs.labels("ok" if good else "failed").inc()
        self._seconds.observe(seconds)

    def refused(self) -> None:
        """Counts a line of neuron-monitor that was not a report."""
        self._refused.inc()

    def failed(self) -> None:
        """The counters could not be read."""
        self._looks.inc()

    def read_from(self, findings: Callable[[], Findings], use: Callable[[], UseFindings]) -> None:
        """Adds what the agent knows at each reading."""
        self.metrics.collected(lambda: (*families(findings()), *use_families(use())))


def families(found: Findings) -> Iterator[Metric]:
    """Devices and their errors, and who uses what was not given to them."""
    devices = GaugeMetricFamily(f"{PRODUCT}_devices", "Devices by state", labels=("state",))
    broken, repaired = len(found.health.devices), len(found.health.repaired)
    sound = sum(1 for each in found.sensors.present if each not in found.health.devices | found.health.repaired)
    for state, count in (("healthy", sound), ("repaired", repaired), ("broken", broken)):
        devices.add_metric((state,), float(count))
    yield devices
    errors = CounterMetricFamily(
        f"{PRODUCT}_device_errors", "Errors that the driver counted since it was loaded", labels=("device", "kind")
    )
    for each in found.sensors.devices:
        kinds = (("memory", each.memory), ("sram", each.sram), ("memory-repairable", each.repairable))
        for kind, count in kinds:
            errors.add_metric((str(each.index), kind), float(count))
    yield errors
    reasons = Counter(each.reason for each in found.strangers)
    strangers = GaugeMetricFamily(
        f"{PRODUCT}_strangers", "Uses of devices by processes that were not given them", labels=("reason",)
    )
    for reason in StrangerReason:
        strangers.add_metric((reason.value,), float(reasons[reason]))
    yield strangers
    yield GaugeMetricFamily(
        f"{PRODUCT}_differing_pods",
        "Pods whose annotations name other devices than the device plugin handed out",
        value=float(len(found.differing)),
    )
    yield GaugeMetricFamily(
        f"{PRODUCT}_device_plugin_missing",
        "Whether the machine has devices and its node has no aws.amazon.com/neuron",
        value=float(found.without_plugin),
    )
    checks = GaugeMetricFamily(
        f"{PRODUCT}_check_passing",
        "Whether each check of /readyz passes; the node is described as it is if all do",
        labels=("check",),
    )
    for name, passing in found.checks.items():
        checks.add_metric((name,), float(passing))
    yield checks


def use_families(found: UseFindings) -> Iterator[Metric]:
    """Containers' usage, compared with their allocation."""
    labels = ("namespace", "pod", "container")
    yield GaugeMetricFamily(
        f"{PRODUCT}_monitor_reporting", "Whether neuron-monitor reports", value=float(found.reporting)
    )
    cores = GaugeMetricFamily(
        f"{PRODUCT}_core_utilization_ratio", "Share of time in which a core computed", labels=(*labels, "core")
    )
    for namespace, pod, container, core, ratio in found.cores:
        cores.add_metric((namespace, pod, container, str(core)), ratio)
    yield cores
    allocated = GaugeMetricFamily(
        f"{PRODUCT}_container_memory_allocated_bytes",
        "Device memory that goes with the cores that a container was allocated",
        labels=(*labels, "uuid"),
    )
    used = GaugeMetricFamily(
        f"{PRODUCT}_container_memory_used_bytes",
        "Device memory that a container uses, by kind",
        labels=(*labels, "uuid", "kind"),
    )
    busy = GaugeMetricFamily(
        f"{PRODUCT}_container_utilization_ratio",
        "Share of time in which a container computed: the mean of its cores of a device",
        labels=(*labels, "uuid"),
    )
    for usage in found.containers:
        named = (usage.namespace, usage.pod or usage.pod_uid, usage.container)
        for card in usage.cards:
            if card.allocated is not None:
                allocated.add_metric((*named, card.card), float(card.allocated))
            for kind, amount in ({} if card.used is None else card.used._asdict()).items():
                used.add_metric((*named, card.card, kind), float(amount))
            if card.utilization is not None:
                busy.add_metric((*named, card.card), card.utilization)
    yield from (allocated, used, busy)
    executions = CounterMetricFamily(
        f"{PRODUCT}_executions", "Executions by result since the agent began", labels=(*labels, "result")
    )
    for key, count in found.executions:
        executions.add_metric(key, float(count))
    yield executions
