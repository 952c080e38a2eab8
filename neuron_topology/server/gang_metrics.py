"""The metrics of gangs that wait for Neuron devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from prometheus_client.core import GaugeMetricFamily

from hami_plugins.allocator.metrics import METRICS
from hami_plugins.observe.metrics import Metrics
from neuron_topology.server.gang_starts import GangStarts, GangState

WAITS: Final = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, 86_400.0)
"""Bounds in seconds: from a cluster with room to a queue of a day."""


class GangMetrics:
    """Counts over all terms of this replica; ``now`` gives Unix seconds."""

    def __init__(self, metrics: Metrics, *, now: Callable[[], float]) -> None:
        self._now = now
        self._waits = metrics.histogram(
            "gang_admission_seconds",
            "How long gangs waited, from their PodGroup to the binding of the last pod that they need",
            buckets=WAITS,
        )
        self._partial = metrics.counter(
            "gang_partial_starts_total", "Gangs that were partly bound for a while before all required pods were"
        )
        self._starts = self.followed()

    def followed(self) -> GangStarts:
        """The gangs' metrics from now on; it knows none yet."""
        self._starts = GangStarts(now=self._now, admitted=self._waits.observe, partly=self._partial.inc)
        return self._starts

    def family(self) -> GaugeMetricFamily:
        """How many gangs are how far."""
        family = GaugeMetricFamily(
            f"{METRICS}_gangs", "Gangs by state: how many of their pods have nodes", labels=("state",)
        )
        states = self._starts.states()
        for state in GangState:
            family.add_metric((state.value,), states[state])
        return family
