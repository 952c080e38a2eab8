"""Cards and nodes as the page draws them: bars of bits, each with the words that a reader or a screen reader gets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from hami_plugins.model.units import DeviceId
from hami_plugins.occupancy.devices import DeviceOccupancy, NodeUse, Segment, SegmentKind, SegmentUnit
from hami_plugins.occupancy.totals import shape_of
from hami_plugins.output.page.link_drawings import Picture, picture
from hami_plugins.plan.slices import model_words, runs

STYLE: Final[Mapping[SegmentKind, str]] = {
    SegmentKind.PLANNED: "p",
    SegmentKind.HELD: "h",
    SegmentKind.FREE: "f",
    SegmentKind.STRANDED: "s",
    SegmentKind.UNAVAILABLE: "u",
}
"""The style sheet's class of each part; the page's filter goes by the same letters."""

_NARROW: Final = 0.12
"""A bit below this fraction of its bar has no room for words."""

_GIB: Final = 1024


@dataclass(frozen=True, slots=True)
class Bit:
    """One part of a bar: its class, its width in the unit of the bar, and its text; ``pod_at`` identifies the pod."""

    css: str
    grow: int
    label: str = ""
    text: str = ""
    pod_at: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CardBar:
    """A card. ``rest`` says what is left of it, ``meter`` how much of its cores is promised, in per cent."""

    index: int
    id: str
    label: str
    segments: tuple[Bit, ...]
    rest: str
    idle: bool
    meter: int | None
    meter_label: str


@dataclass(frozen=True, slots=True)
class DeviceRow:
    """A line of a node's panel: one card, or several equal unused ones."""

    index: str
    cards: tuple[CardBar, ...]
    rest: str

    @property
    def ids(self) -> str:
        """The ids of the cards."""
        return " ".join(card.id for card in self.cards)


@dataclass(frozen=True, slots=True)
class Badge:
    """A word about a node, and the class that colours it."""

    css: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePanel:
    """A node. ``flags`` are the letters of ``STYLE`` that occur on it, with ``r`` where there is room."""

    at: int
    name: str
    badges: tuple[Badge, ...]
    meta: str
    flags: str
    search: str
    rows: tuple[DeviceRow, ...]
    pictures: tuple[Picture, ...] = ()


