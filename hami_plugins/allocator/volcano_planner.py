"""Which pods make room for a waiting pod of Volcano's, or for all of its gang that has to start together."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from hami_plugins.allocator.kept_room import turn
from hami_plugins.allocator.locked_cache import LockedAllocationCache
from hami_plugins.allocator.preemption_objects import PreemptionObjects
from hami_plugins.allocator.volcano_objects import VolcanoObjects
from hami_plugins.engine.intake import PodInfo
from hami_plugins.model.cluster import PodGroup
from hami_plugins.model.units import NodeName
from hami_plugins.preemption.preemptor import Preemptor
from hami_plugins.preemption.running import RunningPodIndex
from hami_plugins.preemption.search import VictimSearch
from hami_plugins.preemption.values import EvictionPlan, NoVictims
from hami_plugins.queueing import gangs
from hami_plugins.queueing.gangs import Need
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


class VolcanoPlanner:
    """Safe to call from any thread; there is one search at a time.

    ``objects`` and ``volcano`` hold what counts besides nodes and pods, ``unknown`` says what of it is not listed yet.
    Sums of plain resources are Volcano's matter.
    """

    def __init__(
        self,
        cache: LockedAllocationCache,
        objects: PreemptionObjects,
        volcano: VolcanoObjects,
        *,
        unknown: Callable[[], str] = lambda: "",
    ) -> None:
        self._cache = cache
        self._unknown = unknown
        self._objects = objects
        self._volcano = volcano
        self._search = VictimSearch(cache.product.registry, cache.product.rules, devices_only=True)
        self._one_at_a_time = threading.Lock()

    def plan(self, intake: PodInfo, job: str, *, but: Collection[NodeName], thorough: bool) -> GangPlan | NoVictims:
        """The cheapest evictions for the pod and for those of its ``job`` without which it does not start.

        ``job`` is ``namespace/name`` of its PodGroup. The places are not on the nodes ``but``. Unless it is
        ``thorough``, no places are looked for where no pod leaves and none may have to.
        """
        if missing_objects := self._unknown():
            return NoVictims(why=f"not listed yet: {missing_objects}")
        with self._one_at_a_time:
            return self._plan(intake, job, but, thorough=thorough)

    def _plan(self, intake: PodInfo, job: str, but: Collection[NodeName], *, thorough: bool) -> GangPlan | NoVictims:
        group = self._objects.group(job)
        unplaced = self._cache.unplaced()
        mates = [] if group is None else [each for each in unplaced if _is_of(group, each)]
        waiting = [intake, *self._waiting(mates, but=intake)]
        # A session takes back what it reserved for members if it cannot bind enough of them: their kept room counts.
        seen, asked = self._cache.search_view(waiting, tentative={each.pod.uid for each in mates}, stale=STALE)
        pending = tuple(each.pod for each in unplaced)
        snapshot = self._volcano.added_to(self._objects.added_to(replace(seen, pending=pending)))
        running = self._search.running_in(snapshot)
        infos, missing = (asked, 1) if group is None else _chosen(asked, group, running.have(job))
        if len(infos) < missing:
            return NoVictims(why=f"{missing} pods of its gang have to start together, and {len(infos)} wait")
        if not thorough and not _may_help(running, Preemptor.of(snapshot, infos)):
            return NoVictims(why="no pod of a lower priority or of another queue holds devices, and none is ending")
        within = [entry.name for entry in snapshot.nodes if entry.name not in but] if but else None
        # The cache knows plain resources of those pods alone that have devices.
        infos = [each.with_constraints(replace(each.demand.constraints, requests=())) for each in infos]
        found = self._search.find(snapshot, infos, within=within)
        if isinstance(found, NoVictims):
            return found
        return GangPlan(found, missing, _takes_gangs(found, self._search.running_in(snapshot)))

    def _waiting(self, mates: Iterable[PodInfo], *, but: PodInfo) -> list[PodInfo]:
        """The other pods of a gang that wait and have no room kept for them."""
        others = (
            each
            for each in mates
            if each.pod.uid != but.pod.uid
            and not each.pod.gated
            and self._cache.nomination(each.pod.uid) is None
            and not self._cache.blocking_reason(each)
        )
        return sorted(others, key=turn)


def _is_of(group: PodGroup, info: PodInfo) -> bool:
    pod = info.pod
    return pod.annotations.get(GROUP_KEY) == group.name and pod.namespace == group.namespace


def _chosen(waiting: Sequence[PodInfo], group: PodGroup, have: Mapping[str, int]) -> tuple[Sequence[PodInfo], int]:
    """Those of a gang's waiting pods that make it start, and how many that takes; ``have`` run already."""
    need = Need(group.min_member, tuple(sorted(group.min_by_task.items())))
    missing = gangs.missing(need, have)
    whole = sum(each.needed - each.have for each in missing if not each.task)
    by_task = sum(each.needed - each.have for each in missing if each.task)
    count = max(whole, by_task, 1)
    tasks = [each.pod.annotations.get(TASK_KEY, "") for each in waiting]
    return [waiting[at] for at in gangs.in_turn(tasks, need, have)[:count]], count


def _may_help(running: RunningPodIndex, preemptor: Preemptor) -> bool:
    """Whether any running pod may have to leave, or leaves; a search costs much more than this."""
    if not preemptor.queue:
        return True
    lower = {kind for kind in running.kinds if kind.lowest < preemptor.priority}
    return any(
        pods.ending or not lower.isdisjoint(pods.kinds.values()) or any(queue != preemptor.queue for queue in pods.held)
        for pods in running.nodes
    )


def _takes_gangs(plan: EvictionPlan, running: RunningPodIndex) -> bool:
    """Whether fewer pods of a gang stay than it needs."""
    leaving = Counter(victim.pod.full_group for victim in plan.victims if victim.pod.group)
    return any(
        gang is not None and sum(gang.have.values()) - count < gang.need.members
        for name, count in leaving.items()
        for gang in (running.gang(name),)
    )
