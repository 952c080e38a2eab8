"""The agent's Prometheus metrics: base units, ratios from 0 to 1, no label without a bound.

Containers' real usage is not included: it is read from HAMi-core's files by collectors that are added to
``AgentMetrics.metrics``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from prometheus_client.core import GaugeMetricFamily, Metric

from hami_plugins.engine.inventory import with_pods
from hami_plugins.model.devices import Device, DeviceUsage
from hami_plugins.model.units import DeviceId, PodUid
from hami_plugins.observe.metrics import Metrics
from hami_plugins.wire import lenient
from hami_plugins.wire.fields import Json
from hami_plugins.wire.pod_devices import AssignedDevice
from volcano_vgpu.agent.containers import DirectoryTotals
from volcano_vgpu.agent.devices import CurrentView
from volcano_vgpu.core.assignments import record_of, resized_devices
from volcano_vgpu.core.model import DeviceMeasurement
from volcano_vgpu.core.refusals import ContainerRefusal

PRODUCT: Final = "volcano_vgpu"
CALL_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0)
_MIB: Final = 1 << 20
_WHOLE: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSources:
    """Where the figures of a reading come from.

    ``pods`` are all pods of the node, ``allocations`` what containers were handed, by pod UID and container name.
    ``use`` is what the driver measures, ``unwritten`` how many pods Volcano is still to be told of, ``directories``
    what the directories of containers take by state, ``factor`` the MiB in a unit of the register.
    """

    sight: Callable[[], CurrentView]
    pods: Callable[[], Iterable[Json]]
    allocations: Callable[[], Mapping[tuple[PodUid, str], tuple[AssignedDevice, ...]]]
    use: Callable[[DeviceId], DeviceMeasurement]
    registered: Callable[[], bool]
    offered: Callable[[], int]
    unwritten: Callable[[], int]
    directories: Callable[[], Mapping[str, DirectoryTotals]]
    factor: int = 1


class AgentMetrics:
    """The agent's metrics. It is a ``server.Watcher``: the calls of the kubelet are counted here."""

    def __init__(self) -> None:
        self.metrics = Metrics(PRODUCT)
        self._calls = self.metrics.counter(
            "kubelet_calls_total",
            "Calls of the kubelet by outcome (ok, or the reason for the refusal)",
            ("method", "code"),
        )
        self._seconds = self.metrics.histogram(
            "kubelet_call_seconds", "Time that the kubelet waited for an answer", ("method",), buckets=CALL_SECONDS
        )
        self._refusals = self.metrics.counter(
            "refusals_total", "Refused containers, each try counted, by reason", ("reason",)
        )

    def called(self, method: str, seconds: float, code: str) -> None:
        """See ``server.Watcher``."""
        self._calls.labels(method, code or "ok").inc()
        self._seconds.labels(method).observe(seconds)

    def refused(self, refusal: ContainerRefusal) -> None:
        """A container was not served."""
        self._refusals.labels(refusal.code.value).inc()

    def read_from(self, sources: MetricSources) -> None:
        """Adds what is looked up at each reading."""
        self.metrics.collected(lambda: _collected(sources))


def stranded(device: Device, used: DeviceUsage) -> int:
    """Free memory that cannot be allocated, in register units: no slot or no core of the card is left."""
    full = used.slots >= device.slots or used.cores >= device.cores > 0
    return max(device.memory - used.memory, 0) if full else 0


def _collected(sources: MetricSources) -> Iterator[Metric]:
    sight = sources.sight()
    yield _one("registered", "Whether the agent is registered with the kubelet", float(sources.registered()))
    yield _one("cards_offered", "Cards whose slots can be allocated", float(sources.offered()))
    yield _one("pods_unwritten", "Pods whose outcome is not reported to Volcano yet", float(sources.unwritten()))
    yield from _directories(sources.directories())
    yield from _cards(sight, sources.use)
    yield from _bookings(sight, sources)
    yield from _containers(sources)


