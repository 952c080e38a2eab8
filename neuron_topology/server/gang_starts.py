"""When gangs start: how long each waited until all of it had nodes, and which began in part.

A gang is what a PodGroup says has to start together; of its pods those are known here
that ask for Neuron devices.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from hami_plugins.engine.intake import PodInfo
from hami_plugins.model.cluster import PodGroup
from hami_plugins.model.pods import Pod
from hami_plugins.model.units import PodUid
from hami_plugins.wire.gang_keys import GROUP_KEY
from neuron_topology.core.gangs.gangs import Gangs, Key

PATIENCE: Final = 30.0
"""Seconds from the first pod of a gang that has a node to the last: whoever starts gangs together needs a few."""


class GangState(StrEnum):
    """How far a gang is."""

    WAITING = "waiting"
    PARTIAL = "partial"
    COMPLETE = "complete"


@dataclass(slots=True)
class _Gang:
    """``bound`` are its pods that have nodes, with the time (Unix seconds) where that was seen to happen.

    ``since`` is when it began to wait, ``None`` before; ``told`` is whether its partial start was counted, ``again``
    whether it has started before.
    """

    waiting: set[PodUid] = field(default_factory=set)
    bound: dict[PodUid, float | None] = field(default_factory=dict)
    since: float | None = None
    complete: bool = False
    told: bool = False
    again: bool = False

    @property
    def times(self) -> tuple[float, ...]:
        """When its pods got nodes, as far as that was seen."""
        return tuple(time for time in self.bound.values() if time is not None)

    @property
    def state(self) -> GangState | None:
        """``None`` for one without pods, and for one of which only others are missing."""
        if self.complete:
            return GangState.COMPLETE if self.bound else None
        if not self.waiting:
            return None
        return GangState.PARTIAL if self.bound else GangState.WAITING


class GangStarts:
    """Follows gangs. ``admitted`` is called with the seconds that one waited, ``partly`` for each that began in part.

    What was complete or partly bound when it was first seen is no matter of either. Safe to call from any thread.
    """

    def __init__(
        self, *, now: Callable[[], float], admitted: Callable[[float], object], partly: Callable[[], object]
    ) -> None:
        self._now = now
        self._admitted = admitted
        self._partly = partly
        self._gangs: dict[Key, _Gang] = {}
        self._group_of: dict[PodUid, Key] = {}
        self._groups: dict[Key, PodGroup] = {}
        self._lock = threading.Lock()

    def pod_seen(self, pod: Pod, *, waits: bool) -> None:
        """A pod that asks for devices, and whether it has no node yet."""
        name = pod.annotations.get(GROUP_KEY)
        if not name:
            return
        key = (pod.namespace, name)
        with self._lock:
            if self._group_of.get(pod.uid, key) != key:
                self._leave(pod.uid)
            self._group_of[pod.uid] = key
            gang = self._gangs.setdefault(key, _Gang())
            if waits:
                self._begun(key, gang)
                gang.waiting.add(pod.uid)
                gang.bound.pop(pod.uid, None)
            elif pod.uid not in gang.bound:
                gang.bound[pod.uid] = self._now() if pod.uid in gang.waiting else None
                gang.waiting.discard(pod.uid)
            self._settle(key, gang)

    def pod_gone(self, uid: PodUid) -> None:
        """A pod is gone, or has finished."""
        with self._lock:
            self._leave(uid)

    def group_seen(self, group: PodGroup) -> None:
        """A group of pods that start together."""
        key = (group.namespace, group.name)
        with self._lock:
            self._groups[key] = group
            gang = self._gangs.get(key)
            if gang is not None:
                if gang.waiting and not gang.again and group.made_at is not None:
                    gang.since = group.made_at
                self._settle(key, gang)

    def group_gone(self, namespace: str, name: str) -> None:
        """A group is gone."""
        with self._lock:
            self._groups.pop((namespace, name), None)
            self._forget((namespace, name))

    def states(self) -> Counter[GangState]:
        """How many gangs are how far. What only time shows is found out here, too."""
        with self._lock:
            for gang in (gang for key, gang in self._gangs.items() if self._least(key) > 1):
                self._look(gang)
            return Counter(
                state for key, gang in self._gangs.items() if self._least(key) > 1 and (state := gang.state) is not None
            )

    def _least(self, key: Key) -> int:
        group = self._groups.get(key)
        return 0 if group is None else group.min_member

    def _begun(self, key: Key, gang: _Gang) -> None:
        """A gang that begins to wait does so since its PodGroup was made; one that starts again, since now."""
        if gang.waiting or (gang.bound and gang.since is not None):
            return
        if not gang.bound:
            gang.complete = gang.told = False
        made = None if gang.again or key not in self._groups else self._groups[key].made_at
        gang.since = self._now() if made is None else made

    def _settle(self, key: Key, gang: _Gang) -> None:
        if not gang.complete and 1 < self._least(key) <= len(gang.bound):
            self._end(gang)

    def _end(self, gang: _Gang) -> None:
        gang.complete = gang.again = True
        if (times := gang.times) and gang.since is not None:
            self._count_partial(gang, max(times))
            self._admitted(max(0.0, max(times) - gang.since))

    def _look(self, gang: _Gang) -> None:
        """Members that ask for nothing of Neuron's are not seen here: without any that waits the gang is complete."""
        if gang.complete or not gang.bound:
            return
        if gang.waiting:
            self._count_partial(gang, self._now())
        elif gang.times and self._now() - max(gang.times) > PATIENCE:
            self._end(gang)

    def _count_partial(self, gang: _Gang, now: float) -> None:
        if not gang.told and gang.times and now - min(gang.times) > PATIENCE:
            gang.told = True
            self._partly()

    def _leave(self, uid: PodUid) -> None:
        key = self._group_of.pop(uid, None)
        if key is not None:
            gang = self._gangs[key]
            gang.waiting.discard(uid)
            gang.bound.pop(uid, None)
            self._forget(key)

    def _forget(self, key: Key) -> None:
        gang = self._gangs.get(key)
        if gang is not None and not gang.waiting and not gang.bound and key not in self._groups:
            del self._gangs[key]


class FollowedGangs(Gangs):
    """The planner of gangs, which also tells how they start."""

    def __init__(self, admissions: GangStarts, *, now: Callable[[], float], margin: float) -> None:
        super().__init__(now=now, margin=margin)
        self._admissions = admissions

    def pod_seen(self, pod: Pod, intake: PodInfo | None) -> None:
        """See ``AllocationPlanner``."""
        super().pod_seen(pod, intake)
        self._admissions.pod_seen(pod, waits=intake is not None)

    def pod_gone(self, uid: PodUid) -> None:
        """See ``AllocationPlanner``."""
        super().pod_gone(uid)
        self._admissions.pod_gone(uid)

    def group_seen(self, group: PodGroup) -> None:
        """See ``AllocationPlanner``."""
        super().group_seen(group)
        self._admissions.group_seen(group)

    def group_gone(self, namespace: str, name: str) -> None:
        """See ``AllocationPlanner``."""
        super().group_gone(namespace, name)
        self._admissions.group_gone(namespace, name)
