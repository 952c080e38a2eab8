"""The common parts of the page of a cluster and that of a plan, and the nodes as groups of panels."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from hami_plugins.explain.messages import counted
from hami_plugins.occupancy.devices import NodeUse, SegmentKind
from hami_plugins.occupancy.totals import FleetUse, noun_of
from hami_plugins.output.page import bars, frame
from hami_plugins.output.page.bars import Bit, NodePanel, Panels
from hami_plugins.output.page.link_drawings import Picture

OPEN_NODES: Final = 60
"""Groups start open while they show at most so many nodes together."""

MOST_ROWS: Final = 1_000
"""Most rows of the table of planned pods, and most remarks; further ones are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heading:
    """What the page calls itself; ``source`` and ``made_at`` are shown as they are."""

    title: str = "Plan"
    source: str = ""
    made_at: str = ""

    @property
    def words(self) -> str:
        """What stands below the title."""
        return " · ".join(filter(None, (self.source, self.made_at)))


@dataclass(frozen=True, slots=True, kw_only=True)
class PageTile:
    """A figure at the top."""

    figure: str
    words: str
    css: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroupPanel:
    """Nodes shown together."""

    title: str
    words: str
    open: bool
    parts: tuple[Bit, ...]
    label: str
    nodes: tuple[NodePanel, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetRow:
    """A row of the table of models."""

    model: str
    cards: str
    total: str
    parts: tuple[Bit, ...]
    label: str
    free: str
    stranded: str
    unavailable: str


@dataclass(frozen=True, slots=True)
class ReasonLine:
    """One reason, and how many nodes (or whatever else) gave it."""

    tally: str
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusalPanel:
    """Pods that do not fit, and why. ``reasons`` are counted, ``changes`` are suggestions, ``upstream`` is HAMi's
    message.

    ``holders`` are the pods that block their enqueue admission in Volcano; ``pictures`` show the nearest nodes, if
    cards are linked. ``preemption`` are the lines about evictions.
    """

    title: str
    stage: str
    why: str
    reasons: tuple[ReasonLine, ...] = ()
    changes: tuple[str, ...] = ()
    upstream: str = ""
    more: str = ""
    holders: tuple[str, ...] = ()
    pictures: tuple[tuple[str, Picture], ...] = ()
    preemption: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementRow:
    """A row of the table of planned pods."""

    pod: str
    node: str
    node_at: int | None
    cards: str
    slice: str
    why: str
    search: str


@dataclass(frozen=True, slots=True)
class MoveRow:
    """A row of the table of moves."""

    number: str
    pod: str
    source: str
    source_cards: str
    target: str
    target_cards: str
    share: str
    lands: str
    css: str = ""


@dataclass(frozen=True, slots=True)
class PlanRemark:
    """Something left out, and why."""

    place: str
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPage:
    """The content of the template; ``plans``: the page shows planned pods as well, ``planned_words`` is their name in
    the legend.

    ``evictions`` are the rows of pods that leave, ``nodes_after`` the lines about the nodes that they leave.

    ``refresh`` is the number of seconds after which the page reloads, unless its search is in use; 0 for never.
    """

    title: str
    subtitle: str
    warnings: tuple[str, ...]
    tiles: tuple[PageTile, ...]
    refusals: tuple[RefusalPanel, ...]
    refusals_title: str = "Not placed"
    refusals_more: str = ""
    plans: bool = False
    planned_words: str = "planned"
    moves: tuple[MoveRow, ...] = ()
    placements: tuple[PlacementRow, ...] = ()
    placements_more: str = ""
    evictions: tuple[tuple[str, ...], ...] = ()
    nodes_after: tuple[str, ...] = ()
    fleet: tuple[FleetRow, ...]
    groups: tuple[NodeGroupPanel, ...]
    noun: str
    bare: str
    unused: tuple[PlanRemark, ...] = ()
    remarks: tuple[PlanRemark, ...]
    remarks_more: str
    wired: bool
    refresh: int = 0
    footer: str = frame.FOOTER


def groups_of(nodes: Sequence[NodeUse], panels: Panels) -> tuple[NodeGroupPanel, ...]:
    """The nodes with cards: those that get planned pods first, then the others by what cards they have."""
    with_cards = [use for use in nodes if use.cards]
    chosen = [use for use in with_cards if use.planned]
    others: dict[str, list[NodeUse]] = {}
    for use in with_cards:
        if not use.planned:
            others.setdefault(bars.shape_words(use), []).append(use)
    groups = [_group("Planned pods go here", chosen, panels, open_now=len(chosen) <= OPEN_NODES)] if chosen else []
    small = len(with_cards) <= OPEN_NODES
    for shape, uses in sorted(others.items(), key=lambda item: (-len(item[1]), item[0])):
        groups.append(_group(shape, uses, panels, open_now=small))
    return tuple(groups)


def bare_words(without: int, *, more: bool) -> str:
    """How many nodes have no devices; ``more`` where others do."""
    others = "more " if more else ""
    return f"{without:,} {others}{'node has' if without == 1 else 'nodes have'} no devices." if without else ""


def _group(title: str, uses: Sequence[NodeUse], panels: Panels, *, open_now: bool) -> NodeGroupPanel:
    amounts = bars.amounts_of(uses)
    cards = sum(len(use.cards) for use in uses)
    return NodeGroupPanel(
        title=title,
        words=f"{counted(len(uses), 'node')}, {counted(cards, noun_of(uses))}",
        open=open_now,
        parts=bars.stacked(amounts),
        label=bars.stacked_words(amounts),
        nodes=tuple(panels.node(use) for use in sorted(uses, key=lambda use: _as_people_count(use.name))),
    )


def _as_people_count(name: str) -> tuple[tuple[int, str], ...]:
    """Sorts node-9 before node-10."""
    parts = re.split(r"([0-9]{1,18})", name)
    return tuple((int(part), "") if part.isdecimal() else (-1, part) for part in parts)


def usage_tiles(nodes: Sequence[NodeUse], *, planned: bool = False) -> Iterable[PageTile]:
    """The total amount, and the taken, free, and lost parts; ``planned`` separates a plan's part."""
    cards, noun = sum(len(use.cards) for use in nodes), noun_of(nodes)
    yield PageTile(
        figure=f"{len(nodes):,}", words=f"{'node' if len(nodes) == 1 else 'nodes'} with {counted(cards, noun)}"
    )
    amounts = bars.amounts_of(nodes)
    total = sum(amounts.values())
    if total:
        taken = amounts[SegmentKind.HELD] + amounts[SegmentKind.PLANNED]
        part = f", {_percent(amounts, SegmentKind.PLANNED)} by this plan" if planned else ""
        yield PageTile(figure=f"{taken * 100 / total:.0f} %", words=f"of all {noun}s taken{part}")
        yield PageTile(figure=_percent(amounts, SegmentKind.FREE), words="free to use")
        lost = (amounts[SegmentKind.STRANDED] + amounts[SegmentKind.UNAVAILABLE]) * 100 / total
        yield PageTile(figure=f"{lost:.0f} %", words="free but stranded or unavailable")


def fleet_rows(uses: Iterable[FleetUse]) -> Iterable[FleetRow]:
    """The table of models."""
    for use in uses:
        yield FleetRow(
            model=use.model,
            cards=f"{use.cards:,}",
            total=bars.amount_words(use.unit, use.total),
            parts=bars.stacked(use.amounts),
            label=bars.stacked_words(use.amounts),
            free=_amount(use, SegmentKind.FREE),
            stranded=_amount(use, SegmentKind.STRANDED),
            unavailable=_amount(use, SegmentKind.UNAVAILABLE),
        )


def _amount(use: FleetUse, part: SegmentKind) -> str:
    return bars.amount_words(use.unit, use.amounts[part]) if use.amounts[part] else "–"  # noqa: RUF001 - typography


def _percent(amounts: Mapping[SegmentKind, int], part: SegmentKind) -> str:
    return f"{amounts[part] * 100 / max(sum(amounts.values()), 1):.0f} %"


def further(number: int, what: str) -> str:
    """How many rows or remarks are left out."""
    return f"and {number - MOST_ROWS:,} more {what}" if number > MOST_ROWS else ""
