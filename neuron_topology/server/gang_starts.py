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

from hami_plugins.model.cluster import PodGroup
from hami_plugins.model.pods import Pod
from hami_plugins.model.units import PodUid
from neuron_topology.core.gangs.capacity import MemberRequest
from neuron_topology.core.gangs.members import GangKey, GangMembers, gang_key

PATIENCE: Final = 30.0
"""Seconds from the first pod of a gang that has a node to the last: a gang scheduler needs a few."""


class GangState(StrEnum):
    """How far a gang is."""

    WAITING = "waiting"
    PARTIAL = "partial"
    COMPLETE = "complete"


@dataclass(slots=True)
class _Start:
    """``bound`` has the time (Unix seconds) for each of its pods that was seen to get a node.

    ``since`` is when it began to wait, ``None`` before; ``counted`` is whether its partial start was counted, ``again``
    whether it has started before.
    """

    bound: dict[PodUid, float] = field(default_factory=dict)
    since: float | None = None
    complete: bool = False
    counted: bool = False
    again: bool = False


class GangStarts(GangMembers):
    """Members of gangs, followed from waiting to their nodes.

    ``admitted`` is called with the seconds that one waited, ``partly`` for each that began in part. Gangs that were
    complete or partly bound when first seen count for neither. ``states`` may be called from any thread.
    """

    def __init__(
        self, *, now: Callable[[], float], admitted: Callable[[float], object], partly: Callable[[], object]
    ) -> None:
        super().__init__()
        self._now = now
        self._admitted = admitted
        self._partly = partly
        self._starts: dict[GangKey, _Start] = {}
        self._lock = threading.RLock()

    def pod_seen(self, pod: Pod, part: MemberRequest | None, *, waits: bool) -> None:
        """See ``GangMembers``."""
        key = gang_key(pod)
        if key is None:
            return
        with self._lock:
            known = self.of(key).get(pod.uid)
            start = self._starts.setdefault(key, _Start())
            if waits:
                self._begun(key, start)
                start.bound.pop(pod.uid, None)
            elif known is not None and known.waits:
                start.bound[pod.uid] = self._now()
            super().pod_seen(pod, part, waits=waits)
            self._settle(key, start)

    def pod_gone(self, uid: PodUid) -> None:
        """See ``GangMembers``."""
        with self._lock:
            key = self.key_of(uid)
            super().pod_gone(uid)
            if key is not None:
                self._starts[key].bound.pop(uid, None)
                self._forget(key)

    def group_seen(self, group: PodGroup) -> None:
        """See ``GangMembers``."""
        key = (group.namespace, group.name)
        with self._lock:
            super().group_seen(group)
            start = self._starts.get(key)
            if start is not None:
                if self.waiting(key) and not start.again and group.made_at is not None:
                    start.since = group.made_at
                self._settle(key, start)

    def group_gone(self, namespace: str, name: str) -> None:
        """See ``GangMembers``."""
        with self._lock:
            super().group_gone(namespace, name)
            self._forget((namespace, name))

    def states(self) -> Counter[GangState]:
        """The number of gangs per state. States that change with time alone are updated here as well."""
        with self._lock:
            gangs = [(key, start) for key, start in self._starts.items() if self._least(key) > 1]
            for key, start in gangs:
                self._look(key, start)
            return Counter(state for key, start in gangs if (state := self._state(key, start)) is not None)

    def _with_nodes(self, key: GangKey) -> int:
        return len(self.of(key)) - self.waiting(key)

    def _state(self, key: GangKey, start: _Start) -> GangState | None:
        """``None`` for one without pods, and for one of which only others are missing."""
        bound = self._with_nodes(key)
        if start.complete:
            return GangState.COMPLETE if bound else None
        if not self.waiting(key):
            return None
        return GangState.PARTIAL if bound else GangState.WAITING

    def _least(self, key: GangKey) -> int:
        group = self.group(key)
        return 0 if group is None else group.min_member

    def _begun(self, key: GangKey, start: _Start) -> None:
        """A gang that begins to wait does so since its PodGroup was made; one that starts again, since now."""
        bound = self._with_nodes(key)
        if self.waiting(key) or (bound and start.since is not None):
            return
        if not bound:
            start.complete = start.counted = False
        group = self.group(key)
        made = None if start.again or group is None else group.made_at
        start.since = self._now() if made is None else made

    def _settle(self, key: GangKey, start: _Start) -> None:
        if not start.complete and 1 < self._least(key) <= self._with_nodes(key):
            self._end(start)

    def _end(self, start: _Start) -> None:
        start.complete = start.again = True
        if start.bound and start.since is not None:
            last = max(start.bound.values())
            self._count_partial(start, last)
            self._admitted(max(0.0, last - start.since))

    def _look(self, key: GangKey, start: _Start) -> None:
        """Members that ask for nothing of Neuron's are not seen here: without any that waits the gang is complete."""
        if start.complete or not self._with_nodes(key):
            return
        if self.waiting(key):
            self._count_partial(start, self._now())
        elif start.bound and self._now() - max(start.bound.values()) > PATIENCE:
            self._end(start)

    def _count_partial(self, start: _Start, now: float) -> None:
        if not start.counted and start.bound and now - min(start.bound.values()) > PATIENCE:
            start.counted = True
            self._partly()

    def _forget(self, key: GangKey) -> None:
        if not self.of(key) and self.group(key) is None:
            self._starts.pop(key, None)
