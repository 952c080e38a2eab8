"""What the server of grants tells Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from hami_plugins.ledger.answers import Finding, Statistics
from hami_plugins.observe.metrics import Metrics

PRODUCT: Final = "volcano_vgpu_grants"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """What is looked up at each reading, where this replica has the lease. ``active`` is whether it answers."""

    active: bool
    statistics: Statistics
    pods: int
    problems: int
    missed: int
    findings: Mapping[Finding, int]


class GrantMetrics:
    """The server's metrics."""

    def __init__(self) -> None:
        self.metrics = Metrics(PRODUCT)
        self._answers = self.metrics.counter(
            "answers_total", "Answers to the scheduler and to the API server, by kind and outcome", ("kind", "outcome")
        )
        self._refusals = self.metrics.counter("refusals_total", "Reservations and Bindings refused", ("reason",))
        self._reads = self.metrics.counter(
            "pod_reads_total", "Pods that were read alone: the watch had not shown them, or no end of their Bindings"
        )
        self._expired = self.metrics.counter(
            "assumptions_expired_total", "What was promised and never came, by state", ("state",)
        )
        self._touches = self.metrics.counter(
            "node_touches_total", "Writes of nodes that make Volcano count them anew, by outcome", ("outcome",)
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

    def touched(self, outcome: str) -> None:
        """A node was written, or could not be."""
        self._touches.labels(outcome).inc()

    def read_from(self, sizes: Callable[[], Sizes | None]) -> None:
        """Adds what is looked up at each reading."""
        self.metrics.collected(lambda: _collected(sizes()))


def _collected(sizes: Sizes | None) -> Iterable[Metric]:
    yield _one("active", "Whether this replica answers", float(sizes is not None and sizes.active))
    if sizes is not None:
        yield from _sized(sizes)


def _sized(sizes: Sizes) -> Iterator[Metric]:
    found = sizes.statistics
    yield _one("nodes", "Nodes that are known", found.nodes)
    yield _one("cards", "Cards that are registered", found.devices)
    yield _one("pods", "Pods that are known, whatever they ask for", sizes.pods)
    yield _one("holders", "Bound pods that hold cards", found.holders)
    unreadable = CounterMetricFamily(
        f"{PRODUCT}_unreadable_total", "Nodes and pods, or parts of them, that could not be read; the log names them"
    )
    unreadable.add_metric((), sizes.problems)
    yield unreadable
    yield _one("missed_changes", "Nodes and pods whose last change broke this program; see the log", sizes.missed)
    wrong = GaugeMetricFamily(
        f"{PRODUCT}_findings", "What is wrong with the grants of bound pods; /findings names them", labels=("finding",)
    )
    for finding, number in sizes.findings.items():
        wrong.add_metric((finding.value,), number)
    yield wrong
    family = GaugeMetricFamily(
        f"{PRODUCT}_assumptions", "What is promised and not seen to be in effect, by state", labels=("state",)
    )
    family.add_metric(("reserved",), found.reservations)
    family.add_metric(("answered",), found.answered)
    yield family


def _one(name: str, what: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"{PRODUCT}_{name}", what, value=value)
