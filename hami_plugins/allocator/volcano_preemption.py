"""Room for pods of Volcano's by evictions: what its actions ``preempt`` and ``reclaim`` are answered.

Volcano adds up the resources of a node; whether a device has room is decided here. So Volcano receives the nodes where
a plan puts the pod (all others are excluded), the victims there, and whether the pod may take their place. It evicts
the pods that its sums demand. The others, where sums suffice and no device has room, are evicted by the allocator when
the session closes.

Room is kept (a nomination) from the moment at which a session has put the pod there, and lasts if the session closes
with all pods that have to start together.
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

import structlog

from hami_plugins.allocations.answers import DeclineCode, Declined, Nomination
from hami_plugins.allocations.mode import PreemptionMode
from hami_plugins.allocator.kept_room import LASTING
from hami_plugins.allocator.locked_cache import LockedAllocationCache
from hami_plugins.allocator.settings import PreemptionSettings
from hami_plugins.allocator.volcano_planner import GangPlan, VolcanoPlanner
from hami_plugins.engine.intake import PodInfo
from hami_plugins.model.pods import Pod
from hami_plugins.model.units import NodeName, PodUid
from hami_plugins.preemption.values import EvictedPod, NoVictims, leave_together
from hami_plugins.preemption.volcano_sessions import ClosedTry, JobTry, SessionVictim, VolcanoSessions
from hami_plugins.web.documents import WouldWaitError, runs_a_loop
from hami_plugins.wire.volcano_extender import UNRESOLVABLE, UNSCHEDULABLE, EvictionCall, Task

AGAIN: Final = 1.0
"""Seconds without a new plan for a job that no eviction can help."""

LONGEST_SESSION: Final = 5.0
"""Seconds after which a plan that came to nothing is not believed any more, where no session says that it ends."""

OVERDUE: Final = 3.0
"""Seconds in which Volcano has told the API server of its evictions, unless it has died."""

PLANNED: Final = 1e6
"""What a planned node's score has more than any other's."""

TRIES: Final = 3
"""Sessions that may come to nothing on a node for reasons of Volcano's own; then another node is planned for."""

REFUSED: Final = 30.0
"""Seconds without evictions for a job after the API server has refused one for it."""

MOST_JOBS: Final = 10_000
"""Remembered jobs that no eviction can help."""

Places: TypeAlias = list[tuple[Pod, NodeName]]
Victims: TypeAlias = list[EvictedPod]

_log = structlog.get_logger(__name__)


class Evicting(Protocol):
    """Evicts pods by the API, later and in a thread of its own."""

    def allows(self, more: int) -> bool:
        """Whether so many more may be evicted now."""

    def refusal(self, victims: Sequence[EvictedPod]) -> str:
        """Why the API server would not carry out all these evictions; empty where it would."""

    def evict(
        self, waiting: Sequence[tuple[Pod, NodeName]], victims: Sequence[EvictedPod], *, finish: bool = ...
    ) -> None:
        """Has these pods evicted so that others, for which room is kept on these nodes, can start.

        The reservation is written on these other pods, for the next leader. With ``finish`` the pods are evicted even
        if the others can start earlier.
        """


@dataclass(slots=True)
class _Nobody:
    """A job that no eviction could help, when that was found, and whether by a ``thorough`` search."""

    at: float
    found: NoVictims
    thorough: bool


