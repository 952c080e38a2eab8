"""Metrics of one process: a registry of its own, names that keep the rules, and the text that Prometheus reads."""

from __future__ import annotations

import platform
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from hami_plugins.errors import ConfigError
from hami_plugins.observe.build import version

LATENCY: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Bounds in seconds for calls to the API server and from the kubelet."""

_Kind = TypeVar("_Kind", Counter, Gauge, Histogram)

_NAME: Final = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_SCALED: Final = re.compile(r"(^|_)(ms|milliseconds|microseconds|minutes|hours|kib|mib|gib|percent)(_|$)")


class Metrics:
    """The metrics of one product in one process; two of them never meet, so tests need no cleaning up.

    Names get the product before them. Raises ``ConfigError`` for a name that is taken, or that breaks a rule: base
    units (seconds, bytes, ratios from 0 to 1), ``_total`` for counters and for nothing else.

    Each has the metrics of the process itself besides (``process_*``, ``hami_plugins_build_info``), without a prefix.
    """

    def __init__(self, product: str) -> None:
        self._product = product
        # When a counter began can be told from its first value, and each would be two series.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        build = Info("hami_plugins_build", "Release of this program and of Python", registry=self._registry)
        build.info({"version": version(), "python": platform.python_version()})

    def counter(self, name: str, what: str, labels: Sequence[str] = ()) -> Counter:
        """What only grows."""
        if not name.endswith("_total"):
            raise ConfigError(f"counter {name} has to end in _total")
        return self._made(name, lambda full: Counter(full, what, labels, registry=self._registry))

    def gauge(self, name: str, what: str, labels: Sequence[str] = ()) -> Gauge:
        """What goes up and down."""
        self._no_total(name)
        return self._made(name, lambda full: Gauge(full, what, labels, registry=self._registry))

    def histogram(
        self, name: str, what: str, labels: Sequence[str] = (), *, buckets: Sequence[float] = LATENCY
    ) -> Histogram:
        """What is distributed; ``buckets`` are upper bounds in the unit of the name."""
        self._no_total(name)
        return self._made(name, lambda full: Histogram(full, what, labels, registry=self._registry, buckets=buckets))

    def collected(self, collect: Callable[[], Iterable[Metric]]) -> None:
        """Adds what is looked up at each reading instead of being kept up to date. Names are the caller's matter."""
        self._registry.register(_Collected(collect))

    def text(self, accept: str = "") -> tuple[bytes, str]:
        """Everything in the form that the reader's ``Accept`` header prefers, and the name of that form."""
        try:
            encode, content_type = choose_encoder(accept)
            return encode(self._registry), content_type
        except TypeError:  # prometheus_client compares the parts of a version with numbers, whatever they are
            encode, content_type = choose_encoder("")
            return encode(self._registry), content_type

    def value(self, name: str, **labels: str) -> float | None:
        """One sample by its name without the product; ``None`` where there is none yet. For tests and status pages."""
        return self._registry.get_sample_value(f"{self._product}_{name}", labels)

    def _made(self, name: str, make: Callable[[str], _Kind]) -> _Kind:
        if not _NAME.fullmatch(name):
            raise ConfigError(f"metric {name!r} has to be words of lower case, joined by _")
        if scaled := _SCALED.search(name):
            raise ConfigError(f"metric {name} has to be in a base unit (seconds, bytes, ratio), not {scaled.group(2)}")
        try:
            return make(f"{self._product}_{name}")
        except ValueError as error:
            raise ConfigError(f"metric {self._product}_{name}: {error}") from error

    def _no_total(self, name: str) -> None:
        if name.endswith("_total"):
            raise ConfigError(f"{name} is not a counter and must not end in _total")


class _Collected(Collector):
    def __init__(self, collect: Callable[[], Iterable[Metric]]) -> None:
        self._collect = collect

    def collect(self) -> Iterable[Metric]:
        """See ``Collector``."""
        return self._collect()
