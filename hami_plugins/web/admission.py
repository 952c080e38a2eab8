"""Admission webhooks: AdmissionReview in, AdmissionReview out.

An unreadable request, or one that breaks the handler, is answered with an HTTP error instead of a refusal: the API
server then follows the webhook's ``failurePolicy``, and returns the text to its client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from typing import Final, NamedTuple

from starlette.routing import Route

from hami_plugins.errors import AdmissionDeniedError, WireError
from hami_plugins.observe.metrics import Metrics
from hami_plugins.web.bodies import BodyBudget
from hami_plugins.web.documents import MAX_BODY, DocumentMetrics, Reply, document_route, error_reply
from hami_plugins.wire.admission_review import AdmissionRequest, Allowed, Answer, Denied, decode, encode

Handler = Callable[[AdmissionRequest], Answer]
"""The answer to a request. An ``AdmissionDeniedError`` is a refusal as well."""

_BAD_REQUEST: Final = 400


class AdmissionPath(NamedTuple):
    """What answers at a path; ``name`` is that of the metrics. What waits does so in ``threads``, if there are any."""

    path: str
    handler: Handler
    name: str
    threads: Executor | None = None


class AdmissionMetrics:
    """Metrics of the webhooks of one process, besides those of every document."""

    def __init__(self, metrics: Metrics, documents: DocumentMetrics) -> None:
        self.documents = documents
        self.total = metrics.counter(
            "admission_requests_total", "Requests answered: allowed, patched or refused", ("webhook", "outcome", "dry")
        )


def admission_routes(webhooks: Iterable[AdmissionPath], metrics: AdmissionMetrics) -> list[Route]:
    """The routes of all webhooks of a process, whose bodies have room together."""
    room = BodyBudget()
    return [
        admission_route(path, handler, name=name, metrics=metrics, room=room, threads=threads)
        for path, handler, name, threads in webhooks
    ]


def admission_route(  # noqa: PLR0913 - what a route is made of
    path: str,
    handler: Handler,
    *,
    name: str,
    metrics: AdmissionMetrics,
    limit: int = MAX_BODY,
    room: BodyBudget | None = None,
    threads: Executor | None = None,
) -> Route:
    """The route of a webhook; the parameters are those of ``document_route``."""

    def answer(body: bytes) -> Reply:
        try:
            request = decode(body)
        except WireError as error:
            return error_reply(_BAD_REQUEST, str(error))
        said = _said(handler, request)
        metrics.total.labels(name, _outcome(said), str(request.dry_run).lower()).inc()
        return Reply(200, encode(request.uid, said))

    return document_route(path, answer, name=name, metrics=metrics.documents, limit=limit, room=room, threads=threads)


def _said(handler: Handler, request: AdmissionRequest) -> Answer:
    try:
        return handler(request)
    except AdmissionDeniedError as error:
        return Denied(error.message, error.code)


def _outcome(said: Answer) -> str:
    if isinstance(said, Allowed):
        return "patched" if said.operations else "allowed"
    return "refused"
