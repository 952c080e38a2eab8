"""The cache behind its lock, for preemption: what a search for victims sees, and room that is kept for pods."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence

from hami_plugins.allocations.answers import Declined, Nomination
from hami_plugins.allocations.nodes import alike
from hami_plugins.allocator.watched_cache import WatchedAllocationCache
from hami_plugins.engine.apply import record_of
from hami_plugins.engine.intake import PodInfo
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.decisions import Placed
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.pods import Pod, PodRecord
from hami_plugins.model.units import NodeName, PodUid
from hami_plugins.preemption.values import EvictionPlan


class NominatingCache(WatchedAllocationCache):
    """Safe to call from any thread, as all of it."""

    def search_view(
        self,
        infos: Sequence[PodInfo],
        *,
        tentative: Collection[PodUid] = (),
        stale: float = math.inf,
        gone: Collection[PodUid] = (),
    ) -> tuple[ClusterSnapshot, tuple[PodInfo, ...]]:
        """All nodes as a search for victims for these pods sees them, and the pods with what their quotas leave.

        What schedulers reserved for ``tentative`` pods does not count, and what they reserved ``stale`` seconds ago and
        have not bound since. ``gone`` are pods that leave in any case.
        """
        uids = frozenset(each.pod.uid for each in infos)
        with self._lock:
            tentative = self._cache.reserved_before(self._clock() - stale).union(tentative)
            asked = tuple(map(self._cache.within_quota, infos))
            return self._cache.search_view(self._cache.names, uids, gone, tentative=tentative), asked

    def nominate(
        self,
        plan: EvictionPlan,
        infos: Sequence[PodInfo],
        seen: ClusterSnapshot,
        *,
        lasting: float,
        gone: Collection[PodUid] = (),
    ) -> bool:
        """Keeps the places of a plan for its pods, if the nodes of places and victims are still as they were ``seen``.

        The pods must still wait. The room is kept for ``lasting`` seconds at most; ``gone`` as in ``search_view``.
        """
        uids = frozenset(each.pod.uid for each in infos)
        demands = {each.pod.uid: each.demand.devices for each in infos}
        nodes = {placed.node for _, placed in plan.places} | {victim.node for victim in plan.victims}
        with self._lock:
            now = self._cache.search_view(nodes, uids, gone)
            same = all(_same(now.node(name), seen.node(name)) for name in nodes)
            if not same or not all(map(self._waits, plan.places)):
                return False
            for pod, placed in plan.places:
                leaving = (each.pod.uid for each in (*plan.victims, *plan.ending) if each.node == placed.node)
                self._cache.nominate(
                    Nomination(
                        node=placed.node,
                        record=record_of(pod, placed),
                        devices=demands[pod.uid],
                        victims=frozenset(leaving),
                        made=self._clock(),
                        until=self._clock() + lasting,
                    )
                )
        return True

    def nominate_without(
        self, node: NodeName, intake: PodInfo, leaving: Collection[PodUid], *, lasting: float
    ) -> Nomination | Declined:
        """See ``AllocationCache``; the room is kept for ``lasting`` seconds at most."""
        with self._lock:
            now = self._clock()
            return self._cache.nominate_without(node, intake, leaving, now, until=now + lasting)

    def _waits(self, place: tuple[Pod, Placed]) -> bool:
        pod, _ = place
        seen = self._pods.get((pod.namespace, pod.name))
        return seen is not None and seen.uid == pod.uid and seen.intake is not None

    def nomination(self, uid: PodUid) -> Nomination | None:
        """What is kept for a pod."""
        with self._lock:
            return self._cache.nomination(uid)

    def gang_nominations(self, uid: PodUid) -> tuple[Nomination, ...]:
        """What is kept for a pod, and what it shares with others of its PodGroup, its own first."""
        with self._lock:
            own = self._cache.nomination(uid)
            shared = self._cache.shared_with(uid)
            return shared if own is None else (own, *shared)

    def lacks_room(self, uid: PodUid) -> bool:
        """See ``NominatingState``."""
        with self._lock:
            return self._cache.lacks_room(uid)

    def share(self, uids: Iterable[PodUid]) -> None:
        """See ``NominatingState``."""
        with self._lock:
            self._cache.share(uids)

    def nominations(self) -> tuple[Nomination, ...]:
        """All that is kept."""
        with self._lock:
            return self._cache.nominations

    def withdraw(self, uid: PodUid) -> bool:
        """Keeps nothing for the pod any longer; whether something was."""
        with self._lock:
            return self._cache.withdraw(uid) is not None

    def claim(self, uid: PodUid) -> None:
        """Its scheduler asks for the pod: see ``NominatingState``."""
        with self._lock:
            self._cache.claim(uid, self._clock())

    def leaving(self, uids: Iterable[PodUid]) -> frozenset[PodUid]:
        """Those of these pods that still hold devices."""
        with self._lock:
            return self._cache.leaving(uids)

    def departing(self, uids: Iterable[PodUid]) -> frozenset[PodUid]:
        """Those of these pods that are being deleted, or are gone."""
        with self._lock:
            return self._cache.departing(uids)

    def ending_nodes(self) -> tuple[NodeName, ...]:
        """The nodes with pods that hold devices and are being deleted, in the order of their names."""
        with self._lock:
            entries = self._cache.snapshot().nodes
        return tuple(sorted(each.name for each in entries if any(record.terminating for record in each.pods)))

    def records(self, nodes: Iterable[NodeName]) -> dict[PodUid, PodRecord]:
        """The pods that hold devices on these nodes."""
        with self._lock:
            entries = [self._cache.held_entry(name) for name in nodes]
        return {record.uid: record for entry in entries if entry is not None for record in entry.pods}

    def expire_nominations(self) -> tuple[Nomination, ...]:
        """End what was kept too long, and say what that was."""
        with self._lock:
            return self._cache.expire_nominations(self._clock())


def _same(one: NodeEntry | None, other: NodeEntry | None) -> bool:
    """Whether the devices of a node and who holds them are the same."""
    if one is None or other is None or one is other:
        return one is other
    pods = one.pods, other.pods
    return (
        one.state == other.state
        and one.ids == other.ids
        and [each.uid for each in pods[0]] == [each.uid for each in pods[1]]
        and all(map(alike, *pods))
    )
