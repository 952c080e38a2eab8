"""The calls of kube-scheduler's extender, answered from the cache: filter, prioritize, preempt, bind.

Errors go into the reply, whose status is always 200: for any other status the scheduler reports only the number. The
calls come over plain HTTP, so any client can make them: a Binding is made only for a pod that waits for devices
according to the API server, and only with the devices it requests there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

import structlog

from hami_plugins.allocations.answers import Declined
from hami_plugins.allocations.questions import intake_of
from hami_plugins.allocator.kube_preemption import KubePreemption, Victims
from hami_plugins.allocator.locked_cache import LockedAllocationCache
from hami_plugins.allocator.memory import LogOnce
from hami_plugins.allocator.metrics import AllocatorMetrics
from hami_plugins.allocator.pod_locks import PodLocks
from hami_plugins.allocator.reader import ReadPod
from hami_plugins.allocator.waiting_pods import WaitingPods
from hami_plugins.allocator.watched_cache import WatchedPod
from hami_plugins.engine.annotate import labels_of
from hami_plugins.engine.intake import PodInfo
from hami_plugins.errors import KubeError, WireError
from hami_plugins.kube import paths
from hami_plugins.model.units import NodeName, PodUid
from hami_plugins.wire import lenient, scheduler_extender
from hami_plugins.wire.scheduler_extender import Candidates, ToBind, Unfit

_REFUSED: Final = range(400, 500)
"""Statuses with which the API server says that it has not done something, and will not."""

_CONFLICT: Final = 409
"""It says this of a pod that is bound already, which may be the work of an earlier Binding whose answer was lost."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerExtender:
    """``read`` is asked for a pod that the watch has not shown yet, ``create`` posts a Binding (``KubeError``).

    Without ``create`` no pod is bound. With ``names_best`` a ``filter`` call with names, which is never a simulation,
    returns the one node whose devices suit the pod best (HAMi 2.10 ``pkg/scheduler/scheduler.go`` ``Filter``).
    ``locks`` are the locks that HAMi's device plugins wait for. ``marker`` is the annotation that sends a Binding to
    the webhook; ``now_ns`` gives Unix nanoseconds. ``waiting`` records each pod that a scheduler asks about, and those
    that are bound; calls with whole nodes may be simulations. Without ``preemption`` the scheduler's own victims stand.
    """

    cache: LockedAllocationCache
    read: ReadPod
    create: Callable[[str, Mapping[str, Any]], object] | None
    names_best: bool = False
    marker: Mapping[str, str]
    metrics: AllocatorMetrics
    locks: PodLocks | None = None
    waiting: WaitingPods | None = None
    preemption: KubePreemption | None = None
    now_ns: Callable[[], int]
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)
    _on_their_way: set[PodUid] = field(default_factory=set, init=False, repr=False)
    _heard: LogOnce = field(default_factory=LogOnce, init=False, repr=False)

    def filter(self, body: bytes) -> bytes:
        """Which nodes can hold a pod."""
        try:
            call = scheduler_extender.candidates(body)
            intake = intake_of(call.pod, self.cache.intake)
        except WireError as error:
            self.metrics.answered("filter", "unreadable")
            return scheduler_extender.filter_error(str(error))
        left = call.names
        if blocking_reason := self.cache.blocking_reason(intake):
            refused = dict.fromkeys(call.names, Unfit(blocking_reason, lasting=True))
        else:
            wants = intake.demand.devices.wants_devices
            refused = self.cache.refusals(call.names, intake, call.given) if wants else {}
            if self.names_best and wants and call.objects is None:
                left = self._best(call, intake, refused)
            self.cache.claim(intake.pod.uid)
            if self.waiting is not None and wants and call.objects is None:
                fits = len(refused) < len(call.names)
                self.waiting.asked(intake, call.names, fits=fits, known=self._seen(intake) is not None)
        self.metrics.answered("filter", "refused" if len(refused) == len(call.names) else "fits")
        return scheduler_extender.filter_reply(replace(call, names=left), refused)

    def _best(self, call: Candidates, intake: PodInfo, refused: Collection[NodeName]) -> tuple[NodeName, ...]:
        """The best of the nodes that take the pod, the first of equals; all where none does."""
        scores = self.cache.scores(call.names, intake, call.given)
        fit = [name for name in call.names if name in scores and name not in refused]
        return (max(fit, key=scores.__getitem__),) if fit else call.names

    def _seen(self, intake: PodInfo) -> WatchedPod | None:
        """The pod as the API server has it, else ``None``: anybody may ask about pods that do not exist."""
        seen = self.cache.seen(intake.pod.namespace, intake.pod.name)
        return None if seen is None or seen.uid != intake.pod.uid else seen

    def prioritize(self, body: bytes) -> bytes:
        """How well a pod would fit on each of some nodes."""
        try:
            call = scheduler_extender.candidates(body)
            intake = intake_of(call.pod, self.cache.intake)
        except WireError as error:
            self.metrics.answered("prioritize", "unreadable")
            if self._heard.first("prioritize"):  # the words of the error are the caller's
                _log.warning("call_unreadable", verb="prioritize", error=str(error))
            return scheduler_extender.prioritize_reply((), {})
        scores = {} if self.cache.blocking_reason(intake) else self.cache.scores(call.names, intake, call.given)
        self.metrics.answered("prioritize", "ranked")
        return scheduler_extender.prioritize_reply(call.names, scores)

    def preempt(self, body: bytes) -> bytes:
        """Which pods the scheduler evicts for a pod; after an error none.

        Anybody may make the call, so that what counts of the pod is what the API server has.
        """
        try:
            call = scheduler_extender.preemption(body)
            intake = intake_of(call.pod, self.cache.intake)
        except WireError as error:
            self.metrics.answered("preempt", "unreadable")
            if self._heard.first("preempt"):
                _log.warning("call_unreadable", verb="preempt", error=str(error))
            return scheduler_extender.preemption_reply({}, {})
        victims: Victims = call.victims
        if self.preemption is not None and intake.demand.devices.wants_devices:
            seen = self._seen(intake)
            known = None if seen is None else seen.intake
            if known is None or self.cache.blocking_reason(known):
                victims = {}
            else:
                victims = self.preemption.chosen(known, call.pod, victims)
        self.metrics.answered("preempt", "victims" if victims else "none")
        return scheduler_extender.preemption_reply(victims, call.budgets)

    def bind(self, body: bytes) -> bytes:
        """Allocates, and binds with the allocation; waits for the API server."""
        try:
            error = self._bound(scheduler_extender.to_bind(body))
        except WireError as wrong:
            self.metrics.answered("bind", "unreadable")
            return scheduler_extender.bind_reply(str(wrong))
        self.metrics.answered("bind", "refused" if error else "bound")
        return scheduler_extender.bind_reply(error)

    def _bound(self, call: ToBind) -> str:
        """Why the pod could not be bound; empty where it is."""
        try:
            intake = self._waiting(call)
        except KubeError as error:
            return f"pod {call.namespace}/{call.name} is not known yet: {error}"
        if intake is None:
            what = "is bound, or asks for no devices that this server allocates"
            return f"pod {call.namespace}/{call.name} {what}: its scheduler has to bind it"
        if self.create is None:
            return "this server does not bind pods (its setting binds is false); take bindVerb out of the extender"
        if blocking_reason := self.cache.blocking_reason(intake):
            return blocking_reason
        with self._alone(call.uid) as alone:
            if not alone:
                return f"pod {call.namespace}/{call.name} is being bound already: an earlier call waits for its answer"
            return self._allocated(self.create, call, intake)

    @contextmanager
    def _alone(self, uid: PodUid) -> Iterator[bool]:
        """Whether no other call binds the pod: the failure of one must not free what another has bound it with."""
        with self._lock:
            alone = uid not in self._on_their_way
            self._on_their_way.add(uid)
        try:
            yield alone
        finally:
            if alone:
                with self._lock:
                    self._on_their_way.discard(uid)

    def _allocated(self, create: Callable[[str, Mapping[str, Any]], object], call: ToBind, intake: PodInfo) -> str:
        again = self.cache.answered(call.uid)
        found = self.cache.allocate(call.node, intake, carried=None, dry=False, now_ns=self.now_ns())
        if isinstance(found, Declined):
            self.metrics.refused(found.code)
            return self.cache.words(found, intake)
        allocation, annotations = found
        if self.locks is not None and (why := self.locks.acquire(call, intake)):
            if not again:
                self.cache.undo(call.uid, call.node)
            return why
        error = self._posted(create, call, {**self.marker, **annotations})
        if error is None:
            if self.waiting is not None:
                self.waiting.bound(intake, allocation)
            return ""
        # An earlier Binding of the pod may still be carried out, or have been: then only the watch or the time ends it.
        if error.status in _REFUSED and error.status != _CONFLICT and not again:
            self.cache.undo(call.uid, call.node)
            if self.locks is not None:
                self.locks.failed(call)
        _log.warning("binding_failed", pod=f"{call.namespace}/{call.name}", node=call.node, error=str(error))
        return str(error)

    def _posted(
        self, create: Callable[[str, Mapping[str, Any]], object], call: ToBind, annotations: Mapping[str, str]
    ) -> KubeError | None:
        metadata = {"name": call.name, "namespace": call.namespace, "uid": call.uid, "annotations": dict(annotations)}
        if labels := labels_of(annotations):
            metadata["labels"] = labels
        target = {"apiVersion": "v1", "kind": "Node", "name": call.node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
        try:
            create(paths.pod_binding(call.namespace, call.name), body)
        except KubeError as error:
            return error
        return None

    def _waiting(self, call: ToBind) -> PodInfo | None:
        """What the pod asks for; ``None`` for one that asks for no devices. Raises ``KubeError``."""
        seen = self.cache.seen(call.namespace, call.name)
        if seen is not None and seen.uid == call.uid:
            if seen.fault:
                raise KubeError(seen.fault)
            return seen.intake
        raw = self.read(call.namespace, call.name)
        if raw is None or lenient.uid(raw) != call.uid:
            raise KubeError(f"the API server has none with the UID {call.uid}")
        intake = self.cache.intake(raw)
        return intake if intake.refusal or intake.demand.devices.wants_devices else None
