"""The support matrix: ``python -m tests.golden.support_page`` writes it anew from ``tests/cluster/runs.json``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

from tests.cluster import runs
from tests.cluster.runs import Run

PAGE: Final = Path(__file__).parents[2] / "docs" / "reference" / "support-matrix.md"
PRODUCTS: Final = (
    ("`volcano-vgpu`: the agent", ("test_agent_",)),
    ("`koordinator-adapter`", ("test_koordinator_", "test_koordlet")),
    ("`neuron`", ("test_neuron_",)),
    ("Charts and image", ("test_charts_", "test_dockerfile")),
    (
        "Embedded cluster and plans, against the real thing",
        ("test_apiserver_", "test_kubelet_", "test_claims", "test_defrag"),
    ),
    ("With clients and controllers of others", ("test_clients_",)),
    ("`allocator`", ("test_",)),
)
"""A module belongs to the first product of which a prefix fits; the allocator has the rest."""

INTRODUCTION: Final = """\
# Support matrix

For operators who compare their releases with those that tests have run: each row is a module of
`tests/cluster` on real components, each cell the tests that passed and the day of the last run of the whole module.
A dash: not run with that release, which does not mean that it fails. [Support](support.md) says what was installed,
upgraded and removed, and what no test has run.

Generated from `tests/cluster/runs.json`, which `make test-cluster ARGS=--update-golden` writes, with `KUBERNETES=1.36`,
`KOORDINATOR=1.8` and `CLIENTS=1` for the others.
"""


def page() -> str:
    """The page for the runs that are written down."""
    return INTRODUCTION + "".join(_sections(runs.runs()))


def _sections(found: Sequence[Run]) -> Iterator[str]:
    releases = sorted(
        {run["peers"]["Kubernetes"] for run in found}, key=lambda release: [*map(int, release.split("."))]
    )
    titles = [title for title, _ in PRODUCTS]
    ordered = sorted(found, key=lambda run: (titles.index(_product(run)), run["module"]))
    for title, listed in groupby(ordered, key=_product):
        yield f"\n## {title}\n\n| tests | with |{''.join(f' Kubernetes {each} |' for each in releases)}\n"
        yield f"| --- | --- |{' --- |' * len(releases)}\n"
        yield from _rows(list(listed), releases)


def _rows(found: Sequence[Run], releases: Sequence[str]) -> Iterator[str]:
    cells = {
        (run["module"], _beside(run), run["peers"]["Kubernetes"]): f"{run['passed']}, {run['day']}" for run in found
    }
    for module, beside in dict.fromkeys((module, beside) for module, beside, _ in cells):
        row = " | ".join(cells.get((module, beside, release), "-") for release in releases)
        yield f"| `{module}` | {beside or '-'} | {row} |\n"


def _beside(run: Run) -> str:
    """The peers besides Kubernetes."""
    return ", ".join(f"{peer} {release}" for peer, release in sorted(run["peers"].items()) if peer != "Kubernetes")


def _product(run: Run) -> str:
    return next(title for title, prefixes in PRODUCTS if run["module"].startswith(prefixes))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
