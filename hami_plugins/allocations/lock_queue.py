"""One node's locks: what the watch shows of them, who has them, and who waits for them in which order."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import takewhile
from typing import Final

from hami_plugins.allocations.lock_demand import LockDemand, LockKey, LockPod, PodProgress, ReleaseReason
from hami_plugins.allocations.lock_records import Holder, SeenLock, Waiter, older
from hami_plugins.allocations.lock_steps import (
    Foreign,
    Held,
    Inspect,
    LockEnd,
    LockRefused,
    LockRelease,
    ReadNode,
    Step,
    Take,
    Wait,
    unanswered,
)
from hami_plugins.model.pods import FINISHED
from hami_plugins.model.units import NodeName, PodUid
from hami_plugins.wire import node_lock
from hami_plugins.wire.node_lock import NodeLock

PLACE: Final = 60.0
"""Seconds that a pod keeps its place in the queue while its scheduler does not ask."""


class LockQueue:
    """Times are seconds of any clock that only goes forward; ``wall`` times are those that locks are written with.

    A pod whose device plugin does not answer within ``answer`` seconds after it was bound loses its locks.
    """

    def __init__(self, name: NodeName, keys: Mapping[str, LockKey], *, answer: float) -> None:
        self.name = name
        self.version: str | None = None
        self.locks: dict[str, SeenLock] = {}
        self.ends: list[LockEnd] = []
        self._keys = keys
        self._answer = answer
        self._waiters: OrderedDict[PodUid, Waiter] = OrderedDict()
        self._holders: dict[PodUid, Holder] = {}

    @property
    def idle(self) -> bool:
        """Whether there is nothing to be known about it."""
        return self.version is None and not self._waiters and not self._holders

    def subjects(self) -> Iterator[PodUid | tuple[str, str]]:
        """The pods that have locks or wait for them, and those that locks name."""
        yield from self._holders
        yield from self._waiters
        yield from (lock.owner for lock in self.locks.values() if lock.owner is not None)

    # What the watches show

    def see(self, version: str, annotations: Mapping[str, str], *, now: float, wall: datetime, listed: bool) -> bool:
        """The node as it is now, unless a later version was seen; whether one of its locks is another.

        A lock that appears on a node that is being watched is new, whatever time it names: clocks differ.
        """
        known = self.version
        if known is not None and not listed and older(version, known):
            return False
        self.version = version
        before, self.locks = self.locks, {}
        for key in self._keys:
            if (text := annotations.get(key)) is None:
                continue
            seen = before.get(key)
            same = seen is not None and seen.text == text
            self.locks[key] = seen if seen and same else SeenLock.of(key, text, now, wall if known is None else None)
        for holder in tuple(self._holders.values()):
            self._compare(holder, now)
        return known is None or before != self.locks

    def gone(self, now: float) -> None:
        """The node was deleted, and its locks with it."""
        self.version, self.locks = None, {}
        for holder in tuple(self._holders.values()):
            self._drop(holder, ReleaseReason.NODE_GONE, now)
        for waiter in tuple(self._waiters.values()):
            self._refuse(waiter, "the node does not exist", ReleaseReason.NODE_GONE)

    def see_pod(self, seen: PodProgress, now: float) -> None:
        """How far a pod is that has locks here or waits for them."""
        waiter, holder = self._waiters.get(seen.pod.uid), self._holders.get(seen.pod.uid)
        if waiter is not None:
            if seen.phase in FINISHED:
                self._refuse(waiter, f"the pod has finished ({seen.phase})", ReleaseReason.FINISHED)
            elif seen.node is not None:
                self._refuse(waiter, f"the pod is bound to node {seen.node} already", ReleaseReason.ELSEWHERE)
        if holder is None:
            return
        if seen.node == self.name:
            holder.phase = seen.bind_phase
        if (reason := seen.over(self.name)) is not None:
            self._end(holder, reason, now)
        elif seen.node is not None:
            self._progress(holder, seen, now)

    def pod_gone(self, uid: PodUid, now: float) -> None:
        """A pod was deleted."""
        if (waiter := self._waiters.get(uid)) is not None:
            self._refuse(waiter, "the pod was deleted", ReleaseReason.DELETED)
        if (holder := self._holders.get(uid)) is not None:
            self._end(holder, ReleaseReason.DELETED, now)

    def adopt(self, key: str, seen: PodProgress, now: float) -> None:
        """A lock names a pod that this allocator binds: a former leader took it, and its time begins now.

        A lock left by a pod that no longer needs it stays until the next pod takes it.
        """
        if seen.pod.uid in self._holders or seen.over(self.name) is not None:
            return
        self._holders[seen.pod.uid] = Holder(
            seen.pod, LockDemand((key,)), {key: self.locks[key].text}, taken=now, counted=now, adopted=True
        )
        self.see_pod(seen, now)

    # What the calls of schedulers ask

    def enter(self, pod: LockPod, demand: LockDemand) -> None:
        """A call waits for the pod's locks from now on; a pod that asked before has kept its place."""
        waiter = self._waiters.get(pod.uid)
        if waiter is None:
            waiter = self._waiters[pod.uid] = Waiter(pod, demand)
        waiter.demand = demand
        waiter.callers += 1

    def leave(self, uid: PodUid, now: float) -> None:
        """A call waits no longer."""
        waiter = self._waiters.get(uid)
        if waiter is None:
            return
        waiter.callers -= 1
        waiter.left_at = now
        if waiter.callers:
            return
        if waiter.texts and uid not in self._holders:
            # No answer to the write came: it may be on the node by now, or get there.
            self._compare(self._hold(waiter, now, waiter.reason or ReleaseReason.ABANDONED), now)
        waiter.texts = {}
        if waiter.why:
            del self._waiters[uid]

    def decide(self, uid: PodUid, now: float, wall: datetime) -> Step:
        """What a call that waits for the pod's locks has to do; a write that has reached the node is found there."""
        waiter, holder = self._waiters.get(uid), self._holders.get(uid)
        if waiter is not None and waiter.why:
            return LockRefused(waiter.why)
        if holder is not None and holder.written and not holder.adopted:
            return Held() if holder.ended is None else Wait(holder.demand.keys[0], 0, holder.pod, now - holder.taken)
        if waiter is None:
            return LockRefused("another call for the pod had its lock, which is released again")
        return ReadNode() if self.version is None else self._next(waiter, self.version, now, wall)

    def holds(self, uid: PodUid) -> bool:
        """Whether the pod has its locks, and may be bound with them."""
        holder = self._holders.get(uid)
        return holder is not None and holder.written and not holder.adopted and holder.ended is None

    def behind_others(self) -> set[PodUid]:
        """The pods that cannot get their locks before other pods of this server have had theirs: see ``decide``."""
        found: set[PodUid] = set()
        wanted: set[str] = set()
        for uid, waiter in self._waiters.items():
            if not waiter.asks:
                continue
            for key in waiter.demand.keys:
                if self._holder(key, waiter.pod) or (key in wanted and not self._names(key, waiter.pod)):
                    found.add(uid)
            wanted.update(waiter.demand.keys)
        return found

    def inspected(self, step: Inspect, seen: PodProgress | None) -> None:
        """The pod that a lock names was read; ``None`` where there is none."""
        lock = self.locks.get(step.key)
        if lock is None or (lock.text, lock.changes) != (step.text, step.changes):
            return
        lock.inspected = True
        lock.dangling = seen is None or seen.over(self.name) is not None

    def look_again(self, owner: tuple[str, str] | None) -> None:
        """The pod that locks name may have changed; ``None`` for any of them."""
        for lock in self.locks.values():
            if owner in (None, lock.owner):
                lock.changes += 1
                lock.inspected = lock.dangling = False

    def failed(self, uid: PodUid, now: float) -> None:
        """The pod's Binding was refused; its device plugin will not look for the pod on this node."""
        if (holder := self._holders.get(uid)) is not None:
            self._end(holder, ReleaseReason.UNBOUND, now)

    # What time brings about

    def release(self, now: float) -> LockRelease | None:
        """The next locks to remove; forgets those that no pod asks for any more."""
        for uid, waiter in tuple(self._waiters.items()):
            if not waiter.callers and waiter.left_at + PLACE <= now:
                del self._waiters[uid]
        for holder in tuple(self._holders.values()):
            if holder.ended is None and holder.counted + self._answer <= now:
                self._end(holder, ReleaseReason.EXPIRED, now)
            if not holder.written and holder.taken + self._answer <= now:
                del self._holders[holder.pod.uid]
            elif holder.ended is not None and holder.written and holder.texts and holder.due <= now:
                holder.releasing = True
                return LockRelease(holder.pod, tuple(holder.texts), self.version or "", holder.ended, holder.unsettled)
        return None

    def next_time(self) -> float | None:
        """When ``release`` has something to do at the earliest."""
        times = [each.left_at + PLACE for each in self._waiters.values() if not each.callers]
        times += [
            each.due if each.ended is not None and each.written else each.counted + self._answer
            for each in self._holders.values()
        ]
        return min(times, default=None)

    def _refuse(self, waiter: Waiter, why: str, reason: ReleaseReason) -> None:
        """The pod gets no locks here any more; if a write is under way, they are removed again."""
        waiter.why, waiter.reason = why, reason
        if not waiter.callers:
            del self._waiters[waiter.pod.uid]

    def _next(self, waiter: Waiter, version: str, now: float, wall: datetime) -> Step:
        """The same for a pod whose locks are not known to be on the node."""
        if waiter.texts and all(
            key in self.locks and self.locks[key].text == waiter.texts[key] for key in waiter.texts
        ):
            self._hold(waiter, now)
            del self._waiters[waiter.pod.uid]
            return Held()
        for key in waiter.demand.keys:
            if (step := self._blocked(key, waiter, now)) is not None:
                waiter.texts = {}
                return step
        if not waiter.texts:
            waiter.texts = {key: self._text(key, waiter.pod, wall) for key in waiter.demand.keys}
            self._waiters.move_to_end(waiter.pod.uid, last=False)  # no pod that comes back interrupts the write
        return Take(waiter.texts, version, tuple(self.locks[key].text for key in waiter.texts if key in self.locks))

    def _blocked(self, key: str, waiter: Waiter, now: float) -> Step | None:
        """Why the pod cannot take one lock now; ``None`` where it can.

        The pod that a lock names goes first: another leader wrote it, and all others wait until that pod is served.
        """
        holder = self._holder(key, waiter.pod)
        before = 0 if self._names(key, waiter.pod) else self._before(key, waiter)
        if holder is not None or before:
            held = 0.0 if holder is None else now - holder.taken
            return Wait(key, before, None if holder is None else holder.pod, held)
        return self._foreign(key, waiter.pod, now)

    def _before(self, key: str, waiter: Waiter) -> int:
        """How many pods have to take the lock earlier: first come, first served."""
        earlier = takewhile(lambda other: other is not waiter, self._waiters.values())
        return sum(other.asks and key in other.demand.keys for other in earlier)

    def _holder(self, key: str, pod: LockPod) -> Holder | None:
        """Another pod that has the lock."""
        return next((each for each in self._holders.values() if each.blocks(key) and each.pod != pod), None)

    def _names(self, key: str, pod: LockPod) -> bool:
        """Whether the node's lock names the pod."""
        lock = self.locks.get(key)
        return lock is not None and lock.owner == pod.owner

    def _foreign(self, key: str, pod: LockPod, now: float) -> Step | None:
        """Why another client's lock is to be respected; ``None`` where there is none, or where it was left behind."""
        lock = self.locks.get(key)
        if lock is None:
            return None
        if lock.lock is None:
            remedy = f"remove it: kubectl annotate node {self.name} {key}-"
            return LockRefused(f"its lock cannot be read ({lock.why}), so no pod can take it; {remedy}")
        age, expiry = now - lock.since, self._keys[key].expiry
        if age >= expiry or lock.dangling or lock.owner == pod.owner:
            return None
        if lock.owner is None:
            return Foreign(key, "", age, expiry - age)
        if not lock.inspected:
            return Inspect(key, lock.text, *lock.owner, lock.changes)
        return Foreign(key, "/".join(lock.owner), age, expiry - age)

    def _text(self, key: str, pod: LockPod, wall: datetime) -> str:
        """A text that no other lock has, so that what it is compared with is this one."""
        owner = pod.owner if self._keys[key].named else ()
        return node_lock.encode(NodeLock(wall, *owner), exact=True)

    def _hold(self, waiter: Waiter, now: float, ended: ReleaseReason | None = None) -> Holder:
        """The pod has the locks that it tried to write; with ``ended`` it may have them, and needs them no more."""
        holder = self._holders[waiter.pod.uid] = Holder(
            waiter.pod,
            waiter.demand,
            dict(waiter.texts),
            taken=now,
            counted=now,
            written=ended is None,
            unserved=waiter.demand.pending,
            ended=ended,
            ended_at=now,
        )
        return holder

    def _progress(self, holder: Holder, seen: PodProgress, now: float) -> None:
        """The pod is bound here."""
        if not holder.bound:
            holder.bound, holder.counted = True, now
        holder.unserved = seen.unserved & holder.demand.pending
        if all(self._keys[key].named for key in holder.demand.keys) and seen.answered(holder.demand.pending):
            self._end(holder, ReleaseReason.ANSWERED, now)
        elif not holder.texts and not holder.unserved:
            self._drop(holder, ReleaseReason.PLUGIN, now)

    def _compare(self, holder: Holder, now: float) -> None:
        """Which of the holder's locks are still on the node."""
        reason = ReleaseReason.PLUGIN
        for key, text in tuple(holder.texts.items()):
            seen = self.locks.get(key)
            if seen is not None and seen.text == text:
                holder.written = True
            elif holder.written:
                del holder.texts[key]
                reason = ReleaseReason.PLUGIN if seen is None else ReleaseReason.REPLACED
        if not holder.texts and (holder.ended is not None or not holder.unserved):
            self._drop(holder, holder.ended if holder.releasing and holder.ended else reason, now)

    def _end(self, holder: Holder, reason: ReleaseReason, now: float) -> None:
        """The holder has no use for its locks any more."""
        if holder.ended is None:
            holder.ended, holder.ended_at = reason, now
        if not holder.texts:
            self._drop(holder, reason, now)

    def _drop(self, holder: Holder, reason: ReleaseReason, now: float) -> None:
        del self._holders[holder.pod.uid]
        report = ""
        if reason is ReleaseReason.EXPIRED:
            keys = holder.demand.keys
            report = unanswered(self.name, keys, self._answer, bound=holder.bound, phase=holder.phase)
        held = now - holder.taken
        self.ends.append(LockEnd(node=self.name, pod=holder.pod, reason=reason, held=held, report=report))
