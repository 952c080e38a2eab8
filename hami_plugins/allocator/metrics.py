"""Prometheus metrics of the allocator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from hami_plugins.allocations.answers import AuditFindingKind, Statistics
from hami_plugins.allocations.held_amounts import HeldTotal
from hami_plugins.model.charges import ChargeKey
from hami_plugins.model.units import MEBIBYTE
from hami_plugins.observe.metrics import Metrics

METRICS: Final = "hami_allocator"
"""What the names of the server's metrics begin with."""


_LOCKS: Final = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 300.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocatorSizes:
    """What is looked up at each reading, where this replica has the lease. ``active`` is whether it answers."""

    active: bool
    statistics: Statistics
    pods: int
    problems: int
    missed: int
    findings: Mapping[AuditFindingKind, int]
    held: Mapping[ChargeKey, HeldTotal]


class AllocatorMetrics:
    """The server's metrics."""

    def __init__(self) -> None:
        self.metrics = Metrics(METRICS)
        self._answers = self.metrics.counter(
            "answers_total", "Answers to the scheduler and to the API server, by kind and outcome", ("kind", "outcome")
        )
        self._refusals = self.metrics.counter("refusals_total", "Reservations and Bindings refused", ("reason",))
        self._reads = self.metrics.counter(
            "pod_reads_total",
            "Pods that were read one by one: the watch had not shown them, or not the end of their Bindings",
        )
        self._expired = self.metrics.counter(
            "assumptions_expired_total", "Promised allocations that never took effect, by state", ("state",)
        )

    def answered(self, kind: str, outcome: str) -> None:
        """Something was answered."""
        self._answers.labels(kind, outcome).inc()

    def refused(self, reason: str) -> None:
        """A reservation or a Binding was refused."""
        self._refusals.labels(reason).inc()

    def read(self) -> None:
        """A pod had to be read from the API server."""
        self._reads.inc()

    def expired(self, state: str) -> None:
        """An assumption ended without having come true."""
        self._expired.labels(state).inc()

    def read_from(self, sizes: Callable[[], AllocatorSizes | None]) -> None:
        """Adds what is looked up at each reading."""
        self.metrics.collected(lambda: _collected(sizes()))


class RequeueMetrics:
    """The metrics of pods that their scheduler is made to try again."""

    def __init__(self, metrics: Metrics) -> None:
        self._requeues = metrics.counter(
            "requeues_total", "Waiting pods written so that kube-scheduler tries them again, by outcome", ("outcome",)
        )

    def requeued(self, outcome: str) -> None:
        """A pod was written, or could not be."""
        self._requeues.labels(outcome).inc()


class EvictionMetrics:
    """The metrics of pods that the server evicts for others."""

    def __init__(self, metrics: Metrics) -> None:
        self._preemptions = metrics.counter(
            "preemptions_total", "Searches for pods to evict for a waiting pod, by outcome", ("outcome",)
        )
        self._evictions = metrics.counter("evictions_total", "Evictions that the server sent, by outcome", ("outcome",))

    def preempted(self, outcome: str) -> None:
        """Pods were looked for to be evicted."""
        self._preemptions.labels(outcome).inc()

    def evicted(self, outcome: str) -> None:
        """An eviction was sent."""
        self._evictions.labels(outcome).inc()


class NodeLockMetrics:
    """The metrics of the locks that pods need on their nodes."""

    def __init__(self, metrics: Metrics) -> None:
        self._waiting = metrics.gauge("node_lock_waiting", "Pods that wait for a lock of their node")
        self._waits = metrics.histogram(
            "node_lock_wait_seconds", "Time that pods waited for a lock of their node", ("outcome",), buckets=_LOCKS
        )
        self._held = metrics.histogram(
            "node_lock_held_seconds", "Time that pods had the locks of their node", buckets=_LOCKS
        )
        self._releases = metrics.counter("node_lock_releases_total", "Locks that pods had no longer", ("reason",))

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """A pod waits as long as the statement lasts."""
        with self._waiting.track_inprogress():
            yield

    def waited(self, outcome: str, seconds: float) -> None:
        """A pod has its locks, or was refused."""
        self._waits.labels(outcome).observe(seconds)

    def released(self, reason: str, seconds: float) -> None:
        """A pod has its locks no longer."""
        self._held.observe(seconds)
        self._releases.labels(reason).inc()


def _collected(sizes: AllocatorSizes | None) -> Iterable[Metric]:
    yield _one("active", "Whether this replica answers", float(sizes is not None and sizes.active))
    if sizes is not None:
        yield from _sized(sizes)


def _sized(sizes: AllocatorSizes) -> Iterator[Metric]:
    found = sizes.statistics
    yield _one("nodes", "Nodes that are known", found.nodes)
    yield _one("cards", "Cards that are registered", found.devices)
    yield _one("pods", "Known pods, with or without requests for devices", sizes.pods)
    yield _one("holders", "Bound pods that hold cards", found.holders)
    unreadable = CounterMetricFamily(
        f"{METRICS}_unreadable_total", "Nodes and pods, or parts of them, that could not be read; the log names them"
    )
    unreadable.add_metric((), sizes.problems)
    yield unreadable
    yield _one("missed_changes", "Nodes and pods whose last change could not be processed; see the log", sizes.missed)
    wrong = GaugeMetricFamily(
        f"{METRICS}_findings",
        "Findings about allocations of bound pods; /findings lists them",
        labels=("finding",),
    )
    for finding, number in sizes.findings.items():
        wrong.add_metric((finding.value,), number)
    yield wrong
    family = GaugeMetricFamily(
        f"{METRICS}_assumptions", "Promised allocations that are not seen in effect yet, by state", labels=("state",)
    )
    family.add_metric(("reserved",), found.reservations)
    family.add_metric(("answered",), found.answered)
    family.add_metric(("foreign",), found.foreign)
    family.add_metric(("nominated",), found.nominated)
    yield family
    yield from _held(sizes.held)


def _held(held: Mapping[ChargeKey, HeldTotal]) -> Iterator[Metric]:
    """What is charged for. The namespace is that of the pods: a scrape may bring its own label ``namespace``."""
    labels = ("pod_namespace", "queue", "owner", "vendor")
    devices = GaugeMetricFamily(
        f"{METRICS}_allocated_devices",
        "Devices that bound pods hold; a slice counts with the larger one of its shares of memory and of cores",
        labels=labels,
    )
    memory = GaugeMetricFamily(f"{METRICS}_allocated_memory_bytes", "Device memory that bound pods hold", labels=labels)
    for key, total in held.items():
        devices.add_metric(key, float(total.devices))
        memory.add_metric(key, float(total.memory * MEBIBYTE))
    yield from (devices, memory)


def _one(name: str, what: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"{METRICS}_{name}", what, value=value)
