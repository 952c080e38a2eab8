"""Whether all members of a job fit together, each with whole devices or with cores.

A reported shortage is certain: every number here is at least the real one, so a job that could start is never held
back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from hami_plugins.model.nodes import NodeState
from hami_plugins.vendors.awsneuron import held_cores
from neuron_topology.core.gangs.shared_sets import room
from neuron_topology.core.nodes import Wiring, wiring_of
from neuron_topology.core.sets.tables import Tables

_STATES: Final = 65_536


class MemberRequest(NamedTuple):
    """What one member asks for: so many whole devices, or else so many cores."""

    devices: int = 0
    cores: int = 0

    def __str__(self) -> str:
        return f"{self.cores} cores" if self.cores else f"{self.devices}"


class NodeKind(NamedTuple):
    """A kind of node: how its devices are wired, and how many cores each has."""

    tables: Tables
    cores: int

    def several(self, part: MemberRequest) -> int:
        """How many whole devices a part is on such a node; 0 for cores of one device."""
        if not part.cores:
            return part.devices
        return -(-part.cores // self.cores) if 0 < self.cores < part.cores else 0


class Free(NamedTuple):
    """What is free on a node: its devices without users, how they are wired, and the cores of devices in use."""

    mask: int
    wiring: Wiring
    begun: tuple[int, ...]

    @property
    def kind(self) -> NodeKind:
        """The kind of the node."""
        return NodeKind(self.wiring.tables, self.wiring.cores)

    def room(self, part: MemberRequest) -> int:
        """The most such parts that fit together."""
        kind, allocatable = self.kind, max(self.mask.bit_count() - self.wiring.missing, 0)
        count = kind.several(part)
        if count:
            return min(room(kind.tables, self.mask, count, bool(part.cores)), allocatable // count)
        if not kind.cores:
            return 0
        return sum(_runs(cores, part.cores) for cores in self.begun) + allocatable * (kind.cores // part.cores)


@lru_cache(maxsize=_STATES)
def free_of(state: NodeState) -> Free:
    """The free devices of a node with Neuron devices."""
    shape, wiring = state.shape, wiring_of(state.shape)
    begun = []
    for at in wiring.positions:
        device, used = shape.devices[at], state.usage[at]
        if used.slots and device.healthy and not device.cordoned:
            begun.append(((1 << device.cores) - 1) & ~held_cores(used.marks))
    return Free(wiring.free(shape, state.usage), wiring, tuple(filter(None, begun)))


def lacking(asked: Mapping[MemberRequest, int], least: int, nodes: Iterable[NodeState]) -> str:
    """Why ``least`` of the members have no room on nodes with Neuron devices; empty where nothing says so.

    ``asked`` is how many members ask for each part.
    """
    measured = dict.fromkeys(asked)
    if any(part.cores for part in asked):
        measured[MemberRequest(cores=1)] = None  # whatever the sizes, the cores have to be enough in all
    rooms: Counter[MemberRequest] = Counter()
    kinds: set[NodeKind] = set()
    for state, number in Counter(nodes).items():
        free = free_of(state)
        kinds.add(free.kind)
        for part in measured:
            rooms[part] += number * free.room(part)
    what = "room is" if any(part.cores for part in asked) else "linked sets are"
    could = sum(min(number, rooms[part]) for part, number in asked.items())
    if could < least:
        return f"{what} left for {could}"
    if least == sum(asked.values()) and not all(
        sum(number * _least_displaced(kinds, one, part) for one, number in asked.items()) <= rooms[part]
        for part in measured
    ):
        return f"{what} not left for all of them together"
    return ""


def _least_displaced(kinds: Iterable[NodeKind], one: MemberRequest, other: MemberRequest) -> int:
    """How many places of another part one part takes at least, wherever it may be."""
    return min((found for kind in kinds if (found := displaced(kind, one, other)) is not None), default=0)


@lru_cache(maxsize=_STATES)
def displaced(kind: NodeKind, one: MemberRequest, other: MemberRequest) -> int | None:
    """How many places of another part one part takes at least on such a node; ``None`` where it has none at all.

    Cores may be had of devices in use, and then take no set's place.
    """
    count, others = kind.several(one), kind.several(other)
    if count:
        sets = kind.tables.ranged(count) if one.cores else kind.tables.sets.get(count, ())
        if not sets:
            return None
        if not others:
            return count * (kind.cores // other.cores)
        return min(room(kind.tables, members, others, bool(other.cores)) for members in sets)
    if not kind.cores:
        return None
    return 0 if others else one.cores // other.cores


def _runs(free: int, count: int) -> int:
    """How many runs of so many neighbouring cores fit into free ones."""
    return sum(len(run) // count for run in f"{free:b}".split("0"))
