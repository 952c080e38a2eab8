"""The moves of a defragmentation as a table, as lines and as a JSON-able document."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from typing_extensions import TypedDict

from hami_plugins.defrag.values import DefragPlan, Move, NoMoves, Staying
from hami_plugins.explain.messages import counted
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.decisions import Placed
from hami_plugins.model.pods import Pod
from hami_plugins.output import documents, schema
from hami_plugins.output.rows import Table, TableRow, TextLine
from hami_plugins.output.schema import API_VERSION
from hami_plugins.plan.completeness import Gap
from hami_plugins.plan.slices import PlannedSlice, cards_words, shares_words, slices_of

BUDGETS = "PodDisruptionBudget"

SURE = "by itself"
"""A moved pod lands as planned although nothing is held for it."""

IF_HELD = "if room is held"

_DASH = "-"


class MovedSliceDocument(TypedDict):
    """One container's share of one device."""

    id: str
    index: int | None
    """The device's index on its node; null for a device that the node does not report."""
    container: str
    memoryMiB: int
    cores: int
    partition: str


class MovedPlaceDocument(TypedDict):
    """A node and the devices that a pod holds there."""

    node: str
    slices: list[MovedSliceDocument]


class MoveDocument(TypedDict):
    """One pod that is evicted and made anew by its controller."""

    namespace: str
    pod: str
    source: MovedPlaceDocument
    target: MovedPlaceDocument
    sure: bool
    """Whether the scheduler chooses the target by itself, although nothing is held for the pod."""


class RoomDocument(TypedDict):
    """Where a waiting pod fits after the moves."""

    namespace: str
    pod: str
    target: MovedPlaceDocument


class StayingDocument(TypedDict):
    """A rule that forbids moves: one pod that it is about, why, and how many such pods there are."""

    rule: str
    pods: int
    namespace: str
    pod: str
    why: str


class DefragDocument(TypedDict):
    """The answer of ``hami-plugins defrag``."""

    apiVersion: str
    kind: Literal["Defragmentation"]
    found: bool
    """Whether the moves reach the goal."""
    why: str
    """Why there are no moves; empty if the goal is reached."""
    moves: list[MoveDocument]
    """In the order in which they can be carried out."""
    room: list[RoomDocument]
    strandedBeforeMiB: int
    """Free memory that no request can get."""
    strandedAfterMiB: int
    movable: int
    """Pods with devices that may move."""
    staying: list[StayingDocument]
    warnings: list[schema.WarningDocument]


def document(found: DefragPlan | NoMoves, gaps: Iterable[Gap]) -> DefragDocument:
    """All of it."""
    plan = found if isinstance(found, DefragPlan) else None
    before, after = (0, 0) if plan is None else plan.stranded
    return {
        "apiVersion": API_VERSION,
        "kind": "Defragmentation",
        "found": plan is not None,
        "why": found.why if isinstance(found, NoMoves) else "",
        "moves": [] if plan is None else [_move(each, plan.before) for each in plan.moves],
        "room": [] if plan is None else [_room(pod, placed, plan.before) for pod, placed in plan.places],
        "strandedBeforeMiB": before,
        "strandedAfterMiB": after,
        "movable": found.movable,
        "staying": [
            {
                "rule": example.rule.value,
                "pods": number,
                "namespace": example.pod.namespace,
                "pod": example.pod.name,
                "why": example.why,
            }
            for example, number in found.staying
        ],
        "warnings": documents.warnings(gaps),
    }


def table(plan: DefragPlan) -> Table:
    """A row for each move, in their order."""
    return Table(
        columns=("MOVE", "POD", "FROM", "DEVICES", "TO", "DEVICES", "SHARE", "LANDS THERE"),
        rows=tuple(_row(number, move, plan.before) for number, move in enumerate(plan.moves, 1)),
        whole=frozenset({0, 1, 2, 4}),
        optional=(6, 3),
        toned=7,
        wrapped=frozenset({3, 5, 6}),
    )


