"""The pools of devices that a node reaches: only the newest generation of each counts, and only when it is complete.

Source: ``pools_experimental.go`` of ``k8s.io/dynamic-resource-allocation`` 0.34.4, ``pools_incubating.go`` of 0.36.1.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from hami_plugins.engine.claims.rules import ClaimRules
from hami_plugins.engine.eligibility import met
from hami_plugins.model.claims import DeviceNodes, PoolDevice, PoolId, ResourceSlice, SliceDevice
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.pods import Requirement


class CounterScope(NamedTuple):
    """Counters and the devices that use them: those of a pool, before 1.35 those of one slice."""

    name: object
    counters: Mapping[str, Mapping[str, int]]
    devices: tuple[SliceDevice, ...]


class PoolMember(NamedTuple):
    """A device of a pool that a node reaches, and the other nodes that reach it. ``beside`` are the devices of its
    slice.
    """

    id: PoolDevice
    device: SliceDevice
    scope: CounterScope
    beside: tuple[SliceDevice, ...]
    nodes: DeviceNodes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NodePool:
    """A pool as one node sees it.

    ``missing`` are the slices that have not been published yet, ``wrong`` is why the pool is invalid.
    """

    id: PoolId
    members: tuple[PoolMember, ...] = ()
    generation: int = 0
    missing: int = 0
    wrong: str = ""


class PoolIndex:
    """The slices of a cluster by node. ``rules`` are those of the release that decides."""

    def __init__(self, slices: Iterable[ResourceSlice], rules: ClaimRules) -> None:
        self._rules = rules
        self._of_pool: defaultdict[PoolId, list[ResourceSlice]] = defaultdict(list)
        self._on_node: defaultdict[str, list[ResourceSlice]] = defaultdict(list)
        self._on_many: list[ResourceSlice] = []
        self._known: dict[str, tuple[Mapping[str, str], tuple[NodePool, ...]]] = {}
        for each in sorted(slices, key=lambda one: one.name):
            self._of_pool[each.pool].append(each)
            if each.nodes.node is not None and not (each.counters and not rules.counters_by_slice):
                self._on_node[each.nodes.node].append(each)
            else:
                self._on_many.append(each)

    def reached_by(self, entry: NodeEntry) -> tuple[NodePool, ...]:
        """The pools of which a node reaches devices, by driver and name; those with binding conditions come last."""
        known = self._known.get(entry.name)
        if known is not None and known[0] is entry.facts.labels:
            return known[1]
        found: defaultdict[PoolId, list[ResourceSlice]] = defaultdict(list)
        for each in (*self._on_node.get(entry.name, ()), *self._on_many):
            if self._is_relevant(each, entry):
                found[each.pool].append(each)
        made = (self._pool(pool, self._newest(relevant)) for pool, relevant in sorted(found.items()))
        pools = sorted((each for each in made if each is not None), key=_waits)
        self._known[entry.name] = entry.facts.labels, tuple(pools)
        return tuple(pools)

    def wrong(self, pool: PoolId) -> Iterator[str]:
        """What is wrong with a pool as a whole; nothing for a healthy one."""
        slices = self._newest(self._of_pool[pool])
        if why := self._wrong(slices, slices):
            yield why

    def _is_relevant(self, each: ResourceSlice, entry: NodeEntry) -> bool:
        if each.counters and not self._rules.counters_by_slice:
            return True
        if each.nodes.known:
            return reaches(each.nodes, entry)
        return each.per_device and any(one.nodes is not None and reaches(one.nodes, entry) for one in each.devices)

    @staticmethod
    def _newest(slices: list[ResourceSlice]) -> list[ResourceSlice]:
        newest = max(each.generation for each in slices)
        return [each for each in slices if each.generation == newest]

    def _pool(self, pool: PoolId, slices: list[ResourceSlice]) -> NodePool | None:
        """The pool of these slices; ``None`` where a newer generation has nothing for the node."""
        generation, whole = slices[0].generation, slices
        missing = slices[0].slices - len(slices)
        if missing and not self._rules.takes_incomplete:
            if any(each.generation > generation for each in self._of_pool[pool]):
                return None
            whole = [each for each in self._of_pool[pool] if each.generation == generation]
            missing = slices[0].slices - len(whole)
            if missing:
                return NodePool(id=pool, generation=generation, missing=missing)
        wrong = self._wrong(slices, whole)
        if wrong:
            return NodePool(id=pool, generation=generation, missing=missing, wrong=wrong)
        return NodePool(
            id=pool,
            members=tuple(self._members(pool, slices, whole)),
            generation=generation,
            missing=missing,
        )

    def _wrong(self, slices: list[ResourceSlice], whole: list[ResourceSlice]) -> str:
        """What is wrong with a pool, in the words of kube-scheduler; empty for nothing."""
        names: set[str] = set()
        for device in (device for each in slices for device in each.devices):
            if device.name in names:
                return f"duplicate device name {device.name}"
            names.add(device.name)
        if self._rules.counters_by_slice:
            return ""
        counters: dict[str, Mapping[str, int]] = {}
        for name, of in (item for each in slices for item in each.counters.items()):
            if name in counters:
                return f"duplicate counter set name {name}"
            counters[name] = of
        return next((wrong for each in whole for device in each.devices if (wrong := _unmet(device, counters))), "")

    def _members(self, pool: PoolId, slices: list[ResourceSlice], whole: list[ResourceSlice]) -> Iterator[PoolMember]:
        shared = {name: of for each in slices for name, of in each.counters.items()}
        users = tuple(device for each in whole for device in each.devices if device.uses)
        of_pool = CounterScope(pool, shared, users)
        for each in slices:
            if self._rules.counters_by_slice:
                scope = CounterScope((pool, each.name), each.counters, tuple(one for one in each.devices if one.uses))
            elif each.counters:
                continue
            else:
                scope = of_pool
            for device in each.devices:
                nodes = each.nodes if device.nodes is None else device.nodes
                yield PoolMember(PoolDevice(pool, device.name), device, scope, each.devices, nodes)


def reaches(nodes: DeviceNodes, entry: NodeEntry) -> bool:
    """Whether a node is among those that a slice, a device or an allocation is for."""
    if nodes.node is not None:
        return nodes.node == entry.name
    return nodes.everywhere or (nodes.terms is not None and chosen(nodes.terms, entry))


def chosen(terms: tuple[tuple[Requirement, ...], ...], entry: NodeEntry) -> bool:
    """Whether a node selector (an OR of ANDs) chooses a node."""
    return any(all(met(each, entry.name, entry.facts.labels) for each in term) for term in terms)


def _waits(pool: NodePool) -> bool:
    return any(each.device.waits for each in pool.members)


def _unmet(device: SliceDevice, counters: Mapping[str, Mapping[str, int]]) -> str:
    """A counter that a device uses and its pool does not have."""
    for use in device.uses:
        known = counters.get(use.counters)
        if known is None:
            return f"counter set {use.counters} not found"
        for name, _ in use.amounts:
            if name not in known:
                return f"counter {name} not found in counter set {use.counters}"
    return ""
