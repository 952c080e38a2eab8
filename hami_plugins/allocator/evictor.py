"""Evicts pods for waiting pods of kube-scheduler's where the scheduler itself sees no need to.

It preempts only where node sums are short, and does not ask an extender otherwise (Kubernetes 1.34: "expected at least
one victim pod on node"). So where no device has room although the sums suffice, the pods to evict are chosen here. In
this order: the room is kept, the API server is asked whether it would carry out all the evictions, the node is
written on the pod (``status.nominatedNodeName``, and an annotation because the scheduler may empty that field), and
then they are made. The next leader reads it if this one dies.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple, TypeAlias

import structlog

from hami_plugins.allocator import eviction_notes
from hami_plugins.allocator.evictions import evict
from hami_plugins.allocator.locked_cache import LockedAllocationCache
from hami_plugins.allocator.metrics import EvictionMetrics
from hami_plugins.allocator.reader import ReadPod
from hami_plugins.allocator.refusal_notes import NotifiedPods
from hami_plugins.allocator.settings import PreemptionSettings
from hami_plugins.allocator.victim_planner import VictimPlanner
from hami_plugins.engine.intake import PodInfo
from hami_plugins.errors import KubeError
from hami_plugins.kube import paths
from hami_plugins.kube.events import EventRecorder, EventType, ObjectRef
from hami_plugins.kube.port import Writing
from hami_plugins.model.pods import Pod, PodRecord
from hami_plugins.model.units import NodeName, PodUid
from hami_plugins.preemption.values import EvictedPod, NoVictims, leave_together
from hami_plugins.wire import lenient
from hami_plugins.wire.allocator_mark import NOMINATED_KEY

WAITING: Final = 1_000
"""Pods whose turn is to come; beyond that the oldest has to be refused again."""

REPEATED: Final = 2.0
"""Seconds between two looks at evictions that were not carried out yet."""

CHANGED: Final = 0.1
"""Seconds after which pods are looked for again where the nodes changed meanwhile."""

UNSEEN: Final = 50
"""Turns that a pod has of which its scheduler knew earlier than the watch."""

RETRIED: Final = 50
"""Pods that a new leader has tried again; the others are when their scheduler does so."""

REFUSED: Final = 30.0
"""Seconds for which no pod is evicted for a pod after the API server has refused an eviction for it."""

HOUR: Final = 3_600.0

SLACK: Final = 120.0
"""Seconds by which a victim may exceed its grace period before its room is given up."""

GRACE: Final = 30.0
"""The grace period of a pod that names none."""

Places: TypeAlias = tuple[tuple[Pod, NodeName], ...]
"""Pods for which room is kept, and where."""

Victims: TypeAlias = tuple[EvictedPod, ...]

_IMPOSSIBLE: Final[tuple[str, EventType]] = ("PreemptionNotPossible", "Warning")
_REASONS: Final[Mapping[str, tuple[str, EventType]]] = {"dry-run": ("PreemptionDryRun", "Normal")}

_log = structlog.get_logger(__name__)


class _Waiting(NamedTuple):
    """A pod whose turn comes at ``due``. With ``left`` it waited already, and maybe had room made, for another leader.

    ``unseen`` counts the turns at which the watch had not shown it yet.
    """

    intake: PodInfo
    nodes: Sequence[NodeName]
    due: float = 0.0
    left: bool = False
    unseen: int = 0


class _Eviction(NamedTuple):
    """A pod to be evicted, and the message of its event."""

    victim: EvictedPod
    why: str


class Evictor:
    """Works from a thread of its own, from ``start`` to ``stop``. Times are seconds of ``clock``."""

    def __init__(  # noqa: PLR0913 - what it is made of
        self,
        api: Writing,
        cache: LockedAllocationCache,
        planner: VictimPlanner,
        settings: PreemptionSettings,
        *,
        read: ReadPod,
        events: EventRecorder,
        metrics: EvictionMetrics,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._cache = cache
        self._planner = planner
        self._settings = settings
        self._read = read
        self._events = events
        self._metrics = metrics
        self._clock = clock
        self._queue: OrderedDict[PodUid, _Waiting] = OrderedDict()
        self._begun: dict[frozenset[PodUid], tuple[_Eviction, ...]] = {}
        self._retry: Callable[[PodInfo], object] = lambda _intake: None
        self._handed_over: deque[tuple[Places, Victims, bool]] = deque()
        self._finishing: set[frozenset[PodUid]] = set()
        self._told = NotifiedPods()
        self._evicted: deque[tuple[float, PodUid]] = deque()
        self._lock = threading.Lock()
        self._due = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="allocator-evictions", daemon=True)

    def start(self, retry: Callable[[PodInfo], object] = lambda _intake: None) -> None:
        """Begins; what an earlier leader has begun is carried on, but for Volcano's pods, whose sessions do that.

        ``retry`` has a scheduler try a pod again, as those whose turn had not come when that leader ended.
        """
        self._retry = retry
        volcano = self._cache.product.schedulers
        mine = [
            each
            for each in self._cache.unplaced()
            if each.pod.scheduler not in volcano and each.pod.uid not in self._queue
        ]
        begun = [each for each in mine if each.pod.nominated is not None]
        others = [each for each in mine if each.pod.nominated is None and self._settings.covers(each.pod)]
        others.sort(key=lambda each: -each.pod.priority)
        for intake in (*begun, *others[:RETRIED]):
            node = intake.pod.nominated
            self._put(_Waiting(intake, () if node is None else (node,), left=True))
        self._thread.start()

    def stop(self, timeout: float = 5.0) -> None:
        """Ends. May be called twice, and before ``start``."""
        self._stop.set()
        self._due.set()
        if self._thread.is_alive():
            self._thread.join(timeout)

    def refused(self, intake: PodInfo, nodes: Sequence[NodeName]) -> None:
        """None of these nodes has devices for the pod. Returns at once.

        A pod whose turn comes later, because something was refused, waits for that.
        """
        if self._settings.covers(intake.pod) and intake.pod.preempts:
            with self._lock:
                earlier = self._queue.get(intake.pod.uid)
            self._put(_Waiting(intake, nodes, due=0.0 if earlier is None else earlier.due))

    def _put(self, waiting: _Waiting) -> None:
        with self._lock:
            uid = waiting.intake.pod.uid
            self._queue.pop(uid, None)
            self._queue[uid] = waiting
            while len(self._queue) > WAITING:
                self._queue.popitem(last=False)
        self._due.set()

    def allows(self, more: int) -> bool:
        """Whether so many more may be evicted now, by the limits for one time and for an hour."""
        since = self._clock() - HOUR
        evicted = [uid for at, uid in tuple(self._evicted) if at > since]
        if len(evicted) + more > self._settings.per_hour:
            return False
        running = self._cache.leaving(evicted)
        return not running or len(running) + more <= self._settings.at_once

    def refusal(self, victims: Sequence[EvictedPod]) -> str:
        """Why the API server would not carry out all the evictions; empty where it would. Waits for it."""
        for victim in victims:
            if error := evict(self._api, victim.pod, dry=True):
                return eviction_notes.refused(victim.pod, str(error))
        return ""

    def evict(
        self, waiting: Sequence[tuple[Pod, NodeName]], victims: Sequence[EvictedPod], *, finish: bool = False
    ) -> None:
        """Evicts these for pods whose room is kept on these nodes, or gives the room up. Returns at once.

        Once begun, it goes on while the pods need it; with ``finish`` in any case, as for the rest of a gang.
        """
        with self._lock:
            self._handed_over.append((tuple(waiting), tuple(victims), finish))
        self._due.set()

    def _run(self) -> None:
        while not self._stop.is_set():
            self._due.wait(self._pause())
            self._due.clear()
            try:
                while self._handed_over:
                    places, victims, finish = self._handed_over.popleft()
                    self._begin(places, victims, finish=finish)
                self._carry_on()
                while not self._stop.is_set() and (waiting := self._next()) is not None:
                    self._attend(waiting)
                    self._carry_on()
            except Exception:  # noqa: BLE001 - the outermost loop: one pod must not keep the others waiting
                _log.exception("evictions_interrupted")

    def _pause(self) -> float | None:
        """Seconds until something is to be done; ``None`` where nothing waits."""
        with self._lock:
            due = [each.due - self._clock() for each in self._queue.values()]
            return min((*due, REPEATED)) if self._begun else max(min(due), 0.0) if due else None

    def _next(self) -> _Waiting | None:
        """The pod of the highest priority whose turn has come."""
        now = self._clock()
        with self._lock:
            due = [(each.intake.pod.priority, uid) for uid, each in self._queue.items() if each.due <= now]
            return self._queue.pop(max(due)[1]) if due else None

    def _attend(self, waiting: _Waiting) -> None:
        """Makes room for the pod as the API server has it, if it still waits and has none."""
        asked = waiting.intake.pod
        seen = self._cache.seen(asked.namespace, asked.name)
        if seen is None and waiting.unseen < UNSEEN:
            self._put(waiting._replace(due=self._clock() + CHANGED, unseen=waiting.unseen + 1))
        intake = None if seen is None or seen.uid != asked.uid else seen.intake
        if intake is not None and self._cache.nomination(asked.uid) is None:
            self._make_room(intake, waiting)

    def _make_room(self, intake: PodInfo, waiting: _Waiting) -> None:
        pod = intake.pod
        found = self._planner.plan([intake], waiting.nodes)
        if isinstance(found, NoVictims):
            if waiting.left:
                self._retry(intake)
            else:
                self._give_up([pod], eviction_notes.without_victims(found), "impossible")
                if self._planner.lacks_groups:
                    self._put(waiting._replace(due=self._clock() + REPEATED))
            return
        victims, ending, node = found.plan.victims, found.plan.ending, found.plan.places[0][1].node
        if waiting.left and not ending:
            self._retry(intake)  # which nodes it may go to is only known when its scheduler asks
            return
        if not (victims or ending) or (victims and not self._settings.covers(pod)):
            return  # it has room now, or no pod may be evicted for it
        pause: float | None = CHANGED
        if self._planner.nominate(found, lasting=self._lasting((*victims, *ending))):
            pause = self._begin(((pod, node),), victims, finish=leave_together(victims))
        if pause is not None:
            self._put(waiting._replace(due=self._clock() + pause))

    def _begin(self, waiting: Places, victims: Victims, *, finish: bool = False) -> float | None:
        """Begins with evictions for pods whose room is kept; else gives the room up, and says for how many seconds.

        ``finish`` as in ``evict``. ``None`` is also said where the room is given up until a scheduler asks again.
        """
        pods = [pod for pod, _ in waiting]
        if victims and self._settings.dry_run:
            self._give_up(pods, eviction_notes.in_dry_run(victims), "dry-run")
            return None
        if victims and not self.allows(len(victims)):
            self._give_up(pods, "", "limited")
            return REPEATED
        if why := self.refusal(victims):
            self._give_up(pods, why, "refused")
            return REFUSED
        for pod, node in waiting:
            self._nominate(pod, node)
        if victims:
            self._metrics.preempted("begun")
            evictions = self._announced(waiting, victims)
            if finish and not evictions:  # the pods have started by now
                evictions = tuple(_Eviction(each, eviction_notes.REST_OF_GANG) for each in victims)
            uids = frozenset(pod.uid for pod in pods)
            with self._lock:
                self._begun[uids] = evictions
                self._finishing.update([uids] if finish else [])
        return None

    def _announced(self, waiting: Places, victims: Victims) -> tuple[_Eviction, ...]:
        """Events on the waiting pods that name their victims; the victims, with the messages of their events."""
        kept = {pod.uid: found for pod, _ in waiting if (found := self._cache.nomination(pod.uid)) is not None}
        places = {node: pod for pod, node in reversed(waiting) if pod.uid in kept}
        for pod, node in waiting:
            of_node = [victim for victim in victims if victim.node == node] or victims
            if pod.uid in kept:
                self._tell(pod, "Preempting", eviction_notes.for_preemptor(of_node, kept[pod.uid]), "Normal")
        evictions: list[_Eviction] = []
        for victim in victims if places else ():
            pod = places.get(victim.node) or next(iter(places.values()))
            evictions.append(_Eviction(victim, eviction_notes.for_victim(victim.pod, pod, kept[pod.uid])))
        return tuple(evictions)

    def _give_up(self, pods: Iterable[Pod], why: str, outcome: str) -> None:
        """No pod is evicted for these now, and no room is reserved."""
        self._metrics.preempted(outcome)
        reason, kind = _REASONS.get(outcome, _IMPOSSIBLE)
        for pod in pods:
            self._cache.withdraw(pod.uid)
            if why and self._told.first(pod.uid, (why,), self._clock()):
                self._tell(pod, reason, why, kind)

    def _carry_on(self) -> None:
        """Evicts what is not evicted yet, for pods that still have their room."""
        for uids, evictions in tuple(self._begun.items()):
            kept = uids in self._finishing or any(self._cache.nomination(uid) is not None for uid in uids)
            left = tuple(each for each in evictions if kept and not self._is_evicted(each))
            with self._lock:
                self._begun.pop(uids)
                if left:
                    self._begun[uids] = left
                else:
                    self._finishing.discard(uids)

    def _is_evicted(self, eviction: _Eviction) -> bool:
        """Evicts the pod; whether it is on its way, or has ended by itself."""
        victim, why = eviction
        if not self._cache.leaving([victim.pod.uid]):
            return True
        if error := evict(self._api, victim.pod):
            self._metrics.evicted("refused")
            _log.warning("eviction_refused", pod=victim.pod.full_name, error=str(error))
            return False
        now = self._clock()
        while self._evicted and self._evicted[0][0] + HOUR <= now:
            self._evicted.popleft()
        self._evicted.append((now, victim.pod.uid))
        self._metrics.evicted("evicted")
        self._tell(victim.pod, "Preempted", why, "Normal")
        return True

    def _lasting(self, victims: Sequence[EvictedPod]) -> float:
        """Seconds until all of them should have ended."""
        return SLACK + max((self._grace(each.pod) for each in victims), default=0.0)

    def _grace(self, record: PodRecord) -> float:
        try:
            raw = self._read(record.namespace, record.name) or {}
        except KubeError:
            raw = {}
        written = lenient.whole(lenient.inside(raw, "metadata").get("deletionGracePeriodSeconds"))
        return written or lenient.whole(lenient.inside(raw, "spec").get("terminationGracePeriodSeconds")) or GRACE

    def _nominate(self, pod: Pod, node: NodeName) -> None:
        """Writes where room is made: the scheduler looks there first, and the next leader carries on."""
        metadata = {"uid": pod.uid, "annotations": {NOMINATED_KEY: node}}
        body = {"metadata": metadata, "status": {"nominatedNodeName": node}}
        try:
            self._api.merge_patch(paths.pod_status(pod.namespace, pod.name), body)
        except KubeError as error:
            _log.warning("nomination_not_written", pod=pod.full_name, node=node, error=str(error))

    def _tell(self, pod: Pod | PodRecord, reason: str, text: str, kind: EventType) -> None:
        regarding = ObjectRef("Pod", pod.name, pod.uid, pod.namespace)
        self._events.emit(regarding, reason, text, type=kind, now=datetime.now(UTC))
        _log.info("preemption", pod=pod.full_name, reason=reason, text=text)
