"""The objects of one active replica: the cache, the watches that fill it, the expiry timer.

It starts empty, with lists no older than the lease, and so finds everything an earlier replica did.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from http import HTTPStatus
from typing import Final, Protocol

import structlog

from hami_plugins.allocations.answers import Assumption, AuditFinding
from hami_plugins.allocations.product import Product
from hami_plugins.allocator.audit import Auditor
from hami_plugins.allocator.charges import AllocationJournal, ChargeTotals
from hami_plugins.allocator.evictor import Evictor
from hami_plugins.allocator.kept_room import keep_again
from hami_plugins.allocator.late_marks import LateMarks
from hami_plugins.allocator.locked_cache import LockedAllocationCache
from hami_plugins.allocator.metrics import AllocatorMetrics
from hami_plugins.allocator.node_lock_calls import NodeLocking
from hami_plugins.allocator.pod_labels import PodLabels
from hami_plugins.allocator.preemption import Preemption, PreemptionOf
from hami_plugins.allocator.reader import ReadPod
from hami_plugins.allocator.resizer import Resizer
from hami_plugins.allocator.settings import REQUEST_SECONDS, AllocatorSettings
from hami_plugins.allocator.volcano_evictions import VolcanoEvictions
from hami_plugins.allocator.waiting_pods import WaitingPods
from hami_plugins.errors import KubeError
from hami_plugins.kube import paths
from hami_plugins.kube.port import Selection, Watching
from hami_plugins.kube.reflector import Backoff, ObjectChange, Reflector, ReflectorOptions
from hami_plugins.wire import lenient, pods

EXPIRY_SECONDS: Final = 1.0
"""Between two looks for what was promised too long ago."""

UNHEALTHY_SECONDS: Final = 20.0
"""How long a watch may be interrupted before nothing is answered any more: other pods are bound meanwhile."""

LOOK_BEFORE: Final = 30.0
"""Seconds before an answer ends by time in which the API server is asked whether its Binding failed."""

LOOKS: Final = 4
"""Such questions in one turn: while one waits, nothing else ends by time."""

LONGEST_PAUSE: Final = 5.0
"""Seconds between two tries to reach the API server."""

POD_GROUPS: Final = "/apis/scheduling.volcano.sh/v1beta1/podgroups"

LONGEST_ABSENCE: Final = 300.0
"""Seconds between two looks for PodGroups in a cluster that has none."""

Filling = Callable[[], AbstractContextManager[None]]

_log = structlog.get_logger(__name__)


class _Worker(Protocol):
    """Background work besides the watches while this replica is active."""

    def start(self) -> object: ...

    def stop(self, timeout: float = ...) -> object: ...


class LeaderSession:
    """From ``start`` to ``stop``. ``ready`` is whether the cache knows the whole cluster and hears what happens there.

    ``filling`` is entered while the lists are taken in, ``on_filled`` called when that is done, ``on_node`` for each
    change of a node. ``read`` is asked for
    pods of which nothing was heard after their Bindings. ``locking`` follows nodes and pods as well.

    ``preemption`` and ``waiting`` make what is done for pods that wait, ``labels`` follows bound pods, and ``marks``
    makes what follows those that lack the mark, ``resizer`` what books other amounts of memory for running ones,
    ``evictions`` what has pods of Volcano's evicted.

    ``journal`` is where what pods hold is written down.

    ResourceQuotas are followed where HAMi's devices are allocated: HAMi holds pods to them.
    """

    def __init__(  # noqa: PLR0913 - what it is made of
        self,
        api: Watching,
        settings: AllocatorSettings,
        product: Product,
        *,
        metrics: AllocatorMetrics,
        read: ReadPod,
        locking: NodeLocking | None = None,
        preemption: PreemptionOf = lambda _cache: None,
        waiting: Callable[[LockedAllocationCache, Evictor | None], WaitingPods] | None = None,
        marks: Callable[[LockedAllocationCache], LateMarks] | None = None,
        labels: PodLabels | None = None,
        resizer: Callable[[LockedAllocationCache], Resizer] | None = None,
        evictions: Callable[[LockedAllocationCache, Preemption], VolcanoEvictions] | None = None,
        journal: AllocationJournal | None = None,
        filling: Filling = nullcontext,
        on_node: Callable[[ObjectChange], object] | None = None,
        on_filled: Callable[[], object] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.cache = LockedAllocationCache(product, keep=settings.reservation, hold=settings.hold, clock=clock)
        self._auditor = Auditor(self.cache)
        self.charges = ChargeTotals(self.cache, settings.charging, journal)
        self._metrics = metrics
        self._read = read
        self._look_after = max(REQUEST_SECONDS, settings.reservation - LOOK_BEFORE)
        self._clock = clock
        self._filling = filling
        self._on_node = on_node
        self._on_filled = on_filled
        self._locking = locking
        self._labels = labels
        self._resizer = None if resizer is None else resizer(self.cache)
        self.marks = None if marks is None else marks(self.cache)
        self.preemption = preemption(self.cache)
        evictor = None if self.preemption is None else self.preemption.evictor
        self.waiting = None if waiting is None else waiting(self.cache, evictor)
        self.evictions = (
            None if evictions is None or self.preemption is None else evictions(self.cache, self.preemption)
        )
        self._stop = threading.Event()
        self._kept = threading.Event()
        nodes, pods = Selection(paths.NODES, "Node"), Selection(paths.PODS, "Pod")
        usual = ReflectorOptions(backoff=Backoff(most=LONGEST_PAUSE), unhealthy_after=UNHEALTHY_SECONDS, clock=clock)
        self._nodes = Reflector(api, nodes, on_change=self._node_changed, name="allocator-nodes", **usual)
        self._pods = Reflector(api, pods, on_change=self._pod_changed, name="allocator-pods", **usual)
        # A cluster may lack PodGroups, so the start does not wait for them, and lists them rarely.
        rare = ReflectorOptions(backoff=Backoff(most=LONGEST_ABSENCE), unhealthy_after=UNHEALTHY_SECONDS, clock=clock)
        groups = Selection(POD_GROUPS, "PodGroup")
        self._groups = Reflector(api, groups, on_change=self._group_changed, name="allocator-groups", **rare)
        if self.preemption is not None:
            self.preemption.objects.groups_from(self._groups_unlisted)
        quotas = Selection(paths.RESOURCE_QUOTAS, "ResourceQuota")
        self._quotas = (
            Reflector(api, quotas, on_change=self._quota_changed, name="allocator-quotas", **usual)
            if product.takes_over
            else None
        )
        budgets = Selection(paths.DISRUPTION_BUDGETS, "PodDisruptionBudget")
        self._budgets = (
            None
            if self.preemption is None
            else Reflector(
                api, budgets, on_change=self.preemption.objects.budget_changed, name="allocator-budgets", **usual
            )
        )
        self._thread = threading.Thread(target=self._run, name="allocator-expiry", daemon=True)

    @property
    def ready(self) -> bool:
        """Whether nodes, pods and their outcomes are all known."""
        return not self.check()

    def check(self) -> str:
        """What is missing, in words for an operator; empty where nothing is."""
        for reflector, what in self._needed():
            if not reflector.synced.is_set():
                why = f": {reflector.last_error}" if reflector.last_error else ""
                return f"the API server has not listed all {what} yet{why}"
            if not reflector.healthy:
                return f"the watch of {what} is broken: {reflector.last_error}"
            if missed := reflector.missed:
                return f"the last change of some {what} ({missed}) could not be processed; see the log"
        if not self._kept.is_set():
            return "what an earlier leader kept for waiting pods is looked for"
        return ""

    @property
    def missed(self) -> int:
        """How many nodes, pods and quotas there are whose last change could not be taken in."""
        return sum(reflector.missed for reflector, _ in self._needed())

    def _needed(self) -> Iterator[tuple[Reflector, str]]:
        """The lists that must be complete before the first answer, and their names in messages."""
        yield self._nodes, "nodes"
        yield self._pods, "pods"
        if self._quotas is not None:
            yield self._quotas, "ResourceQuotas"
        if self._budgets is not None:
            yield self._budgets, "PodDisruptionBudgets"

    @property
    def findings(self) -> tuple[AuditFinding, ...]:
        """What was wrong with the allocations of bound pods a short while ago."""
        return self._auditor.found

    def _node_changed(self, change: ObjectChange) -> None:
        self.cache.node_changed(change)
        if self._on_node is not None:
            self._on_node(change)
        if self._locking is not None:
            self._locking.node_changed(change)
        if self.evictions is not None:
            self.evictions.node_changed(change)
        self._look()

    def _pod_changed(self, change: ObjectChange) -> None:
        self.cache.pod_changed(change)
        if self._locking is not None:
            self._locking.pod_changed(change)
        if self._labels is not None:
            self._labels.pod_changed(change)
        for writer in (self.marks, self._resizer):
            if writer is not None:
                writer.pod_changed(change)
        self._look()

    def _group_changed(self, change: ObjectChange) -> None:
        self.cache.group_changed(change)
        if self.preemption is not None:
            self.preemption.objects.group_changed(change)

    def _groups_unlisted(self) -> bool:
        return not self._groups.synced.is_set() and self._groups.last_status != HTTPStatus.NOT_FOUND

    def _quota_changed(self, change: ObjectChange) -> None:
        self.cache.quota_changed(change)
        self._look()

    def _look(self) -> None:
        """Notifies waiting pods if more may be free."""
        if self.waiting is not None:
            self.waiting.look()

    def start(self) -> None:
        """Begins to fill the cache."""
        self._thread.start()

    def stop(self, timeout: float = 10.0) -> None:
        """Ends; the threads may live on for a moment after ``timeout`` seconds. May be called twice."""
        self._stop.set()
        for worker in self._workers():
            if worker is not None:
                worker.stop(timeout)
        if self._thread.is_alive():
            self._thread.join(timeout)
        for reflector in (self._nodes, self._pods, self._quotas, self._budgets, self._groups):
            if reflector is not None:
                reflector.stop(timeout)

    def _workers(self) -> tuple[_Worker | None, ...]:
        return self._locking, self.waiting, self._labels, self.marks, self._resizer, self.evictions

    def end(self) -> None:
        """Ends for good: what was known is dropped, and a replica that waits has its memory back."""
        self.stop()
        self.cache.forget()

    def _run(self) -> None:
        began = self._clock()
        with self._filling():
            if not self._filled():
                return
            if self.preemption is not None:
                self._spared("room_not_kept_again", lambda: keep_again(self.cache, volcano=self.evictions is not None))
            self._kept.set()
        for worker in self._workers():
            if worker is not None:
                worker.start()
        self._spared("changes_not_reported", lambda: self._tell(began))
        while not self._stop.wait(EXPIRY_SECONDS):
            self._spared("expiry_failed", self._expire)
            if self._resizer is not None:
                self._spared("resizes_failed", self._resizer.look)
            self._spared("audit_failed", lambda: self._auditor.look(self._clock()))
            self._spared("charges_failed", lambda: self.charges.look(self._clock()))

    def _spared(self, event: str, act: Callable[[], object]) -> None:
        """Does it; whatever goes wrong, the thread lives on, for without it cards would stay promised for ever."""
        try:
            act()
        except Exception:  # noqa: BLE001 - the outermost loop
            _log.exception(event)

    def _tell(self, began: float) -> None:
        sizes = self.cache.statistics
        _log.info(
            "cache_filled",
            seconds=round(self._clock() - began, 3),
            nodes=sizes.nodes,
            pods=len(self.cache),
            holders=sizes.holders,
        )
        self._on_filled()

    def _expire(self) -> None:
        for ended in self.cache.expire(self._pods.told_until):
            self._metrics.expired(ended.state)
            _log.info("assumption_expired", pod=ended.record.full_name, node=ended.node, state=ended.state)
        for kept in self.cache.expire_nominations():
            self._metrics.expired("nominated")
            _log.info("nomination_expired", pod=kept.record.full_name, node=kept.node)
        for overdue in self.cache.overdue(self._look_after)[:LOOKS]:
            if self._failed(overdue) and self.cache.fail(overdue):
                self._metrics.expired("failed")
                _log.info("binding_failed", pod=overdue.record.full_name, node=overdue.node)
        self._look()

    def _failed(self, overdue: Assumption) -> bool:
        """Whether the Binding that was answered so long ago cannot come true any more: the pod is there and waits.

        By now the API server has given up the request; earlier it may still be writing.
        """
        try:
            raw = self._read(overdue.record.namespace, overdue.record.name)
        except KubeError:
            return False
        return raw is not None and lenient.uid(raw) == overdue.record.uid and not pods.node_of(raw)

    def _filled(self) -> bool:
        """Begins to follow nodes and pods; whether all are known before the end."""
        for reflector in (self._nodes, self._pods, self._quotas, self._budgets, self._groups):
            if reflector is not None:
                reflector.start()
        return all(self._came(reflector) for reflector, _ in self._needed())

    def _came(self, reflector: Reflector) -> bool:
        while not reflector.synced.wait(0.05):
            if self._stop.is_set():
                return False
        return True
