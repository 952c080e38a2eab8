"""The page about vendors: ``python -m tests.golden.vendors_page`` writes it anew."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from hami_plugins.cli.kit import inputs
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.output import vendors

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "vendors.md"
INTRODUCTION = """\
# Vendors

For users who write requests and operators who install device plugins: the devices that `hami-plugins` knows, the
resource names they are requested with, the steps that their memory and cores are allocated in, and what is known about
them, with sources. `hami-plugins vendors` prints the first two tables, `hami-plugins vendors NAME` everything about
one vendor, annotations and defaults included; `-o json` has the same.

## Requests

| vendor | device | resources | memory in | cores in | several cards |
| --- | --- | --- | --- | --- | --- |
"""
MATRIX = """
## Features

*whole*: a container has the whole device, so that there is nothing to isolate. *unknown*: no source says anything.
Isolation is what the device or a library in the container enforces; the scheduler books memory and cores for every
vendor that has resources for them. *runtime class*: containers need the vendor's container runtime, as default of the
node or by RuntimeClass.

"""
SOURCES = """
## Facts and their sources

Pages are those of HAMi's website (`Project-HAMi/website`) as of 2026-08-21. Where code and page disagree, the code
counts.
"""


def page() -> str:
    """The page with the vendors as the program has them."""
    specs = tuple(inputs.registry_of(inputs.settings_of(None)))
    requests = "".join(_row(spec) for spec in specs)
    return "".join((INTRODUCTION, requests, MATRIX, *_matrix(specs), SOURCES, *_facts(specs)))


def _row(spec: VendorSpec) -> str:
    resources = ", ".join(f"`{name}`" for name in dict.fromkeys(spec.resources.all()))
    return f"| {spec.name} | {spec.title} | {resources} | {spec.memory_step} | {spec.core_step} | {spec.several} |\n"


def _matrix(specs: tuple[VendorSpec, ...]) -> Iterator[str]:
    shown = vendors.matrix(specs)
    yield _line(each.lower().replace("uuid", "UUID").replace("numa", "NUMA") for each in shown.columns)
    yield _line("---" for _ in shown.columns)
    for row in shown.rows:
        yield _line(row.cells)


def _facts(specs: tuple[VendorSpec, ...]) -> Iterator[str]:
    """A table for each vendor; those of which the same is known share one."""
    for known, alike in groupby(specs, key=_known):
        yield f"\n### {', '.join(spec.name for spec in alike)}\n\n| | | source |\n| --- | --- | --- |\n"
        for row in known:
            yield _line(row)


def _known(spec: VendorSpec) -> tuple[tuple[str, str, str], ...]:
    rows = tuple(row for row in vendors.facts(spec) if row[0] != "models" or row[1] != spec.name)
    steps = f"memory in {spec.memory_step}; cores in {spec.core_step}; several: {spec.several}"
    return (*rows, ("granularity", steps, spec.facts.code))


def _line(cells: Iterator[str] | tuple[str, ...]) -> str:
    return f"| {' | '.join(cell.replace('*', chr(92) + '*') for cell in cells)} |\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
