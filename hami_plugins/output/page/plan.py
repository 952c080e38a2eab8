"""A plan as one HTML page that needs nothing else: every node, every card as a bar of parts, refusals with ways out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from hami_plugins.explain.enqueue import holder_lines
from hami_plugins.explain.messages import counted
from hami_plugins.model.units import NodeName
from hami_plugins.output import tables
from hami_plugins.output.page import bars, frame
from hami_plugins.output.page.bars import Bit, NodePanel, Panels
from hami_plugins.output.page.link_drawings import Picture, picture
from hami_plugins.output.page.occupancy import FleetUse, NodeUse, Occupancy, SegmentKind, fleet_use, noun_of
from hami_plugins.plan import Plan, PodPlan, Stage, replica_rows

if TYPE_CHECKING:
    from hami_plugins.engine.registry import Registry
    from hami_plugins.explain.answers import Answers
    from hami_plugins.inputs.workloads import Submission
    from hami_plugins.output.usage import Usages

OPEN_NODES: Final = 60
"""Groups start open while they show at most so many nodes together."""

MOST_ROWS: Final = 1_000
"""Most rows of the table of planned pods, and most remarks; further ones are counted."""

MOST_UNUSED: Final = 20
"""Most containers that are listed because they leave much of their allocation unused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heading:
    """What the page calls itself; ``source`` and ``made_at`` are shown as they are."""

    title: str = "Plan"
    source: str = ""
    made_at: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanTile:
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


