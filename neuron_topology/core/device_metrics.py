"""How well a cluster's Neuron devices are used and cut up, in figures."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.devices import CoreMask
from hami_plugins.model.nodes import NodeEntry, NodeState
from hami_plugins.model.pods import PodRecord
from neuron_topology.core.hardware.fabric import FabricShape, mask_of
from neuron_topology.core.nodes import VENDOR, Wiring, wiring_of
from neuron_topology.core.sets.chances import chances
from neuron_topology.core.sets.families import Family, subcubes
from neuron_topology.core.sets.measures import connected, path_through, ring_through
from neuron_topology.core.sets.tables import Tables, Topology


class DeviceState(StrEnum):
    """The state of a device for a new request."""

    FREE = "free"
    HELD = "held"
    BROKEN = "broken"


class Linkage(StrEnum):
    """How the devices of one allocation are linked among themselves, the best first."""

    RING = "ring"
    PATH = "path"
    LINKED = "linked"
    APART = "apart"


@dataclass(slots=True)
class DeviceMetrics:
    """Counts over a whole cluster.

    ``devices`` by state; ``recognised`` is the share of all linked sets of a machine that its pool allocations, by
    instance type and family; ``largest`` how many nodes have that number of devices as the largest set now, ``fitting``
    how many could allocate a set of a number, ``fragmented`` how many have enough free devices for it and no set.
    ``by_chance`` is how many nodes could allocate it on average if what is not free there lay at random, and
    ``chances`` the probability of that for one machine with 0, 1, 2 ... devices in use, by instance type, family and
    number. ``worth`` is what all free sets are worth and ``worth_idle`` what they would be with nothing allocated.
    ``linkage`` and ``numa`` tell of the allocations of several devices how they are linked and over how many NUMA nodes
    they go (on machines with several), ``alike`` of gangs on several nodes whether they have the same numbers on each.
    ``held_twice`` and ``held_broken`` are devices.
    """

    devices: Counter[DeviceState] = field(default_factory=Counter)
    recognised: dict[tuple[str, str], float] = field(default_factory=dict)
    largest: Counter[int] = field(default_factory=Counter)
    fitting: Counter[int] = field(default_factory=Counter)
    fragmented: Counter[int] = field(default_factory=Counter)
    by_chance: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))
    chances: dict[tuple[str, str, int], tuple[float, ...]] = field(default_factory=dict)
    worth: int = 0
    worth_idle: int = 0
    linkage: Counter[Linkage] = field(default_factory=Counter)
    numa: Counter[int] = field(default_factory=Counter)
    alike: Counter[bool] = field(default_factory=Counter)
    held_twice: int = 0
    held_broken: int = 0


class _OfState(NamedTuple):
    """What one node in one state adds. ``fitting`` and ``fragmented`` are counts of devices, ``free`` those free."""

    devices: tuple[tuple[DeviceState, int], ...]
    held_twice: int
    held_broken: int
    worth: int
    free: int
    largest: int
    fitting: tuple[int, ...]
    fragmented: tuple[int, ...]


def figures_of(snapshot: ClusterSnapshot) -> DeviceMetrics:
    """The figures of all nodes with Neuron devices. Nodes that have not changed since the last time cost little."""
    found = DeviceMetrics()
    gangs: dict[str, dict[str, set[int]]] = {}
    for entry in snapshot.nodes:
        if VENDOR not in entry.state.shape.positions:
            continue
        wiring = wiring_of(entry.state.shape)
        _add(found, wiring, _of_state(entry.state))
        for pod, members in _allocations(entry):
            linkage, numa = _quality(wiring.tables, members)
            found.linkage[linkage] += 1
            if len(set(wiring.topology.locality.numa)) > 1:
                found.numa[numa] += 1
            if pod.group:
                gangs.setdefault(f"{pod.namespace}/{pod.group}", {}).setdefault(entry.name, set()).add(members)
    for nodes in gangs.values():
        if len(nodes) > 1:
            found.alike[len({frozenset(sets) for sets in nodes.values()}) == 1] += 1
    return found


def _add(found: DeviceMetrics, wiring: Wiring, node: _OfState) -> None:
    topology = wiring.topology
    kind = wiring.name or "unknown", topology.family.value
    found.recognised[kind] = recognition(topology)
    for count, known in _curves(wiring.tables).items():
        found.chances[(*kind, count)] = known
        found.by_chance[count] += known[topology.fabric.devices - node.free]
    found.devices.update(dict(node.devices))
    found.held_twice += node.held_twice
    found.held_broken += node.held_broken
    found.worth += node.worth
    found.worth_idle += wiring.worth
    found.largest[node.largest] += 1
    found.fitting.update(dict.fromkeys(wiring.tables.counts, 0))
    found.fitting.update(node.fitting)
    found.fragmented.update(dict.fromkeys(wiring.tables.counts, 0))
    found.fragmented.update(node.fragmented)


@lru_cache(maxsize=16_384)
def _of_state(state: NodeState) -> _OfState:
    wiring = wiring_of(state.shape)
    tables, free = wiring.tables, wiring.free(state.shape, state.usage)
    devices: Counter[DeviceState] = Counter()
    twice = broken = 0
    for at in wiring.positions:
        device, used = state.shape.devices[at], state.usage[at]
        healthy = device.healthy and not device.cordoned
        devices[DeviceState.HELD if used.slots else DeviceState.FREE if healthy else DeviceState.BROKEN] += 1
        broken += bool(used.slots and not healthy)
        twice += _overlapping(mark.bits for mark in used.marks if isinstance(mark, CoreMask))
    fitting = tuple(count for count in tables.counts if tables.choices(count)[free])
    return _OfState(
        devices=tuple(devices.items()),
        held_twice=twice,
        held_broken=broken,
        worth=tables.value(free),
        free=free.bit_count(),
        largest=max(fitting, default=0),
        fitting=fitting,
        fragmented=tuple(count for count in tables.counts if count not in fitting and free.bit_count() >= count),
    )


@lru_cache(maxsize=256)
def _curves(tables: Tables) -> Mapping[int, tuple[float, ...]]:
    """The chances of the usual sizes of jobs: powers of two. One device and all devices are left out."""
    sizes = (count for count in tables.counts if 1 < count < tables.topology.fabric.devices)
    return {count: found for count in sizes if count.bit_count() == 1 and (found := chances(tables, count))}


def _overlapping(masks: Iterable[int]) -> bool:
    taken = 0
    for mask in masks:
        if taken & mask:
            return True
        taken |= mask
    return False


@lru_cache(maxsize=256)
def recognition(topology: Topology) -> float:
    """The share of the subcubes of a torus, or of the linked sets of another machine, that a family allocates."""
    whole = Topology(topology.fabric, Family.LINKED).tables.sets
    if topology.fabric.shape is FabricShape.TORUS:
        whole = {count: sets for count in whole if (sets := subcubes(count))}
    allocated = topology.tables.sets
    known = {each for sets in whole.values() for each in sets}
    return sum(1 for sets in allocated.values() for each in sets if each in known) / len(known)


def _allocations(entry: NodeEntry) -> Iterator[tuple[PodRecord, int]]:
    """The sets of several devices that containers hold, as masks of device indexes."""
    index: Mapping[str, int] = {
        name: device.index
        for name, device in zip(entry.ids, entry.state.shape.devices, strict=True)
        if device.vendor == VENDOR
    }
    for pod in entry.pods:
        for allocation in pod.allocations:
            members = mask_of(index[share.device] for share in allocation.shares if share.device in index)
            if members.bit_count() > 1:
                yield pod, members


@lru_cache(maxsize=16_384)
def _quality(tables: Tables, members: int) -> tuple[Linkage, int]:
    """How a set is linked, and how many NUMA nodes it touches."""
    neighbours, locality = tables.topology.fabric.masks, tables.topology.locality
    numa = locality.spread(members).numa
    if not connected(members, neighbours):
        return Linkage.APART, numa
    if ring_through(members, neighbours):
        return Linkage.RING, numa
    return (Linkage.PATH if path_through(members, neighbours) else Linkage.LINKED), numa
