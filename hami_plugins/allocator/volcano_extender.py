"""The calls of Volcano's plugin ``extender``, answered from the cache (``trials.md`` V12).

A reply always has the status 200: of anything else Volcano shows its users nothing but the number.

The calls come over plain HTTP, so any client can make them. A question allocates no cards: at most it ends the
reservation of the scheduler's earlier try. Cards are allocated only to a pod that waits according to the API server,
and only those it requests there, whatever the call contains.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import structlog

from hami_plugins.allocations.answers import Declined, Nomination, PodAllocation
from hami_plugins.allocations.questions import intake_of
from hami_plugins.allocator.late_marks import LateMarks
from hami_plugins.allocator.locked_cache import LockedAllocationCache
from hami_plugins.allocator.memory import LogOnce, LruCache
from hami_plugins.allocator.metrics import AllocatorMetrics
from hami_plugins.allocator.reader import ReadPod
from hami_plugins.allocator.volcano_preemption import VolcanoPreemption
from hami_plugins.engine.intake import PodInfo
from hami_plugins.errors import KubeError, WireError
from hami_plugins.model.units import NodeName
from hami_plugins.wire import lenient, pods, volcano_extender
from hami_plugins.wire.volcano_extender import Task, TaskStatus

REMEMBERED: Final = 4 * 1024 * 1024
"""Bytes of tasks that are remembered as read: each comes once for every node, and once more when these are ranked.

What is read takes up to fourteen times the room of its text, and some kilobytes at the least.
"""

LARGEST_REMEMBERED: Final = 32 * 1024
"""Bytes of a task. A larger one is read each time, so that it drives no others out."""

_RUNS_ON: Final = frozenset({TaskStatus.BOUND, TaskStatus.RUNNING})
"""A pod that a session puts back into these had been given up by it."""

_log = structlog.get_logger(__name__)


class AskedPod(NamedTuple):
    """A pod as the scheduler has it: what it asks for, what is in its way, and Volcano's name of its PodGroup."""

    intake: PodInfo
    blocking_reason: str
    job: str


