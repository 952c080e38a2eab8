"""The nodes that a pool could get: what a new one of each of its instance types would be, empty and ready."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from hami_plugins.engine.eligibility import met
from hami_plugins.engine.registry import Registry
from hami_plugins.inputs.fleets import declared
from hami_plugins.inputs.fleets.declared import Fleet, NodeGroup
from hami_plugins.inputs.fleets.instance_types import INSTANCE_TYPES, labels_of
from hami_plugins.inputs.list_reader import snapshot_of
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.node_pools import (
    CAPACITY_BLOCK_END,
    INSTANCE_TYPE,
    ZONE,
    AutoscaledPool,
    Autoscaler,
    CapacityType,
    Reservation,
)
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.pods import NodeConstraints
from hami_plugins.model.quantity import NANO
from hami_plugins.suggest.additions import fresh
from hami_plugins.wire import karpenter, node_groups
from hami_plugins.wire.karpenter import NODES

RESERVED: Final = "reserved"
ON_DEMAND, SPOT = CapacityType.ON_DEMAND.value, CapacityType.SPOT.value

_WITHOUT_NODES: Final = frozenset({"nvidia.com/gpu"})
_KARPENTER: Final = frozenset(
    {
        "nvidia.com/gpu",
        "amd.com/gpu",
        "aws.amazon.com/neuron",
        "aws.amazon.com/neuroncore",
        "habana.ai/gaudi",
        "vpc.amazonaws.com/efa",
        "vpc.amazonaws.com/pod-eni",
    }
)
"""Extended resources that Karpenter knows of EC2's types (``pkg/providers/instancetype/types.go``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolNode:
    """A new node of a pool, of one instance type. ``room`` is how many more the pool may get, ``None`` for any number.

    ``limited_by`` names what limits it. ``known`` are the extended resources that the autoscaler knows it will have,
    ``None`` where that cannot be told. ``reserved`` says that it is started in a reservation only; ``reservations``
    are those for its type.
    """

    entry: NodeEntry
    instance_type: str
    room: int | None
    limited_by: str = ""
    known: Collection[str] | None = None
    reserved: bool = False
    reservations: tuple[Reservation, ...] = ()

    @property
    def usable(self) -> tuple[Reservation, ...]:
        """The reservations that take instances now."""
        return tuple(each for each in self.reservations if each.usable and each.available != 0)


def pool_nodes(
    pool: AutoscaledPool, snapshot: ClusterSnapshot, registry: Registry, constraints: NodeConstraints, agents: Dialect
) -> Iterator[PoolNode]:
    """A new node of each type that the pool allows and that is known, by name of the type.

    Where a pool leaves a label open, the node has the value that the pod asks for by ``constraints``. A node that the
    pool has already shows what new ones of its type are like. ``agents`` is whose node agent runs on NVIDIA nodes.
    """
    there = _there(pool, snapshot)
    known, reserved = _known(pool, there), _reserved_only(pool)
    for name in sorted({*INSTANCE_TYPES, *there}):
        labels = labels_of(INSTANCE_TYPES[name]) if name in INSTANCE_TYPES else {INSTANCE_TYPE: name}
        open_keys = {each.key for each in pool.requirements} - labels.keys()
        if any(not met(each, "", labels) for each in pool.requirements if each.key not in open_keys):
            continue
        if name not in there and pool.allowed(INSTANCE_TYPE) is None and pool.autoscaler is not Autoscaler.KARPENTER:
            continue
        reservations = tuple(each for each in pool.reservations if each.instance_type == name)
        chosen = _chosen(pool, constraints, open_keys, reservations)
        made = _made(pool, name, chosen, registry, agents) if name in INSTANCE_TYPES else there[name]
        entry = _like(there[name], chosen, made) if name in there else made
        room, limited_by = _room(pool, entry, name, reservations if reserved else ())
        yield PoolNode(
            entry=entry,
            instance_type=name,
            room=room,
            limited_by=limited_by,
            known=known,
            reserved=reserved,
            reservations=reservations,
        )


def unknown_types(pool: AutoscaledPool) -> tuple[str, ...]:
    """The types that a pool names and that are not known."""
    return tuple(each for each in pool.allowed(INSTANCE_TYPE) or () if each not in INSTANCE_TYPES)


def _there(pool: AutoscaledPool, snapshot: ClusterSnapshot) -> Mapping[str, NodeEntry]:
    """A node of the pool for each instance type that it has nodes of, those with devices first."""
    key, value = pool.member
    found: dict[str, NodeEntry] = {}
    for entry in snapshot.nodes:
        if value and entry.facts.labels.get(key) == value and (name := entry.facts.labels.get(INSTANCE_TYPE, "")):
            known = found.get(name)
            if known is None or len(known.ids) < len(entry.ids):
                found[name] = entry
    return found


def _reserved_only(pool: AutoscaledPool) -> bool:
    if pool.labels.get(node_groups.CAPACITY_TYPE) == node_groups.CAPACITY_BLOCK:
        return True
    return pool.allowed(karpenter.CAPACITY_TYPE) == (RESERVED,)


