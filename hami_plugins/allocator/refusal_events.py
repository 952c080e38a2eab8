"""Events on pods that wait for devices: why no node takes them, and what they were given in the end.

Nothing is written, and no text is made, while a scheduler waits for its answer.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

import structlog

from hami_plugins.allocations.answers import PodAllocation
from hami_plugins.allocator.locked_cache import LockedAllocationCache
from hami_plugins.allocator.refusal_notes import NotifiedPods, allocation_note, refusal_note
from hami_plugins.engine.intake import PodInfo
from hami_plugins.kube.events import EventLimits, EventRecorder, EventType, ObjectRef
from hami_plugins.kube.port import Writing
from hami_plugins.model.pods import Pod
from hami_plugins.model.units import NodeName, PodUid

REFUSED: Final = "FilteringFailed"
ALLOCATED: Final = "BindingSucceed"
"""Reasons of events as HAMi's scheduler spells them (HAMi 2.10.0 ``pkg/scheduler``)."""

LIMITS: Final = EventLimits(burst=25, seconds_per_write=1.0, waiting=64)
"""Of writes: a burst, and then one a second, however many pods wait."""

WAITING: Final = 1_000
NAMES: Final = 200_000
"""Refused pods queued for an event, and node names of all of them: beyond that, the oldest is reported only after its
next refusal. In a call about 5,000 nodes the names take 300 kB."""

PAUSE: Final = 0.1
"""Seconds between two texts: each asks all nodes of a call again."""

UNSEEN: Final = 5.0
"""Seconds in which the watch shows a pod that a scheduler has seen. A scheduler may not ask again for minutes."""

_log = structlog.get_logger(__name__)


class _Refused(NamedTuple):
    """A refused pod, the nodes of the call, and when the watch has to have shown the pod."""

    intake: PodInfo
    nodes: Sequence[NodeName]
    seen_by: float


class RefusalEvents:
    """Works from threads of its own, from ``start`` to ``stop``."""

    def __init__(
        self,
        api: Writing,
        cache: LockedAllocationCache,
        component: str,
        host: str,
        *,
        limits: EventLimits = LIMITS,
    ) -> None:
        self._cache = cache
        self._events = EventRecorder(api, component, host, limits=limits)
        self._told = NotifiedPods()
        self._refused: OrderedDict[PodUid, _Refused] = OrderedDict()
        self._names = 0
        self._lock = threading.Lock()
        self._due = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="allocator-refusals", daemon=True)

    @property
    def waiting(self) -> int:
        """Pods whose turn to be told is to come."""
        return len(self._refused)

    def start(self) -> None:
        """Begins."""
        self._events.start()
        self._thread.start()

    def stop(self, timeout: float = 5.0) -> None:
        """Ends. May be called twice, and before ``start``."""
        self._stop.set()
        self._due.set()
        if self._thread.is_alive():
            self._thread.join(timeout)
        self._events.stop(timeout)

    def refused(self, intake: PodInfo, nodes: Sequence[NodeName]) -> None:
        """None of these nodes took the pod. Returns at once."""
        with self._lock:
            self._remember(_Refused(intake, nodes, time.monotonic() + UNSEEN))
        self._due.set()

    def _remember(self, refused: _Refused) -> None:
        self._forget(refused.intake.pod.uid)
        self._refused[refused.intake.pod.uid] = refused
        self._names += len(refused.nodes)
        while len(self._refused) > 1 and (len(self._refused) > WAITING or self._names > NAMES):
            self._forget(next(iter(self._refused)))

    def _forget(self, uid: PodUid) -> None:
        if (known := self._refused.pop(uid, None)) is not None:
            self._names -= len(known.nodes)

    def allocated(self, intake: PodInfo, allocation: PodAllocation) -> None:
        """The pod has devices. Only a pod with an earlier event about waiting gets one about that: others cost no
        write.
        """
        with self._lock:
            self._forget(intake.pod.uid)
            told = self._told.forget(intake.pod.uid)
        if told:
            text = allocation_note(allocation.node, tuple(allocation.shares()))
            self._emit(intake.pod, ALLOCATED, text, "Normal")

    def _run(self) -> None:
        while True:
            self._due.wait()
            if self._stop.wait(PAUSE):
                return
            try:
                self._tell_next()
            except Exception:  # noqa: BLE001 - the outermost loop: one pod must not silence the others
                _log.exception("refusal_not_told")

    def _tell_next(self) -> None:
        """Sends an event to the pod that waits longest, unless it has the same one already."""
        with self._lock:
            if not self._refused:
                self._due.clear()
                return
            uid, refused = next(iter(self._refused.items()))
            self._forget(uid)
        intake = refused.intake
        seen = self._cache.seen(intake.pod.namespace, intake.pod.name)
        if seen is None or seen.uid != uid:
            with self._lock:
                if uid not in self._refused and time.monotonic() < refused.seen_by:
                    self._remember(refused)
            return
        if seen.intake is None:
            return
        asked, answers = self._cache.node_answers(refused.nodes, intake)
        note = refusal_note(asked, answers, self._cache.product.registry)
        if note is None:
            return
        with self._lock:
            first = self._told.first(uid, note.cause, time.monotonic())
        if first:
            self._emit(intake.pod, REFUSED, note.text, "Warning")

    def _emit(self, pod: Pod, reason: str, text: str, kind: EventType) -> None:
        regarding = ObjectRef("Pod", pod.name, pod.uid, pod.namespace)
        self._events.emit(regarding, reason, text, type=kind, now=datetime.now(UTC))
