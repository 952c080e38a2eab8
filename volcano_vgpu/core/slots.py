"""The names under which the kubelet hands out cards.

The kubelet knows cards only as interchangeable slots. A slot is called ``vgpu-<start of the UUID>-<digest>-<n>``, for
example ``vgpu-5bb1e1d8-3f20c1-7``:

* the name depends on the card alone, so that a card that comes, goes or moves never renames another's slots, and a
  container that outlives the agent is still found on its card;
* it does not look like a card or a MIG instance (no ``GPU-``, no ``MIG-``, no ``::``), so that exporters that read the
  kubelet's records do not book the slot as a card of its own;
* it has at most 24 bytes, so that 16 cards of 100 slots fill far less than the 4 MiB that the kubelet reads
  (``trials.md`` K7).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from hami_plugins.errors import HamiPluginsError
from hami_plugins.model.units import DeviceId
from volcano_vgpu.core.model import PhysicalDevice, SlotId

MOST_SLOTS: Final = 1000
"""Slots of one card, at most: a fourth digit would make names longer than they may be."""

_SHOWN: Final = 8
_DIGEST: Final = 6
_FOREIGN: Final = re.compile(r"(GPU-[^,:;]+?)-(0|[1-9]\d{0,4})", re.ASCII)
_NO_COUNT: Final = ("-memory", "-core")


class SlotCollisionError(HamiPluginsError):
    """Two cards would have slots of the same name; one of them has to be excluded."""


def key_of(card: DeviceId) -> str:
    """What all slots of a card begin with; the same for ever, whatever else is on the node."""
    shown = "".join(mark for mark in card.removeprefix("GPU-") if mark.isascii() and mark.isalnum())[:_SHOWN]
    digest = hashlib.sha256(card.encode()).hexdigest()[:_DIGEST]
    return f"vgpu-{shown}-{digest}"


def foreign_card_of(slot: str) -> DeviceId | None:
    """The card in a slot's name as the existing plugin makes them (``<GPU UUID>-<n>``), ``None`` for any other name.

    Its names for units of memory and cores mean no slot, and a bare UUID is none either.
    """
    match = _FOREIGN.fullmatch(slot)
    if match is None or match[1].endswith(_NO_COUNT):
        return None
    return DeviceId(match[1])


@dataclass(frozen=True, slots=True)
class Slots:
    """The slots of a node's cards, cards in the order given."""

    by_card: Mapping[DeviceId, tuple[SlotId, ...]]
    _cards: Mapping[str, DeviceId]

    @classmethod
    def of(cls, cards: Iterable[PhysicalDevice], split_count: int) -> Slots:
        """``split_count`` slots for each card; raises ``SlotCollisionError`` where two cards' names would be equal."""
        by_card: dict[DeviceId, tuple[SlotId, ...]] = {}
        by_key: dict[str, DeviceId] = {}
        for card in cards:
            key = key_of(card.uuid)
            other = by_key.setdefault(key, card.uuid)
            if card.uuid in by_card or other != card.uuid:
                raise SlotCollisionError(f"cards {other} and {card.uuid} would both have slots {key}-<n>; exclude one")
            by_card[card.uuid] = tuple(SlotId(f"{key}-{at}") for at in range(split_count))
        return cls(by_card, by_key)

    def card_of(self, slot: str) -> DeviceId | None:
        """The card of a slot, also of one beyond today's split count: a container may still hold it."""
        key, _, number = slot.rpartition("-")
        return self._cards.get(key) if number.isascii() and number.isdigit() else None

    def slots_of(self, card: DeviceId) -> tuple[SlotId, ...]:
        """The slots of a card; none for a card that is not known."""
        return self.by_card.get(card, ())
