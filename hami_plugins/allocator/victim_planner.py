"""Which pods make room for waiting ones, by the cache as it is now, and the room that is kept meanwhile.

Schedulers look at labels, taints and plain resources themselves: a search is about devices, on the nodes that they have
left. It runs outside of the cache's lock.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from hami_plugins.allocator.locked_cache import LockedAllocationCache
from hami_plugins.allocator.preemption_objects import PreemptionObjects
from hami_plugins.engine.intake import PodInfo
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.pods import ANYWHERE, NodeConstraints
from hami_plugins.model.quantity import Quantity
from hami_plugins.model.units import NodeName, PodUid
from hami_plugins.preemption.search import VictimSearch
from hami_plugins.preemption.values import EvictionPlan, NoVictims

IdleSums: TypeAlias = Mapping[NodeName, Mapping[str, int]]
"""The scheduler's remaining plain resources of nodes, in nano units."""


class PlannedEvictions(NamedTuple):
    """A plan, the pods it is for, and the nodes as they were when it was made; ``gone`` as in ``plan``."""

    plan: EvictionPlan
    infos: tuple[PodInfo, ...]
    seen: ClusterSnapshot
    gone: frozenset[PodUid] = frozenset()


class VictimPlanner:
    """Safe to call from any thread; there is one search at a time. ``objects`` are budgets and what else counts.

    Until PodGroups are listed, no victims are chosen among pods that name one: a gang that loses a required member has
    to leave as a whole.
    """

    def __init__(self, cache: LockedAllocationCache, objects: PreemptionObjects) -> None:
        self._cache = cache
        self._objects = objects
        self._search = VictimSearch(cache.product.registry, cache.product.rules, devices_only=True)
        self._one_at_a_time = threading.Lock()

    @property
    def lacks_groups(self) -> bool:
        """Whether the cluster may have PodGroups that were not listed yet."""
        return self._objects.lacks_groups

    def plan(
        self,
        infos: Sequence[PodInfo],
        nodes: Collection[NodeName],
        *,
        idle: IdleSums | None = None,
        gone: frozenset[PodUid] = frozenset(),
    ) -> PlannedEvictions | NoVictims:
        """The cheapest evictions after which these pods have devices on these nodes.

        With ``idle`` the victims also give back what is missing there of the named resources. ``gone`` are pods that
        leave in any case.
        """
        seen, asked = self._cache.search_view(infos, gone=gone)
        if self.lacks_groups and any(record.group for entry in seen.nodes for record in entry.pods):
            return NoVictims(why="the API server has not listed the PodGroups of running pods yet")
        snapshot = self._objects.added_to(_with_sums(seen, idle or {}))
        named = frozenset(name for sums in (idle or {}).values() for name in sums)
        infos = tuple(each.with_constraints(_sums(each, named)) for each in asked)
        with self._one_at_a_time:
            found = self._search.find(snapshot, infos, within=nodes)
        return PlannedEvictions(found, infos, seen, gone) if isinstance(found, EvictionPlan) else found

    def nominate(self, planned: PlannedEvictions, *, lasting: float) -> bool:
        """Keeps the planned places for ``lasting`` seconds at most; whether the nodes are still as they were."""
        plan, infos, seen, gone = planned
        return self._cache.nominate(plan, infos, seen, lasting=lasting, gone=gone)


def _with_sums(snapshot: ClusterSnapshot, idle: IdleSums) -> ClusterSnapshot:
    for name, sums in idle.items():
        entry = snapshot.node(name)
        snapshot = snapshot if entry is None else snapshot.with_node(_with_idle(entry, sums))
    return snapshot


def _with_idle(entry: NodeEntry, sums: Mapping[str, int]) -> NodeEntry:
    """The node as if it offered just so much more of some resources than its pods with devices request."""
    offers = {name: Quantity(nano := entry.requested.get(name, 0) + idle, f"{nano}n") for name, idle in sums.items()}
    return replace(entry, facts=replace(entry.facts, allocatable=offers))


def _sums(info: PodInfo, named: Collection[str]) -> NodeConstraints:
    """What the pod asks for of the named resources; its scheduler has looked at all the rest."""
    requests = tuple((name, amount) for name, amount in info.demand.constraints.requests if name in named)
    return NodeConstraints(requests=requests) if requests else ANYWHERE