def _cards(sight: CurrentView, use: Callable[[DeviceId], DeviceMeasurement]) -> Iterator[Metric]:
    info = GaugeMetricFamily(
        f"{PRODUCT}_card_info", "A card of this node", labels=("uuid", "index", "model", "numa", "driver")
    )
    healthy = _by_card("card_healthy", "Whether the card can be allocated")
    measured = {
        "memory_used": _by_card("card_memory_used_bytes", "Memory in use, as reported by the driver"),
        "utilization": _by_card(
            "card_utilization_ratio", "Share of time in which the card computed, as reported by the driver"
        ),
        "temperature": _by_card("card_temperature_celsius", "Temperature, as reported by the driver"),
        "power_watts": _by_card("card_power_watts", "Power, as reported by the driver"),
    }
    for card in sight.inventory.cards:
        numa = "" if card.numa is None else str(card.numa)
        info.add_metric((card.uuid, str(card.index), card.model, numa, sight.inventory.driver), 1.0)
        healthy.add_metric((card.uuid,), float(card.healthy))
        found = use(card.uuid)
        for name, family in measured.items():
            value = getattr(found, name)
            if value is not None:
                family.add_metric((card.uuid,), float(value))
    yield from (info, healthy, *measured.values())


def _directories(totals: Mapping[str, DirectoryTotals]) -> Iterator[Metric]:
    """What containers keep in their directories on the node's disk, which no limit of ephemeral storage counts."""
    count = _by_state("container_directories", "Directories of containers: in use, or not removed after the pod ended")
    size = _by_state("container_directories_bytes", "Disk space that these directories use at least")
    unmeasured = _by_state("container_directories_unmeasured", "Directories that use more than was measured")
    for state, found in sorted(totals.items()):
        for family, value in ((count, found.count), (size, found.size), (unmeasured, found.unmeasured)):
            family.add_metric((state,), float(value))
    yield from (count, size, unmeasured)


def _bookings(sight: CurrentView, sources: MetricSources) -> Iterator[Metric]:
    """What is allocated of each card: what was served, and for the other pods what their annotations say."""
    served: dict[str, dict[str, tuple[AssignedDevice, ...]]] = {}
    for (uid, container), devices in sources.allocations().items():
        served.setdefault(uid, {})[container] = devices
    records = (record_of(raw, sight.offer, served.get(lenient.uid(raw))) for raw in sources.pods())
    entry = with_pods(sight.offer.entry, tuple(record for record in records if record is not None))
    families = {
        "memory": _by_card("card_memory_bytes", "Memory that can be allocated"),
        "allocated": _by_card("card_memory_allocated_bytes", "Memory that is allocated"),
        "free": _by_card("card_memory_free_bytes", "Memory that is not allocated"),
        "stranded": _by_card("card_memory_stranded_bytes", "Free memory of cards without a free slot or core"),
        "cores": _by_card("card_cores_allocated_ratio", "Share of the card's cores that is allocated"),
        "slots": _by_card("card_slots", "Containers that may share the card"),
        "taken": _by_card("card_slots_allocated", "Containers that share the card"),
    }
    unit = sources.factor * _MIB
    for uuid, device, used in zip(entry.ids, entry.state.shape.devices, entry.state.usage, strict=True):
        values = {
            "memory": device.memory * unit,
            "allocated": used.memory * unit,
            "free": max(device.memory - used.memory, 0) * unit,
            "stranded": stranded(device, used) * unit,
            "cores": used.cores / _WHOLE,
            "slots": device.slots,
            "taken": used.slots,
        }
        for name, value in values.items():
            families[name].add_metric((uuid,), float(value))
    yield from families.values()


def _containers(sources: MetricSources) -> Iterator[Metric]:
    """What each container was handed; those of pods that are gone are not told any more."""
    labels = ("namespace", "pod", "container", "uuid")
    memory = GaugeMetricFamily(f"{PRODUCT}_container_memory_allocated_bytes", "Memory of a slice", labels=labels)
    cores = GaugeMetricFamily(
        f"{PRODUCT}_container_cores_allocated_ratio", "Cores of a slice, 0: no limit", labels=labels
    )
    pods = {lenient.uid(raw): raw for raw in sources.pods()}
    for (uid, container), handed in sorted(sources.allocations().items()):
        if uid in pods:
            metadata = pods[uid].get("metadata") or {}
            for device in resized_devices(pods[uid], {container: handed})[container]:
                row = (str(metadata.get("namespace")), str(metadata.get("name")), container, device.device)
                memory.add_metric(row, float(device.memory * sources.factor * _MIB))
                cores.add_metric(row, device.cores / _WHOLE)
    yield from (memory, cores)


def _by_card(name: str, what: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"{PRODUCT}_{name}", what, labels=("uuid",))


def _by_state(name: str, what: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"{PRODUCT}_{name}", what, labels=("state",))


def _one(name: str, what: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"{PRODUCT}_{name}", what, value=value)
