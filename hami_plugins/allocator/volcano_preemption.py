"""Room for pods of Volcano's by evictions: what its actions ``preempt`` and ``reclaim`` are answered.

Volcano adds up what a node has; whether a device has room is decided here. So it is told on which nodes a plan puts the
pod (all others are out of the question), who leaves there, and whether it may put the pod in their place. It evicts
whom its sums demand. The rest, where sums suffice and no device has room, are evicted for it when its session closes.

Room is kept (a nomination) from the moment at which a session has put the pod there, and lasts if the session closes
with all pods that have to start together.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import structlog

from hami_plugins.allocations.answers import DeclineCode, Declined, Nomination
from hami_plugins.allocations.mode import PreemptionMode
from hami_plugins.allocator.locked_cache import LockedAllocationCache
from hami_plugins.allocator.settings import PreemptionSettings
from hami_plugins.allocator.volcano_planner import GangPlan, VolcanoPlanner
from hami_plugins.engine.intake import PodInfo
from hami_plugins.model.pods import Pod
from hami_plugins.model.units import NodeName, PodUid
from hami_plugins.preemption.node_search import name_of
from hami_plugins.preemption.values import EvictedPod, NoVictims
from hami_plugins.preemption.volcano_sessions import Candidate, ClosedTry, JobTry, VolcanoSessions
from hami_plugins.web.documents import TakesLongError, runs_a_loop
from hami_plugins.wire.volcano_extender import UNRESOLVABLE, UNSCHEDULABLE, EvictionCall, Task

LASTING: Final = 4 * 3600.0
"""Seconds for which room is kept at most: victims may have an hour and more to end."""

AGAIN: Final = 1.0
"""Seconds in which a job for which nobody can be evicted is not planned for again."""

LONGEST_SESSION: Final = 5.0
"""Seconds after which a plan that came to nothing is not believed any more, where no session says that it ends."""

PLANNED: Final = 1e6
"""What a planned node's score has more than any other's."""

TRIES: Final = 3
"""Sessions that may come to nothing on a node for reasons of Volcano's own; then another node is planned for."""

MOST_JOBS: Final = 10_000
"""Jobs of which it is remembered that nobody can be evicted for them."""

_log = structlog.get_logger(__name__)


class Evicting(Protocol):
    """Evicts pods by the API, later and in a thread of its own."""

    def evict(self, waiting: Sequence[tuple[Pod, NodeName]], victims: Sequence[EvictedPod]) -> None:
        """Have these pods evicted so that others, for which room is kept on these nodes, can start."""


@dataclass(slots=True)
class _Nobody:
    """A job for which nobody could be evicted, and when that was found out."""

    at: float
    found: NoVictims


