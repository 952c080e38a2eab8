"""What instances cost per hour: a table in a file, shipped or one's own.

::

    kind: Prices
    asOf: 2026-07-20
    region: us-east-1
    currency: USD
    perHour:
      trn1.32xlarge: 21.50
      trn2.48xlarge: {spot: 9.10, capacity-block: 35.76}

A number alone is the price on demand.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from hami_plugins.errors import ManifestError
from hami_plugins.inputs import manifests
from hami_plugins.inputs.manifests.fields import Field
from hami_plugins.model.node_pools import CapacityType, Offering

_AMOUNT: Final = re.compile(r"\d{1,6}(?:\.\d{1,6})?", re.ASCII)
_KNOWN: Final = ("apiVersion", "kind", "asOf", "region", "currency", "source", "perHour")


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceTable:
    """Prices per hour in one currency; ``as_of`` and ``region`` say for when and where they hold."""

    per_hour: Mapping[Offering, Decimal]
    as_of: str = ""
    region: str = ""
    currency: str = "USD"
    source: str = ""

    def of(self, offering: Offering, nodes: int = 1) -> Decimal | None:
        """What so many nodes cost per hour; ``None`` where the table has no price of them."""
        price = self.per_hour.get(offering)
        return None if price is None else price * nodes

    def shown(self, amount: Decimal) -> str:
        """An amount per hour with its currency, to the cent."""
        return f"{amount:,.2f} {self.currency}/h"

    @property
    def words(self) -> str:
        """Where the prices are from."""
        return ", ".join(filter(None, (self.region, self.as_of)))


def parse(text: str, *, source: str) -> PriceTable:
    """A price table. Raises ``ManifestError`` with the place of what is wrong."""
    documents = manifests.mappings(text, source=source)
    if len(documents) != 1:
        raise ManifestError(f"{source}: a price table is one document, this has {len(documents)}")
    top = Field.top(documents[0])
    for key in top.members:
        if key not in _KNOWN:
            raise top.fault(f"means nothing here; known are {', '.join(_KNOWN)}", key)
    prices = top.inner("perHour")
    if not prices.members:
        raise top.fault("a price table needs prices; write perHour: {trn1.32xlarge: 21.50}", "perHour")
    return PriceTable(
        per_hour=dict(_prices(prices)),
        as_of=str(top.members.get("asOf") or ""),
        region=top.text("region"),
        currency=top.text("currency") or "USD",
        source=top.text("source"),
    )


def _prices(prices: Field) -> Iterator[tuple[Offering, Decimal]]:
    """The price of each type on demand, or those by how it is bought."""
    for name, held in prices.members.items():
        if not isinstance(held, Mapping):
            yield Offering(name), _price(prices, name)
            continue
        inner = prices.inner(name)
        if not inner.members:
            raise prices.fault(f"{name} has no price; write a number, or {{spot: 9.10}}", name)
        for capacity in inner.members:
            if capacity not in set(CapacityType):
                raise inner.fault(f"means nothing here; known are {', '.join(CapacityType)}", capacity)
            yield Offering(name, CapacityType(capacity)), _price(inner, capacity)


def _price(prices: Field, name: str) -> Decimal:
    """A number by its decimal digits, so that no price is rounded on the way."""
    text = str(prices.members[name])
    if not _AMOUNT.fullmatch(text):
        raise prices.fault(f"{text[:40]!r} is not a price per hour such as 21.50", name)
    return Decimal(text)
