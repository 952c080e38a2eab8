"""A plan as one self-contained HTML page: every node, every card as a bar of parts, refusals with suggestions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from hami_plugins.explain.enqueue import holder_lines
from hami_plugins.explain.messages import counted
from hami_plugins.model.units import NodeName
from hami_plugins.occupancy.devices import Occupancy
from hami_plugins.occupancy.totals import fleet_use, noun_of
from hami_plugins.output import tables
from hami_plugins.output.page import frame
from hami_plugins.output.page.bars import Panels
from hami_plugins.output.page.cluster import (
    MOST_ROWS,
    ClusterPage,
    Heading,
    PageTile,
    PlacementRow,
    PlanRemark,
    ReasonLine,
    RefusalPanel,
    bare_words,
    fleet_rows,
    further,
    groups_of,
    usage_tiles,
)
from hami_plugins.output.page.link_drawings import picture
from hami_plugins.plan import Plan, PodPlan, Stage, replica_rows

if TYPE_CHECKING:
    from hami_plugins.engine.registry import Registry
    from hami_plugins.explain.answers import Answers
    from hami_plugins.inputs.workloads import Submission
    from hami_plugins.output.usage import Usages

MOST_UNUSED: Final = 20
"""Most containers that are listed because they leave much of their allocation unused."""


def render(  # noqa: PLR0913 - a plan, and all its notes
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

    ``remarks`` are further omissions, besides the snapshot's own problems; ``usages`` are the measured usages of
    containers, if given; ``warnings`` are shown first, because the whole answer depends on them.
    """
    nodes = Occupancy(plan, registry).nodes
    panels = Panels() if usages is None else Panels(usages.on_card)
    groups = groups_of(nodes, panels)
    placed = (each for each in plan.pods if each.place is not None)
    leaving = tables.evictions(plan)
    placements = tuple(_placement(name, pods, panels) for name, pods in replica_rows.grouped(placed, tables.alike))
    found = (*_notes(plan), *(PlanRemark(each.place, each.what) for each in plan.before.problems), *remarks)
    page = ClusterPage(
        title=heading.title,
        subtitle=heading.words,
        warnings=tuple(warnings),
        tiles=(*_tiles(plan), *usage_tiles(nodes, planned=bool(plan.pods))),
        refusals=tuple(refusals),
        plans=True,
        placements=placements[:MOST_ROWS],
        placements_more=further(len(placements), "rows"),
        evictions=() if leaving is None else tuple(row.cells for row in leaving.rows[:MOST_ROWS]),
        nodes_after=tuple(line.words for line in tables.nodes_after(plan, registry)),
        fleet=tuple(fleet_rows(fleet_use(nodes))),
        groups=groups,
        noun=noun_of(nodes),
        bare=bare_words(sum(not use.cards for use in nodes), more=bool(groups)),
        unused=() if usages is None else tuple(PlanRemark(*each) for each in usages.unused(MOST_UNUSED)),
        remarks=found[:MOST_ROWS],
        remarks_more=further(len(found), "remarks"),
        wired=any(use.drawings for use in nodes),
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
            more=f"and {counted(each.size - 1, 'more pod')} of {each.answer.plan.unit}" if each.size > 1 else "",
            stage=tables.status(each.answer.plan),
            why="" if each.answer.causes else each.answer.why,
            reasons=tuple(ReasonLine(cause.tally, cause.words) for cause in each.answer.causes),
            changes=tuple(way_out.sentence for way_out in each.answer.ways_out),
            upstream=each.answer.plan.words,
            holders=tuple(holder_lines(each.answer.holders)),
            preemption=each.preemption,
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
    pods: dict[str, list[PodPlan]] = {}
    for each in plan.pods:
        for note in each.notes:
            pods.setdefault(note, []).append(each)
    for note, noted in pods.items():
        size = replica_rows.size(noted)
        more = f" and {counted(size - 1, 'more pod')}" if size > 1 else ""
        yield PlanRemark(f"{noted[0].pod.full_name}{more}", note)


def _placement(name: str, plans: Sequence[PodPlan], panels: Panels) -> PlacementRow:
    _, node, cards, share, why = tables.cells_of(plans)
    return PlacementRow(
        pod=name,
        node=node,
        node_at=panels.node_at.get(NodeName(node)),
        cards=cards if cards != "-" else "no devices",
        slice=share if share != "-" else "",
        why=tables.AFTER_EVICTION if plans[0].by_eviction is not None else why if why != "-" else "",
        search=f"{name} {node}",
    )


def _tiles(plan: Plan) -> Iterable[PageTile]:
    placed = sum(1 for each in plan.pods if each.stage is Stage.PLACED)
    if plan.pods:
        css = "good" if plan.complete else "bad"
        yield PageTile(figure=f"{placed} of {plan.size}", words="pods placed", css=css)
    if plan.evictions:
        victims = sum(len(each.victims) for each in plan.evictions)
        after = sum(len(each.places) for each in plan.evictions)
        yield PageTile(figure=str(after), words=f"more after {counted(victims, 'eviction')}", css="bad")