@dataclass(frozen=True, slots=True)
class ReasonLine:
    """One reason, and how many nodes (or whatever else) gave it."""

    tally: str
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusalPanel:
    """Pods that do not fit, and why. ``reasons`` are counted, ``changes`` are ways out, ``upstream`` HAMi's words.

    ``holders`` say who holds them at Volcano's gate; ``pictures`` show the nearest nodes, where cards are linked.
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
class PlanRemark:
    """Something left out, and why."""

    place: str
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanPage:
    """Everything that the template shows."""

    title: str
    subtitle: str
    warnings: tuple[str, ...]
    tiles: tuple[PlanTile, ...]
    refusals: tuple[RefusalPanel, ...]
    placements: tuple[PlacementRow, ...]
    placements_more: str
    fleet: tuple[FleetRow, ...]
    groups: tuple[NodeGroupPanel, ...]
    noun: str
    bare: str
    unused: tuple[PlanRemark, ...]
    remarks: tuple[PlanRemark, ...]
    remarks_more: str
    wired: bool
    footer: str


def render(  # noqa: PLR0913 - a plan, and all that is said beside it
    plan: Plan,
    registry: Registry,
    heading: Heading,
    *,
    refusals: Sequence[RefusalPanel] = (),
    remarks: Sequence[PlanRemark] = (),
    usages: Usages | None = None,
    warnings: Sequence[str] = (),
) -> str:
    """The page of a plan.

    ``remarks`` are further things that were left out, beside the snapshot's own problems; ``usages`` what containers
    use, where somebody said it; ``warnings`` are shown first, because the whole answer depends on them.
    """
    nodes = Occupancy(plan, registry).nodes
    panels = Panels() if usages is None else Panels(usages.on_card)
    groups, bare = _groups(nodes, panels)
    placed = (each for each in plan.pods if each.stage is Stage.PLACED)
    placements = tuple(_placement(name, pods, panels) for name, pods in replica_rows.grouped(placed, tables.alike))
    found = (*_notes(plan), *(PlanRemark(each.place, each.what) for each in plan.before.problems), *remarks)
    page = PlanPage(
        title=heading.title,
        subtitle=" · ".join(filter(None, (heading.source, heading.made_at))),
        warnings=tuple(warnings),
        tiles=tuple(_tiles(plan, nodes)),
        refusals=tuple(refusals),
        placements=placements[:MOST_ROWS],
        placements_more=_further(len(placements), "rows"),
        fleet=tuple(_fleet(nodes)),
        groups=groups,
        noun=noun_of(nodes),
        bare=bare,
        unused=() if usages is None else tuple(PlanRemark(*each) for each in usages.unused(MOST_UNUSED)),
        remarks=found[:MOST_ROWS],
        remarks_more=_further(len(found), "remarks"),
        wired=any(use.drawings for use in nodes),
        footer=frame.FOOTER,
    )
    return frame.rendered(page, "page.html.j2", scripts=["page.js"])


def answered(
    answers: Answers, heading: Heading, *, submitted: Submission | None = None, usages: Usages | None = None
) -> str:
    """The page of a plan with everything that is known about it, skipped workloads included."""
    ignored = [each for each in submitted.ignored if not each.silent] if submitted is not None else []
    remarks = [
        PlanRemark(
            f"{each.document.source} line {each.document.line}", f"{each.kind} {each.name} is left out: {each.why}"
        )
        for each in ignored
    ]
    warnings = [gap.message for gap in answers.plan.gaps]
    if submitted is not None and submitted.skipped:
        warnings.append(tables.skipped(submitted))
    return render(
        answers.plan,
        answers.registry,
        heading,
        refusals=refusals_of(answers),
        remarks=remarks,
        usages=usages,
        warnings=warnings,
    )


def refusals_of(answers: Answers) -> tuple[RefusalPanel, ...]:
    """The refusals of a plan as the page shows them."""
    return tuple(
        RefusalPanel(
            title=each.answer.plan.pod.full_name,
            more=f"and {counted(len(each.pods) - 1, 'more pod')} of {each.answer.plan.unit}"
            if len(each.pods) > 1
            else "",
            stage=tables.status(each.answer.plan),
            why="" if each.answer.causes else each.answer.why,
            reasons=tuple(ReasonLine(cause.tally, cause.words) for cause in each.answer.causes),
            changes=tuple(way_out.sentence for way_out in each.answer.ways_out),
            upstream=each.answer.plan.words,
            holders=tuple(holder_lines(each.answer.holders)),
            pictures=tuple(
                (drawing.node, picture(drawing))
                for cause in each.answer.causes
                if (drawing := cause.drawing) is not None
            ),
        )
        for each in answers.refusals()
    )


def _notes(plan: Plan) -> Iterable[PlanRemark]:
    """Where the upstream scheduler may do otherwise, each once with the first pod that it is about."""
    pods: dict[str, list[str]] = {}
    for each in plan.pods:
        for note in each.notes:
            pods.setdefault(note, []).append(each.pod.full_name)
    for note, names in pods.items():
        more = f" and {counted(len(names) - 1, 'more pod')}" if len(names) > 1 else ""
        yield PlanRemark(f"{names[0]}{more}", note)


def _groups(nodes: Sequence[NodeUse], panels: Panels) -> tuple[tuple[NodeGroupPanel, ...], str]:
    """The nodes that get planned pods first, then the others by what cards they have."""
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
    without = len(nodes) - len(with_cards)
    more = "more " if with_cards else ""
    bare = f"{without:,} {more}{'node has' if without == 1 else 'nodes have'} no devices." if without else ""
    return tuple(groups), bare


def _group(title: str, uses: Sequence[NodeUse], panels: Panels, *, open_now: bool) -> NodeGroupPanel:
    amounts = bars.amounts_of(uses)
    cards = sum(len(use.cards) for use in uses)
    return NodeGroupPanel(
        title=title,
        words=f"{counted(len(uses), 'node')}, {counted(cards, noun_of(uses))}",
        open=open_now,
        parts=bars.stacked(amounts),
        label=bars.stacked_words(amounts),
        nodes=tuple(panels.node(use) for use in sorted(uses, key=lambda use: _as_peoplecounted(use.name))),
    )


def _as_peoplecounted(name: str) -> tuple[tuple[int, str], ...]:
    """Sorts node-9 before node-10."""
    parts = re.split(r"([0-9]{1,18})", name)
    return tuple((int(part), "") if part.isdecimal() else (-1, part) for part in parts)


def _placement(name: str, plans: Sequence[PodPlan], panels: Panels) -> PlacementRow:
    _, node, cards, share, why = tables.cells_of(plans)
    return PlacementRow(
        pod=name,
        node=node,
        node_at=panels.node_at.get(NodeName(node)),
        cards=cards if cards != "-" else "no devices",
        slice=share if share != "-" else "",
        why=why if why != "-" else "",
        search=f"{name} {node}",
    )


def _tiles(plan: Plan, nodes: Sequence[NodeUse]) -> Iterable[PlanTile]:
    placed = sum(1 for each in plan.pods if each.stage is Stage.PLACED)
    if plan.pods:
        css = "good" if plan.complete else "bad"
        yield PlanTile(figure=f"{placed} of {len(plan.pods)}", words="pods placed", css=css)
    cards, noun = sum(len(use.cards) for use in nodes), noun_of(nodes)
    yield PlanTile(
        figure=f"{len(nodes):,}", words=f"{'node' if len(nodes) == 1 else 'nodes'} with {counted(cards, noun)}"
    )
    amounts = bars.amounts_of(nodes)
    total = sum(amounts.values())
    if total:
        taken = amounts[SegmentKind.HELD] + amounts[SegmentKind.PLANNED]
        planned = f", {_percent(amounts, SegmentKind.PLANNED)} by this plan" if plan.pods else ""
        yield PlanTile(figure=f"{taken * 100 / total:.0f} %", words=f"of all {noun}s taken{planned}")
        yield PlanTile(figure=_percent(amounts, SegmentKind.FREE), words="free to use")
        lost = (amounts[SegmentKind.STRANDED] + amounts[SegmentKind.UNAVAILABLE]) * 100 / total
        yield PlanTile(figure=f"{lost:.0f} %", words="free but stranded, unhealthy or cordoned")


def _fleet(nodes: Sequence[NodeUse]) -> Iterable[FleetRow]:
    for use in fleet_use(nodes):
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


def _further(number: int, what: str) -> str:
    return f"and {number - MOST_ROWS:,} more {what}" if number > MOST_ROWS else ""