def _chosen(
    pool: AutoscaledPool,
    constraints: NodeConstraints,
    open_keys: Collection[str],
    reservations: tuple[Reservation, ...],
) -> dict[str, str]:
    """The labels of a new node besides those by its type."""
    labels = dict(pool.labels)
    keys = {*open_keys, ZONE} | ({karpenter.CAPACITY_TYPE} if pool.autoscaler is Autoscaler.KARPENTER else set())
    for key in sorted(keys - labels.keys()):
        wished = _wished(constraints, key)
        allowed = pool.allowed(key)
        if key == ZONE and pool.zones:
            allowed = tuple(each for each in pool.zones if allowed is None or each in allowed)
        elif key == karpenter.CAPACITY_TYPE:
            allowed = _by_preference(allowed or (ON_DEMAND,), reservations)
        value = next((each for each in wished if allowed is None or each in allowed), "")
        labels[key] = value or (allowed[0] if allowed else "")
    if labels.get(karpenter.CAPACITY_TYPE) == RESERVED or _reserved_only(pool):
        labels |= _of_reservation(pool, reservations)
    return {key: value for key, value in labels.items() if value}


def _by_preference(allowed: tuple[str, ...], reservations: tuple[Reservation, ...]) -> tuple[str, ...]:
    """Capacity types as Karpenter tries them: reservations that it can use, then Spot, then on demand."""
    usable = any(each.usable for each in reservations)
    order = (RESERVED, SPOT, ON_DEMAND) if usable else (SPOT, ON_DEMAND, RESERVED)
    return tuple(sorted(allowed, key=lambda each: order.index(each) if each in order else len(order)))


def _of_reservation(pool: AutoscaledPool, reservations: tuple[Reservation, ...]) -> dict[str, str]:
    """The zone and the end of the reservation that lasts longest."""
    usable = [each for each in reservations if each.usable]
    if not usable:
        return {}
    longest = max(usable, key=lambda each: float("inf") if each.ends is None else each.ends)
    labels = {ZONE: longest.zone} if longest.zone else {}
    if longest.block and longest.ends is not None:
        labels[CAPACITY_BLOCK_END] = str(int(longest.ends))
    if pool.autoscaler is Autoscaler.KARPENTER:
        labels |= {
            karpenter.RESERVATION_ID: longest.id,
            karpenter.RESERVATION_TYPE: "capacity-block" if longest.block else "default",
        }
    return labels


def _wished(constraints: NodeConstraints, key: str) -> tuple[str, ...]:
    """The values that the pod asks for, by its selector or by a term of its affinity."""
    found = [value for name, value in constraints.selector if name == key]
    for term in constraints.affinity or ():
        for each in term:
            if each.key == key and each.operator == "In":
                found.extend(each.values)
    return tuple(found)


def _like(there: NodeEntry, chosen: Mapping[str, str], made: NodeEntry) -> NodeEntry:
    """A new node as one that is there was when it was new, with other labels, and with the notes that go with them."""
    new = fresh(there, there.name)
    return replace(new, facts=replace(new.facts, labels={**new.facts.labels, **chosen}), notes=made.notes)


def _made(pool: AutoscaledPool, name: str, chosen: Mapping[str, str], registry: Registry, agents: Dialect) -> NodeEntry:
    """A new node of a known type."""
    shape = INSTANCE_TYPES[name]
    group = NodeGroup(
        shape=shape.name,
        described=shape,
        name=f"{pool.name}-new",
        labels={**labels_of(shape), **chosen},
        taints=pool.taints,
        agents=(agents,),
    )
    (made,) = snapshot_of(declared.objects_of(Fleet(name=pool.name, groups=(group,))), registry).nodes
    return made


def _known(pool: AutoscaledPool, there: Mapping[str, NodeEntry]) -> Collection[str] | None:
    if pool.autoscaler is Autoscaler.KARPENTER:
        return _KARPENTER if pool.knows_cloud else None
    if there:
        return {key for entry in there.values() for key in entry.facts.allocatable}
    return _WITHOUT_NODES | pool.declared.keys()


def _room(
    pool: AutoscaledPool, entry: NodeEntry, name: str, reservations: tuple[Reservation, ...]
) -> tuple[int | None, str]:
    """How many more nodes the pool may get, and what limits it."""
    rooms: list[tuple[int, str]] = []
    if pool.most is not None:
        rooms.append((max(pool.most - pool.present, 0), f"maximum size {pool.most}"))
    for resource, limit in sorted(pool.limits.items()):
        each = NANO if resource == NODES else _capacity(entry, name, resource)
        used = pool.present * NANO if resource == NODES else pool.used.get(resource, 0)
        if each:
            rooms.append((max((limit - used) // each, 0), f"limits.{resource}"))
    counts = [each.available for each in reservations if each.usable and each.available is not None]
    if counts:
        rooms.append((sum(counts), "instances left in the reservation"))
    return min(rooms) if rooms else (None, "")


def _capacity(entry: NodeEntry, name: str, resource: str) -> int:
    """What a node adds to the sum of a resource (nano units): limits count capacity, a node's entry what pods get."""
    if (shape := INSTANCE_TYPES.get(name)) is not None:
        known = {"cpu": shape.host.cpus, "memory": shape.host.memory_gib << 30, "nvidia.com/gpu": shape.devices}
        if resource in known:
            return known[resource] * NANO
    amount = entry.facts.allocatable.get(resource)
    return 0 if amount is None else amount.nano