class Panels:
    """Makes the panels of a page; pods and nodes get numbers as they come.

    ``used`` says in words what a pod (``namespace/name``) uses of a card, or nothing. ``planned`` is what the pods of
    the plan are called.
    """

    def __init__(
        self, used: Callable[[str, DeviceId], str] = lambda _pod, _card: "", *, planned: str = "planned"
    ) -> None:
        self._used = used
        self._planned = planned
        self._pods: dict[str, int] = {}
        self.node_at: dict[str, int] = {}

    def node(self, use: NodeUse) -> NodePanel:
        """The panel of one node."""
        at = self.node_at.setdefault(use.name, len(self.node_at))
        shape = shape_words(use)
        counts = [f"{use.running} running"] if use.running else []
        counts += [f"{len(use.planned)} {self._planned}"] if use.planned else []
        return NodePanel(
            at=at,
            name=use.name,
            badges=tuple(badges(use)),
            meta=" · ".join([shape, *counts]),
            flags=_flags(use),
            search=f"{use.name} {shape}",
            rows=tuple(_rows(self.card(card) for card in use.cards)),
            pictures=tuple(map(picture, use.drawings)),
        )

    def card(self, use: DeviceOccupancy) -> CardBar:
        """The bar of one card."""
        device = use.device
        has_meter = use.unit is SegmentUnit.MEMORY and device.cores > 0
        rest = rest_words(use)
        slots = f"{use.usage.slots} of {device.slots} slots"
        name = f"{use.noun.capitalize()} {device.index}"
        return CardBar(
            index=device.index,
            id=use.id,
            idle=not use.usage.slots and all(segment.part is SegmentKind.FREE for segment in use.segments),
            label=f"{name}, {model_words(device)}, {amount_words(use.unit, use.total)}: {rest}, {slots}",
            segments=tuple(self._bit(segment, use) for segment in use.segments),
            rest=rest,
            meter=min(use.usage.cores * 100 // device.cores, 100) if has_meter and use.usage.cores else None,
            meter_label=f"{use.usage.cores} of {device.cores} cores promised",
        )

    def _bit(self, segment: Segment, use: DeviceOccupancy) -> Bit:
        wide = segment.amount >= _NARROW * use.total
        if segment.pod:
            at = self._pods.setdefault(segment.pod, len(self._pods))
            name = segment.pod.partition("/")[2]
            label = "\n".join(filter(None, (_held_words(segment, use), self._used(segment.pod, use.id))))
            return Bit(STYLE[segment.part], segment.amount, label, name if wide else "", at)
        words = {SegmentKind.FREE: "free", SegmentKind.STRANDED: "stranded", SegmentKind.UNAVAILABLE: "unavailable"}[
            segment.part
        ]
        amount = _exact(use.unit, segment.amount)
        label = f"{words}: {amount}" + (f"\n{use.note}" if use.note else "")
        text = (
            ""
            if segment.part is SegmentKind.FREE or not wide
            else use.note
            if segment.part is SegmentKind.UNAVAILABLE
            else words
        )
        return Bit(STYLE[segment.part], segment.amount, label, text)


def stacked(amounts: Mapping[SegmentKind, int]) -> tuple[Bit, ...]:
    """One bar for many cards together."""
    order = (SegmentKind.HELD, SegmentKind.PLANNED, SegmentKind.FREE, SegmentKind.STRANDED, SegmentKind.UNAVAILABLE)
    return tuple(Bit(STYLE[part], amounts[part]) for part in order if amounts.get(part))


def stacked_words(amounts: Mapping[SegmentKind, int]) -> str:
    """The same bar in words: the share of each part in per cent."""
    names = {SegmentKind.HELD: "running", SegmentKind.PLANNED: "planned"}
    total = sum(amounts.values())
    return ", ".join(
        f"{names.get(part, part.value)} {amount * 100 / total:.0f} %" for part, amount in amounts.items() if amount
    )


def amount_words(unit: SegmentUnit, amount: int) -> str:
    """An amount as people say it: memory from 1 GiB on in GiB."""
    if unit is not SegmentUnit.MEMORY:
        return f"{amount} {unit.value[:-1] if amount == 1 else unit.value}"
    if abs(amount) < _GIB:
        return f"{amount} MiB"
    if abs(amount) >= _GIB * _GIB:
        return f"{amount / _GIB / _GIB:.1f} TiB"
    return f"{amount / _GIB:.1f}".removesuffix(".0") + " GiB"


def shape_words(use: NodeUse) -> str:
    """The cards of a node; nodes with equal texts make one group."""
    return " + ".join(f"{count} × {model}" for count, model in shape_of(use.entry)) or "no devices"  # noqa: RUF001 - typography


def amounts_of(uses: Iterable[NodeUse]) -> Mapping[SegmentKind, int]:
    """How the cards of some nodes are used, each card weighing the same whatever its unit: thousandths of cards."""
    sums = dict.fromkeys(SegmentKind, 0)
    for use in uses:
        for card in use.cards:
            for segment in card.segments:
                sums[segment.part] += segment.amount * 1000 // max(card.total, 1)
    return sums


def _rows(cards: Iterable[CardBar]) -> Iterable[DeviceRow]:
    """Neighbours that are idle and equal share a line."""
    for (idle, rest), alike in groupby(cards, key=lambda card: (card.idle, card.rest)):
        if not idle:
            yield from (DeviceRow(str(card.index), (card,), card.rest) for card in alike)
            continue
        found = tuple(alike)
        count = f"{len(found)} x " if len(found) > 1 else ""
        yield DeviceRow(runs(card.index for card in found), found, f"{count}{rest}")


def _exact(unit: SegmentUnit, amount: int) -> str:
    words = amount_words(unit, amount)
    return f"{amount} MiB ({words})" if unit is SegmentUnit.MEMORY and amount >= _GIB else words


def _held_words(segment: Segment, use: DeviceOccupancy) -> str:
    held = segment.held
    amounts = []
    if use.device.memory:
        amounts.append(
            f"{_exact(SegmentUnit.MEMORY, held.memory)} of {amount_words(SegmentUnit.MEMORY, use.device.memory)}"
        )
    if use.device.cores and held.cores:
        amounts.append(f"{held.cores} of {use.device.cores} cores")
    if held.slots > 1:
        amounts.append(f"{held.slots} slots")
    if segment.partition:
        amounts.append(segment.partition)
    state = "planned" if segment.part is SegmentKind.PLANNED else "terminating" if segment.terminating else "running"
    return "\n".join(filter(None, (f"{segment.pod} ({state})", ", ".join(amounts))))


def rest_words(use: DeviceOccupancy) -> str:
    """The free part of a card, in short, next to its bar."""
    if use.overbooked:
        over = sum(segment.amount for segment in use.segments) - use.total
        return f"{amount_words(use.unit, over)} overbooked"
    if not use.device.healthy:
        return "unhealthy"
    if use.device.cordoned:
        return f"{use.noun} cordoned"
    for part in (SegmentKind.FREE, SegmentKind.STRANDED, SegmentKind.UNAVAILABLE):
        amount = use.amount(part)
        if amount:
            return f"{amount_words(use.unit, amount)} {'free' if part is SegmentKind.FREE else part.value}"
    return "full"


def badges(use: NodeUse) -> Iterable[Badge]:
    """What is special about a node."""
    facts = use.entry.facts
    if facts.unschedulable:
        yield Badge("bad", "cordoned")
    if not facts.ready:
        yield Badge("bad", "not ready")
    for noun in sorted({card.noun for card in use.cards if not card.device.healthy}):
        yield Badge("bad", f"unhealthy {noun}")
    if any(card.overbooked for card in use.cards):
        yield Badge("bad", "overbooked")
    for taint in use.taints:
        yield Badge("warn", f"taint {taint.key}{f'={taint.value}' if taint.value else ''}")


def _flags(use: NodeUse) -> str:
    parts = {segment.part for card in use.cards for segment in card.segments}
    letters = "".join(sorted(STYLE[part] for part in parts if part is not SegmentKind.FREE))
    return letters + ("r" if SegmentKind.FREE in parts else "")