class VolcanoPreemption:
    """Safe to call from any thread. ``evictor`` evicts whom Volcano does not, in the mode ``full``."""

    def __init__(
        self,
        books: LockedAllocationCache,
        planner: VolcanoPlanner,
        settings: PreemptionSettings,
        *,
        evictor: Evicting | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._books = books
        self._planner = planner
        self._settings = settings
        self._evictor = evictor
        self._clock = clock
        self._lock = threading.Lock()
        self._sessions = VolcanoSessions()
        self._nobody: dict[str, _Nobody] = {}
        self._waiting: dict[PodUid, Pod] = {}
        self._in_vain: dict[str, Counter[NodeName]] = {}
        self._answered: dict[str, set[NodeName]] = {}

    # The questions of a session

    def looked_for(self, intake: PodInfo, job: str) -> None:
        """A session looks for a node for the pod: what an earlier one, which died, had put in its place is free."""
        uid = intake.pod.uid
        self._books.claim(uid)
        with self._lock:
            lost = self._sessions.looked_for(job, uid)
        self._withdraw(lost)

    def code(self, node: NodeName, intake: PodInfo, job: str) -> int:
        """Whether a node that has no room now may be made to have some for the pod, as a code of a predicate."""
        kept = {each.node for each in self._books.gang_nominations(intake.pod.uid)}
        if kept and self._books.nomination(intake.pod.uid) is not None:
            return UNSCHEDULABLE if node in kept else UNRESOLVABLE
        begun = self._begun(intake, job)
        return UNSCHEDULABLE if begun is not None and node in begun.nodes else UNRESOLVABLE

    def scores(self, nodes: Collection[NodeName], intake: PodInfo, job: str) -> Mapping[NodeName, float]:
        """What nodes get in addition to their scores: those where room is kept or planned come first."""
        kept = self._books.nomination(intake.pod.uid)
        if kept is not None:
            return {kept.node: PLANNED} if kept.node in nodes else {}
        with self._lock:
            begun = self._sessions.begun(job)
            if begun is None:
                return {}
            used = set(begun.accepted.values())
            left = [node for node, places in begun.nodes.items() if places > 0 and node in nodes]
        return {node: PLANNED * (2.0 if node in used else 1.0) for node in left}

    def victims(self, call: EvictionCall) -> tuple[PodUid, ...]:
        """Whom the session may give up on a node for a pod."""
        uid, job = call.evictor.uid, call.evictor.job
        if self._books.nomination(uid) is not None:
            return ()
        node = call.evictees[0].node if call.evictees else None
        with self._lock:
            begun = self._sessions.begun(job)
            if node is not None and begun is not None and node in begun.nodes:
                self._answered.setdefault(job, set()).add(node)
            candidates = (Candidate(each.uid, each.job) for each in call.evictees)
            return self._sessions.victims(job, uid, node, candidates)

    # What a session does

    def pipelined(self, task: Task, intake: PodInfo) -> Nomination | Declined | None:
        """A session puts the pod on a node where others leave; ``None`` where no plan is made for such a pod.

        It is accepted where room is kept for it already, or where it has room once those are gone that leave. No room
        is kept for a part of a gang that cannot start.
        """
        uid, node, job = intake.pod.uid, task.node, task.job
        kept = self._books.nomination(uid)
        if kept is not None and any(each.node == node for each in self._books.gang_nominations(uid)):
            return kept
        if kept is not None or not intake.pod.preempts:
            return None
        if self._begun(intake, job) is None:
            why = f"node {node}: no room is kept for a pod that cannot start: {self._why_nobody(job)}"
            return Declined(uid=uid, node=node, code=DeclineCode.CARDS, text=why)
        with self._lock:
            leaving = self._sessions.may_count_on(job, uid, node, evicts=self._evicts(intake.pod))
            found = self._books.nominate_without(node, intake, leaving, lasting=LASTING, job=job)
            if isinstance(found, Nomination):
                self._sessions.accept(job, uid, node)
                self._waiting[uid] = intake.pod
        return found

    def taken_back(self, task: Task) -> bool:
        """A session does not put the pod there after all; whether room was kept for it by that try."""
        with self._lock:
            taken = self._sessions.take_back(task.job, task.uid)
        if taken:
            self._withdraw((task.uid,))
        return taken

    def given_up(self, task: Task) -> None:
        """A session gives up a running pod."""
        with self._lock:
            self._sessions.give_up(task.uid)

    def spared(self, task: Task) -> None:
        """A session lets a running pod run on that it had given up."""
        with self._lock:
            self._sessions.spare(task.uid)

    def close(self) -> None:
        """The session is over: evict for what has been kept, forget the rest."""
        with self._lock:
            closed = self._sessions.close()
            self._count_tries(closed)
            waiting, self._waiting = self._waiting, {}
        for each in closed:
            self._withdraw(each.dropped)
            if each.kept:
                self._books.share(each.kept)
                self._evict(each, waiting)

    # How

    def _begun(self, intake: PodInfo, job: str) -> JobTry | None:
        """What is planned for the pod's job; ``None`` where nobody can be evicted for it."""
        now = self._clock()
        with self._lock:
            begun = self._sessions.begun(job)
            nobody = self._nobody.get(job)
            but = tuple(node for node, tries in self._in_vain.get(job, {}).items() if tries >= TRIES)
        if begun is not None and (begun.accepted or begun.made + LONGEST_SESSION > now):
            return begun
        if nobody is not None and nobody.at + AGAIN > now:
            return None
        if runs_a_loop():
            raise TakesLongError("victims are searched for")
        found = self._planner.plan(intake, job, but=but)
        if isinstance(found, GangPlan) and found.whole and not self._evicts(intake.pod):
            found = NoVictims(why="a gang would have to leave as a whole, which Volcano does not evict")
        with self._lock:
            if isinstance(found, GangPlan):
                self._nobody.pop(job, None)
                return self._sessions.begin(job, found.plan, found.missing, now)
            self._in_vain.pop(job, None)
            if len(self._nobody) >= MOST_JOBS:
                self._nobody.clear()
            self._nobody[job] = _Nobody(self._clock(), found)
        return None

    def _why_nobody(self, job: str) -> str:
        with self._lock:
            nobody = self._nobody.get(job)
        return "its plan is gone" if nobody is None else nobody.found.why

    def _count_tries(self, closed: Iterable[ClosedTry]) -> None:
        """Counts sessions that asked about victims on a planned node and did not put the pod there."""
        answered, self._answered = self._answered, {}
        for each in closed:
            if each.kept:
                answered.pop(each.job, None)
                self._in_vain.pop(each.job, None)
        for job, nodes in answered.items():
            self._in_vain.setdefault(job, Counter()).update(nodes)
        if len(self._in_vain) > MOST_JOBS:
            self._in_vain.clear()

    def _evicts(self, pod: Pod) -> bool:
        """Whether pods are evicted for this one also where Volcano does not."""
        return self._evictor is not None and self._settings.mode is PreemptionMode.FULL and self._settings.covers(pod)

    def _evict(self, closed: ClosedTry, waiting: Mapping[PodUid, Pod]) -> None:
        held = self._books.leaving(victim.pod.uid for victim in closed.leaving)
        victims = [
            victim for victim in closed.leaving if name_of(victim.pod) not in closed.evicted and victim.pod.uid in held
        ]
        _log.info(
            "room_kept",
            job=closed.job,
            nodes=sorted(set(closed.kept.values())),
            pods=len(closed.kept),
            evicted_by_volcano=len(closed.evicted),
            evicted=len(victims),
        )
        if self._evictor is not None:
            self._evictor.evict([(waiting[uid], node) for uid, node in closed.kept.items()], victims)

    def _withdraw(self, uids: Iterable[PodUid]) -> None:
        for uid in uids:
            self._books.withdraw(uid)
