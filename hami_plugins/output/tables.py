"""Answers as plain table rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from hami_plugins.engine.registry import Registry
from hami_plugins.explain import drawings, growth, messages, preemption
from hami_plugins.explain.answers import WorkloadRefusal, briefly
from hami_plugins.explain.drawings import Drawing
from hami_plugins.explain.enqueue import holder_lines
from hami_plugins.inputs.fleets.catalog import ShippedFleet, ShippedShape
from hami_plugins.inputs.workloads import Submission
from hami_plugins.model.units import NodeName
from hami_plugins.output import grids
from hami_plugins.output.rows import Table, TableRow, TextLine
from hami_plugins.plan import Plan, PodPlan, Stage, claimed, replica_rows
from hami_plugins.plan.claimed import planned_devices
from hami_plugins.plan.slices import cards_words, planned_slices, shares_words

MOST_DRAWN: Final = 3
"""Nodes that are drawn below the table of a plan."""


def plan(content: Plan, registry: Registry) -> Table:
    """What happens to each pod, where it goes, what it gets; a row for equal replicas that follow each other."""
    requests = (each for pod in content.pods for one in pod.intake.demand.devices.containers for each in one.requests)
    noun = registry.noun({request.vendor for request in requests})
    rows = tuple(
        TableRow((name, *cells_of(pods)), "good" if _is_placed(pods[0]) else "bad")
        for name, pods in replica_rows.grouped(content.pods, alike)
    )
    columns = ("POD", "STATUS", "NODE", f"{noun.upper()}S", "SLICE", "WHY HERE")
    if all(row.cells[-1] in {"", "-"} for row in rows):
        return Table(
            columns=columns[:-1],
            rows=tuple(TableRow(row.cells[:-1], row.tone) for row in rows),
            whole=frozenset({0, 1, 2}),
            toned=1,
        )
    return Table(columns=columns, rows=rows, whole=frozenset({0, 1, 2}), optional=(5,), toned=1)


def status(pod: PodPlan) -> str:
    """How far a pod gets, in a word or two."""
    return _STATUS[pod.stage] if pod.by_eviction is None else AFTER_EVICTION


AFTER_EVICTION: Final = "after eviction"


_STATUS = {
    Stage.PLACED: "fits",
    Stage.ADMISSION: "denied",
    Stage.REQUEST: "bad request",
    Stage.QUOTA: "over quota",
    Stage.GATE: "waits",
    Stage.GANG: "waits for gang",
    Stage.NODES: "does not fit",
    Stage.ELSEWHERE: "wrong scheduler",
    Stage.UNKNOWN: "unknown",
}


def refusal(content: WorkloadRefusal, drawn: set[Drawing] | None = None) -> tuple[TextLine, ...]:
    """Why some pods are not placed, and what would help, as lines of text.

    What is ``drawn`` already is not drawn again, and what is drawn here is added to it.
    """
    drawn = set() if drawn is None else drawn
    answer = content.answer
    lines = [TextLine(f"{content.title}: {status(answer.plan)}", "bad")]
    if answer.causes:
        lines += [TextLine(f"  {cause.tally}: {cause.words}") for cause in answer.causes]
    else:
        lines.append(TextLine(f"  {answer.why}"))
    for cause in answer.causes:
        if cause.drawing is not None and cause.drawing not in drawn:
            drawn.add(cause.drawing)
            lines += [TextLine(f"    {row}", fixed=True) for row in grids.lines(cause.drawing)]
    lines += [TextLine(f"  {words}", "warn") for words in holder_lines(answer.holders)]
    lines += [TextLine(f"  {words}", "warn") for words in content.preemption]
    lines += [TextLine(f"  -> {way_out.sentence}", "good") for way_out in answer.ways_out]
    for each in answer.growth:
        lines += [TextLine(f"  {words}", "good" if each.fits else "warn") for words in growth.lines(each)]
    upstream = answer.plan.words
    if upstream and upstream not in answer.why:
        lines.append(TextLine(f"  scheduler event: {upstream}", "dim"))
    return tuple(lines)


def evictions(content: Plan) -> Table | None:
    """The pods that leave for pods of a plan, a row each; ``None`` where none has to."""
    rows: list[TableRow] = []
    for each in content.evictions:
        (waiting, *others) = replica_rows.ranged(pod.full_name for pod, _ in each.places)
        waiting += f" and {len(others)} more" if others else ""
        for victim in each.victims:
            told = preemption.grounds_words(victim), preemption.afterwards_words(victim)
            rows.append(TableRow((victim.pod.full_name, victim.node, waiting, *told), "warn"))
        rows += [
            TableRow((ending.pod.full_name, ending.node, waiting, "terminating already", "-"), "dim")
            for ending in each.ending
        ]
    if not rows:
        return None
    columns = ("LEAVES", "NODE", "FOR", "WHY", "AFTERWARDS")
    return Table(columns=columns, rows=tuple(rows), whole=frozenset({0, 1, 2, 4}), toned=0)


def nodes_after(content: Plan, registry: Registry) -> tuple[TextLine, ...]:
    """What is held of the devices of each node from which pods leave or to which they go, before and afterwards."""
    names = sorted({name for each in content.evictions for name in each.nodes})
    return tuple(TextLine(node_after(content, name, registry)) for name in names)


def node_after(content: Plan, name: NodeName, registry: Registry) -> str:
    """The same of one node: ``n1: 20,000 of 40,960 MiB on 1 of 2 cards afterwards, 30,000 MiB on 1 before``."""
    before, after = (snapshot.nodes[snapshot.position[name]] for snapshot in (content.before, content.after))
    noun = registry.noun({device.vendor for device in after.state.shape.devices})
    total = after.state.shape.total_memory
    parts = []
    for entry in (after, before):
        memory, used = sum(each.memory for each in entry.state.usage), sum(each.slots > 0 for each in entry.state.usage)
        parts.append((memory, used))
    (memory, used), (had, did) = parts
    devices = f"{used:,} of {messages.counted(len(after.ids), noun)}"
    if not total:
        return f"{name}: {devices} used afterwards, {did:,} before"
    return f"{name}: {memory:,} of {total:,} MiB on {devices} afterwards, {had:,} MiB on {did:,} before"


def summary(content: Plan, submitted: Submission | None = None) -> TextLine:
    """How many pods are placed, and how many workloads are not planned at all."""
    placed = sum(1 for each in content.pods if each.stage is Stage.PLACED)
    words = f"{placed:,} of {messages.counted(content.size, 'pod')} placed"
    made_room = sum(1 for each in content.pods if each.by_eviction is not None)
    if made_room:
        victims = sum(len(each.victims) for each in content.evictions)
        words += f", {made_room:,} more after {messages.counted(victims, 'eviction')}"
    if submitted is None or not submitted.skipped:
        return TextLine(words, "good" if content.complete else "bad")
    return TextLine(f"{words}; {skipped(submitted)}", "bad")


def skipped(submitted: Submission) -> str:
    """How many objects run pods that the plan does not contain."""
    return f"{len(submitted.skipped):,} of {messages.counted(submitted.objects, 'workload')} skipped"


def pictures(content: Plan, registry: Registry) -> tuple[TextLine, ...]:
    """The first nodes on which pods of a plan get linked devices, drawn; how many more there are."""
    found = list(drawings.of_plan(content, registry))
    lines: list[TextLine] = []
    for drawing in found[:MOST_DRAWN]:
        lines += [TextLine(""), *(TextLine(row, fixed=True) for row in grids.lines(drawing))]
    if len(found) > MOST_DRAWN:
        lines.append(
            TextLine(f"and {messages.counted(len(found) - MOST_DRAWN, 'more node')}; --html draws them all", "dim")
        )
    return tuple(lines)


def fleets(found: Iterable[ShippedFleet]) -> Table:
    """A row per shipped fleet."""
    rows = tuple(TableRow((each.name, str(each.nodes), str(each.devices))) for each in found)
    return Table(columns=("FLEET", "NODES", "DEVICES"), rows=rows, whole=frozenset({0, 1, 2}))


def shapes(found: Iterable[ShippedShape]) -> Table:
    """A row per shape of nodes."""
    return Table(
        columns=("SHAPE", "DEVICES", "MODEL", "MEMORY EACH", "INSTANCE TYPE"),
        rows=tuple(
            TableRow((each.name, str(each.devices), each.model, _gibibytes(each.memory), each.instance_type))
            for each in found
        ),
        whole=frozenset({0, 1, 3}),
        optional=(4,),
    )


def _gibibytes(memory: int) -> str:
    return f"{memory / 1024:.1f} GiB" if memory else "-"


def _is_placed(pod: PodPlan) -> bool:
    return pod.stage is Stage.PLACED and pod.place is not None


def alike(pod: PodPlan) -> tuple[str, ...]:
    """The common values of replicas in one row: how far they get, their node, and the shape of their slices."""
    placed = pod.place
    if placed is None:
        return (status(pod),)
    return status(pod), placed.node, shares_words(planned_slices(pod)), claimed.shares_words(planned_devices(pod))


def cells_of(pods: Sequence[PodPlan]) -> tuple[str, ...]:
    """All of the row of some replicas but their name."""
    placed = pods[0].place
    if placed is None:
        return status(pods[0]), "-", "-", "-", "-"
    slices = [each for pod in pods for each in planned_slices(pod)]
    devices = [each for pod in pods for each in planned_devices(pod)]
    shares = (shares_words(planned_slices(pods[0])), claimed.shares_words(planned_devices(pods[0])))
    share = "; ".join(filter(None, shares))
    each = f"{share} each" if share and len(pods) > 1 else share
    cards = ", ".join(filter(None, (cards_words(slices), claimed.names_words(devices))))
    return status(pods[0]), placed.node, cards or "-", each or "-", briefly(pods[0]) or "-"
