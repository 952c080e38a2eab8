"""The moves of a defragmentation as one HTML page: each node that changes before and after, side by side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from hami_plugins.defrag.values import DefragPlan, Move, NoMoves
from hami_plugins.engine.apply import assigned
from hami_plugins.engine.inventory import with_pods
from hami_plugins.engine.registry import Registry
from hami_plugins.explain.messages import counted
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.units import NodeName
from hami_plugins.occupancy.devices import NodeUse, Occupancy
from hami_plugins.occupancy.totals import fleet_use, noun_of
from hami_plugins.output import defrag
from hami_plugins.output.page import bars, frame
from hami_plugins.output.page.bars import NodePanel, Panels
from hami_plugins.output.page.cluster import (
    ClusterPage,
    Heading,
    MoveRow,
    NodeGroupPanel,
    PageTile,
    PlanRemark,
    fleet_rows,
)
from hami_plugins.plan import Plan
from hami_plugins.plan.completeness import Gap

MOST_NODES = 60
"""Nodes that change and are drawn; further ones are counted."""


def moves_page(
    found: DefragPlan | NoMoves, before: ClusterSnapshot, registry: Registry, heading: Heading, gaps: Sequence[Gap] = ()
) -> str:
    """The page of a plan, or of why there is none."""
    plan = found if isinstance(found, DefragPlan) else _unchanged(before)
    placed = plan.after
    for pod, place in plan.places:
        placed = assigned(placed, pod, place)
    names = _changed(plan)
    leaving = frozenset(id(move.pod) for move in plan.moves)
    then = _uses(_without(plan.before, leaving, names), plan.before.only(lambda entry: entry.name in names), registry)
    now = _uses(plan.before, placed.only(lambda entry: entry.name in names), registry)
    drawn = sorted(names)[:MOST_NODES]
    panels = Panels(planned="moving or waiting")
    groups = tuple(_pair(at, then[name], now[name], panels) for at, name in enumerate(drawn))
    uses = Occupancy(Plan(before=placed, after=placed, pods=()), registry).nodes
    rows = defrag.table(plan).rows
    page = ClusterPage(
        title=heading.title,
        subtitle=heading.words,
        warnings=(*_trouble(found), *(gap.message for gap in gaps)),
        tiles=tuple(_tiles(plan, len(names))),
        refusals=(),
        plans=True,
        planned_words="moves or waits",
        moves=tuple(_row(row.cells, move) for row, move in zip(rows, plan.moves, strict=True)),
        fleet=tuple(fleet_rows(fleet_use(uses))),
        groups=groups,
        noun=noun_of(uses),
        bare=f"and {counted(len(names) - MOST_NODES, 'more node')} that change" if len(names) > MOST_NODES else "",
        remarks=tuple(_remarks(found)),
        remarks_more="",
        wired=any(use.drawings for use in now.values()),
    )
    return frame.rendered(page, "page.html.j2", scripts=["page.js"])


def _unchanged(cluster: ClusterSnapshot) -> DefragPlan:
    return DefragPlan(moves=(), before=cluster, after=cluster, places=(), stranded=(0, 0), staying=(), movable=0)


def _changed(plan: DefragPlan) -> frozenset[NodeName]:
    moved = {name for move in plan.moves for name in (move.source, move.placed.node)}
    return frozenset(moved | {placed.node for _, placed in plan.places})


def _without(snapshot: ClusterSnapshot, leaving: frozenset[int], names: frozenset[NodeName]) -> ClusterSnapshot:
    """The cluster without the pods that move, so that these are drawn as those of the plan."""
    for name in names:
        entry = snapshot.nodes[snapshot.position[name]]
        snapshot = snapshot.with_node(with_pods(entry, (each for each in entry.pods if id(each) not in leaving)))
    return snapshot


def _uses(before: ClusterSnapshot, after: ClusterSnapshot, registry: Registry) -> dict[NodeName, NodeUse]:
    """The nodes after something, by name; pods that were not there before count as planned."""
    found = Occupancy(Plan(before=before, after=after, pods=()), registry).nodes
    return {use.entry.name: use for use in found}


def _pair(at: int, then: NodeUse, now: NodeUse, panels: Panels) -> NodeGroupPanel:
    amounts = bars.amounts_of([now])
    return NodeGroupPanel(
        title=now.name,
        words="before and after",
        open=True,
        parts=bars.stacked(amounts),
        label=bars.stacked_words(amounts),
        nodes=(_named(panels.node(then), "before", 2 * at), _named(panels.node(now), "after", 2 * at + 1)),
    )


def _named(panel: NodePanel, words: str, at: int) -> NodePanel:
    return replace(panel, at=at, name=f"{panel.name}: {words}")


def _row(cells: Sequence[str], move: Move) -> MoveRow:
    number, pod, source, cards, target, others, share, lands = cells
    css = "" if move.sure else "warn"
    return MoveRow(number, pod, source, cards, target, others, share, lands, css)


def _tiles(plan: DefragPlan, nodes: int) -> Iterable[PageTile]:
    yield PageTile(figure=str(len(plan.moves)), words="move" if len(plan.moves) == 1 else "moves")
    yield PageTile(figure=str(nodes), words="node changes" if nodes == 1 else "nodes change")
    if plan.places:
        words = "waiting pod fits afterwards" if len(plan.places) == 1 else "waiting pods fit afterwards"
        yield PageTile(figure=str(len(plan.places)), words=words, css="good")
    before, after = plan.stranded
    if before > after:
        yield PageTile(figure=defrag.memory_words_of(before - after), words="stranded memory of use again", css="good")


def _trouble(found: DefragPlan | NoMoves) -> Iterable[str]:
    if isinstance(found, NoMoves):
        yield found.why
    elif not all(move.sure for move in found.moves):
        yield "some pods land as planned only if the room of the waiting pods is held"


def _remarks(found: DefragPlan | NoMoves) -> Iterable[PlanRemark]:
    for example, number in found.staying:
        yield PlanRemark("stays", defrag.staying_words(example, number))
