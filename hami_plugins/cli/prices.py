"""Prices per hour: reading a price table, comparing instance types, and the cost of a plan."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hami_plugins import examples
from hami_plugins.cli.kit import inputs, output
from hami_plugins.cli.kit.edge import Exit
from hami_plugins.cli.kit.options import Form
from hami_plugins.errors import ManifestError
from hami_plugins.inputs import prices
from hami_plugins.output import costs
from hami_plugins.plan import costs as plan_costs

if TYPE_CHECKING:
    from hami_plugins.inputs.prices import PriceTable
    from hami_plugins.model.nodes import NodeEntry
    from hami_plugins.plan import Plan

SHIPPED: Final = "aws-us-east-1"


def table_of(name: str | None) -> PriceTable | None:
    """``named`` where a name is given."""
    return None if name is None else named(name)


def named(name: str) -> PriceTable:
    """The price table of a file, or a shipped one by its name. Raises ``ManifestError`` where there is neither."""
    shipped = name in examples.price_names() and not Path(name).exists()
    if not shipped and name != inputs.STDIN and not Path(name).is_file():
        known = ", ".join(examples.price_names())
        raise ManifestError(f"--prices {name}: no such file, and the shipped price tables are {known}")
    return prices.parse(examples.price_text(name) if shipped else inputs.read_text(name), source=name)


def run(types: Sequence[str], *, name: str | None, form: Form, headers: bool) -> int:
    """Print the prices of all or some types, each compared with the first. Raises ``ManifestError`` for an unknown
    type.
    """
    found = named(name or SHIPPED)
    known = dict.fromkeys(each.instance_type for each in found.per_hour)
    for each in types:
        if each not in known:
            raise ManifestError(f"{name or SHIPPED} has no price of {each}; it has {', '.join(known)}; {costs.REMEDY}")
    rows = costs.rows(found, types)
    if form is not Form.TABLE:
        output.document(costs.document(found, rows), form)
        return Exit.FINE
    output.table(costs.table(rows), headers=headers)
    output.line(f"{found.currency} per hour{f' ({found.words})' if found.words else ''}")
    return Exit.FINE


def tell(found: Plan, added: Sequence[NodeEntry], table: PriceTable) -> None:
    """What the placed pods cost, and the nodes that were added."""
    output.line(costs.words(plan_costs.of_pods(found, table), "the placed pods", table))
    if added:
        output.line(costs.words(plan_costs.of_nodes(added, table), "the added nodes", table))
