"""A server of grants put together: everything that does IO is made, started and ended here."""

from __future__ import annotations

import threading
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Final, Protocol

import structlog
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from hami_plugins.errors import HamiPluginsError
from hami_plugins.granting import auditing
from hami_plugins.granting.bindings import Bindings
from hami_plugins.granting.calls import KUBE_SCHEDULER, VOLCANO, Call, Office
from hami_plugins.granting.extender import Extender
from hami_plugins.granting.kube_scheduler import SchedulerExtender
from hami_plugins.granting.metrics import GrantMetrics, Sizes
from hami_plugins.granting.product import Product
from hami_plugins.granting.reading import Rationed, reading
from hami_plugins.granting.settings import GrantSettings
from hami_plugins.granting.term import Filling, Term
from hami_plugins.granting.webhooks import BINDING_PATH, JOB_PATH, POD_PATH
from hami_plugins.kube.election import Bounded, Election
from hami_plugins.kube.port import KubeApi
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.units import NodeName
from hami_plugins.web.admission import AdmissionMetrics, admission_route
from hami_plugins.web.bootstrap import CertificateKeeper, SecretName, WebhookConfiguration
from hami_plugins.web.documents import DocumentMetrics, Reply, document_route, waiting
from hami_plugins.web.probes import Check, probe_routes
from hami_plugins.web.server import WebServer
from hami_plugins.web.tls import Tls, TlsMetrics
from hami_plugins.wire.admission_review import AdmissionRequest, Allowed, Answer

FINDINGS_PATH: Final = "/findings"
READ_SECONDS: Final = 1.5
"""How long a Binding waits for a pod that the watch has not shown yet."""

BIND_SECONDS: Final = 10.0
"""How long a Binding may take that is made for a scheduler: the API server asks us, and others, before it answers."""

LINGER_SECONDS: Final = 3.0
"""The API server carries out a Binding within milliseconds of our answer, unless its store is slow."""

_LOOK_SECONDS: Final = 0.02

_log = structlog.get_logger(__name__)


class Api(KubeApi, Bounded, Protocol):
    """An API server whose requests can be given a time to end in."""


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


