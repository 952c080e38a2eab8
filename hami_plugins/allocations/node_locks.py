"""The queues of pods for the locks of their nodes: one pod a node on its way to a device plugin that needs a lock.

The kubelet does not tell HAMi's device plugins which pod they serve: the node's lock names it. A lock is taken right
before the Binding, and released when the plugin has answered, when the pod is deleted or its Binding fails, or when the
plugin does not answer in time. Locks of another scheduler are respected by HAMi's own rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Final

from hami_plugins.allocations.lock_demand import RUNNING, LockDemand, LockKey, LockPod, PodProgress
from hami_plugins.allocations.lock_queue import LockQueue
from hami_plugins.allocations.lock_steps import Inspect, LockEnd, LockRelease, Step
from hami_plugins.model.pods import FINISHED
from hami_plugins.model.units import NodeName, PodUid

ANSWER: Final = 20.0
"""Seconds that a device plugin has to answer after the pod was bound."""

ENDED: Final = FINISHED | {RUNNING}
"""Phases in which a pod no longer waits for a device plugin."""

_Owner = tuple[str, str]
_Subject = PodUid | _Owner
"""What a change of a pod may concern: the pod, and the locks that name it."""

_NOBODY: Final[frozenset[_Subject]] = frozenset()


class NodeLocks:
    """One process owns it, and one thread at a time uses it. Times are as in ``LockQueue``."""

    def __init__(self, keys: Iterable[LockKey], *, answer: float = ANSWER) -> None:
        self._keys: Mapping[str, LockKey] = {each.key: each for each in keys}
        self._answer = answer
        self._queues: dict[NodeName, LockQueue] = {}
        self._subjects: dict[NodeName, frozenset[_Subject]] = {}
        self._where: dict[_Subject, set[NodeName]] = {}
        self._waiting: dict[_Owner, PodProgress] = {}
        self._names: dict[PodUid, _Owner] = {}
        self._ends: list[LockEnd] = []

    def __len__(self) -> int:
        """How many nodes are remembered."""
        return len(self._queues)

    # What the watches show

    def see_node(  # noqa: PLR0913 - a node, and when it was seen
        self,
        name: NodeName,
        version: str,
        annotations: Mapping[str, str],
        *,
        now: float,
        wall: datetime,
        listed: bool = False,
    ) -> bool:
        """The node as it is now; whether one of its locks is another. ``listed`` says that an older version counts."""
        with self._queue(name) as queue:
            changed = queue.see(version, annotations, now=now, wall=wall, listed=listed)
            for key, lock in queue.locks.items():
                if lock.inherited and lock.owner is not None and (seen := self._waiting.get(lock.owner)) is not None:
                    queue.adopt(key, seen, now)
        return changed

    def forget_node(self, name: NodeName, now: float) -> None:
        """The node is gone."""
        with self._queue(name) as queue:
            queue.gone(now)

    def see_pod(self, seen: PodProgress, now: float) -> frozenset[NodeName]:
        """How far a pod is; the nodes on which that may change something."""
        owner = seen.pod.owner
        self._forget(seen.pod.uid)
        if seen.ours and seen.phase not in ENDED:
            self._waiting[owner], self._names[seen.pod.uid] = seen, owner
        nodes = self._nodes(seen.pod.uid, owner)
        for name in nodes:
            with self._queue(name) as queue:
                queue.see_pod(seen, now)
                queue.look_again(owner)
                for key, lock in queue.locks.items():
                    if lock.inherited and lock.owner == owner and owner in self._waiting:
                        queue.adopt(key, seen, now)
        return nodes

    def forget_pod(self, uid: PodUid, owner: _Owner | None, now: float) -> frozenset[NodeName]:
        """A pod was deleted, whose name may be unknown; the nodes on which that may change something."""
        known = self._forget(uid)
        owner = owner or known
        nodes = frozenset(self._subjects) if owner is None else self._nodes(uid, owner)
        for name in nodes:
            with self._queue(name) as queue:
                queue.pod_gone(uid, now)
                queue.look_again(owner)
        return nodes

    # What the calls of schedulers ask; see ``LockQueue``

    def enter(self, node: NodeName, pod: LockPod, demand: LockDemand) -> None:
        """A call waits for the pod's locks from now on, until it leaves."""
        with self._queue(node) as queue:
            queue.enter(pod, demand)

    def leave(self, node: NodeName, uid: PodUid, now: float) -> None:
        """The call waits no longer."""
        with self._queue(node) as queue:
            queue.leave(uid, now)

    def holds(self, node: NodeName, uid: PodUid) -> bool:
        """Whether the pod has its locks on the node, so that no call has to wait for them."""
        queue = self._queues.get(node)
        return queue is not None and queue.holds(uid)

    def decide(self, node: NodeName, uid: PodUid, now: float, wall: datetime) -> Step:
        """The next step of the call."""
        with self._queue(node) as queue:
            return queue.decide(uid, now, wall)

    def behind_others(self, node: NodeName) -> set[PodUid]:
        """The pods whose calls have nothing to do until the pods before them have their locks, or ask no longer."""
        queue = self._queues.get(node)
        return set() if queue is None else queue.behind_others()

    def inspected(self, node: NodeName, step: Inspect, seen: PodProgress | None) -> None:
        """The pod that a lock names was read; ``None`` where there is none."""
        with self._queue(node) as queue:
            queue.inspected(step, seen)

    def failed(self, node: NodeName, uid: PodUid, now: float) -> None:
        """The pod's Binding was refused."""
        with self._queue(node) as queue:
            queue.failed(uid, now)

    # What time brings about

    def release(self, node: NodeName, now: float) -> LockRelease | None:
        """The next locks of a node to be removed."""
        with self._queue(node) as queue:
            return queue.release(now)

    def next_time(self, node: NodeName) -> float | None:
        """When ``release`` has something to do at the earliest; ``None`` where only a change can bring that about."""
        queue = self._queues.get(node)
        return None if queue is None else queue.next_time()

    def ended(self) -> tuple[LockEnd, ...]:
        """What ended since this was asked last."""
        ends, self._ends = tuple(self._ends), []
        return ends

    @contextmanager
    def _queue(self, name: NodeName) -> Iterator[LockQueue]:
        """The queue of a node, which is forgotten again when there is nothing in it."""
        queue = self._queues.get(name)
        if queue is None:
            queue = self._queues[name] = LockQueue(name, self._keys, answer=self._answer)
        yield queue
        self._ends += queue.ends
        queue.ends.clear()
        self._index(name, frozenset(queue.subjects()))
        if queue.idle:
            del self._queues[name]

    def _index(self, name: NodeName, now: frozenset[_Subject]) -> None:
        before = self._subjects.pop(name, _NOBODY)
        if now:
            self._subjects[name] = now
        for each in now - before:
            self._where.setdefault(each, set()).add(name)
        for each in before - now:
            self._where[each].discard(name)
            if not self._where[each]:
                del self._where[each]

    def _nodes(self, uid: PodUid, owner: _Owner) -> frozenset[NodeName]:
        return frozenset(self._where.get(uid, ())).union(self._where.get(owner, ()))

    def _forget(self, uid: PodUid) -> _Owner | None:
        """The name of a pod that waited and does so no longer."""
        owner = self._names.pop(uid, None)
        if owner is not None and (seen := self._waiting.get(owner)) is not None and seen.pod.uid == uid:
            del self._waiting[owner]
        return owner
