"""Names, units and readings of a process's metrics."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib.metadata import version

import pytest
from prometheus_client.core import GaugeMetricFamily, Metric

from hami_plugins.errors import ConfigError
from hami_plugins.observe.metrics import Metrics


def test_two_processes_in_one_do_not_meet() -> None:
    first, second = Metrics("agent"), Metrics("agent")
    first.counter("writes_total", "Writes").inc()
    second.counter("writes_total", "Writes")
    assert (first.value("writes_total"), second.value("writes_total")) == (1.0, 0.0)


def test_a_name_carries_its_product_and_is_read_as_text() -> None:
    metrics = Metrics("agent")
    metrics.gauge("memory_bytes", "Memory", ("device",)).labels("GPU-1").set(7)
    text, content_type = metrics.text()
    assert b'agent_memory_bytes{device="GPU-1"} 7.0' in text
    assert content_type.startswith("text/plain")
    assert metrics.value("memory_bytes", device="GPU-2") is None


def test_the_reader_chooses_the_form() -> None:
    text, content_type = Metrics("agent").text("application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text")
    assert text.endswith(b"# EOF\n")


@pytest.mark.parametrize(
    ("kind", "name", "why"),
    [
        ("counter", "writes", "end in _total"),
        ("gauge", "writes_total", "not a counter"),
        ("histogram", "waits_total", "not a counter"),
        ("gauge", "memory_mib", "base unit"),
        ("gauge", "core_percent", "base unit"),
        ("histogram", "wait_ms", "base unit"),
        ("gauge", "Memory", "lower case"),
    ],
)
def test_a_name_that_breaks_a_rule_is_refused(kind: str, name: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        getattr(Metrics("agent"), kind)(name, "what")


def test_a_name_that_is_taken_is_refused() -> None:
    metrics = Metrics("agent")
    metrics.gauge("cards", "Cards")
    with pytest.raises(ConfigError, match="agent_cards"):
        metrics.gauge("cards", "Cards")


def test_what_is_looked_up_at_each_reading_is_read() -> None:
    readings = iter([1, 2])

    def look() -> Iterable[Metric]:
        return [GaugeMetricFamily("agent_load", "Load", value=next(readings))]

    metrics = Metrics("agent")
    metrics.collected(look)
    assert b"agent_load 1.0" in metrics.text()[0]
    assert b"agent_load 2.0" in metrics.text()[0]


@pytest.mark.parametrize(
    "accept",
    [
        "application/openmetrics-text; version=abc",
        "application/openmetrics-text; version=1.0.0; escaping=nonsense",
        "application/openmetrics-text; version=; charset=\xe9",
        "application/openmetrics-text; version=9.9.9",
        "application/openmetrics-text; version=2.a",
        "text/plain; version=abc",
        "text/plain; version=1.0.0.0.0.0a",
        ";;;,,;=",
        "application/openmetrics-text" + ";" * 1_000,
    ],
)
def test_an_odd_accept_header_is_answered(accept: str) -> None:
    metrics = Metrics("agent")
    metrics.gauge("cards", "Cards").set(3)
    text, content_type = metrics.text(accept)
    assert b"agent_cards 3.0" in text
    assert content_type.startswith(("text/plain", "application/openmetrics-text"))


def test_every_process_reports_itself_and_its_build() -> None:
    text = Metrics("agent").text()[0].decode()
    for name in ("process_open_fds", "process_resident_memory_bytes", "process_cpu_seconds_total"):
        assert f"\n{name} " in text
    (build,) = [line for line in text.splitlines() if line.startswith("hami_plugins_build_info{")]
    assert f'python="{sys.version_info.major}.{sys.version_info.minor}.' in build
    assert f'version="{version("hami-plugins")}"' in build
    assert build.endswith(" 1.0")


@pytest.mark.parametrize("accept", ["", "application/openmetrics-text; version=1.0.0"])
def test_a_counter_is_one_series(accept: str) -> None:
    metrics = Metrics("agent")
    metrics.counter("writes_total", "Writes").inc()
    metrics.histogram("wait_seconds", "Waits").observe(1)
    assert b"_created" not in metrics.text(accept)[0]
