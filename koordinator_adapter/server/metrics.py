"""Prometheus metrics of the adapter's server."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Literal

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from hami_plugins.observe.metrics import Metrics

PRODUCT: Final = "koordinator_adapter"

Write = Literal["created", "changed", "sums", "labels", "conflict", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterSizes:
    """What is looked up at each reading. ``active`` is whether this replica publishes, ``lacking`` whether the cluster
    does not know Device objects."""

    active: bool
    nodes: int
    devices: int
    holders: int
    unlimited: int
    remarks: int
    waiting: int
    problems: int
    lacking: bool


class AdapterMetrics:
    """The server's metrics."""

    def __init__(self) -> None:
        self.metrics = Metrics(PRODUCT)
        self._writes = self.metrics.counter(
            "writes_total", "Writes of Device objects and of nodes, by result", ("what",)
        )
        self._pods = self.metrics.counter("pods_total", "New pods, by result", ("outcome",))

    def wrote(self, what: Write) -> None:
        """Something was written, or could not be."""
        self._writes.labels(what).inc()

    def admitted(self, outcome: Literal["translated", "untouched", "refused"]) -> None:
        """A pod was let in or refused."""
        self._pods.labels(outcome).inc()

    def read_from(self, sizes: Callable[[], AdapterSizes]) -> None:
        """Adds what is looked up at each reading."""
        self.metrics.collected(lambda: _collected(sizes()))


def _collected(sizes: AdapterSizes) -> Iterable[Metric]:
    yield _one("active", "Whether this replica publishes", float(sizes.active))
    yield _one("nodes", "Nodes that are known", sizes.nodes)
    yield _one("devices", "Known Device objects, of any publisher", sizes.devices)
    yield _one("holders", "Placed pods that hold cards", sizes.holders)
    yield _one("unlimited_pods", "Pods that share cards without limits; /findings names them", sizes.unlimited)
    yield _one("node_remarks", "Nodes with findings; /findings lists them", sizes.remarks)
    yield _one("waiting_nodes", "Nodes that wait to be checked", sizes.waiting)
    yield _one(
        "device_objects_missing", "Whether the cluster does not know Koordinator's Device objects", sizes.lacking
    )
    unreadable = CounterMetricFamily(f"{PRODUCT}_unreadable_total", "Objects that could not be read; see the log")
    unreadable.add_metric((), sizes.problems)
    yield unreadable


def _one(name: str, what: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"{PRODUCT}_{name}", what, value=value)
