"""Routes that take a document by POST and answer with another: webhooks, a scheduler's extender.

A body is read as it arrives and never beyond its limit. Whatever the function behind a route raises becomes an answer:
a ``HamiPluginsError`` with its own status and words, anything else a 500 that says no more than where to look.

Functions run in the server's own thread, which is fastest and right for what takes a millisecond. What would wait for
another server says so (``waiting``); the function is asked again then, from its beginning, in a thread beside it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import wraps
from typing import Final, NamedTuple, ParamSpec, TypeVar

import structlog
from starlette.concurrency import run_in_threadpool
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from hami_plugins.errors import HamiPluginsError
from hami_plugins.observe.metrics import Metrics

P = ParamSpec("P")
R = TypeVar("R")

MAX_BODY: Final = 3 * 1024 * 1024
"""Bytes. The API server takes no larger request itself, so none reaches a webhook."""

_FAST: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
_DISCARDED: Final = 8
"""So many times the limit are read and thrown away, so that a client that only sends hears why; then it is cut."""

ALL_BODIES: Final = 128 * 1024 * 1024
"""Bytes of bodies that a server keeps while they arrive."""

_BODY_SECONDS: Final = 30.0
"""The longest that an API server waits for a webhook."""


class Reply(NamedTuple):
    """An HTTP status and a document."""

    status: int
    body: bytes
    media: bytes = b"application/json"


Answering = Callable[[bytes], Reply]
"""Makes the reply to a body. Until it calls something that is ``waiting`` it changes nothing: it may be asked again."""


class DocumentMetrics:
    """What is counted of the documents of one process, by the name that a route gives itself."""

    def __init__(self, metrics: Metrics) -> None:
        self.total = metrics.counter("http_documents_total", "Documents answered, by HTTP status", ("route", "code"))
        self.seconds = metrics.histogram(
            "http_document_seconds", "From a body that is read to its reply", ("route",), buckets=_FAST
        )
        self.failures = metrics.counter(
            "http_document_failures_total",
            "Documents that broke the function behind the route; see the log",
            ("route",),
        )


class TooLargeError(HamiPluginsError):
    """A body beyond the limit."""

    http_status = 413


class TooManyError(HamiPluginsError):
    """Bodies that arrive all at once, and are more than there is room for."""

    retryable = True
    http_status = 503


class SlowBodyError(HamiPluginsError):
    """A body that does not arrive."""

    http_status = 408


class WouldWaitError(HamiPluginsError):
    """What is asked takes time in which the server's own thread could answer nobody else."""

    retryable = True
    http_status = 503


class Room:
    """For the bodies that arrive at one server: ``most`` bytes of them, of which ``taken`` are there. In one thread."""

    def __init__(self, most: int = ALL_BODIES) -> None:
        self.most = most
        self.taken = 0

    def take(self, size: int) -> None:
        """Raises ``TooManyError`` where there is no room for so many more."""
        if self.taken + size > self.most:
            raise TooManyError(f"{self.taken} bytes of other calls are arriving: limit is {self.most} bytes; try again")
        self.taken += size


def waiting(function: Callable[P, R]) -> Callable[P, R]:
    """The function, for every thread but one that runs an event loop: there it raises ``WouldWaitError``."""

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        if _runs_a_loop():
            raise WouldWaitError(f"{function!r} waits for another server")
        return function(*args, **kwargs)

    return checked


def _runs_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def document_route(  # noqa: PLR0913 - what a route is made of
    path: str,
    answer: Answering,
    *,
    name: str,
    metrics: DocumentMetrics,
    limit: int = MAX_BODY,
    room: Room | None = None,
) -> Route:
    """A route for POST. ``name`` stands in metrics and in the log, ``limit`` is the most bytes of a body.

    Routes of one server may share the ``room`` for their bodies; without one it has its own.
    """
    return Route(path, _Endpoint(answer, name, metrics, limit, room or Room()), methods=["POST"])


class _Endpoint:
    """The ASGI application behind a route."""

    def __init__(self, answer: Answering, name: str, metrics: DocumentMetrics, limit: int, room: Room) -> None:
        self._answer = answer
        self._name = name
        self._metrics = metrics
        self._limit = limit
        self._room = room
        self._seconds = metrics.seconds.labels(name)
        self._refused = ""
        self._log = structlog.get_logger(__name__).bind(route=name)

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request; of a client that has left nothing more is heard."""
        broken = False
        try:
            body = await _body(receive, self._limit, self._room)
        except HamiPluginsError as error:
            reply, broken = _refusal(error), True
        else:
            if body is None:
                return
            began = time.perf_counter()
            try:
                reply = self._replied(body)
            except WouldWaitError:
                reply = await run_in_threadpool(self._replied, body)
            self._seconds.observe(time.perf_counter() - began)
        self._metrics.total.labels(self._name, str(reply.status)).inc()
        await _send(send, reply, close=broken)

    def _replied(self, body: bytes) -> Reply:
        try:
            reply = self._answer(body)
        except WouldWaitError:
            raise
        except HamiPluginsError as error:
            self._note(error)
            return _refusal(error)
        except Exception:  # noqa: BLE001 - the edge: what breaks one request must not reach others, or the client
            self._metrics.failures.labels(self._name).inc()
            self._log.exception("document_failed", size=len(body))
            return error_reply(500, f"internal error in {self._name}; the log of this process says which")
        self._refused = ""
        return reply

    def _note(self, error: HamiPluginsError) -> None:
        """Into the log, once for each kind until something is answered again: clients ask on and on."""
        kind = type(error).__name__
        if kind != self._refused:
            self._refused = kind
            self._log.warning("document_refused", error=str(error), status=error.http_status)


def error_reply(status: int, why: str) -> Reply:
    """An error for the client. As text: of anything else an API server shows nothing to whoever asked it."""
    return Reply(status, why.encode(), b"text/plain; charset=utf-8")


def _refusal(error: HamiPluginsError) -> Reply:
    return error_reply(error.http_status, str(error))


async def _body(receive: Receive, limit: int, room: Room) -> bytes | None:
    """The body; ``None`` where the client left before it was through."""
    message = await receive()
    if message["type"] == "http.request" and not message.get("more_body") and len(message["body"]) <= limit:
        whole: bytes = message["body"]
        return whole
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            return await _collected(receive, message, limit, room)
    except TimeoutError:
        raise SlowBodyError(f"the body did not arrive within {_BODY_SECONDS:.0f} s") from None


async def _collected(receive: Receive, message: object, limit: int, room: Room) -> bytes | None:
    parts: list[bytes] = []
    size = kept = 0
    try:
        while isinstance(message, dict) and message["type"] == "http.request":
            part: bytes = message.get("body", b"")
            size += len(part)
            if size <= limit:
                room.take(len(part))
                kept += len(part)
                parts.append(part)
            else:
                parts.clear()
                room.taken -= kept
                kept = 0
            if size > _DISCARDED * limit or not message.get("more_body"):
                if size > limit:
                    raise TooLargeError(f"the body is too large: limit is {limit} bytes")
                return b"".join(parts)
            message = await receive()
    finally:
        room.taken -= kept
    return None


async def _send(send: Send, reply: Reply, *, close: bool) -> None:
    headers = [(b"content-type", reply.media), (b"content-length", str(len(reply.body)).encode())]
    if close:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": reply.body})
