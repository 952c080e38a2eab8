"""``python -m tests.contract.charts.policies`` writes the charts' files of the admission policy on allocations.

Keys, expressions, and known accounts come from the program; a template adds the accounts of its release and values.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from hami_plugins.allocations.manifests import account_policies, allocation_policy
from hami_plugins.cli.kit import output
from hami_plugins.engine.registry import Registry
from hami_plugins.vendors import BUILTIN
from hami_plugins.wire import allocator_mark
from tests.contract.charts.schemas import CHARTS

SYSTEMS: Final = {"volcano-vgpu": "volcano", "koordinator-adapter": "koordinator"}
"""The system whose keys each chart protects: a key has one owner, so charts installed together ask for no more."""

ALLOCATOR: Final = "allocator"
"""The chart whose policy protects what its vendors write. Volcano's keys are left to the chart of the agent."""

OF_VENDORS: Final = {"": (), "hami": ("hami",), "neuron": ("neuron",), "hami-neuron": ("hami", "neuron")}
"""The systems that the allocator's policy is about, by the vendors that it serves."""

FILE: Final = Path("files") / "allocation-policy.yaml"
_HEAD: Final = "# Generated from the program: python -m tests.contract.charts.policies\n"


def allocations(chart: str, served: str = "hami-neuron") -> allocation_policy.Allocations:
    """What a chart protects, and the accounts that it trusts whatever the release; the allocator's for some vendors."""
    systems = allocation_policy.systems(Registry(BUILTIN))
    if chart != ALLOCATOR:
        found = systems[SYSTEMS[chart]]
        return replace(found, marks=tuple(mark for mark in found.marks if mark != allocator_mark.KEY))
    volcano = systems["volcano"]
    found = allocation_policy.Allocations(
        marks=(allocator_mark.KEY,), users=volcano.users, schedulers=volcano.schedulers
    )
    for name in OF_VENDORS[served]:
        found |= systems[name]
    if "neuron" not in OF_VENDORS[served]:
        found = replace(found, keys=tuple(key for key in found.keys if key not in systems["neuron"].keys))
    return found


def remedy(chart: str) -> str:
    """Where an operator of the chart lists further accounts."""
    return f"list it under allocationPolicy.users of the chart {chart}"


def document(chart: str) -> dict[str, Any]:
    """The content of the file."""
    if chart != ALLOCATOR:
        return _document(allocations(chart), remedy(chart))
    return {served: _document(allocations(chart, served), remedy(chart)) for served in OF_VENDORS}


def _document(found: allocation_policy.Allocations, remedy: str) -> dict[str, Any]:
    return {
        "users": sorted(found.users),
        "accounts": account_policies.ACCOUNTS,
        "spec": allocation_policy.rules(found, remedy=remedy),
    }


def text(chart: str) -> str:
    """The file."""
    return _HEAD + output.as_yaml(document(chart))


if __name__ == "__main__":
    for _chart in (*SYSTEMS, ALLOCATOR):
        (CHARTS / _chart / FILE).write_text(text(_chart))
