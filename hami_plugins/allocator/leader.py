"""What a leading replica is made of: the session that follows the cluster, and the handlers that answer from it."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from hami_plugins.allocations.lock_demand import lock_keys
from hami_plugins.allocations.mode import AllocatorMode
from hami_plugins.allocations.product import Product
from hami_plugins.allocator.bindings import Bindings
from hami_plugins.allocator.charges import AllocationJournal
from hami_plugins.allocator.evictor import Evictor
from hami_plugins.allocator.handlers import Handlers
from hami_plugins.allocator.kube_extender import SchedulerExtender
from hami_plugins.allocator.late_marks import LateMarks
from hami_plugins.allocator.locked_cache import LockedAllocationCache
from hami_plugins.allocator.metrics import AllocatorMetrics, EvictionMetrics, NodeLockMetrics, RequeueMetrics
from hami_plugins.allocator.node_lock_calls import NodeLocking
from hami_plugins.allocator.node_page import NodePage
from hami_plugins.allocator.pod_labels import PodLabels
from hami_plugins.allocator.pod_locks import PodLocks, tell_pod
from hami_plugins.allocator.preemption import Preemption, preemption
from hami_plugins.allocator.reader import RateLimitedRead, reading
from hami_plugins.allocator.refusal_events import RefusalEvents
from hami_plugins.allocator.requeuer import Requeuer
from hami_plugins.allocator.resizer import Resizer
from hami_plugins.allocator.session import Filling, LeaderSession
from hami_plugins.allocator.settings import AllocatorSettings
from hami_plugins.allocator.volcano_evictions import VolcanoEvictions
from hami_plugins.allocator.volcano_extender import Extender
from hami_plugins.allocator.waiting_pods import WaitingPods
from hami_plugins.errors import KubeError
from hami_plugins.kube.election import BoundedApi
from hami_plugins.kube.events import EventRecorder
from hami_plugins.model.units import NodeName
from hami_plugins.web.documents import waiting
from hami_plugins.wire.fields import Json

READ_SECONDS: Final = 1.5
"""How long a Binding waits for a pod that the watch has not shown yet."""

BIND_SECONDS: Final = 10.0
"""How long a Binding may take that is made for a scheduler: the API server asks us, and others, before it answers."""

_LOST: Final = 412
"""The status of a Binding that was never sent: a precondition failed."""


class NodeWriter(Protocol):
    """Writes nodes whose devices a scheduler counts wrong after an answer."""

    def touch(self, node: NodeName) -> None:
        """Has a node written soon, and returns immediately."""

    def start(self) -> None:
        """Begins."""

    def stop(self) -> None:
        """Ends. May be called twice."""


class LeaderParts:
    """Makes them anew for each term of a replica.

    ``api`` has the API server's time limits set by its callers, ``events`` writes events in the name of the replica
    ``identity``. ``writer`` receives the node of each answer, if a scheduler counts devices itself. ``page``
    follows the nodes where a page of them is served.
    """

    def __init__(  # noqa: PLR0913 - what it is made of
        self,
        settings: AllocatorSettings,
        api: BoundedApi,
        product: Product,
        *,
        metrics: AllocatorMetrics,
        identity: str,
        events: EventRecorder,
        writer: NodeWriter | None = None,
        page: NodePage | None = None,
    ) -> None:
        self._settings = settings
        self._api = api
        self._short = api.within(READ_SECONDS)
        self._read = waiting(reading(self._short.get, on_read=metrics.read))
        self._limited_read = waiting(RateLimitedRead(self._read, clock=time.monotonic))
        self._product = product
        self._metrics = metrics
        self._identity = identity
        self._events = events
        self._writer = writer
        self._page = page
        self._lock_metrics = NodeLockMetrics(metrics.metrics) if lock_keys(product.registry) else None
        self._requeue_metrics = RequeueMetrics(metrics.metrics)
        self._eviction_metrics = EvictionMetrics(metrics.metrics)

    def handlers(self, *, leads: Callable[[LeaderSession], bool], filling: Filling) -> Handlers:
        """What answers from now on, with a session that has not begun.

        ``leads`` is whether the replica still leads with that session, ``filling`` is entered while its cache takes in
        the cluster.
        """
        locking = self._locking()
        session = LeaderSession(
            self._api,
            self._settings,
            self._product,
            metrics=self._metrics,
            read=self._read,
            locking=locking,
            preemption=self._preemption,
            waiting=self._waiting,
            marks=partial(LateMarks, self._short),
            resizer=partial(Resizer, self._short),
            evictions=self._evictions if self._evicts else None,
            labels=PodLabels(self._short, self._product.marker[0]) if self._product.takes_over else None,
            journal=self._journal(),
            filling=filling,
            on_node=None if self._page is None else self._page.node_changed,
            on_filled=lambda: self._heal(session),
        )
        locks = None if locking is None else PodLocks(locking, self._product.registry, session.cache.notes)
        return Handlers(
            session=session,
            bindings=self._bindings(session, locks),
            extender=self._extender(session),
            scheduler=self._scheduler(session, locks, leads),
        )

    def _heal(self, session: LeaderSession) -> None:
        """While no replica answered, every Binding that failed left its devices booked in the scheduler's own cache."""
        if self._writer is not None:
            for node in session.cache.nodes_with_cards():
                self._writer.touch(node)

    def _bindings(self, session: LeaderSession, locks: PodLocks | None) -> Bindings:
        return Bindings(
            cache=session.cache,
            metrics=self._metrics,
            read=self._read,
            now_ns=time.time_ns,
            touch=_leave if self._writer is None else self._writer.touch,
            locks=locks,
        )

    def _extender(self, session: LeaderSession) -> Extender:
        return Extender(
            session.cache,
            read=self._limited_read,
            marks=session.marks,
            weight=self._settings.weight,
            metrics=self._metrics,
            preemption=None if session.evictions is None else session.evictions.preemption,
        )

    @property
    def _evicts(self) -> bool:
        """Whether Volcano's pods have others evicted: where Volcano itself decides about devices, it also chooses."""
        settings = self._settings
        return settings.preemption.mode.evicts and settings.volcano.mode is AllocatorMode.EXTENDER

    def _evictions(self, cache: LockedAllocationCache, preemption: Preemption) -> VolcanoEvictions:
        return VolcanoEvictions(self._api, cache, preemption)

    def _scheduler(
        self, session: LeaderSession, locks: PodLocks | None, leads: Callable[[LeaderSession], bool]
    ) -> SchedulerExtender:
        return SchedulerExtender(
            cache=session.cache,
            read=self._limited_read,
            create=self._binder(partial(leads, session)) if self._product.binds else None,
            names_best=self._product.names_best,
            marker=dict((self._product.marker,)),
            metrics=self._metrics,
            locks=locks,
            waiting=session.waiting,
            preemption=None if session.preemption is None else session.preemption.scheduler,
            now_ns=time.time_ns,
        )

    def _binder(self, leads: Callable[[], bool]) -> Callable[[str, Json], object]:
        """Posts Bindings. The lease may be lost while a Binding waits for the lock of a node: then it is refused."""
        create = self._api.within(BIND_SECONDS).create

        def bound(path: str, body: Json) -> object:
            if not leads():
                raise KubeError("this replica has lost its lease: another one allocates now; try again", status=_LOST)
            return create(path, body)

        return bound

    def _preemption(self, cache: LockedAllocationCache) -> Preemption | None:
        return preemption(
            self._settings.preemption,
            self._short,
            cache,
            read=self._read,
            events=self._events,
            metrics=self._eviction_metrics,
        )

    def _waiting(self, cache: LockedAllocationCache, evictor: Evictor | None) -> WaitingPods:
        name = self._settings.service.name
        return WaitingPods(
            evictor=evictor,
            requeuer=Requeuer(self._short, cache, metrics=self._requeue_metrics),
            events=RefusalEvents(self._short, cache, name, self._identity),
        )

    def _locking(self) -> NodeLocking | None:
        """The locks of one leader; none where no vendor's plugin waits for one."""
        if self._lock_metrics is None:
            return None
        return NodeLocking(
            self._short,
            self._product.registry,
            marker=self._product.marker,
            metrics=self._lock_metrics,
            report=partial(tell_pod, self._events),
        )

    def _journal(self) -> AllocationJournal | None:
        """The journal of one leader; none where no directory is set."""
        directory = self._settings.charging.journal_directory
        return None if directory is None else AllocationJournal(Path(directory), self._identity)


def _leave(_node: NodeName) -> None:
    """No scheduler counts devices, so that no node has to be written."""
