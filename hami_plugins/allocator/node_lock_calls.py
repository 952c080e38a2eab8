"""The locks that pods need on their nodes, against the API server: see ``allocations.node_locks``.

A call that binds a pod waits here for its turn. A lock takes one write, and a second one if the device plugin does not
remove it; each write requires the node's version that the decision was made on, so that a foreign lock is never
overwritten.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final

import structlog

from hami_plugins.allocations.lock_demand import (
    ALLOCATING,
    EXPIRY,
    FAILED,
    LockDemand,
    LockPod,
    PodProgress,
    lock_keys,
    progress_of,
)
from hami_plugins.allocations.lock_steps import Foreign, Held, Inspect, LockEnd, LockRefused, ReadNode, Step, Take, Wait
from hami_plugins.allocations.node_locks import ANSWER, NodeLocks
from hami_plugins.allocator.metrics import NodeLockMetrics
from hami_plugins.allocator.reader import reading
from hami_plugins.engine.annotate import PHASE_KEY
from hami_plugins.errors import ContentionError, KubeError
from hami_plugins.kube import paths
from hami_plugins.kube.port import KubeApi
from hami_plugins.kube.reflector import Backoff, ObjectChange
from hami_plugins.kube.work_queue import WorkQueue
from hami_plugins.model.units import NodeName, PodUid
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.runnable import Runnable
from hami_plugins.wire import lenient
from hami_plugins.wire.fields import Json

Report = Callable[[LockPod, NodeName, str], object]
"""Emits an event on the pod about the failure on its node."""

_FORBIDDEN, _NOT_FOUND = 403, 404
_CONFLICTS: Final = Backoff(first=0.05, most=1.0)
_TROUBLE: Final = Backoff(first=0.2, most=5.0)

_log = structlog.get_logger(__name__)


def _now() -> datetime:
    return datetime.now(UTC)


class NodeLocking(Runnable):
    """Safe to call from any thread. ``vendors`` are all that pods may have devices of.

    Pods with the annotation ``marker`` are bound by this allocator and no other scheduler. Their plugins have
    ``answer`` seconds; a lock of another scheduler counts as left behind after ``expiry`` seconds. ``wall`` is the time
    that locks are written with, best the API server's.
    """

    def __init__(  # noqa: PLR0913 - what it is made of
        self,
        api: KubeApi,
        vendors: Iterable[VendorSpec],
        *,
        marker: tuple[str, str],
        metrics: NodeLockMetrics,
        report: Report,
        answer: float = ANSWER,
        expiry: float = EXPIRY,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], datetime] = _now,
        luck: random.Random | None = None,
    ) -> None:
        known = tuple(vendors)
        self._api = api
        self._read = reading(api.get)
        self._marker = marker
        self._pending = frozenset(spec.keys.to_allocate for spec in known if spec.keys.to_allocate)
        self._metrics = metrics
        self._report = report
        self._clock = clock
        self._wall = wall
        self._luck = luck or random.Random()  # noqa: S311 - spreads load, guards nothing
        self._locks = NodeLocks(lock_keys(known, expiry=expiry), answer=answer)
        self._lock = threading.Lock()
        self._calls: dict[threading.Condition, tuple[NodeName, PodUid]] = {}
        self._names: dict[str, NodeName] = {}
        self._failures: dict[NodeName, int] = {}
        self._due = WorkQueue(clock=clock)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="node-locks", daemon=True)

    def start(self) -> None:
        """Begins to remove locks."""
        self._thread.start()

    def stop(self, timeout: float = 10.0) -> None:
        """Ends: calls that wait are refused. Locks stay on their nodes, where the next leader finds them."""
        self._stopping.set()
        self._due.end()
        with self._lock:
            for turn in self._calls:
                turn.notify()
        if self._thread.is_alive():
            self._thread.join(timeout)

    # What the watches show

    def node_changed(self, change: ObjectChange) -> None:
        """A node came, changed or went."""
        if change.kind == "deleted":
            if (name := self._names.pop(change.uid, None)) is not None:
                self._gone(name)
        elif change.object is not None:
            self._see(change.object, listed=change.listed)

    def pod_changed(self, change: ObjectChange) -> None:
        """A pod came, changed or went."""
        with self._alone() as touched:
            if change.kind == "deleted":
                pod = None if change.object is None else self._progress(change.object).pod.owner
                touched.update(self._locks.forget_pod(PodUid(change.uid), pod, self._clock()))
            elif change.object is not None:
                touched.update(self._locks.see_pod(self._progress(change.object), self._clock()))

    # What the calls of schedulers ask

    def acquire(self, node: NodeName, pod: LockPod, demand: LockDemand, *, timeout: float) -> str:
        """Waits until the pod has the locks that it needs to be bound to the node; why it has none, or empty."""
        if not demand.keys:
            return ""
        began, why = self._clock(), "the call was broken off"
        try:
            with self._queued(node, pod, demand) as turn, self._metrics.waiting():
                why = self._acquired(node, pod, turn, timeout)
        finally:
            waited = self._clock() - began
            self._metrics.waited("refused" if why else "held", waited)
        event = "node_lock_refused" if why else "node_lock_held"
        _log.info(
            event, pod=pod.full_name, node=node, waited_ms=round(waited * 1000), **({"reason": why} if why else {})
        )
        return f"node {node}: {why}" if why else ""

    def holds(self, node: NodeName, uid: PodUid) -> bool:
        """Whether the pod has its locks on the node."""
        with self._lock:
            return self._locks.holds(node, uid)

    def failed(self, node: NodeName, uid: PodUid) -> None:
        """The API server refused the pod's Binding: its locks are removed at once.

        Not for a Binding whose outcome is unknown, because the pod may be on its way.
        """
        with self._alone(node):
            self._locks.failed(node, uid, self._clock())

    @contextmanager
    def _queued(self, node: NodeName, pod: LockPod, demand: LockDemand) -> Iterator[threading.Condition]:
        """The call is in the queue until the end of the statement; the condition is notified when it has to decide."""
        turn = threading.Condition(self._lock)
        with self._lock:
            self._locks.enter(node, pod, demand)
            self._calls[turn] = node, pod.uid
            self._wake(node)  # the pod may need fewer locks than before
        try:
            yield turn
        finally:
            with self._alone(node):
                self._locks.leave(node, pod.uid, self._clock())
                del self._calls[turn]

    def _acquired(self, node: NodeName, pod: LockPod, turn: threading.Condition, timeout: float) -> str:
        until, failures = self._clock() + timeout, 0
        while True:
            step = self._patient(node, pod, turn, until)
            if isinstance(step, Held):
                return ""
            if isinstance(step, LockRefused):
                return step.text
            if isinstance(step, Wait | Foreign):
                return f"{step.text}; it was not free within {timeout:g} s; try again"
            try:
                self._carry_out(node, step)
            except ContentionError:
                failures += 1
                if self._clock() >= until:
                    return f"the node kept being modified by other clients for {timeout:g} s; try again"
                self._stopping.wait(_CONFLICTS.pause(failures, self._luck))
            except KubeError as error:
                with self._lock:
                    held = isinstance(self._decided(node, pod), Held)
                return "" if held else str(error)

    def _patient(self, node: NodeName, pod: LockPod, turn: threading.Condition, until: float) -> Step:
        """The next step; while that is to wait, waits for a change, and no longer than the call may."""
        with self._lock:
            while isinstance(step := self._decided(node, pod), Wait | Foreign):
                left = until - self._clock()
                if left <= 0:
                    break
                turn.wait(min(left, step.left) if isinstance(step, Foreign) else left)
        return step

    def _decided(self, node: NodeName, pod: LockPod) -> Step:
        if self._stopping.is_set():
            return LockRefused("this replica no longer answers: the process ends, or another one leads")
        return self._locks.decide(node, pod.uid, self._clock(), self._wall())

    def _carry_out(self, node: NodeName, step: Take | Inspect | ReadNode) -> None:
        """Raises ``KubeError``; then the node was read again, if that could be done."""
        if isinstance(step, ReadNode):
            self._read_node(node)
        elif isinstance(step, Inspect):
            raw = self._read(step.namespace, step.name)
            with self._alone(node):
                self._locks.inspected(node, step, None if raw is None else self._progress(raw))
        else:
            if step.replaced:
                _log.warning("node_lock_replaced", node=node, locks=step.replaced)
            self._patch(node, step.version, step.texts)

    # What time brings about

    def _run(self) -> None:
        while (name := self._due.take()) is not None:
            node = NodeName(name)
            try:
                pause = self._worked(node)
            except Exception:  # noqa: BLE001 - the outermost loop: one node must not keep the others locked
                _log.exception("node_lock_failed", node=node)
                pause = _TROUBLE.most
            self._due.done(name)
            with self._lock:
                self._put(node, after=pause)

    def _worked(self, node: NodeName) -> float:
        """Removes locks that are no longer needed; returns the seconds until the next try."""
        with self._alone():
            release = self._locks.release(node, self._clock())
            self._wake(node)
        if release is None:
            self._failures.pop(node, None)
            return 0.0
        try:
            if release.unsettled:
                self._settle(release.pod)
            self._patch(node, release.version, dict.fromkeys(release.keys))
        except KubeError as error:
            failures = self._failures[node] = self._failures.get(node, 0) + 1
            if not isinstance(error, ContentionError):
                _log.warning("node_lock_not_removed", node=node, pod=release.pod.full_name, error=str(error))
            return (_CONFLICTS if isinstance(error, ContentionError) else _TROUBLE).pause(failures, self._luck)
        return 0.0

    def _settle(self, pod: LockPod) -> None:
        """Marks a pod as failed that no plugin is on its way to. Raises ``KubeError`` where that can be tried again."""
        raw = self._read(pod.namespace, pod.name)
        metadata = {} if raw is None else lenient.inside(raw, "metadata")
        if metadata.get("uid") != pod.uid or lenient.texts(metadata.get("annotations")).get(PHASE_KEY) != ALLOCATING:
            return
        version = metadata.get("resourceVersion")
        changed = {"metadata": {"resourceVersion": version, "annotations": {PHASE_KEY: FAILED}}}
        try:
            self._api.merge_patch(paths.pod(pod.namespace, pod.name), changed)
        except KubeError as error:
            if error.status not in (_FORBIDDEN, _NOT_FOUND):
                raise
            _log.warning("pod_not_settled", pod=pod.full_name, error=str(error))

    # Nodes

    def _patch(self, node: NodeName, version: str, annotations: Mapping[str, str | None]) -> None:
        """Writes; raises ``KubeError`` where that failed, and has read the node again then."""
        try:
            body = self._api.merge_patch(
                paths.node(node), {"metadata": {"resourceVersion": version, "annotations": dict(annotations)}}
            )
        except KubeError:
            self._read_node(node)
            raise
        self._see(body)

    def _read_node(self, node: NodeName) -> None:
        try:
            raw = self._api.get(paths.node(node))
        except KubeError as error:
            if error.status != _NOT_FOUND:
                raise
            self._gone(node)
        else:
            self._see(raw)

    def _see(self, raw: Json, *, listed: bool = False) -> None:
        metadata = lenient.inside(raw, "metadata")
        name = NodeName(lenient.text(metadata.get("name")))
        self._names[lenient.uid(raw)] = name
        version, annotations = str(metadata.get("resourceVersion") or ""), lenient.texts(metadata.get("annotations"))
        with self._alone() as touched:
            now, wall = self._clock(), self._wall()
            if self._locks.see_node(name, version, annotations, now=now, wall=wall, listed=listed):
                touched.add(name)

    def _gone(self, node: NodeName) -> None:
        with self._alone(node):
            self._locks.forget_node(node, self._clock())

    def _progress(self, raw: Json) -> PodProgress:
        return progress_of(raw, marker=self._marker, pending=self._pending)

    # Affected pods

    @contextmanager
    def _alone(self, *nodes: NodeName) -> Iterator[set[NodeName]]:
        """No other thread uses the locks. Then what changed on these nodes, or those that are added, is followed up."""
        touched = set(nodes)
        with self._lock:
            yield touched
            for node in touched:
                self._put(node)
                self._wake(node)
            ends = self._locks.ended()
        self._tell(ends)

    def _wake(self, node: NodeName) -> None:
        """Wakes the calls that may have something to do: of those that wait for one lock only the first."""
        behind = self._locks.behind_others(node)
        for turn, (where, uid) in self._calls.items():
            if where == node and uid not in behind:
                turn.notify()

    def _put(self, node: NodeName, *, after: float = 0.0) -> None:
        """Has the node looked at when something is due there."""
        if (at := self._locks.next_time(node)) is not None:
            self._due.put(node, after=max(after, at - self._clock()))

    def _tell(self, ends: Iterable[LockEnd]) -> None:
        for end in ends:
            self._metrics.released(end.reason, end.held)
            line = _log.warning if end.report else _log.info
            held = round(end.held * 1000)
            line("node_lock_released", pod=end.pod.full_name, node=end.node, reason=end.reason.value, held_ms=held)
            if end.report:
                self._report(end.pod, end.node, end.report)
