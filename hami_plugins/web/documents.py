"""Routes that take a document by POST and answer with another: webhooks, a scheduler's extender.

A body is read as it arrives and never beyond its limit. Whatever the function behind a route raises becomes an answer:
a ``HamiPluginsError`` with its own status and words, anything else a 500 that says no more than where to look.

Functions run in the server's own thread, which is fastest and right for work of a millisecond. A function that waits
for another server calls something ``waiting``; it is then called again, from its beginning, in a separate thread. Long
work, because the body is large or the function declares it (``TakesLongError``), runs in such a thread one at a time.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable
from concurrent.futures import Executor
from functools import wraps
from typing import Final, NamedTuple, ParamSpec, TypeVar

import structlog
from starlette.concurrency import run_in_threadpool
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from hami_plugins.errors import HamiPluginsError
from hami_plugins.observe.metrics import Metrics
from hami_plugins.web.bodies import (
    SECONDS,
    SMALL,
    Arriving,
    BodyBudget,
    BodyLimits,
    Collector,
    TooLargeError,
    TooManyError,
    Whole,
    received,
)
from hami_plugins.web.memory import GivingBack, give_back

P = ParamSpec("P")
R = TypeVar("R")

MAX_BODY: Final = 3 * 1024 * 1024
"""Bytes. The API server takes no larger request itself, so none reaches a webhook."""

_FAST: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
LARGE: Final = 256 * 1024
"""Bytes of a body that is read in a thread of its own: to parse it may take tens of milliseconds.

A ``filter`` call with the names of 5,000 nodes, 42 characters each, has 230,000; in a thread it costs 4.4 ms of CPU,
without one 3.3 ms.
"""

QUIET: Final = 60.0
"""Seconds in which a route logs no further refusal of the same kind."""

MOST_VALUES: Final = 100_000
"""Values in a larger body, by the marks before them. A pod has some thousands; two bytes can be a value of 60."""


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
            "http_document_seconds", "Time from a complete request body to the reply", ("route",), buckets=_FAST
        )
        self.failures = metrics.counter(
            "http_document_failures_total",
            "Requests whose handler failed; see the log",
            ("route",),
        )


class WouldWaitError(HamiPluginsError):
    """Answering takes so long that the server's own thread would block all other clients."""

    retryable = True
    http_status = 503


class TakesLongError(WouldWaitError):
    """What is asked keeps the processor busy for longer than others should wait."""


def waiting(function: Callable[P, R]) -> Callable[P, R]:
    """The function, for every thread but one that runs an event loop: there it raises ``WouldWaitError``."""

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        if runs_a_loop():
            raise WouldWaitError(f"{function!r} waits for another server")
        return function(*args, **kwargs)

    return checked


def runs_a_loop() -> bool:
    """Whether this thread answers others meanwhile."""
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
    longest: int | None = None,
    collecting: Callable[[], Collector] = Whole,
    room: BodyBudget | None = None,
    threads: Executor | None = None,
    values: int = MOST_VALUES,
) -> Route:
    """A route for POST. ``name`` stands in metrics and in the log, ``limit`` is the most bytes that are kept of a body,
    and ``values`` the most values in a larger one.

    Where ``collecting`` makes what keeps only a part, a body may have ``longest`` bytes. Routes of one server may share
    the ``room`` for their bodies; without one it has its own. What waits does so in ``threads``, or with all others.
    """
    limits = BodyLimits(limit, limit if longest is None else longest, collecting)
    return Route(
        path,
        _Endpoint(answer, name, metrics, limits=limits, room=room or BodyBudget(), threads=threads, values=values),
        methods=["POST"],
    )


