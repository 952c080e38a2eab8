"""Prices and costs as tables, sentences and documents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from hami_plugins.inputs.fleets.instance_types import INSTANCE_TYPES
from hami_plugins.inputs.prices import PriceTable
from hami_plugins.model.node_pools import Offering
from hami_plugins.output.rows import Table, TableRow
from hami_plugins.output.schema import API_VERSION
from hami_plugins.plan import costs
from hami_plugins.plan.costs import HourlyCost

if TYPE_CHECKING:
    from hami_plugins.model.nodes import NodeEntry
    from hami_plugins.output import cost_schema
    from hami_plugins.plan import Plan


REMEDY: Final = "add it to a table of your own, and give that with --prices"


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceRow:
    """A price per hour. ``devices`` is 0 where it is not known; ``against`` compares with the first.

    ``against`` is by how many hundredths it is dearer; ``None`` for the first one, and where none is compared.
    """

    offering: Offering
    devices: int
    price: Decimal
    against: Decimal | None = None

    @property
    def per_device(self) -> Decimal | None:
        """What one device costs per hour."""
        return self.price / self.devices if self.devices else None


def rows(prices: PriceTable, types: Sequence[str]) -> tuple[PriceRow, ...]:
    """A row for each price of some types, compared with the first; or for all prices of a table."""
    chosen = [each for name in types for each in prices.per_hour if each.instance_type == name] or [*prices.per_hour]
    base = prices.per_hour[chosen[0]]
    found = []
    for at, offering in enumerate(chosen):
        price = prices.per_hour[offering]
        shape = INSTANCE_TYPES.get(offering.instance_type)
        against = (price / base - 1) * 100 if types and at and base else None
        found.append(PriceRow(offering=offering, devices=shape.devices if shape else 0, price=price, against=against))
    return tuple(found)


def table(found: Iterable[PriceRow]) -> Table:
    """The rows; the last column only where types are compared."""
    rows = tuple(
        TableRow(
            (
                str(each.offering),
                str(each.devices or "-"),
                f"{each.price:.4f}",
                "-" if each.per_device is None else f"{each.per_device:.4f}",
                "-" if each.against is None else f"{each.against:+.1f} %",
            )
        )
        for each in found
    )
    columns = ("TYPE", "DEVICES", "PER HOUR", "PER DEVICE", "AGAINST THE FIRST")
    if all(row.cells[-1] == "-" for row in rows):
        return Table(columns[:-1], tuple(TableRow(row.cells[:-1]) for row in rows), whole=frozenset({0}))
    return Table(columns, rows, whole=frozenset({0}))


def words(cost: HourlyCost, what: str, prices: PriceTable) -> str:
    """A cost as a sentence: ``cost of the placed pods: 43.00 USD/h (us-east-1, 2026-07-20)``."""
    unpriced = f"; no price of {', '.join(cost.unpriced)}: {REMEDY}" if cost.unpriced else ""
    source = f" ({prices.words})" if prices.words else ""
    return f"cost of {what}: {prices.shown(cost.amount)}{source}{unpriced}"


def document(prices: PriceTable, found: Iterable[PriceRow]) -> cost_schema.PriceListDocument:
    """The rows as a document; amounts are texts, so that no digit is lost."""
    return {
        "apiVersion": API_VERSION,
        "kind": "PriceList",
        "asOf": prices.as_of,
        "region": prices.region,
        "currency": prices.currency,
        "source": prices.source,
        "instanceTypes": [
            {
                "name": each.offering.instance_type,
                "capacityType": each.offering.capacity.value,
                "devices": each.devices,
                "perHour": str(each.price),
                "perDeviceHour": None if each.per_device is None else f"{each.per_device:.6f}",
                "againstFirstPercent": None if each.against is None else f"{each.against:.1f}",
            }
            for each in found
        ],
    }


def plan_document(found: Plan, added: Sequence[NodeEntry], prices: PriceTable) -> cost_schema.CostDocument:
    """What the placed pods of a plan cost, and the nodes that were added."""
    pods, nodes = costs.of_pods(found, prices), costs.of_nodes(added, prices)
    return {
        "currency": prices.currency,
        "asOf": prices.as_of,
        "region": prices.region,
        "placedPodsPerHour": f"{pods.amount:.2f}",
        "addedNodesPerHour": f"{nodes.amount:.2f}",
        "unpriced": sorted({*pods.unpriced, *nodes.unpriced}),
    }
