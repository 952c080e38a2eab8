"""Which pods make room for a waiting pod of Volcano's, or for all of its gang that has to start together."""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from hami_plugins.allocator.kept_room import turn
from hami_plugins.allocator.locked_cache import LockedAllocationCache
from hami_plugins.allocator.preemption_objects import PreemptionObjects
from hami_plugins.allocator.volcano_objects import VolcanoObjects
from hami_plugins.engine.intake import PodInfo
from hami_plugins.model.cluster import ClusterSnapshot, PodGroup
from hami_plugins.model.pods import PodRecord
from hami_plugins.model.units import NodeName
from hami_plugins.preemption.preemptor import Preemptor
from hami_plugins.preemption.search import VictimSearch
from hami_plugins.preemption.values import EvictionPlan, NoVictims
from hami_plugins.queueing import gangs
from hami_plugins.queueing.gangs import Need
from hami_plugins.queueing.queues import queue_of
from hami_plugins.wire.gang_keys import GROUP_KEY, TASK_KEY

STALE: Final = 2.0
"""Seconds after which a reservation without a Binding is one of a session that has died."""


class GangPlan(NamedTuple):
    """Evictions for so many pods of a gang as are ``missing``, so that it can start.

    ``whole`` is whether a gang leaves as a whole, wherever its pods run.
    """

    plan: EvictionPlan
    missing: int
    whole: bool


class _Residents(NamedTuple):
    """What is known of the ``pods`` of a node: whether any is ending, the lowest priority, their queues."""

    pods: tuple[PodRecord, ...]
    ending: bool
    lowest: float
    queues: frozenset[str]


class VolcanoPlanner:
    """Safe to call from any thread; there is one search at a time.

    ``objects`` and ``volcano`` hold what counts besides nodes and pods, ``unknown`` says what of it is not listed yet.
    Sums of plain resources are Volcano's matter.
    """

    def __init__(
        self,
        books: LockedAllocationCache,
        objects: PreemptionObjects,
        volcano: VolcanoObjects,
        *,
        unknown: Callable[[], str] = lambda: "",
    ) -> None:
        self._books = books
        self._unknown = unknown
        self._objects = objects
        self._volcano = volcano
        self._search = VictimSearch(books.product.registry, books.product.rules, devices_only=True)
        self._one_at_a_time = threading.Lock()
        self._residents: dict[NodeName, _Residents] = {}

    def plan(self, intake: PodInfo, job: str, *, but: Collection[NodeName], thorough: bool) -> GangPlan | NoVictims:
        """The cheapest evictions for the pod and for those of its ``job`` without which it does not start.

        ``job`` is ``namespace/name`` of its PodGroup. The places are not on the nodes ``but``. Unless it is
        ``thorough``, no places are looked for where no pod leaves and none may have to.
        """
        if missing_objects := self._unknown():
            return NoVictims(why=f"not listed yet: {missing_objects}")
        group = self._objects.group(job)
        waiting = self._waiting(intake, job) if group is not None else [intake]
        seen, asked = self._books.search_view(waiting, stale=STALE)
        pending = tuple(each.pod for each in self._books.unplaced())
        snapshot = self._volcano.added_to(self._objects.added_to(replace(seen, pending=pending)))
        infos, missing = (asked, 1) if group is None else _chosen(asked, group, snapshot)
        if len(infos) < missing:
            return NoVictims(why=f"{missing} pods of its gang have to start together, and {len(infos)} wait")
        if not thorough and not self._may_help(snapshot, infos):
            return NoVictims(why="no pod of a lower priority or of another queue holds devices, and none is ending")
        within = [entry.name for entry in snapshot.nodes if entry.name not in but] if but else None
        with self._one_at_a_time:
            found = self._search.find(snapshot, tuple(map(_without_sums, infos)), within=within)
        return GangPlan(found, missing, _takes_gangs(found, snapshot)) if isinstance(found, EvictionPlan) else found

    def _may_help(self, snapshot: ClusterSnapshot, infos: Sequence[PodInfo]) -> bool:
        """Whether any running pod may have to leave, or leaves; a search costs much more than this."""
        before, self._residents = self._residents, {}
        preemptor = Preemptor.of(snapshot, infos)
        found = False
        for entry in snapshot.nodes:
            of_node = before.get(entry.name)
            if of_node is None or of_node.pods is not entry.pods:
                of_node = _residents(entry.pods, snapshot)
            self._residents[entry.name] = of_node
            found = found or of_node.ending or of_node.lowest < preemptor.priority
            found = found or bool(of_node.queues - {preemptor.queue})
        return found or not preemptor.queue

    def _waiting(self, intake: PodInfo, job: str) -> list[PodInfo]:
        """The pods of a job that wait and have no room kept for them, the one that is asked for first."""
        others = (
            each
            for each in self._books.unplaced()
            if each.pod.uid != intake.pod.uid
            and not each.pod.gated
            and f"{each.pod.namespace}/{each.pod.annotations.get(GROUP_KEY, '')}" == job
            and self._books.nomination(each.pod.uid) is None
            and not self._books.blocking_reason(each)
        )
        return [intake, *sorted(others, key=turn)]


def _chosen(waiting: Sequence[PodInfo], group: PodGroup, snapshot: ClusterSnapshot) -> tuple[Sequence[PodInfo], int]:
    """Those of a gang's waiting pods that make it start, and how many that takes."""
    need = Need(group.min_member, tuple(sorted(group.min_by_task.items())))
    have = gangs.running(snapshot, group.namespace, group.name)
    missing = gangs.missing(need, have)
    whole = sum(each.needed - each.have for each in missing if not each.task)
    by_task = sum(each.needed - each.have for each in missing if each.task)
    count = max(whole, by_task, 1)
    tasks = [each.pod.annotations.get(TASK_KEY, "") for each in waiting]
    return [waiting[at] for at in gangs.in_turn(tasks, need, have)[:count]], count


def _residents(pods: tuple[PodRecord, ...], snapshot: ClusterSnapshot) -> _Residents:
    return _Residents(
        pods=pods,
        ending=any(record.terminating for record in pods),
        lowest=min((_lowest(record, snapshot) for record in pods), default=math.inf),
        queues=frozenset(queue_of(record, snapshot.pod_groups) for record in pods),
    )


def _lowest(record: PodRecord, snapshot: ClusterSnapshot) -> int:
    """The lower one of a pod's own priority and its PodGroup's, of which the rules take one."""
    group = snapshot.pod_groups.get(record.full_group)
    return min(record.priority, snapshot.priorities.get(group.priority_class if group else "", record.priority))


def _takes_gangs(plan: EvictionPlan, snapshot: ClusterSnapshot) -> bool:
    """Whether fewer pods of a gang stay than it needs."""
    leaving = Counter(victim.pod.full_group for victim in plan.victims if victim.pod.group)
    for name, count in leaving.items():
        group = snapshot.pod_groups.get(name)
        if group is not None and group.min_member > 1:
            have = gangs.running(snapshot, group.namespace, group.name)
            if sum(have.values()) - count < group.min_member:
                return True
    return False


def _without_sums(info: PodInfo) -> PodInfo:
    """The pod without plain resources, of which the cache knows only what pods with devices ask for."""
    constraints = replace(info.demand.constraints, requests=())
    return replace(info, demand=replace(info.demand, constraints=constraints))
