"""What containers use, for Prometheus: bytes, seconds, ratios; the labels of a container end with its directory.

A container's utilisation is the sum over its processes, each taken as 1 at most; several processes whose last samples
overlap can pass 1. A container of an unknown pod is reported under the pod's UID, without a namespace, as long as it
has processes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

import structlog
from prometheus_client.core import GaugeMetricFamily, Metric

from hami_plugins.observe.metrics import Metrics
from hami_plugins.wire.shared_region import UnreadableReason, UnreadableRegion
from hami_plugins.wire.usage import CardUsage, ContainerUsage, ReadStatus
from volcano_vgpu.agent.metrics import PRODUCT
from volcano_vgpu.core.monitor.regions import Content, reading_of
from volcano_vgpu.monitor.scrape import Scrape

_CONTAINER: Final = ("namespace", "pod", "container")
_CARD: Final = (*_CONTAINER, "uuid")

_log = structlog.get_logger(__name__)


def read_from(metrics: Metrics, scrape: Callable[[], Scrape]) -> None:
    """Adds what is looked up at each reading. A look that fails is logged, and takes no other metric away."""

    def collect() -> list[Metric]:
        try:
            return list(told(scrape()))
        except Exception:  # noqa: BLE001 - whatever goes wrong here, the agent's own metrics are still to be read
            _log.exception("usage_not_read")
            return []

    metrics.collected(collect)


def told(found: Scrape) -> Iterator[Metric]:
    """Everything that one look found."""
    yield GaugeMetricFamily(
        f"{PRODUCT}_usage_scrape_seconds", "Time taken to read the usage of containers", value=found.seconds
    )
    yield from _files(list(found.contents.values()))
    yield GaugeMetricFamily(
        f"{PRODUCT}_region_foreign_cards",
        "Cards that containers name in their files and that this node does not have",
        value=float(sum(usage.foreign for usage in found.containers)),
    )
    shown = [usage for usage in found.containers if usage.reading is ReadStatus.READ and (usage.pod or usage.processes)]
    yield from _containers(shown)
    yield from _cards(shown)


def _files(contents: list[Content]) -> Iterator[Metric]:
    states = Counter(reading_of(each) for each in contents)
    files = GaugeMetricFamily(f"{PRODUCT}_region_files", "Directories of containers by content", labels=("state",))
    for state in ReadStatus:
        files.add_metric((state.value,), float(states[state]))
    reasons = Counter(each.reason for each in contents if isinstance(each, UnreadableRegion))
    refused = GaugeMetricFamily(
        f"{PRODUCT}_region_files_unreadable", "Files of containers that cannot be read, by reason", labels=("reason",)
    )
    for reason in UnreadableReason:
        refused.add_metric((reason.value,), float(reasons[reason]))
    yield from (files, refused)


def _containers(usages: list[ContainerUsage]) -> Iterator[Metric]:
    processes = GaugeMetricFamily(
        f"{PRODUCT}_container_processes",
        "Processes of a container that booked something: there, perhaps killed, or killed and not counted",
        labels=(*_CONTAINER, "state"),
    )
    kernel = GaugeMetricFamily(
        f"{PRODUCT}_container_last_kernel_age_seconds",
        "Time since the container last started a process or a kernel",
        labels=_CONTAINER,
    )
    doubts = GaugeMetricFamily(
        f"{PRODUCT}_container_usage_doubtful", "Why a container's numbers may be off", labels=(*_CONTAINER, "doubt")
    )
    for usage in usages:
        labels = _labels(usage)
        counts = {
            "running": usage.processes - usage.unconfirmed,
            "unconfirmed": usage.unconfirmed,
            "gone": usage.gone,
        }
        for state, count in counts.items():
            processes.add_metric((*labels, state), float(count))
        if usage.last_kernel_age is not None:
            kernel.add_metric(labels, usage.last_kernel_age)
        for doubt in sorted(usage.doubts):
            doubts.add_metric((*labels, doubt.value), 1.0)
    yield from (processes, kernel, doubts)


def _cards(usages: list[ContainerUsage]) -> Iterator[Metric]:
    used = GaugeMetricFamily(
        f"{PRODUCT}_container_memory_used_bytes",
        "Memory that a container's processes have booked, by kind",
        labels=(*_CARD, "kind"),
    )
    limit = GaugeMetricFamily(
        f"{PRODUCT}_container_memory_limit_bytes", "Memory that the library lets a container book", labels=_CARD
    )
    share = GaugeMetricFamily(
        f"{PRODUCT}_container_utilization_ratio",
        "Share of time in which a container computed: the sum over its processes",
        labels=_CARD,
    )
    for usage in usages:
        for card in usage.cards:
            labels = (*_labels(usage), card.card)
            for kind, amount in _kinds(card):
                used.add_metric((*labels, kind), float(amount))
            if card.limit is not None:
                limit.add_metric(labels, float(card.limit))
            if card.utilization is not None:
                share.add_metric(labels, card.utilization)
    yield from (used, limit, share)


def _labels(usage: ContainerUsage) -> tuple[str, str, str]:
    return usage.namespace, usage.pod or usage.pod_uid, usage.container


def _kinds(card: CardUsage) -> Iterator[tuple[str, int]]:
    return iter(() if card.used is None else card.used._asdict().items())
