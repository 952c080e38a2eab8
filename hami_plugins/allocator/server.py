"""An allocator put together: everything that does IO is made, started and ended here."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Final, Protocol, Required, TypedDict

from starlette.routing import Route

from hami_plugins.allocations import arrivals, marks
from hami_plugins.allocations.answers import AuditFinding
from hami_plugins.allocations.lock_demand import lock_keys
from hami_plugins.allocations.manifests.webhooks import BINDING_PATH, JOB_PATH, POD_PATH
from hami_plugins.allocations.mode import AllocatorMode
from hami_plugins.allocations.product import Product
from hami_plugins.allocator import audit as auditing
from hami_plugins.allocator.bindings import Bindings
from hami_plugins.allocator.charges import AllocationJournal
from hami_plugins.allocator.evictor import Evictor
from hami_plugins.allocator.handlers import KUBE_SCHEDULER, VOLCANO, HandledPath, Handlers
from hami_plugins.allocator.kube_extender import SchedulerExtender
from hami_plugins.allocator.late_marks import LateMarks
from hami_plugins.allocator.locked_cache import LockedAllocationCache
from hami_plugins.allocator.metrics import (
    AllocatorMetrics,
    AllocatorSizes,
    EvictionMetrics,
    NodeLockMetrics,
    RequeueMetrics,
)
from hami_plugins.allocator.node_locking import NodeLocking
from hami_plugins.allocator.node_page import NodePage
from hami_plugins.allocator.pod_labels import PodLabels
from hami_plugins.allocator.pod_locks import MOST_BINDINGS, PodLocks, tell_pod
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
from hami_plugins.config.values import PageListener
from hami_plugins.errors import HamiPluginsError, KubeError
from hami_plugins.kube.election import BoundedApi
from hami_plugins.kube.events import EventRecorder
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.units import NodeName
from hami_plugins.web.admission import AdmissionMetrics, AdmissionPath, admission_routes
from hami_plugins.web.bodies import BodyBudget
from hami_plugins.web.documents import DocumentMetrics, Reply, document_route, waiting
from hami_plugins.web.pages import JsonPage
from hami_plugins.web.replica import Replica
from hami_plugins.wire.admission_review import AdmissionRequest, Allowed, Answer, Denied
from hami_plugins.wire.fields import Json

FINDINGS_PATH: Final = "/findings"
READ_SECONDS: Final = 1.5
"""How long a Binding waits for a pod that the watch has not shown yet."""

BIND_SECONDS: Final = 10.0
"""How long a Binding may take that is made for a scheduler: the API server asks us, and others, before it answers."""

BINDS: Final = 256
"""Bindings that are made at a time; of those that wait for one device plugin, all but the first do nothing."""

LINGER_SECONDS: Final = 3.0
"""The API server carries out a Binding within milliseconds of our answer, unless its store is slow."""

ADMISSIONS: Final = MOST_BINDINGS + 32
"""Threads for Bindings that the webhook is asked about, and that wait: for locks, or for a pod to be read."""

_LOOK_SECONDS: Final = 0.02

_LOST: Final = 412
"""The status of a Binding that was never sent: a precondition failed."""


class StandbyError(HamiPluginsError):
    """Another replica answers, or this one does not know the cluster yet."""

    retryable = True
    http_status = 503


class NodeWriter(Protocol):
    """Writes nodes whose devices a scheduler counts wrong after an answer."""

    def touch(self, node: NodeName) -> None:
        """Has a node written soon, and returns at once."""

    def start(self) -> None:
        """Begins."""

    def stop(self) -> None:
        """Ends. May be called twice."""


class AllocatorOptions(TypedDict, total=False):
    """What a process decides about its replica, whatever the product.

    ``filling`` is entered while the cache takes in the whole cluster. ``linger`` is how many seconds the replica waits
    at its end for what it has answered to be in effect, because the next one knows only what is.
    """

    metrics: Required[AllocatorMetrics]
    identity: Required[str]
    filling: Filling
    linger: float


class AllocatorServer(Replica):
    """One replica, with ``AllocatorOptions``. It can be started once.

    ``writer`` is told of the node of each answer, where a scheduler counts devices itself. ``page`` is where the page
    of nodes is served; none without it.
    """

    def __init__(  # noqa: PLR0913 - what it is made of
        self,
        settings: AllocatorSettings,
        api: BoundedApi,
        product: Product,
        *,
        metrics: AllocatorMetrics,
        identity: str,
        filling: Filling = nullcontext,
        linger: float = LINGER_SECONDS,
        writer: NodeWriter | None = None,
        page: PageListener | None = None,
    ) -> None:
        self._linger = linger
        self._settings = settings
        self._api = api
        self._hasty = api.within(READ_SECONDS)
        self._read = waiting(reading(self._hasty.get, on_read=metrics.read))
        self._rationed = waiting(RateLimitedRead(self._read, clock=time.monotonic))
        self._product = product
        self._metrics = metrics
        self._filling = filling
        self._handlers: Handlers | None = None
        self._ending: threading.Thread | None = None
        self._stopping = threading.Event()
        self._writer = writer
        self._page = None if page is None else NodePage(page, product, lambda: self._active().session.cache)
        self._identity = identity
        self._lock_metrics = NodeLockMetrics(metrics.metrics) if lock_keys(product.registry) else None
        self._requeue_metrics = RequeueMetrics(metrics.metrics)
        self._eviction_metrics = EvictionMetrics(metrics.metrics)
        self._binding = ThreadPoolExecutor(BINDS, thread_name_prefix="allocator-bind")
        self._admitting = ThreadPoolExecutor(ADMISSIONS, thread_name_prefix="allocator-admission")
        self._events = EventRecorder(self._hasty, settings.service.name, identity)
        documents = DocumentMetrics(metrics.metrics)
        super().__init__(
            settings,
            api,
            identity=identity,
            plain=self._plain(documents),
            webhooks=self._over_tls(AdmissionMetrics(metrics.metrics, documents)),
            ready={"cache": self._cache_check},
            needs_lease=True,
            metrics=metrics.metrics,
            on_started=self._begin,
            on_stopped=self._end,
        )
        metrics.read_from(self._sizes)

    @property
    def page_address(self) -> tuple[str, int] | None:
        """Where the page of nodes is served; ``None`` where it is not."""
        return None if self._page is None else self._page.address

    def snapshot(self) -> ClusterSnapshot | None:
        """All nodes with who holds what, where this replica answers; ``None`` elsewhere."""
        handlers = self._handlers
        return None if handlers is None or not handlers.session.ready else handlers.session.cache.snapshot()

    def start(self) -> None:
        """Begins. Raises ``ConfigError`` or ``KubeError`` where there is no certificate to serve with."""
        self._endpoints.start()
        if self._page is not None:
            self._page.start()
        if self._writer is not None:
            self._writer.start()
        self._events.start()
        self._election.start()

    def stop(self) -> None:
        """Ends: is not ready, answers no more, hands the lease back, lets go of its clients. May be called twice."""
        self._endpoints.leave()
        self._stopping.set()
        self._settle()
        self._election.stop()
        self._endpoints.stop()
        if self._page is not None:
            self._page.stop()
        if self._ending is not None:
            self._ending.join()
        self._events.stop()
        self._binding.shutdown(wait=False)
        self._admitting.shutdown(wait=False)
        if self._writer is not None:
            self._writer.stop()

    def _settle(self) -> None:
        """Waits for Bindings that the API server is still carrying out."""
        handlers, until = self._handlers, time.monotonic() + self._linger
        while handlers is not None and handlers.session.cache.statistics.answered and time.monotonic() < until:
            time.sleep(_LOOK_SECONDS)

    def _begin(self) -> None:
        """The lease is ours."""
        locking = self._locking()
        if self._page is not None:
            self._page.begin()
        session = LeaderSession(
            self._api,
            self._settings,
            self._product,
            metrics=self._metrics,
            read=self._read,
            locking=locking,
            preemption=self._preemption,
            waiting=self._waiting,
            marks=partial(LateMarks, self._hasty),
            resizer=partial(Resizer, self._hasty),
            evictions=self._evictions if self._evicts else None,
            labels=PodLabels(self._hasty, self._product.marker[0]) if self._product.takes_over else None,
            journal=self._journal(),
            filling=self._filling,
            on_node=None if self._page is None else self._page.node_changed,
            on_filled=lambda: self._heal(session),
        )
        locks = None if locking is None else PodLocks(locking, self._product.registry, session.cache.notes)
        self._handlers = Handlers(
            session=session,
            bindings=self._bindings(session, locks),
            extender=self._extender(session),
            scheduler=self._scheduler(session, locks),
        )
        session.start()

    def _end(self) -> None:
        """The lease is ours no longer: what is known may be wrong from now on."""
        handlers, self._handlers = self._handlers, None
        if handlers is not None:
            handlers.session.stop(timeout=0.0)
            self._ending = threading.Thread(target=handlers.session.end, name="allocator-ending", daemon=True)
            self._ending.start()

    def _heal(self, session: LeaderSession) -> None:
        """While no replica answered, every Binding that failed left its cards booked in the scheduler's own cache."""
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
            read=self._rationed,
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

    def _scheduler(self, session: LeaderSession, locks: PodLocks | None) -> SchedulerExtender:
        return SchedulerExtender(
            cache=session.cache,
            read=self._rationed,
            create=self._binder(session) if self._product.binds else None,
            names_best=self._product.names_best,
            marker=dict((self._product.marker,)),
            metrics=self._metrics,
            locks=locks,
            waiting=session.waiting,
            preemption=None if session.preemption is None else session.preemption.scheduler,
            now_ns=time.time_ns,
        )

    def _binder(self, session: LeaderSession) -> Callable[[str, Json], object]:
        """Posts Bindings. Who has waited for a lock of a node may have lost the lease meanwhile: then it is refused."""
        create = self._api.within(BIND_SECONDS).create

        def bound(path: str, body: Json) -> object:
            handlers = self._handlers
            if handlers is None or handlers.session is not session or not self._election.active:
                raise KubeError("this replica has lost its lease: another one allocates now; try again", status=_LOST)
            return create(path, body)

        return bound

    def _preemption(self, cache: LockedAllocationCache) -> Preemption | None:
        return preemption(
            self._settings.preemption,
            self._hasty,
            cache,
            read=self._read,
            events=self._events,
            metrics=self._eviction_metrics,
        )

    def _waiting(self, cache: LockedAllocationCache, evictor: Evictor | None) -> WaitingPods:
        name = self._settings.service.name
        return WaitingPods(
            evictor=evictor,
            requeuer=Requeuer(self._hasty, cache, metrics=self._requeue_metrics),
            events=RefusalEvents(self._hasty, cache, name, self._identity),
        )

    def _locking(self) -> NodeLocking | None:
        """The locks of one leader; none where no vendor's plugin waits for one."""
        if self._lock_metrics is None:
            return None
        return NodeLocking(
            self._hasty,
            self._product.registry,
            marker=self._product.marker,
            metrics=self._lock_metrics,
            report=partial(tell_pod, self._events),
        )

    def _journal(self) -> AllocationJournal | None:
        """The journal of one leader; none where no directory is set."""
        directory = self._settings.charging.journal_directory
        return None if directory is None else AllocationJournal(Path(directory), self._identity)

    def _active(self) -> Handlers:
        """What answers. Raises ``StandbyError``."""
        if self._stopping.is_set():
            raise StandbyError("this replica no longer answers: the process ends")
        handlers = self._handlers
        if handlers is None or not self._election.active:
            raise StandbyError(f"this replica does not answer: {self._election.check() or 'it is about to begin'}")
        if not handlers.session.ready:
            raise StandbyError(f"this replica does not answer yet: {handlers.session.check()}")
        return handlers

    def _sizes(self) -> AllocatorSizes | None:
        handlers = self._handlers
        if handlers is None:
            return None
        session = handlers.session
        return AllocatorSizes(
            active=session.ready,
            statistics=session.cache.statistics,
            pods=len(session.cache),
            problems=session.cache.problems,
            missed=session.missed,
            findings=auditing.counts(session.findings),
            held=session.charges.totals,
        )

    def _over_tls(self, metrics: AdmissionMetrics) -> list[Route]:
        jobs = [AdmissionPath(JOB_PATH, self._patch, "jobs")] if self._product.jobs else []
        pods = AdmissionPath(POD_PATH, self._mark, "pods")
        bindings = AdmissionPath(BINDING_PATH, self._bind, "bindings", self._admitting)
        return admission_routes((pods, bindings, *jobs), metrics)

    def _plain(self, metrics: DocumentMetrics) -> list[Route]:
        calls = (*VOLCANO, *KUBE_SCHEDULER)
        room = BodyBudget()
        return [Route(FINDINGS_PATH, self._findings().answer), *(self._call(each, metrics, room) for each in calls)]

    def _findings(self) -> JsonPage[tuple[AuditFinding, ...]]:
        """What the replica that answers has found wrong with the allocations of bound pods."""
        return JsonPage(lambda: self._active().session.findings, auditing.document)

    def _call(self, call: HandledPath, metrics: DocumentMetrics, room: BodyBudget) -> Route:
        def reply(body: bytes) -> Reply:
            return Reply(200, call.answer(self._active(), body))

        return document_route(
            call.path,
            reply,
            name=call.name,
            metrics=metrics,
            limit=call.limit,
            longest=call.longest,
            collecting=call.collecting,
            room=room,
            threads=self._binding if call.binds else None,
            values=call.values,
        )

    def _mark(self, request: AdmissionRequest) -> Answer:
        """New pods are marked by any replica, active or not; quotas are known to the one that answers schedulers."""
        if request.object is None:
            return Allowed()
        why = arrivals.objection(request.object, self._product.keys)
        answer = Denied(why) if why else marks.mark(request.object, self._product, self._left(request))
        outcome = ("marked" if answer.operations else "untouched") if isinstance(answer, Allowed) else "refused"
        self._metrics.answered("pod", outcome)
        return answer

    def _left(self, request: AdmissionRequest) -> marks.Quotas | None:
        """What quotas leave. A new pod's own namespace may be empty, the request names it."""
        handlers = self._handlers
        if handlers is None or not handlers.session.ready:
            return None
        return lambda namespace: handlers.session.cache.left(request.namespace or namespace)

    def _patch(self, request: AdmissionRequest) -> Answer:
        """New jobs are patched by any replica, as pods are marked."""
        if request.object is None or self._product.jobs is None:
            return Allowed()
        answer = self._product.jobs(request.object)
        outcome = ("patched" if answer.operations else "untouched") if isinstance(answer, Allowed) else "refused"
        self._metrics.answered("job", outcome)
        return answer

    def _bind(self, request: AdmissionRequest) -> Answer:
        handlers = self._active()
        answer = handlers.bindings(request)
        # The pod may have had to be read: the lease may be another's by now, or ours anew, with another cache.
        if self._active() is not handlers:
            raise StandbyError("this replica has another cache than the one that was asked; try again")
        return answer

    def _cache_check(self) -> str:
        handlers = self._handlers
        return "kept by the replica that has the lease" if handlers is None else handlers.session.check()


def _leave(_node: NodeName) -> None:
    """No scheduler counts devices, so that no node has to be written."""
