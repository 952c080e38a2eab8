"""The devices of a cluster as tables and as a JSON-able document."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Literal, cast

from hami_plugins.explain.messages import counted
from hami_plugins.model.units import CoreShare
from hami_plugins.occupancy.devices import DeviceOccupancy, NodeUse, Segment, SegmentKind, SegmentUnit
from hami_plugins.occupancy.report import held_slices
from hami_plugins.occupancy.totals import fleet_use, noun_of
from hami_plugins.output import documents, waiting
from hami_plugins.output.page.bars import amount_words, badges, rest_words
from hami_plugins.output.rows import Table, TableRow, TextLine
from hami_plugins.output.schema import API_VERSION
from hami_plugins.plan.slices import cores_words, model_words, runs, share_words

if TYPE_CHECKING:
    from hami_plugins.engine.registry import Registry
    from hami_plugins.occupancy.report import ClusterReport
    from hami_plugins.occupancy.totals import FleetUse
    from hami_plugins.output import node_schema
    from hami_plugins.plan.slices import PlannedSlice

_TONES: Mapping[SegmentKind, str] = {
    SegmentKind.FREE: "good",
    SegmentKind.STRANDED: "warn",
    SegmentKind.UNAVAILABLE: "bad",
}
_Room = Literal["free", "stranded", "unavailable", "full", "overbooked"]
_DASH = "-"
_FULL = "full"
_ROOMS: tuple[tuple[SegmentKind, _Room], ...] = (
    (SegmentKind.FREE, "free"),
    (SegmentKind.STRANDED, "stranded"),
    (SegmentKind.UNAVAILABLE, "unavailable"),
)


def devices(report: ClusterReport, *, wide: bool = False, most: int = sys.maxsize) -> tuple[Table, int]:
    """A row for each device; without ``wide`` equal neighbours share one.

    Only the first nodes are shown that have no more than ``most`` rows, at least one; how many others there are.
    """
    rows: list[TableRow] = []
    for at, node in enumerate(report.nodes):
        found = tuple(_wide_rows(node) if wide else _rows(node))
        if rows and len(rows) + len(found) > most:
            return _table(report, rows, wide=wide), len(report.nodes) - at
        rows += found
    return _table(report, rows, wide=wide), 0


def _table(report: ClusterReport, found: Sequence[TableRow], *, wide: bool) -> Table:
    noun, rows = noun_of(report.nodes).upper(), tuple(found)
    amounts = ("MODEL", "ROOM", "MEMORY", "CORES", "SLOTS")
    if wide:
        return Table(
            columns=("NODE", noun, "ID", *amounts, "NUMA", "MODE", "STATE", "HELD BY"),
            rows=rows,
            whole=frozenset({0, 1, 2, 5, 6, 7, 9}),
            optional=(8, 9, 3, 10),
            toned=4,
            wrapped=frozenset({3, 4, 10, 11}),
        )
    return Table(
        columns=("NODE", noun, *amounts, "HELD BY"),
        rows=rows,
        whole=frozenset({0, 1, 4, 5, 6}),
        optional=(6, 5, 2),
        toned=3,
        wrapped=frozenset({3, 7}),
    )


def totals(report: ClusterReport) -> Table:
    """A row for each model: how much there is, and what has become of it."""
    parts = (SegmentKind.HELD, SegmentKind.FREE, SegmentKind.STRANDED, SegmentKind.UNAVAILABLE)
    return Table(
        columns=("MODEL", "VENDOR", f"{noun_of(report.nodes).upper()}S", "CAPACITY", *(part.upper() for part in parts)),
        rows=tuple(
            TableRow(
                (
                    use.model,
                    use.vendor,
                    f"{use.cards:,}",
                    amount_words(use.unit, use.total),
                    *(amount_words(use.unit, use.amounts[part]) if use.amounts[part] else _DASH for part in parts),
                )
            )
            for use in report.totals
        ),
        whole=frozenset({0, 3, 4, 5, 6, 7}),
        optional=(1,),
    )


def summary(report: ClusterReport) -> TextLine:
    """How many nodes and devices there are, and how many nodes have none."""
    noun = noun_of(report.nodes)
    words = f"{counted(len(report.nodes), 'node')}, {counted(report.devices, noun)}"
    without = f"; {counted(report.bare, 'node')} without {noun}s" if report.bare else ""
    return TextLine(f"{words}{without}")


def _rows(node: NodeUse) -> Iterator[TableRow]:
    """Neighbours that are equal, and held alike, share a row."""
    for cells, together in groupby(node.cards, _cells):
        first, *others = together
        model, room, *rest = cells
        several = f"{len(others) + 1} x " if others and room != _FULL else ""
        indexes = runs(each.device.index for each in (first, *others))
        yield TableRow((node.name, indexes, model, f"{several}{room}", *rest), _tone(first))


def _cells(use: DeviceOccupancy) -> tuple[str, ...]:
    holders = "; ".join(_holder_words(segment, use) for segment in _held(use))
    return model_words(use.device), _room_words(use), *_amounts(use), holders or _DASH


def _wide_rows(node: NodeUse) -> Iterator[TableRow]:
    slices = held_slices(node)
    state = ", ".join(badge.text for badge in badges(node)) or "ready"
    for each in node.cards:
        device = each.device
        holders = (
            _container_words(part, segment)
            for segment in _held(each)
            for part in slices.get((segment.pod, each.id), ())
        )
        yield TableRow(
            (
                node.name,
                str(device.index),
                each.id,
                model_words(device),
                _room_words(each),
                *_amounts(each),
                str(device.numa),
                device.mode or _DASH,
                state,
                "; ".join(holders) or _DASH,
            ),
            _tone(each),
        )


def _held(use: DeviceOccupancy) -> Sequence[Segment]:
    return [segment for segment in use.segments if segment.pod]


def _room(use: DeviceOccupancy) -> tuple[_Room, int]:
    """The state of the unallocated part, and its size."""
    if use.overbooked:
        return "overbooked", sum(segment.amount for segment in use.segments) - use.total
    for part, word in _ROOMS:
        if amount := use.amount(part):
            return word, amount
    return "full", 0


def _room_words(use: DeviceOccupancy) -> str:
    words = rest_words(use)
    return words if not use.note or use.note in words else f"{words}: {use.note}"


def _tone(use: DeviceOccupancy) -> str:
    kind = next((segment.part for segment in use.segments if not segment.pod), None)
    return "bad" if use.overbooked else "" if kind is None else _TONES[kind]


def _amounts(use: DeviceOccupancy) -> tuple[str, str, str]:
    """Memory, cores and slots: what is promised, of what there is."""
    device, usage = use.device, use.usage
    return (
        _of(usage.memory, device.memory) if device.memory else _DASH,
        f"{usage.cores}/{device.cores}" if device.cores else _DASH,
        f"{usage.slots}/{device.slots}",
    )


def _of(used: int, total: int) -> str:
    """An amount of memory of another one; their unit once where both have the same."""
    of, part = amount_words(SegmentUnit.MEMORY, total), amount_words(SegmentUnit.MEMORY, used)
    unit = of[of.rindex(" ") :]
    return f"{part.removesuffix(unit) if used else 0}/{of}"


def _holder_words(segment: Segment, use: DeviceOccupancy) -> str:
    held = segment.held
    words = [amount_words(SegmentUnit.MEMORY, held.memory)] if held.memory else []
    words += [cores_words(CoreShare(held.cores), use.device)] if held.cores else []
    words += [segment.partition] if segment.partition else []
    return f"{segment.pod} {', '.join(words)}".strip() + (" (terminating)" if segment.terminating else "")


def _container_words(part: PlannedSlice, segment: Segment) -> str:
    name = f"{segment.pod}/{part.container}" if part.container else segment.pod
    return f"{name} {share_words(part)}" + (" (terminating)" if segment.terminating else "")


def document(report: ClusterReport, registry: Registry) -> node_schema.NodesDocument:
    """The whole report."""
    made = streamed(report, registry)
    return cast("node_schema.NodesDocument", {**made, "nodes": list(cast("Iterator[object]", made["nodes"]))})


def streamed(report: ClusterReport, registry: Registry) -> Mapping[str, object]:
    """The same, with the nodes as an iterator: a cluster may have very many."""
    return {
        "apiVersion": API_VERSION,
        "kind": "NodeDevices",
        "summary": {"nodes": len(report.nodes), "devices": report.devices, "withoutDevices": report.bare},
        "sums": [_sum(each) for each in report.totals],
        "nodes": (_node(each, registry) for each in report.nodes),
        "waiting": waiting.document(report.waiting),
        "problems": documents.problems(report.problems),
        "warnings": documents.warnings(report.gaps),
        "listed": dict(report.listed),
    }


def _sum(use: FleetUse) -> node_schema.DeviceSumDocument:
    return {
        "vendor": use.vendor,
        "model": use.model,
        "devices": use.cards,
        "unit": use.unit.value,
        "total": use.total,
        "held": use.amounts[SegmentKind.HELD],
        "free": use.amounts[SegmentKind.FREE],
        "stranded": use.amounts[SegmentKind.STRANDED],
        "unavailable": use.amounts[SegmentKind.UNAVAILABLE],
    }


def _node(node: NodeUse, registry: Registry) -> node_schema.NodeDocument:
    facts, slices = node.entry.facts, held_slices(node)
    return {
        "name": node.name,
        "ready": facts.ready,
        "cordoned": facts.unschedulable,
        "taints": [f"{each.key}={each.value}:{each.effect}" for each in node.taints],
        "sums": [_sum(each) for each in fleet_use((node,))],
        "devices": [_device(each, slices, registry) for each in node.cards],
    }


def _device(
    use: DeviceOccupancy, slices: Mapping[tuple[str, str], Sequence[PlannedSlice]], registry: Registry
) -> node_schema.DeviceDocument:
    device, usage = use.device, use.usage
    state, amount = _room(use)
    return {
        "id": use.id,
        "index": device.index,
        "vendor": device.vendor,
        "dialect": registry[device.vendor].dialect.value,
        "model": device.model,
        "mode": device.mode,
        "profiles": list(dict.fromkeys(profile.name for profile in device.profiles)),
        "numa": device.numa,
        "healthy": device.healthy,
        "cordoned": device.cordoned,
        "memoryMiB": device.memory,
        "usedMemoryMiB": usage.memory,
        "cores": device.cores,
        "usedCores": usage.cores,
        "slots": device.slots,
        "usedSlots": usage.slots,
        "room": {"state": state, "amount": amount, "unit": use.unit.value, "why": use.note},
        "holders": [_holder(part, segment) for segment in _held(use) for part in slices.get((segment.pod, use.id), ())],
    }


def _holder(part: PlannedSlice, segment: Segment) -> node_schema.DeviceHolderDocument:
    namespace, _, pod = segment.pod.partition("/")
    return {
        "namespace": namespace,
        "pod": pod,
        "container": part.container,
        "kind": part.kind.value,
        "memoryMiB": part.memory,
        "cores": part.cores,
        "partition": part.partition,
        "terminating": segment.terminating,
    }
