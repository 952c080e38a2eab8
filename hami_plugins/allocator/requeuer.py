"""Has kube-scheduler try waiting pods again when devices become free for them: a write on the pod makes it look.

The scheduler takes a pod that an extender refused out of its queue of unschedulable pods when the pod itself changes
(``PriorityQueue.Update`` of Kubernetes 1.34), and that pod alone.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final

import structlog

from hami_plugins.allocations.requeue import RequeuePlanner, exhaustive
from hami_plugins.allocator.locked_cache import LockedAllocationCache
from hami_plugins.allocator.metrics import RequeueMetrics
from hami_plugins.engine.decide import Decider
from hami_plugins.engine.intake import PodInfo
from hami_plugins.errors import KubeError
from hami_plugins.kube import paths
from hami_plugins.kube.port import Writing
from hami_plugins.model.units import NodeName, PodUid
from hami_plugins.wire import allocator_mark

SETTLE: Final = 0.2
"""Seconds after a change in which more changes are collected, and a scheduler that saw it as well asks by itself."""

REST: Final = 4.0
"""So many times as long as it takes to choose pods, none are chosen after it."""

TRIES: Final = 4_096
"""Calls of schedulers that are remembered until pods are chosen."""

VERDICTS: Final = 50_000
COLUMNS: Final = 16
"""Capacity of the caches of decisions, which are separate from those of the answers to schedulers."""

_log = structlog.get_logger(__name__)


def _now() -> datetime:
    return datetime.now(UTC)


class Requeuer:
    """Works from a thread of its own, from ``start`` to ``stop``; call ``look`` when more room may be free."""

    def __init__(  # noqa: PLR0913 - what it is made of
        self,
        api: Writing,
        cache: LockedAllocationCache,
        *,
        metrics: RequeueMetrics,
        settle: float = SETTLE,
        now: Callable[[], datetime] = _now,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._cache = cache
        self._metrics = metrics
        self._settle = settle
        self._now = now
        self._clock = clock
        self._planner = RequeuePlanner(Decider(cache.product.registry, verdicts=VERDICTS, columns=COLUMNS))
        self._asked: deque[tuple[PodUid, tuple[NodeName, ...] | None, float, bool]] = deque(maxlen=TRIES)
        self._seen = -1
        self._due = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="allocator-requeue", daemon=True)

    def start(self) -> None:
        """Begins; pods that waited for an earlier leader are looked at as well."""
        self._thread.start()
        self.look()

    def stop(self, timeout: float = 5.0) -> None:
        """Ends. May be called twice, and before ``start``."""
        self._stop.set()
        self._due.set()
        if self._thread.is_alive():
            self._thread.join(timeout)

    def look(self) -> None:
        """More may be had, if the cache says so. Returns at once."""
        freed = self._cache.freed
        if freed != self._seen:
            self._seen = freed
            self._due.set()

    def asked(self, intake: PodInfo, nodes: Sequence[NodeName], *, fits: bool) -> None:
        """A scheduler has asked about a pod."""
        self._asked.append((intake.pod.uid, exhaustive(nodes), self._clock(), fits))

    def _run(self) -> None:
        again: float | None = None
        took = 0.0
        while True:
            self._due.wait(None if again is None else max(again - self._clock(), 0.0))
            self._due.clear()
            if self._stop.wait(max(self._settle, REST * took)):
                return
            began = self._clock()
            try:
                again = self.requeue()
                took = self._clock() - began
            except Exception:  # noqa: BLE001 - the outermost loop: pods would wait for minutes without it
                _log.exception("requeue_failed")

    def requeue(self) -> float | None:
        """Writes the pods that should be tried again; when to choose again, ``None`` for when more may be had."""
        waiting = self._cache.waiting()
        if not waiting:
            return None
        while self._asked:
            uid, nodes, at, fits = self._asked.popleft()
            self._planner.asked(uid, nodes, at, fits=fits)
        chosen = self._planner.choose(waiting, self._cache, self._clock())
        for intake in chosen.pods:
            if self._stop.is_set():
                return None
            self.retry(intake)
        return chosen.again

    def retry(self, intake: PodInfo) -> None:
        """Writes a pod so that its scheduler tries it again. Waits for the API server."""
        pod = intake.pod
        changes = {allocator_mark.REQUEUED_KEY: self._now().isoformat(timespec="milliseconds")}
        body = {"metadata": {"uid": pod.uid, "annotations": changes}}  # another pod of that name keeps its own
        try:
            self._api.merge_patch(paths.pod(pod.namespace, pod.name), body)
        except KubeError as error:
            self._metrics.requeued("failed")
            _log.warning("requeue_refused", pod=pod.full_name, error=str(error))
            return
        self._metrics.requeued("written")
        _log.info("requeued", pod=pod.full_name)
