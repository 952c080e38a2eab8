"""An allocator put together: everything that does IO is made, started and ended here."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Final, Required, TypedDict

from starlette.routing import Route

from hami_plugins.allocations import arrivals, marks
from hami_plugins.allocations.answers import AuditFinding
from hami_plugins.allocations.manifests.webhooks import BINDING_PATH, JOB_PATH, POD_PATH
from hami_plugins.allocations.product import Product
from hami_plugins.allocator import audit as auditing
from hami_plugins.allocator.handlers import KUBE_SCHEDULER, VOLCANO, HandledPath, Handlers
from hami_plugins.allocator.leader import READ_SECONDS, LeaderParts, NodeWriter
from hami_plugins.allocator.metrics import (
    AllocatorMetrics,
    AllocatorSizes,
)
from hami_plugins.allocator.node_page import NodePage
from hami_plugins.allocator.pod_locks import MOST_BINDINGS
from hami_plugins.allocator.session import Filling, LeaderSession
from hami_plugins.allocator.settings import AllocatorSettings
from hami_plugins.config.values import PageListener
from hami_plugins.errors import HamiPluginsError
from hami_plugins.kube.election import BoundedApi
from hami_plugins.kube.events import EventRecorder
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.web.admission import AdmissionMetrics, AdmissionPath, admission_routes
from hami_plugins.web.bodies import BodyBudget
from hami_plugins.web.documents import DocumentMetrics, Reply, document_route
from hami_plugins.web.pages import JsonPage
from hami_plugins.web.replica import Replica
from hami_plugins.wire.admission_review import AdmissionRequest, Allowed, Answer, Denied

FINDINGS_PATH: Final = "/findings"
BINDS: Final = 256
"""Bindings that are made at a time; of those that wait for one device plugin, all but the first do nothing."""

LINGER_SECONDS: Final = 3.0
"""The API server carries out a Binding within milliseconds of our answer, unless its store is slow."""

ADMISSIONS: Final = MOST_BINDINGS + 32
"""Threads for Bindings that the webhook is asked about, and that wait: for locks, or for a pod to be read."""

_LOOK_SECONDS: Final = 0.02


class StandbyError(HamiPluginsError):
    """Another replica answers, or this one does not know the cluster yet."""

    retryable = True
    http_status = 503


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

    ``writer`` receives the node of each answer if a scheduler counts devices itself. ``page`` is the address of the
    node page; ``None`` for no page.
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
        self._product = product
        self._metrics = metrics
        self._filling = filling
        self._handlers: Handlers | None = None
        self._ending: threading.Thread | None = None
        self._stopping = threading.Event()
        self._writer = writer
        self._page = None if page is None else NodePage(page, product, lambda: self._active().session.cache)
        self._binding = ThreadPoolExecutor(BINDS, thread_name_prefix="allocator-bind")
        self._admitting = ThreadPoolExecutor(ADMISSIONS, thread_name_prefix="allocator-admission")
        self._events = EventRecorder(api.within(READ_SECONDS), settings.service.name, identity)
        self._leader = LeaderParts(
            settings,
            api,
            product,
            metrics=metrics,
            identity=identity,
            events=self._events,
            writer=writer,
            page=self._page,
        )
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
        """Starts serving. Raises ``ConfigError`` or ``KubeError`` without a serving certificate."""
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
        if self._page is not None:
            self._page.begin()
        self._handlers = self._leader.handlers(leads=self._leads, filling=self._filling)
        self._handlers.session.start()

    def _leads(self, session: LeaderSession) -> bool:
        handlers = self._handlers
        return handlers is not None and handlers.session is session and self._election.active

    def _end(self) -> None:
        """The lease is ours no longer: what is known may be wrong from now on."""
        handlers, self._handlers = self._handlers, None
        if handlers is not None:
            handlers.session.stop(timeout=0.0)
            self._ending = threading.Thread(target=handlers.session.end, name="allocator-ending", daemon=True)
            self._ending.start()

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
        """Findings of the active replica about the allocations of bound pods."""
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
