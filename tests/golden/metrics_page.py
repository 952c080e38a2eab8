"""The page about metrics, from recorded scrapes: ``python -m tests.golden.metrics_page`` writes it anew."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

SCRAPES = Path(__file__).parent / "charts"
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "metrics.md"
INTRODUCTION = """\
# Metrics

For operators who write queries and alerts: the metrics of each process, from recorded scrapes.
Counters end in `_total`, ratios are 0 to 1, sizes are bytes and times are seconds. The metrics of Python and of the
process (`python_*`, `process_*`) are served as well. Dashboards and alerts are in the [charts](../../charts/README.md).

| process | port |
| --- | --- |
"""
PROCESSES: Final = {
    "agent": ("volcano-vgpu agent", 9394),
    "allocator": ("allocator run", 9395),
    "neuron-agent": ("neuron agent", 9399),
    "koordinator-server": ("koordinator serve", 9396),
    "koordinator-node": ("koordinator node", 9397),
}
OF_EVERY_PROGRAM = ("python_", "process_")


def page() -> str:
    """The page with the metrics that the processes served."""
    rows = "".join(f"| [`{name}`](#{name.replace(' ', '-')}) | {port} |\n" for name, port in PROCESSES.values())
    return INTRODUCTION + rows + "".join(_section(scrape, name) for scrape, (name, _) in PROCESSES.items())


def families(scrape: str) -> Iterator[Metric]:
    """The metrics of a scrape that are the program's own, by name."""
    text = (SCRAPES / f"{scrape}.metrics").read_text(encoding="utf-8")
    found = (each for each in text_string_to_metric_families(text) if not each.name.startswith(OF_EVERY_PROGRAM))
    return iter(sorted(found, key=lambda family: family.name))


def _section(scrape: str, name: str) -> str:
    rows = "".join(_row(family) for family in families(scrape))
    return f"\n## {name}\n\n| metric | type | labels | meaning |\n| --- | --- | --- | --- |\n{rows}"


def _row(family: Metric) -> str:
    labels = dict.fromkeys(
        label for sample in family.samples for label in sample.labels if label not in {"le", "quantile"}
    )
    name = f"{family.name}_total" if family.type == "counter" else family.name
    return f"| `{name}` | {family.type} | {', '.join(f'`{each}`' for each in labels)} | {family.documentation} |\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