class VolcanoPreemption:
    """Safe to call from any thread. ``evictor`` evicts the pods that Volcano does not, in the mode ``full``."""

    def __init__(
        self,
        cache: LockedAllocationCache,
        planner: VolcanoPlanner,
        settings: PreemptionSettings,
        *,
        evictor: Evicting | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cache = cache
        self._planner = planner
        self._settings = settings
        self._evictor = evictor
        self._clock = clock
        self._lock = threading.Lock()
        self._planning = threading.Lock()
        self._sessions = VolcanoSessions()
        self._nobody: dict[str, _Nobody] = {}
        self._waiting: dict[PodUid, Pod] = {}
        self._begun_by_volcano: deque[tuple[float, Places, Victims]] = deque(maxlen=MOST_JOBS)
        self._rests_until = -math.inf
        self._in_vain: dict[str, Counter[NodeName]] = {}
        self._answered: dict[str, set[NodeName]] = {}

    # The questions of a session

    def looked_for(self, intake: PodInfo, job: str) -> None:
        """A session looks for a node for the pod: what an earlier one, which died, had put in its place is free.

        Unless that one had begun to evict, as the watch shows: then those pods must not have left in vain.
        """
        uid = intake.pod.uid
        self._cache.claim(uid)
        with self._lock:
            died = self._sessions.looked_for(job, uid)
            waiting = dict(self._waiting)
        if died is not None:
            self._end(died._replace(kept=bool(self._cache.departing(died.evicted))), waiting)

    def code(self, node: NodeName, intake: PodInfo, job: str) -> int:
        """Whether a node that has no room now may be made to have some for the pod, as a code of a predicate.

        Volcano applies the answer for one pod to all pods of its task. So while other members of the gang lack room, no
        node is excluded for a pod that has room.
        """
        uid = intake.pod.uid
        if self._cache.nomination(uid) is not None:
            kept = any(each.node == node for each in self._cache.gang_nominations(uid))
            return UNSCHEDULABLE if kept or self._cache.lacks_room(uid) else UNRESOLVABLE
        begun = self._begun(intake, job)
        return UNSCHEDULABLE if begun is not None and node in begun.nodes else UNRESOLVABLE

    def scores(self, nodes: Collection[NodeName], intake: PodInfo, job: str) -> Mapping[NodeName, float]:
        """What nodes get in addition to their scores: those where room is kept or planned come first."""
        kept = self._cache.nomination(intake.pod.uid)
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
        """The pods that the session may evict on a node for a pod."""
        uid, job = call.evictor.uid, call.evictor.job
        if self._cache.nomination(uid) is not None:
            return ()
        node = call.evictees[0].node if call.evictees else None
        with self._lock:
            begun = self._sessions.begun(job)
            if node is not None and begun is not None and node in begun.nodes:
                self._answered.setdefault(job, set()).add(node)
            candidates = (SessionVictim(each.uid, each.job) for each in call.evictees)
            return self._sessions.victims(job, uid, node, candidates)

    # Session calls

    def pipelined(self, task: Task, intake: PodInfo) -> Nomination | Declined | None:
        """A session puts the pod on a node where others leave; ``None`` where no plan is made for such a pod.

        It is accepted where room is kept for it already, or where it has room once those are gone that leave. No room
        is kept for a part of a gang that cannot start.
        """
        uid, node, job = intake.pod.uid, task.node, task.job
        kept = self._cache.nomination(uid)
        if kept is not None and any(each.node == node for each in self._cache.gang_nominations(uid)):
            return kept
        if kept is not None or not intake.pod.preempts:
            return None
        begun = self._begun(intake, job, thorough=True)
        if begun is None:
            why = f"node {node}: no room is kept for a pod that cannot start: {self._why_nobody(job)}"
            return Declined(uid=uid, node=node, code=DeclineCode.CARDS, text=why)
        evicts = self._evicts(intake.pod)
        if evicts and (why := self._objection(begun, node, intake, job)):
            return Declined(uid=uid, node=node, code=DeclineCode.CARDS, text=f"node {node}: {why}")
        with self._lock:
            found: Nomination | Declined | None = None
            for leaving in self._sessions.may_count_on(job, uid, node, evicts=evicts):
                found = self._cache.nominate_without(node, intake, leaving, lasting=LASTING)
                if isinstance(found, Nomination):
                    self._sessions.accept(job, uid, node)
                    self._waiting[uid] = intake.pod
                    break
        return found

    def taken_back(self, task: Task) -> bool:
        """A session does not put the pod there after all; whether room was kept for it by that try."""
        with self._lock:
            taken = self._sessions.take_back(task.job, task.uid)
        if taken:
            self._cache.withdraw(task.uid)
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
            overdue = self._overdue()
        for each in closed:
            self._end(each, waiting)
        for places, victims in overdue:
            self._evict_instead(places, victims)

    # How

    def _begun(self, intake: PodInfo, job: str, *, thorough: bool = False) -> JobTry | None:
        """The plan for the pod's job; ``None`` if no eviction can help it.

        Searches take at most half of the time: the first pods of a session are those that matter most.
        """
        known, begun = self._recalled(job, thorough=thorough)
        if not known and runs_a_loop():
            raise WouldWaitError("victims are searched for")
        if not known:
            with self._planning:  # many ask about the same pod at a time, one for each node
                known, begun = self._recalled(job, thorough=thorough)
                begun = begun if known else self._planned(intake, job, thorough=thorough)
        return begun

    def _recalled(self, job: str, *, thorough: bool) -> tuple[bool, JobTry | None]:
        """Whether it is known what is planned for a job, and the plan."""
        now = self._clock()
        with self._lock:
            begun, nobody = self._sessions.begun(job), self._nobody.get(job)
        if begun is not None and (begun.accepted or begun.made + LONGEST_SESSION > now):
            return True, begun
        known = nobody is not None and nobody.at + AGAIN > now and (nobody.thorough or not thorough)
        return known or now < self._rests_until, None

    def _planned(self, intake: PodInfo, job: str, *, thorough: bool) -> JobTry | None:
        now = self._clock()
        with self._lock:
            but = tuple(node for node, tries in self._in_vain.get(job, {}).items() if tries >= TRIES)
        found = self._planner.plan(intake, job, but=but, thorough=thorough)
        self._rests_until = 2 * self._clock() - now
        if isinstance(found, GangPlan) and found.whole and not self._evicts(intake.pod):
            found = NoVictims(why="a gang would have to leave as a whole, which Volcano does not evict")
        with self._lock:
            if isinstance(found, GangPlan):
                return self._sessions.begin(job, found.plan, found.missing, now)
            self._in_vain.pop(job, None)
            if len(self._nobody) >= MOST_JOBS:
                self._nobody.clear()
            self._nobody[job] = _Nobody(self._clock(), found, thorough=thorough)
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
        settings = self._settings
        full = self._evictor is not None and settings.mode is PreemptionMode.FULL and not settings.dry_run
        return full and settings.covers(pod)

    def _objection(self, begun: JobTry, node: NodeName, intake: PodInfo, job: str) -> str:
        """Why the pods of a node that Volcano did not select cannot be evicted; empty if they can.

        It is found out before Volcano evicts anybody: a plan is carried out as a whole or not at all.
        """
        with self._lock:
            given_up = self._sessions.given_up
            leaving = [each for each in begun.plan.victims if each.node == node or each.node not in begun.nodes]
            own = [each for each in leaving if each.pod.uid not in given_up | begun.may_be_evicted]
        if not own or self._evictor is None:
            return ""
        if runs_a_loop():
            raise WouldWaitError("the API server is asked about evictions")
        if not self._evictor.allows(len(begun.plan.victims)):
            return f"more evictions at a time or an hour than preemption.atOnce and perHour allow ({len(own)} more)"
        if why := self._evictor.refusal(own):
            with self._lock:
                self._nobody[job] = _Nobody(self._clock() + REFUSED - AGAIN, NoVictims(why=why), thorough=True)
                self._sessions.drop(job)
            _log.warning("eviction_refused", pod=intake.pod.full_name, node=node, reason=why)
            return why
        with self._lock:
            begun.may_be_evicted.update(each.pod.uid for each in own)
        return ""

    def _end(self, closed: ClosedTry, waiting: Mapping[PodUid, Pod]) -> None:
        """Keeps what a session has put in the place of others, and evicts for it, or gives it up."""
        if not closed.kept:
            for uid in closed.accepted:
                self._cache.withdraw(uid)
            return
        self._cache.share(closed.accepted)
        nominations = filter(None, map(self._cache.nomination, closed.accepted))
        leaving = closed.needed({uid for each in nominations for uid in each.victims})
        held = self._cache.leaving(victim.pod.uid for victim in leaving)
        victims = [each for each in leaving if each.pod.uid in held - closed.evicted]
        _log.info(
            "room_kept",
            job=closed.job,
            nodes=sorted(set(closed.accepted.values())),
            pods=len(closed.accepted),
            evicted_by_volcano=len(closed.evicted),
            evicted=len(victims),
        )
        places = [(waiting[uid], node) for uid, node in closed.accepted.items()]
        left = [each for each in leaving if each.pod.uid in closed.evicted]
        if self._evictor is not None:
            self._evictor.evict(places, victims, finish=leave_together(leaving))
        with self._lock:
            self._begun_by_volcano.append((self._clock(), places, left))

    def _overdue(self) -> list[tuple[Places, Victims]]:
        """Evictions that Volcano began some sessions ago, by beneficiary: it may have crashed before it made them."""
        found: list[tuple[Places, Victims]] = []
        while self._begun_by_volcano and self._begun_by_volcano[0][0] + OVERDUE <= self._clock():
            found.append(self._begun_by_volcano.popleft()[1:])
        return found

    def _evict_instead(self, places: Places, victims: Victims) -> None:
        """Evicts the pods that Volcano should have evicted, for pods whose room is still reserved."""
        kept = [(pod, node) for pod, node in places if self._cache.nomination(pod.uid) is not None]
        departing = self._cache.departing(each.pod.uid for each in victims)
        left = [each for each in victims if each.pod.uid not in departing]
        if kept and left and self._evictor is not None and self._evicts(kept[0][0]):
            self._evictor.evict(kept, left)
