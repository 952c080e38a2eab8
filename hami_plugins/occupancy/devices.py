"""Every card of a cluster as parts: who holds what, what is free, and which free part no pod can use.

The parts of a card add up to its capacity, in the first of memory, cores and slots that the card has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from hami_plugins.engine.registry import Registry
from hami_plugins.engine.usage import HeldDevice, held_by
from hami_plugins.explain.drawings import Drawing, drawings
from hami_plugins.model.devices import Device, DeviceUsage, Instance
from hami_plugins.model.nodes import NodeEntry, Taint
from hami_plugins.model.pods import PodRecord
from hami_plugins.model.units import DeviceId
from hami_plugins.occupancy.stranded import StrandedRule, planned_requests
from hami_plugins.plan import Plan
from hami_plugins.plan.slices import partition_words


class SegmentKind(StrEnum):
    """The role of a part of a card in the plan."""

    HELD = "held"
    PLANNED = "planned"
    FREE = "free"
    STRANDED = "stranded"
    UNAVAILABLE = "unavailable"


class SegmentUnit(StrEnum):
    """The unit of the parts of a card."""

    MEMORY = "MiB"
    CORES = "cores"
    SLOTS = "slots"


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One part of a card. ``pod`` (``namespace/name``), ``held`` and ``partition`` are set where a pod holds it."""

    part: SegmentKind
    amount: int
    pod: str = ""
    held: HeldDevice = field(default=HeldDevice(0, 0, 0))
    partition: str = ""
    terminating: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceOccupancy:
    """A card and its parts, taken ones first. ``note`` says why the rest cannot be used, if it cannot.

    ``noun`` is the vendor's word for it.
    """

    id: DeviceId
    device: Device
    usage: DeviceUsage
    unit: SegmentUnit
    total: int
    segments: tuple[Segment, ...]
    note: str = ""
    noun: str = "card"

    @property
    def overbooked(self) -> bool:
        """Whether more is promised of the card than it has."""
        return sum(segment.amount for segment in self.segments) > self.total

    def amount(self, part: SegmentKind) -> int:
        """How much of the card is of one kind."""
        return sum(segment.amount for segment in self.segments if segment.part is part)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeUse:
    """A node with its cards. ``planned`` are the pods that the plan puts there, ``running`` counts the others.

    ``drawings`` show the cards that are linked.
    """

    entry: NodeEntry
    cards: tuple[DeviceOccupancy, ...]
    planned: tuple[str, ...]
    running: int
    drawings: tuple[Drawing, ...] = ()

    @property
    def name(self) -> str:
        """The node's name."""
        return self.entry.name

    @property
    def cordoned(self) -> bool:
        """Whether the node takes no new pods."""
        return self.entry.facts.unschedulable

    @property
    def taints(self) -> tuple[Taint, ...]:
        """The taints that keep pods away which do not tolerate them."""
        return tuple(each for each in self.entry.facts.taints if each.effect != "PreferNoSchedule")


class Occupancy:
    """The nodes of a plan after it, looked at when they are asked for; equal cards are judged once.

    A plan without pods shows the cluster as it is.
    """

    def __init__(self, plan: Plan, registry: Registry) -> None:
        self._plan = plan
        self._registry = registry
        self._stranded = StrandedRule(registry, planned_requests(plan))

    @cached_property
    def nodes(self) -> tuple[NodeUse, ...]:
        """Every node, by name."""
        return tuple(self._node(entry) for entry in self._plan.after.nodes)

    def _node(self, entry: NodeEntry) -> NodeUse:
        before = self._plan.before.node(entry.name)
        known = frozenset() if before is None else frozenset(map(id, before.pods))
        new = frozenset(record.full_name for record in entry.pods if id(record) not in known)
        holders = _holders(entry.pods)
        cards = tuple(self._card(entry, at, holders.get(device, ()), new) for at, device in enumerate(entry.ids))
        planned = tuple(record.full_name for record in entry.pods if id(record) not in known)
        return NodeUse(
            entry=entry,
            cards=cards,
            planned=planned,
            running=len(entry.pods) - len(planned),
            drawings=tuple(drawings(entry, self._registry, ours=new)),
        )

    def _card(
        self, entry: NodeEntry, at: int, holders: Sequence[tuple[PodRecord, HeldDevice]], new: frozenset[str]
    ) -> DeviceOccupancy:
        device, usage = entry.state.shape.devices[at], entry.state.usage[at]
        unit, total, amount_of = _measure(device)
        taken = [
            Segment(
                part=SegmentKind.PLANNED if record.full_name in new else SegmentKind.HELD,
                amount=amount_of(held),
                pod=record.full_name,
                held=held,
                partition=", ".join(filter(None, map(partition_words, held.marks))),
                terminating=record.terminating,
            )
            for record, held in sorted(holders, key=_place_on_card)
        ]
        left = max(total - sum(segment.amount for segment in taken), 0)
        part, note = self._rest(entry, at, left=left)
        rest = (Segment(part=part, amount=left),) if left else ()
        return DeviceOccupancy(
            id=entry.ids[at],
            device=device,
            usage=usage,
            unit=unit,
            total=total,
            segments=(*taken, *rest),
            note=note,
            noun=self._registry.noun((device.vendor,)),
        )

    def _rest(self, entry: NodeEntry, at: int, *, left: int) -> tuple[SegmentKind, str]:
        """The kind of a free part, and why it cannot be used."""
        device = entry.state.shape.devices[at]
        if not device.healthy:
            return SegmentKind.UNAVAILABLE, "unhealthy"
        if device.cordoned:
            return SegmentKind.UNAVAILABLE, f"{self._registry.noun((device.vendor,))} cordoned"
        if entry.facts.unschedulable:
            return SegmentKind.UNAVAILABLE, "node cordoned"
        if not entry.facts.ready:
            return SegmentKind.UNAVAILABLE, "node not ready"
        if not left:
            return SegmentKind.FREE, ""
        note = self._stranded.why(entry.state, at)
        return (SegmentKind.STRANDED, note) if note else (SegmentKind.FREE, "")


def _holders(records: Iterable[PodRecord]) -> Mapping[DeviceId, Sequence[tuple[PodRecord, HeldDevice]]]:
    """Who holds what of each card, in the order in which the pods came."""
    found: dict[DeviceId, list[tuple[PodRecord, HeldDevice]]] = {}
    for record in records:
        for device, held in held_by(record.allocations, init_finished=record.init_finished).items():
            found.setdefault(device, []).append((record, held))
    return found


def _place_on_card(holder: tuple[PodRecord, HeldDevice]) -> int:
    """Partitions in the order of their place on the card; shares without a place stay as they came."""
    return min((mark.placement.start for mark in holder[1].marks if isinstance(mark, Instance)), default=0)


def _measure(device: Device) -> tuple[SegmentUnit, int, Callable[[HeldDevice], int]]:
    if device.memory:
        return SegmentUnit.MEMORY, device.memory, lambda held: held.memory
    if device.cores:
        return SegmentUnit.CORES, device.cores, lambda held: held.cores
    return SegmentUnit.SLOTS, device.slots, lambda held: held.slots