class Extender:
    """``weight`` is the weight of a card's score relative to those of other plugins; 0 leaves the choice of nodes to
    them.

    ``read`` asks the API server for a pod that the watch has not shown yet. With ``marks``, pods without the mark wait
    for it. With ``preemption``, pods are evicted for others; without it, none are.
    """

    def __init__(  # noqa: PLR0913 - what it is made of
        self,
        cache: LockedAllocationCache,
        *,
        read: ReadPod,
        weight: float,
        metrics: AllocatorMetrics,
        marks: LateMarks | None = None,
        preemption: VolcanoPreemption | None = None,
    ) -> None:
        self._cache = cache
        self._preemption = preemption
        self._read = read
        self._marks = marks
        self._weight = weight
        self._metrics = metrics
        self._heard = LogOnce()
        self._remembered = LruCache(self._of_text, most=REMEMBERED, largest=LARGEST_REMEMBERED)

    def predicate(self, body: bytes) -> bytes:
        """Whether a node can hold a pod."""
        try:
            call = volcano_extender.predicate(body)
            asked = self._remembered(call.task)
        except WireError as error:
            self._metrics.answered("predicate", "unreadable")
            return volcano_extender.predicate_reply(str(error), code=volcano_extender.ERROR)
        reason, code = self._answer(call.node, asked)
        self._metrics.answered("predicate", "refused" if reason else "fits")
        return volcano_extender.predicate_reply(reason, code=code)

    def _answer(self, node: NodeName, asked: AskedPod) -> tuple[str, int]:
        """Why the node cannot hold the pod, and whether it can be made to."""
        preemption, intake = self._preemption, asked.intake
        reason = asked.blocking_reason or self._unmarked(intake)
        if preemption is None or reason:
            return reason or self._cache.answer(node, intake), volcano_extender.UNSCHEDULABLE
        preemption.looked_for(intake, asked.job)
        reason = self._cache.answer(node, intake)
        return reason, preemption.code(node, intake, asked.job) if reason else volcano_extender.SUCCESS

    def _unmarked(self, intake: PodInfo) -> str:
        return "" if self._marks is None else self._marks.blocking_reason(intake)

    def prioritize(self, body: bytes) -> bytes:
        """How well a pod would fit on each of some nodes."""
        try:
            call = volcano_extender.prioritize(body)
            asked = self._remembered(call.task)
        except WireError as error:
            self._metrics.answered("prioritize", "unreadable")
            return volcano_extender.event_reply(str(error))
        found = self._cache.scores(call.nodes, asked.intake) if self._weight else {}
        scores = {node: score * self._weight for node, score in found.items()}
        if self._preemption is not None:
            for node, more in self._preemption.scores(call.nodes, asked.intake, asked.job).items():
                scores[node] = scores.get(node, 0.0) + more
        self._metrics.answered("prioritize", "ranked")
        return volcano_extender.prioritize_reply(scores)

    def allocate(self, body: bytes) -> bytes:
        """A session wants the pod on a node: its cards are held from now on."""
        return self._event("allocate", body, self._reserve)

    def deallocate(self, body: bytes) -> bytes:
        """A session gave the pod up."""
        return self._event("deallocate", body, self._release)

    def preemptable(self, body: bytes) -> bytes:
        """The pods that a session may evict on a node for a pod of the same queue."""
        return self._victims("preemptable", body)

    def reclaimable(self, body: bytes) -> bytes:
        """The pods that a session may evict on a node for a pod of another queue."""
        return self._victims("reclaimable", body)

    def closed(self, _body: bytes) -> bytes:
        """A session is over."""
        if self._preemption is not None:
            self._preemption.close()
            self._metrics.answered("onSessionClose", "closed")
        return b"{}"

    def _victims(self, verb: str, body: bytes) -> bytes:
        try:
            call = volcano_extender.evictions(body)
        except WireError as error:
            self._metrics.answered(verb, "unreadable")
            if self._heard.first(verb, "", str(error)):
                _log.warning("eviction_call_unreadable", verb=verb, reason=str(error))
            return volcano_extender.evictions_reply()
        victims = () if self._preemption is None else self._preemption.victims(call)
        self._metrics.answered(verb, "victims" if victims else "none")
        return volcano_extender.evictions_reply(victims)

    def _event(self, verb: str, body: bytes, act: Callable[[Task], tuple[str, str]]) -> bytes:
        try:
            outcome, error = act(volcano_extender.event(body))
        except WireError as wrong:
            outcome, error = "unreadable", str(wrong)
        self._metrics.answered(verb, outcome)
        return volcano_extender.event_reply(error)

    def _reserve(self, task: Task) -> tuple[str, str]:
        if self._preemption is not None and task.status in _RUNS_ON:
            self._preemption.spared(task)
            return "nothing", ""
        try:
            intake, blocking_reason = self._waiting(task)
        except KubeError as error:
            return "unknown", f"pod {task.namespace}/{task.name} is not known yet: {error}"
        if blocking_reason:
            return "refused", blocking_reason
        if intake is None:
            return "nothing", ""
        found: Nomination | PodAllocation | Declined | None = None
        if self._preemption is not None and task.status == TaskStatus.PIPELINED:
            found = self._preemption.pipelined(task, intake)
        kept = isinstance(found, Nomination)
        found = found or self._cache.reserve(NodeName(task.node), intake, job=task.job)
        if not isinstance(found, Declined):
            return "kept" if kept else "reserved", ""
        self._metrics.refused(found.code)
        reason = self._cache.words(found, intake)
        if self._heard.first(task.uid, task.node, reason):
            _log.info("reservation_refused", pod=intake.pod.full_name, node=task.node, reason=reason)
        return "refused", reason

    def _waiting(self, task: Task) -> tuple[PodInfo | None, str]:
        """What the pod asks for, and what is in its way; ``None`` for one that asks for no cards or has a node.

        Raises ``KubeError`` where the API server has no such pod or cannot be asked.
        """
        seen = self._cache.seen(task.namespace, task.name)
        if seen is not None and seen.uid == task.uid:
            intake, fault = seen.intake, seen.fault
        else:
            intake, fault = self._read_now(task), ""
        return intake, fault if intake is None else self._cache.blocking_reason(intake)

    def _read_now(self, task: Task) -> PodInfo | None:
        raw = self._read(task.namespace, task.name)
        if raw is None or lenient.uid(raw) != task.uid:
            raise KubeError(f"the API server has none with the UID {task.uid}")
        return None if pods.node_of(raw) else self._cache.intake(raw)

    def _release(self, task: Task) -> tuple[str, str]:
        taken = False
        if self._preemption is not None and task.status == TaskStatus.RELEASING:
            self._preemption.given_up(task)
        elif self._preemption is not None:
            taken = self._preemption.taken_back(task)
        return ("released" if self._cache.release(task.uid) or taken else "nothing"), ""

    def _of_text(self, text: bytes) -> AskedPod:
        return self._of_task(volcano_extender.task(text))

    def _of_task(self, task: Task) -> AskedPod:
        """What the pod asks for, as the scheduler has it: its watch may be ahead of ours. And what is in its way."""
        intake = intake_of(task.pod, self._cache.intake)
        return AskedPod(intake, self._cache.blocking_reason(intake), task.job)
