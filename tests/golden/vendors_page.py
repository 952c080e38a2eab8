"""The page about vendors: ``python -m tests.golden.vendors_page`` writes it anew."""

from __future__ import annotations

from pathlib import Path

from hami_plugins.cli.kit import inputs
from hami_plugins.model.vendor import VendorSpec

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "vendors.md"
INTRODUCTION = """\
# Vendors

For users who write requests: the devices that `hami-plugins` knows, the resource names they are requested with, and the
steps that their memory and cores are allocated in. `hami-plugins vendors NAME` prints everything about one of them,
annotations and defaults included.

| vendor | device | resources | memory in | cores in | several cards |
| --- | --- | --- | --- | --- | --- |
"""


def page() -> str:
    """The page with the vendors as the program has them."""
    return INTRODUCTION + "".join(_row(spec) for spec in inputs.registry_of(inputs.settings_of(None)))


def _row(spec: VendorSpec) -> str:
    resources = ", ".join(f"`{name}`" for name in dict.fromkeys(spec.resources.all()))
    return f"| {spec.name} | {spec.title} | {resources} | {spec.memory_step} | {spec.core_step} | {spec.several} |\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
