"""What sessions of Volcano try: plans by job, pods that are given up, pods that are put in their place.

A session gives up running pods, puts waiting ones in their place and may take all of that back; it evicts at the end of
a try that it keeps. Here is what has been tried and not taken back since the session began. Volcano has one session at
a time. Which calls it makes, and in which order, is known from 1.14.1 (``pkg/scheduler/actions/preempt``, ``reclaim``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from hami_plugins.model.units import NodeName, PodUid
from hami_plugins.preemption.values import EvictedPod, EvictionPlan


class SessionVictim(NamedTuple):
    """A running pod that a session would let go, and its job (Volcano's name of its PodGroup)."""

    uid: PodUid
    job: str


@dataclass(slots=True, eq=False)
class JobTry:
    """One job in a session: what is planned for it, and where its pods have been accepted.

    ``missing`` is how many of its pods have to be placed together before any of them starts; ``made`` is when the plan
    was made, by a clock that only goes forward. ``may_be_evicted`` are those of whom the API server has said so.
    """

    plan: EvictionPlan
    missing: int
    made: float
    accepted: dict[PodUid, NodeName] = field(default_factory=dict)
    may_be_evicted: set[PodUid] = field(default_factory=set)

    def victims_on(self, node: NodeName) -> tuple[EvictedPod, ...]:
        """Who is planned to leave a node, for any pod of the job."""
        return tuple(victim for victim in self.plan.victims if victim.node == node)

    @property
    def nodes(self) -> dict[NodeName, int]:
        """The nodes on which places are planned, and how many of them no pod has been accepted for."""
        left: dict[NodeName, int] = {}
        for _, placed in self.plan.places:
            left[placed.node] = left.get(placed.node, 0) + 1
        for node in self.accepted.values():
            left[node] = left.get(node, 0) - 1
        return left

    def leaving(self) -> tuple[EvictedPod, ...]:
        """Who has to leave for the accepted pods.

        Those on their nodes, those on nodes without a place, who belong to a gang that goes as a whole, and the rest of
        the gangs of all of them.
        """
        places = {placed.node for _, placed in self.plan.places}
        used = set(self.accepted.values())
        chosen = [victim for victim in self.plan.victims if victim.node in used or victim.node not in places]
        return _with_gangs(chosen, self.plan.victims)


class ClosedTry(NamedTuple):
    """What is left of a job's try at the end of a session: pods that were accepted, and who has to leave for them.

    ``evicted`` are those that Volcano evicts itself. The session dropped all that are not ``kept``.
    """

    job: str
    accepted: Mapping[PodUid, NodeName]
    leaving: tuple[EvictedPod, ...]
    evicted: frozenset[PodUid]
    kept: bool

    def needed(self, counted_on: Collection[PodUid]) -> tuple[EvictedPod, ...]:
        """Those on whose leaving the accepted pods count, and the rest of the gangs that Volcano or we begin to evict.

        What was planned for them is more where they were placed in room that others of the session had made.
        """
        begun = [each for each in self.leaving if each.pod.uid in counted_on or each.pod.uid in self.evicted]
        return _with_gangs(begun, self.leaving)


class VolcanoSessions:
    """What the present session has tried. One thread at a time uses it."""

    def __init__(self) -> None:
        self._tries: dict[str, JobTry] = {}
        self._given_up: dict[PodUid, str] = {}
        self._asking = ""
        self._asked: set[tuple[PodUid, NodeName]] = set()

    @property
    def given_up(self) -> frozenset[PodUid]:
        """The running pods that the session has given up and not taken back."""
        return frozenset(self._given_up)

    def begun(self, job: str) -> JobTry | None:
        """What is planned for a job."""
        return self._tries.get(job)

    def begin(self, job: str, plan: EvictionPlan, missing: int, made: float) -> JobTry:
        """A plan for a job, instead of any before."""
        found = self._tries[job] = JobTry(plan, missing, made)
        return found

    def drop(self, job: str) -> None:
        """A plan cannot be carried out. Accepted parts of it are kept or lost when the session ends."""
        begun = self._tries.get(job)
        if begun is not None and not begun.accepted:
            del self._tries[job]

    def looked_for(self, job: str, uid: PodUid) -> ClosedTry | None:
        """The scheduler looks for a node for a pod; what is left of the session before, if that has died.

        A session that has accepted a pod does not look for it again: that session has died, after it has evicted those
        whom it had given up, or before.
        """
        begun = self._tries.get(job)
        if begun is None or uid not in begun.accepted:
            return None
        found = self._closed(job, begun)
        del self._tries[job]
        self._given_up.clear()
        self._asked.clear()
        return found

    def victims(
        self, job: str, evictor: PodUid, node: NodeName | None, candidates: Iterable[SessionVictim]
    ) -> tuple[PodUid, ...]:
        """Whom the session may give up on a node for a pod; pods of its own job are never among them.

        Without candidates of other jobs the session may be about to place the pod alone, without its gang: what it
        asked before counts for nothing then. Without any candidates it names no node.
        """
        self._asking = job
        others = {each.uid for each in candidates if each.job != job}
        if node is None or not others:
            self._asked = {asked for asked in self._asked if asked[0] != evictor}
            return ()
        self._asked.add((evictor, node))
        begun = self._tries.get(job)
        planned = () if begun is None else begun.victims_on(node)
        return tuple(victim.pod.uid for victim in planned if victim.pod.uid in others)

    def may_count_on(self, job: str, uid: PodUid, node: NodeName, *, evicts: bool) -> tuple[frozenset[PodUid], ...]:
        """Who may be taken to leave a node when the session puts a pod there, the fewest first.

        Those whom the session has given up, maybe for another job, are enough for some pods. With ``evicts`` (pods are
        also evicted without the session) it is also those that are planned, where the session asked with candidates.
        """
        begun = self._tries.get(job)
        if begun is None or not evicts or (uid, node) not in self._asked:
            return (self.given_up,)
        return self.given_up, self.given_up.union(victim.pod.uid for victim in begun.victims_on(node))

    def accept(self, job: str, uid: PodUid, node: NodeName) -> None:
        """A pod takes the place of those that leave. The job must have begun."""
        self._tries[job].accepted[uid] = node

    def take_back(self, job: str, uid: PodUid) -> bool:
        """The session does not place the pod there after all; whether it was accepted."""
        begun = self._tries.get(job)
        return begun is not None and begun.accepted.pop(uid, None) is not None

    def give_up(self, uid: PodUid) -> None:
        """The session gives up a running pod, for the job for which it asked last."""
        self._given_up[uid] = self._asking

    def spare(self, uid: PodUid) -> None:
        """The session lets a pod run on that it had given up."""
        self._given_up.pop(uid, None)

    def close(self) -> tuple[ClosedTry, ...]:
        """The session ends: what is left of it, by job. Plans are forgotten.

        A try is kept where all pods that have to start together were accepted, or where pods have been given up for
        this job and not been taken back: those are being evicted.
        """
        found = tuple(self._closed(job, begun) for job, begun in self._tries.items() if begun.accepted)
        self._tries.clear()
        self._given_up.clear()
        self._asked.clear()
        return found

    def _closed(self, job: str, begun: JobTry) -> ClosedTry:
        leaving = begun.leaving()
        evicted = frozenset(victim.pod.uid for victim in leaving if victim.pod.uid in self._given_up)
        own = any(self._given_up[uid] == job for uid in evicted)
        kept = own or len(begun.accepted) >= begun.missing
        return ClosedTry(job, begun.accepted, leaving, evicted, kept=kept)


def _with_gangs(chosen: Collection[EvictedPod], planned: Iterable[EvictedPod]) -> tuple[EvictedPod, ...]:
    """Some of the planned pods, and the rest of their gangs, as planned."""
    gangs = {each.pod.full_group for each in chosen if each.pod.group}
    return tuple(each for each in planned if each in chosen or (each.pod.group and each.pod.full_group in gangs))
