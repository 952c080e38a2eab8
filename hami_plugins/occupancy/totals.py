"""Sums over the cards of some nodes, by model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.units import VendorName
from hami_plugins.occupancy.devices import DeviceOccupancy, NodeUse, SegmentKind, SegmentUnit
from hami_plugins.plan.slices import model_words


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetUse:
    """All cards of one model together, in the unit of the model."""

    model: str
    vendor: VendorName
    unit: SegmentUnit
    cards: int
    total: int
    amounts: Mapping[SegmentKind, int]


def fleet_use(nodes: Iterable[NodeUse]) -> tuple[FleetUse, ...]:
    """The cards of all nodes by model, the most capacity first within a unit."""
    cards: dict[tuple[VendorName, str, SegmentUnit], list[DeviceOccupancy]] = {}
    for node in nodes:
        for card in node.cards:
            cards.setdefault((card.device.vendor, model_words(card.device), card.unit), []).append(card)
    found = [
        FleetUse(
            model=model,
            vendor=vendor,
            unit=unit,
            cards=len(each),
            total=sum(card.total for card in each),
            amounts={part: sum(card.amount(part) for card in each) for part in SegmentKind},
        )
        for (vendor, model, unit), each in cards.items()
    ]
    return tuple(sorted(found, key=lambda use: (use.unit is not SegmentUnit.MEMORY, -use.total, use.vendor, use.model)))


def shape_of(entry: NodeEntry) -> tuple[tuple[int, str], ...]:
    """How many cards of what a node has; nodes of equal shapes are shown together."""
    counts: dict[str, int] = {}
    for device in entry.state.shape.devices:
        model = model_words(device)
        words = model if device.mode in ("", "hami-core") else f"{model} ({device.mode})"
        counts[words] = counts.get(words, 0) + 1
    return tuple((count, words) for words, count in counts.items())


def noun_of(nodes: Iterable[NodeUse]) -> str:
    """The noun for the cards of these nodes, if all share one."""
    nouns = {card.noun for use in nodes for card in use.cards}
    return nouns.pop() if len(nouns) == 1 else "card"