class _Endpoint:
    """The ASGI application behind a route."""

    def __init__(  # noqa: PLR0913 - what a route is made of
        self,
        answer: Answering,
        name: str,
        metrics: DocumentMetrics,
        *,
        limits: BodyLimits,
        room: BodyBudget,
        threads: Executor | None,
        values: int,
    ) -> None:
        self._answer = answer
        self._name = name
        self._metrics = metrics
        self._limits = limits
        self._room = room
        self._threads = threads
        self._values = values
        self._giving_back = GivingBack()
        self._seconds = metrics.seconds.labels(name)
        self._quiet_until: dict[str, float] = {}
        self._log = structlog.get_logger(__name__).bind(route=name)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request; of a client that has left nothing more is heard."""
        client = scope["client"][0] if scope["client"] else ""
        message = await receive()
        if message["type"] != "http.request":
            return
        if len(message["body"]) <= SMALL and not message["more_body"]:
            await self._send(send, await self._reply(message["body"], client))
            return
        timeout = asyncio.timeout(SECONDS)
        arriving = Arriving(self._room, client, timeout)
        try:
            body = await self._body(receive, message, arriving, timeout)
            if body is not None:
                del message
                await self._send(send, await self._reply(body, client))
        except HamiPluginsError as error:
            await self._send(send, _refusal(error), close=True)
        finally:
            arriving.end_turn()
            self._giving_back.soon()

    async def _body(
        self, receive: Receive, message: Message, arriving: Arriving, timeout: asyncio.Timeout
    ) -> bytes | None:
        try:
            async with timeout:
                if message["more_body"] or len(message["body"]) > min(self._limits.limit, LARGE):
                    return await received(receive, message, arriving, self._limits)
                await arriving.take_turn()
                whole: bytes = message["body"]
                return whole
        except TimeoutError:
            raise arriving.late() from None

    async def _reply(self, body: bytes, client: str) -> Reply:
        await self._room.share(client)
        began = time.perf_counter()
        try:
            reply = self._at_once(body, client)
        except TakesLongError:
            reply = await self._alone(body, client)
        except WouldWaitError:
            reply = await self._beside(body)
        self._seconds.observe(time.perf_counter() - began)
        return reply

    def _at_once(self, body: bytes, client: str) -> Reply:
        if len(body) > LARGE:
            raise TakesLongError(f"{len(body)} bytes are read in a thread of their own")
        began = time.perf_counter()
        try:
            return self._replied(body)
        finally:
            self._room.spent(client, time.perf_counter() - began)

    async def _beside(self, body: bytes) -> Reply:
        if self._threads is None:
            return await run_in_threadpool(self._replied, body)
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._replied, body)

    async def _alone(self, body: bytes, client: str) -> Reply:
        try:
            async with self._room.alone(client):
                return await run_in_threadpool(self._at_length, body)
        except TooManyError as error:
            return _refusal(error)

    def _at_length(self, body: bytes) -> Reply:
        # A parsed document is not garbage, however large it is; looking for garbage is most of the work.
        gc.disable()
        try:
            values = sum(map(body.count, (b"{", b"[", b",")))
            if len(body) > LARGE and values > self._values:
                return _refusal(TooLargeError(f"the body has {values} values: limit is {self._values}"))
            return self._replied(body)
        finally:
            gc.enable()
            give_back()

    async def _send(self, send: Send, reply: Reply, *, close: bool = False) -> None:
        self._metrics.total.labels(self._name, str(reply.status)).inc()
        await _send(send, reply, close=close)

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
        return reply

    def _note(self, error: HamiPluginsError) -> None:
        """Into the log, each kind once in a while: clients ask on and on, and some of them only to be logged."""
        kind, now = type(error).__name__, time.monotonic()
        if now >= self._quiet_until.get(kind, now):
            self._quiet_until[kind] = now + QUIET
            self._log.warning("document_refused", error=str(error), status=error.http_status)


def error_reply(status: int, why: str) -> Reply:
    """An error for the client. As text: an API server shows its own client nothing else."""
    return Reply(status, why.encode(), b"text/plain; charset=utf-8")


def _refusal(error: HamiPluginsError) -> Reply:
    return error_reply(error.http_status, str(error))


async def _send(send: Send, reply: Reply, *, close: bool) -> None:
    headers = [(b"content-type", reply.media), (b"content-length", str(len(reply.body)).encode())]
    if close:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": reply.body})