class GrantServer:
    """One replica. ``identity`` is this process alone, among those that stand for the lease. It can be started once.

    ``writer`` is told of the node of each answer, where a scheduler counts devices itself.
    ``filling`` is entered while the ledger takes in the whole cluster. ``linger`` is how many seconds it waits at its
    end for what it has answered to be in effect, because the next one knows only what is.
    """

    def __init__(  # noqa: PLR0913 - what it is made of
        self,
        settings: GrantSettings,
        api: Api,
        product: Product,
        *,
        metrics: GrantMetrics,
        identity: str,
        filling: Filling = nullcontext,
        linger: float = LINGER_SECONDS,
        writer: NodeWriter | None = None,
    ) -> None:
        self._linger = linger
        self._settings = settings
        self._api = api
        self._hasty = api.within(READ_SECONDS)
        self._read = waiting(reading(self._hasty.get, told=metrics.read))
        self._rationed = waiting(Rationed(self._read, clock=time.monotonic))
        self._product = product
        self._metrics = metrics
        self._filling = filling
        self._term: Office | None = None
        self._ended: Term | None = None
        self._leaving = threading.Event()
        self._stopping = threading.Event()
        namespace = settings.service.namespace
        self._election = Election(
            api,
            namespace=namespace,
            name=settings.lease.name,
            identity=identity,
            timing=settings.lease.timing,
            on_started=self._begin,
            on_stopped=self._end,
        )
        self._writer = writer
        self._keeper = self._certificate_keeper() if settings.certificate.bootstrap else None
        self._documents = DocumentMetrics(metrics.metrics)
        self._tls_metrics = TlsMetrics(metrics.metrics)
        self._web = WebServer(Starlette(routes=self._plain()), host=settings.listen.host, port=settings.listen.port)
        self._webhooks: WebServer | None = None
        metrics.read_from(self._sizes)

    @property
    def address(self) -> tuple[str, int]:
        """Where the extender, probes and metrics are served."""
        return self._web.address

    @property
    def webhook_address(self) -> tuple[str, int] | None:
        """Where the webhooks are served; ``None`` before the certificate is there."""
        return None if self._webhooks is None else self._webhooks.address

    @property
    def trouble(self) -> str:
        """Why nothing is answered; empty where it is."""
        return next((why for check in self._ready().values() if (why := check())), "")

    def snapshot(self) -> ClusterSnapshot | None:
        """All nodes with who holds what, where this replica answers; ``None`` elsewhere."""
        office = self._term
        return None if office is None or not office.term.ready else office.term.books.snapshot()

    def start(self) -> None:
        """Begins. Raises ``ConfigError`` or ``KubeError`` where there is no certificate to serve with."""
        self._web.start()
        self._webhooks = WebServer(
            Starlette(routes=self._over_tls()),
            host=self._settings.webhooks.host,
            port=self._settings.webhooks.port,
            tls=self._tls(),
            tls_metrics=self._tls_metrics,
        )
        self._webhooks.start()
        if self._writer is not None:
            self._writer.start()
        self._election.start()

    def stop(self) -> None:
        """Ends: is not ready, answers no more, hands the lease back, lets go of its clients. May be called twice."""
        self._leave()
        self._stopping.set()
        self._settle()
        self._election.stop()
        for server in (self._webhooks, self._web):
            if server is not None:
                server.stop()
        if self._ended is not None:
            self._ended.stop()
        if self._writer is not None:
            self._writer.stop()
        if self._keeper is not None:
            self._keeper.stop()

    def _leave(self) -> None:
        """Answers until nobody is sent here any more; to one that is not ready nobody is."""
        sent_here = not self.trouble
        self._leaving.set()
        if sent_here:
            time.sleep(self._settings.shutdown_delay)

    def _settle(self) -> None:
        """Waits for Bindings that the API server is still carrying out."""
        office, until = self._term, time.monotonic() + self._linger
        while office is not None and office.term.books.statistics.answered and time.monotonic() < until:
            time.sleep(_LOOK_SECONDS)

    def _tls(self) -> Tls:
        certificate = self._settings.certificate
        directory = Path(certificate.directory)
        files = Tls(certificate=directory / certificate.file, key=directory / certificate.key)
        if self._keeper is not None:
            files = self._keeper.start()
        return files if certificate.client_ca is None else replace(files, client_ca=Path(certificate.client_ca))

    def _certificate_keeper(self) -> CertificateKeeper:
        service = self._settings.service
        certificate = self._settings.certificate
        return CertificateKeeper(
            self._api,
            SecretName(service.namespace, certificate.secret),
            names=(service.host, f"{service.host}.cluster.local", *certificate.names),
            folder=Path(certificate.directory),
            configurations=(WebhookConfiguration("mutating", self._settings.webhooks.configuration),),
        )

    def _begin(self) -> None:
        """The lease is ours."""
        term = Term(
            self._api,
            self._settings,
            self._product,
            metrics=self._metrics,
            read=self._read,
            filling=self._filling,
            on_filled=lambda: self._heal(term),
        )
        self._term = Office(
            term=term,
            bindings=self._bindings(term),
            extender=self._extender(term),
            scheduler=self._scheduler(term),
        )
        term.start()

    def _end(self) -> None:
        """The lease is ours no longer: what is known may be wrong from now on."""
        office, self._term = self._term, None
        if office is not None:
            office.term.stop(timeout=0.0)
            self._ended = office.term

    def _heal(self, term: Term) -> None:
        """While nobody answered, every Binding that failed left its cards booked in the scheduler's own ledger."""
        if self._writer is not None:
            for node in term.books.nodes_with_cards():
                self._writer.touch(node)

    def _bindings(self, term: Term) -> Bindings:
        return Bindings(
            books=term.books,
            metrics=self._metrics,
            read=self._read,
            now_ns=time.time_ns,
            touch=_leave if self._writer is None else self._writer.touch,
        )

    def _extender(self, term: Term) -> Extender:
        settings = self._settings
        return Extender(term.books, read=self._rationed, weight=settings.weight, metrics=self._metrics)

    def _scheduler(self, term: Term) -> SchedulerExtender:
        return SchedulerExtender(
            books=term.books,
            read=self._rationed,
            create=self._api.within(BIND_SECONDS).create if self._product.binds else None,
            marker=dict((self._product.marker,)),
            metrics=self._metrics,
            now_ns=time.time_ns,
        )

    def _active(self) -> Office:
        """What answers. Raises ``StandbyError``."""
        office = self._term
        if office is None or self._stopping.is_set() or not self._election.active:
            raise StandbyError(f"this replica does not answer: {self._election.check() or 'it is about to begin'}")
        if not office.term.ready:
            raise StandbyError(f"this replica does not answer yet: {office.term.check()}")
        return office

    def _sizes(self) -> Sizes | None:
        office = self._term
        if office is None:
            return None
        term = office.term
        return Sizes(
            active=term.ready,
            statistics=term.books.statistics,
            pods=len(term.books),
            problems=term.books.problems,
            missed=term.missed,
            findings=auditing.counts(term.findings),
        )

    def _over_tls(self) -> list[Route]:
        metrics = AdmissionMetrics(self._metrics.metrics, self._documents)
        return [
            admission_route(POD_PATH, self._mark, name="pods", metrics=metrics),
            admission_route(BINDING_PATH, self._bind, name="bindings", metrics=metrics),
            *([admission_route(JOB_PATH, self._patch, name="jobs", metrics=metrics)] if self._product.jobs else []),
        ]

    def _plain(self) -> list[Route]:
        probes = probe_routes(alive=self._alive(), ready=self._ready(), metrics=self._metrics.metrics)
        return [
            *probes,
            Route(FINDINGS_PATH, self._findings),
            *(self._call(each) for each in (*VOLCANO, *(KUBE_SCHEDULER if self._product.kube_scheduler else ()))),
        ]

    def _findings(self, _request: Request) -> Response:
        """What the replica that answers has found wrong with the grants of bound pods."""
        try:
            return JSONResponse(auditing.document(self._active().term.findings, self._product.audit))
        except StandbyError as error:
            return PlainTextResponse(str(error), status_code=error.http_status)

    def _call(self, call: Call) -> Route:
        def reply(body: bytes) -> Reply:
            return Reply(200, call.answer(self._active(), body))

        return document_route(call.path, reply, name=call.name, metrics=self._documents, limit=call.limit)

    def _mark(self, request: AdmissionRequest) -> Answer:
        """New pods are marked by any replica, active or not: nothing of the ledger is needed for it."""
        if request.object is None:
            return Allowed()
        answer = self._product.mark(request.object)
        outcome = ("marked" if answer.operations else "untouched") if isinstance(answer, Allowed) else "refused"
        self._metrics.answered("pod", outcome)
        return answer

    def _patch(self, request: AdmissionRequest) -> Answer:
        """New jobs are patched by any replica, as pods are marked."""
        if request.object is None or self._product.jobs is None:
            return Allowed()
        answer = self._product.jobs(request.object)
        outcome = ("patched" if answer.operations else "untouched") if isinstance(answer, Allowed) else "refused"
        self._metrics.answered("job", outcome)
        return answer

    def _bind(self, request: AdmissionRequest) -> Answer:
        answer = self._active().bindings(request)
        # The pod may have had to be read, and the lease may be another's by now.
        self._active()
        return answer

    def _alive(self) -> dict[str, Check]:
        return {"server": lambda: ""}

    def _ready(self) -> dict[str, Check]:
        return {
            "stopping": lambda: "the process ends" if self._leaving.is_set() else "",
            "lease": self._election.check,
            "ledger": self._ledger_check,
            "certificate": lambda: "" if self._webhooks is not None else "the webhooks are not served yet",
        }

    def _ledger_check(self) -> str:
        office = self._term
        return "another replica has it" if office is None else office.term.check()


def _leave(_node: NodeName) -> None:
    """No scheduler counts devices, so that no node has to be written."""