def lines(found: DefragPlan | NoMoves) -> Iterator[TextLine]:
    """The benefit of the moves, and the pods that stay."""
    if isinstance(found, NoMoves):
        yield TextLine(found.why, "bad")
    else:
        yield from _gained(found)
    yield from staying_lines(found)


def staying_lines(found: DefragPlan | NoMoves) -> Iterator[TextLine]:
    """How many pods may move, and for each rule how many it forbids."""
    if found.staying or found.movable:
        yield TextLine(f"{counted(found.movable, 'pod')} with devices may move", "dim")
    for example, number in found.staying:
        yield TextLine(f"  {staying_words(example, number)}", "dim")


def staying_words(example: Staying, number: int) -> str:
    """One rule: how many pods, which one, and why."""
    return f"{counted(number, 'pod')} must stay ({example.rule.value}), such as {example.pod.full_name}: {example.why}"


def gaps_of(snapshot: ClusterSnapshot, gaps: Sequence[Gap]) -> tuple[Gap, ...]:
    """What the listing of a cluster lacks for moves: budgets as well."""
    listing = snapshot.listing
    if listing is None or listing.kinds.get(BUDGETS):
        return tuple(gaps)
    return (
        *gaps,
        Gap(BUDGETS, "no PodDisruptionBudgets in this listing (kind poddisruptionbudgets): an eviction may be refused"),
    )


def _gained(plan: DefragPlan) -> Iterator[TextLine]:
    after = f"after {counted(len(plan.moves), 'move')}" if plan.moves else "without any move"
    for pod, placed in plan.places:
        where = cards_words(_slices(pod, placed, plan.before)) or "no devices"
        yield TextLine(f"{after} {pod.full_name} fits on {placed.node} ({where})", "good")
    before, left = plan.stranded
    if not plan.places:
        yield TextLine(f"{after} {memory_words_of(left)} are stranded, {memory_words_of(before)} before", "good")
    if unsure := sum(not move.sure for move in plan.moves):
        words = f"{counted(unsure, 'pod')} would land elsewhere unless the room is held; --sure looks for other moves"
        yield TextLine(words, "warn")


def memory_words_of(amount: int) -> str:
    """An amount of MiB of many devices."""
    return f"{amount / 1024:,.1f} GiB"


def _row(number: int, move: Move, before: ClusterSnapshot) -> TableRow:
    source, target = _source(move, before), _target(move, before)
    cells = (
        str(number),
        move.pod.full_name,
        move.source,
        cards_words(source) or _DASH,
        move.placed.node,
        cards_words(target) or _DASH,
        shares_words(target) or _DASH,
        SURE if move.sure else IF_HELD,
    )
    return TableRow(cells, "good" if move.sure else "warn")


def _source(move: Move, before: ClusterSnapshot) -> tuple[PlannedSlice, ...]:
    return slices_of(move.pod.allocations, move.pod.containers, before.node(move.source))


def _target(move: Move, before: ClusterSnapshot) -> tuple[PlannedSlice, ...]:
    return slices_of(move.placed.containers, move.pod.containers, before.node(move.placed.node))


def _slices(pod: Pod, placed: Placed, before: ClusterSnapshot) -> tuple[PlannedSlice, ...]:
    return slices_of(placed.containers, tuple(each.name for each in pod.containers), before.node(placed.node))


def _move(move: Move, before: ClusterSnapshot) -> MoveDocument:
    return {
        "namespace": move.pod.namespace,
        "pod": move.pod.name,
        "source": _place(move.source, _source(move, before)),
        "target": _place(move.placed.node, _target(move, before)),
        "sure": move.sure,
    }


def _room(pod: Pod, placed: Placed, before: ClusterSnapshot) -> RoomDocument:
    return {
        "namespace": pod.namespace,
        "pod": pod.name,
        "target": _place(placed.node, _slices(pod, placed, before)),
    }


def _place(node: str, slices: Iterable[PlannedSlice]) -> MovedPlaceDocument:
    return {
        "node": node,
        "slices": [
            {
                "id": each.device,
                "index": each.index,
                "container": each.container,
                "memoryMiB": each.memory,
                "cores": each.cores,
                "partition": each.partition,
            }
            for each in slices
        ],
    }
