"""Every card of a plan's cluster as parts: who holds what, what is free, and which free part no pod can use.

The parts of a card add up to its capacity, in the first of memory, cores and slots that the card has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from hami_plugins.engine.fit import Fitter
from hami_plugins.engine.registry import Registry
from hami_plugins.engine.usage import HeldDevice, held_by
from hami_plugins.explain.drawings import Drawing, drawings
from hami_plugins.model.devices import Device, DeviceUsage, Instance
from hami_plugins.model.nodes import NodeEntry, NodeShape
from hami_plugins.model.pods import PodRecord
from hami_plugins.model.units import DeviceId, VendorName
from hami_plugins.model.vendor import Candidate, ContainerRequest
from hami_plugins.plan import Plan
from hami_plugins.plan.slices import model_words, partition_words


class SegmentKind(StrEnum):
    """What a part of a card is to the plan."""

    HELD = "held"
    PLANNED = "planned"
    FREE = "free"
    STRANDED = "stranded"
    UNAVAILABLE = "unavailable"


class SegmentUnit(StrEnum):
    """What the parts of a card are measured in."""

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


def noun_of(nodes: Iterable[NodeUse]) -> str:
    """What the cards of these nodes are called, if all have one word."""
    nouns = {card.noun for use in nodes for card in use.cards}
    return nouns.pop() if len(nouns) == 1 else "card"


class Occupancy:
    """The nodes of a plan after it, each looked at when it is asked for; equal cards are judged once."""

    def __init__(self, plan: Plan, registry: Registry) -> None:
        self._plan = plan
        self._registry = registry
        self._fitters = _fitters(plan, registry)
        self._notes: dict[tuple[Device, DeviceUsage], str] = {}

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
        part, note = self._rest(entry, device, usage, left=left)
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

    def _rest(self, entry: NodeEntry, device: Device, usage: DeviceUsage, *, left: int) -> tuple[SegmentKind, str]:
        """The kind of a free part, and why it cannot be used."""
        if not device.healthy:
            return SegmentKind.UNAVAILABLE, "unhealthy"
        if device.cordoned:
            return SegmentKind.UNAVAILABLE, f"{self._registry.noun((device.vendor,))} cordoned"
        if entry.facts.unschedulable:
            return SegmentKind.UNAVAILABLE, "node cordoned"
        if not left:
            return SegmentKind.FREE, ""
        note = self._notes.get((device, usage))
        if note is None:
            note = self._notes[device, usage] = self._why_stranded(device, usage, entry.state.shape)
        return (SegmentKind.STRANDED, note) if note else (SegmentKind.FREE, "")

    def _why_stranded(self, device: Device, usage: DeviceUsage, shape: NodeShape) -> str:
        """Why no pod can use what is left of a used card; empty when one can."""
        if not usage.slots:
            return ""
        if usage.slots >= device.slots:
            return "its only slot is taken" if device.slots == 1 else f"all {device.slots} slots are taken"
        if device.cores and usage.cores >= device.cores:
            return f"all {device.cores} cores are promised"
        fitters = self._fitters.get(device.vendor, ())
        candidate = Candidate(0, device, usage)
        for fitter in fitters:
            ask = ContainerRequest(fitter.request, fitter.policy, shape, (), fitter.spec.fitting.cores_of)
            if all(check(candidate, ask) is None for check in fitter.room):
                return ""
        return "too little for any planned pod" if fitters else ""


def _fitters(plan: Plan, registry: Registry) -> Mapping[VendorName, Sequence[Fitter]]:
    """The distinct requests of the plan, by vendor."""
    wanted = dict.fromkeys(
        (request, pod.intake.policy)
        for pod in plan.pods
        for container in pod.intake.demand.devices.containers
        for request in container.requests
    )
    found: dict[VendorName, list[Fitter]] = {}
    for request, policy in wanted:
        found.setdefault(request.vendor, []).append(Fitter.of(registry[request.vendor], request, policy))
    return found


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
