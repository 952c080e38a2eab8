"""``python -m tests.contract.charts.policies`` writes the charts' files of the admission policy on allocations.

Keys, expressions, and known accounts come from the program; a template adds the accounts of its release and values.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from hami_plugins.allocations.manifests import account_policies, allocation_policy
from hami_plugins.cli.kit import output
from hami_plugins.engine.registry import Registry
from hami_plugins.vendors import BUILTIN
from tests.contract.charts.schemas import CHARTS

SYSTEMS: Final = {"volcano-vgpu": "volcano", "neuron-topology": "neuron", "koordinator-adapter": "koordinator"}
"""The system whose keys each chart protects: a key has one owner, so charts installed together ask for no more."""

FILE: Final = Path("files") / "allocation-policy.yaml"
_HEAD: Final = "# Generated from the program: python -m tests.contract.charts.policies\n"


def allocations(chart: str) -> allocation_policy.Allocations:
    """What a chart protects, and the accounts that it trusts whatever the release."""
    return allocation_policy.systems(Registry(BUILTIN))[SYSTEMS[chart]]


def remedy(chart: str) -> str:
    """Where an operator of the chart lists further accounts."""
    return f"list it under allocationPolicy.users of the chart {chart}"


def document(chart: str) -> dict[str, Any]:
    """The content of the file."""
    found = allocations(chart)
    return {
        "users": sorted(found.users),
        "accounts": account_policies.ACCOUNTS,
        "spec": allocation_policy.rules(found, remedy=remedy(chart)),
    }


def text(chart: str) -> str:
    """The file."""
    return _HEAD + output.as_yaml(document(chart))


if __name__ == "__main__":
    for _chart in SYSTEMS:
        (CHARTS / _chart / FILE).write_text(text(_chart))
