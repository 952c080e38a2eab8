"""The kubelet's one loop that takes pods in: admission is serial, whatever it waits for."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Collection, Mapping
from typing import Any

import structlog

from hami_plugins.errors import WireError
from hami_plugins.kube.reflector import ObjectChange
from hami_plugins.sandbox.kubelet import specs, statuses
from hami_plugins.sandbox.kubelet.admission import Rejection
from hami_plugins.sandbox.kubelet.fault_points import Killed
from hami_plugins.sandbox.kubelet.pods import PodEnvironment, PodWorker
from hami_plugins.sandbox.kubelet.specs import PodSpec
from hami_plugins.wire.fields import Json

_log = structlog.get_logger(__name__)


class Roster:
    """The pods of the node that have not ended, the one under admission included; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pods: dict[str, PodSpec] = {}
        self.complete = threading.Event()
        """Set once every pod that was there at the start is known; no devices are freed before."""

    def add(self, pod: PodSpec) -> None:
        """A pod is here."""
        with self._lock:
            self._pods[pod.uid] = pod

    def remove(self, uid: str) -> None:
        """It has ended."""
        with self._lock:
            self._pods.pop(uid, None)

    def active(self) -> tuple[PodSpec, ...]:
        """All of them, in the order in which they came."""
        with self._lock:
            return tuple(self._pods.values())


class AdmissionQueue:
    """Hears of pods (``tell``), admits them one by one in a thread of its own, and owns their workers."""

    def __init__(self, around: PodEnvironment, roster: Roster, *, on_complete: Callable[[], None]) -> None:
        self._around = around
        self._roster = roster
        self._on_complete = on_complete
        self._changes: queue.SimpleQueue[ObjectChange | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._workers: dict[str, PodWorker] = {}
        # Pods that this kubelet has removed from the API server: what the watch still says of their end is old.
        self._removed: set[str] = set()
        self._over = False
        self._stopping = False
        self._settled = threading.Event()
        self._running = _running(around)
        self._thread = threading.Thread(target=self._run, name="kubelet-intake")

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the loop and all workers; containers run on."""
        self._stopping = True
        self._settled.set()
        self._changes.put(None)
        if self._thread.is_alive():
            self._thread.join()
        with self._lock:
            self._over = True
            workers = list(self._workers.values())
        for worker in workers:
            worker.abandon()

    def settled(self) -> None:
        """No further registrations are awaited before pods are admitted."""
        self._settled.set()

    def tell(self, change: ObjectChange) -> None:
        """What the API server says of a pod of this node."""
        self._changes.put(change)

    def wake(self, uid: str) -> None:
        """Something happened to a container of the pod."""
        with self._lock:
            worker = self._workers.get(uid)
        if worker is not None:
            worker.wake()

    def _run(self) -> None:
        try:
            first: dict[str, ObjectChange] = {}
            while (change := self._changes.get()) is not None and change.kind != "synced":
                first[change.uid] = change
            self._settled.wait(self._around.times.settle)
            if change is None or self._stopping:
                return
            self._take_all(list(first.values()))
            while (change := self._changes.get()) is not None:
                self._take(change)
        except Killed:
            _log.debug("kubelet_killed")

    def _take_all(self, changes: Collection[ObjectChange]) -> None:
        """The pods that are there at the start, the oldest first; what runs already is not admitted again."""
        for change in sorted(changes, key=_age):
            self._take(change)
        self._running = {}
        self._roster.complete.set()
        self._on_complete()

    def _take(self, change: ObjectChange) -> None:
        if change.object is None or change.kind == "deleted":
            self._gone(change.uid)
            return
        try:
            self._see(change.uid, change.object)
        except (WireError, KeyError, TypeError) as error:
            _log.warning("pod_passed_over", pod_uid=change.uid, error=repr(error))

    def _see(self, uid: str, raw: Json) -> None:
        metadata: Mapping[str, Any] = raw["metadata"]
        ending = metadata.get("deletionTimestamp") is not None
        with self._lock:
            worker = self._workers.get(uid)
            removed = uid in self._removed
        if worker is not None:
            worker.update(raw)
        elif removed:
            return
        elif ending:
            worker = self._employ(specs.read(raw))
        elif not specs.is_over(raw):
            self._admit(specs.read(raw))
        if worker is not None and ending:
            worker.delete(float(metadata.get("deletionGracePeriodSeconds") or 0))

    def _gone(self, uid: str) -> None:
        with self._lock:
            worker = self._workers.get(uid)
            self._removed.discard(uid)
        if worker is not None:
            worker.delete(0)

    def _admit(self, pod: PodSpec) -> None:
        self._roster.add(pod)
        rejection = self._around.allocator.admit(pod, running=self._running.get(pod.uid, frozenset()))
        if rejection is None:
            self._employ(pod)
            return
        self._reject(pod, rejection)

    def _reject(self, pod: PodSpec, rejection: Rejection) -> None:
        _log.info("pod_rejected", pod=pod.full_name, reason=rejection.reason, error=rejection.message)
        self._around.runtime.remove_sandbox(pod.uid)
        status = statuses.rejection(rejection.reason, rejection.message, started=self._around.clock())
        self._around.paper.event(pod, rejection.reason, rejection.message)
        self._around.paper.report(pod, status)
        self._roster.remove(pod.uid)

    def _employ(self, pod: PodSpec) -> PodWorker:
        self._roster.add(pod)
        worker = PodWorker(pod, self._around, started=self._around.clock(), on_end=self._ended)
        with self._lock:
            if not self._over:
                self._workers[pod.uid] = worker
                worker.start()
        return worker

    def _ended(self, pod: PodSpec, *, gone: bool) -> None:
        """A pod's containers have all ended; ``gone`` when the pod itself has ended as well."""
        self._roster.remove(pod.uid)
        if gone:
            with self._lock:
                self._workers.pop(pod.uid, None)
                self._removed.add(pod.uid)


def _running(around: PodEnvironment) -> Mapping[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for container in around.runtime.all():
        if container.running:
            found.setdefault(container.pod_uid, set()).add(container.name)
    return {uid: frozenset(names) for uid, names in found.items()}


def _age(change: ObjectChange) -> tuple[str, str]:
    metadata = (change.object or {}).get("metadata") or {}
    return str(metadata.get("creationTimestamp") or ""), str(metadata.get("name") or "")
