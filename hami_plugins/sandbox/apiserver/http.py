"""The HTTP edge: reads requests, lets faults strike, sends answers and streams watches."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any
from urllib.parse import parse_qsl

import orjson
import structlog
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from hami_plugins.sandbox.apiserver.answers import ApiError
from hami_plugins.sandbox.apiserver.api import JSON, MAX_BODY, Api, HttpResponse, refusal
from hami_plugins.sandbox.apiserver.faults import (
    Action,
    CloseWatch,
    Delay,
    DropConnection,
    Faults,
    Gone,
    ObservedRequest,
    Refuse,
)
from hami_plugins.sandbox.apiserver.review import Ask, ReviewNeededError, WebhookAdmission
from hami_plugins.sandbox.apiserver.routes import HttpRequest, RequestTarget, target_of
from hami_plugins.sandbox.apiserver.tally import RequestKey, RequestTally
from hami_plugins.sandbox.apiserver.watches import Watch

_GUARDED = frozenset({"create", "update", "patch", "delete", "deletecollection"})
_NOBODY = "system:anonymous"

_log = structlog.get_logger(__name__)

Address = tuple[str, int]


class ClientConnections:
    """The open connections by the client's address, so that a fault can break one and a watch hear of its end."""

    def __init__(self) -> None:
        self._open: dict[Address, H11Protocol] = {}
        self._lost: dict[Address, list[Callable[[], None]]] = {}

    def protocol(self) -> type[H11Protocol]:
        """uvicorn's HTTP protocol, telling of connections that come and go."""
        connections = self

        class Tracked(H11Protocol):
            def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
                super().connection_made(transport)
                if self.client is not None:
                    connections._open[self.client] = self

            def connection_lost(self, exc: Exception | None) -> None:
                super().connection_lost(exc)
                if self.client is not None:
                    connections._closed(self.client)

        return Tracked

    def when_lost(self, client: Address, then: Callable[[], None]) -> None:
        """Call ``then`` when the connection ends, at once when it has."""
        if client in self._open:
            self._lost.setdefault(client, []).append(then)
        else:
            then()

    async def lost_within(self, client: Address, seconds: float) -> bool:
        """Wait so long, or until the connection is gone: then the answer is true."""
        gone = asyncio.Event()
        self.when_lost(client, gone.set)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(gone.wait(), seconds)
        return gone.is_set()

    async def break_off(self, client: Address) -> None:
        """Reset a connection and wait until it is gone."""
        gone = asyncio.Event()
        self.when_lost(client, gone.set)
        if client in self._open:
            self._open[client].transport.abort()
        await gone.wait()

    def break_all(self) -> None:
        """Reset every connection."""
        for protocol in list(self._open.values()):
            protocol.transport.abort()

    def _closed(self, client: Address) -> None:
        self._open.pop(client, None)
        for then in self._lost.pop(client, ()):
            then()


class App:
    """The ASGI application. ``users`` names the callers behind bearer tokens, ``ask`` asks webhooks."""

    def __init__(  # noqa: PLR0913 - what serves a request
        self,
        api: Api,
        *,
        faults: Faults,
        requests: RequestTally,
        connections: ClientConnections,
        users: Mapping[str, str],
        ask: Ask,
        clock: Callable[[], datetime],
    ) -> None:
        self._api = api
        self._ask = ask
        self._clock = clock
        self._faults = faults
        self._requests = requests
        self._connections = connections
        self._users = users

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        request = await _read(scope, receive)
        client: Address = tuple(scope["client"])
        exchange = _Exchange(request, client, send, self._clock)
        seen, target, refused = self._look(request)
        action = self._faults.strike(seen)
        if refused is None and target.kind is not None and target.verb in _GUARDED:
            exchange.gate = self._api.gate(request, target, seen.user or _NOBODY)
        answer = await self._decide(exchange, target, refused, action)
        code = 0 if answer is None else 200 if isinstance(answer, Watch) else answer.code
        agent = seen.agent.partition(" ")[0]
        self._requests.add(RequestKey(seen.verb, seen.resource, seen.subresource, code, agent, seen.user))
        if answer is None:
            await self._connections.break_off(exchange.client)
        elif isinstance(answer, Watch):
            await self._stream(exchange, answer, action)
        else:
            await exchange.send(answer)

    def _look(self, request: HttpRequest) -> tuple[ObservedRequest, RequestTarget, ApiError | None]:
        try:
            target, refused = target_of(request, self._api.kinds), None
        except ApiError as error:
            target, refused = RequestTarget(verb=request.method.lower()), error
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        seen = ObservedRequest(
            verb=target.verb,
            resource=target.resource,
            subresource=target.subresource,
            namespace=target.namespace,
            name=target.name,
            agent=request.headers.get("user-agent", ""),
            user=self._users.get(token, ""),
        )
        return seen, target, refused

    async def _decide(
        self, exchange: _Exchange, target: RequestTarget, refused: ApiError | None, action: Action | None
    ) -> HttpResponse | Watch | None:
        """What is to be answered; ``None`` where the connection breaks instead."""
        match action:
            case DropConnection(handled=False):
                return None
            case Delay(seconds):
                if await self._connections.lost_within(exchange.client, seconds):
                    return None
            case Refuse(code, retry_after, message):
                return refusal(ApiError(code, message, retry_after=retry_after))
            case _:
                pass
        answer = await self._reviewed(exchange, target) if refused is None else refusal(refused)
        if isinstance(action, DropConnection):
            if isinstance(answer, Watch):
                self._api.hub.close(answer)
            return None
        return answer

    async def _reviewed(self, exchange: _Exchange, target: RequestTarget) -> HttpResponse | Watch:
        """Handle the request, and again after each question to webhooks that comes up."""
        gate = exchange.gate
        if gate is None:
            return self._handled(exchange.request, target)
        request = replace(exchange.request, gate=gate)
        while True:
            try:
                return _warning(self._handled(request, target), gate.warnings)
            except ReviewNeededError as needed:
                try:
                    await gate.review(needed, self._ask)
                except ApiError as error:
                    return _warning(refusal(error), gate.warnings)

    def _handled(self, request: HttpRequest, target: RequestTarget) -> HttpResponse | Watch:
        try:
            return self._api.handle(request, target)
        except ReviewNeededError:
            raise
        except ApiError as error:
            return refusal(error)
        except Exception as error:  # noqa: BLE001 - the outermost loop: one request must not hide the others
            _log.exception("request_failed", method=request.method, path=request.path)
            return refusal(ApiError(500, f"Internal error occurred: {type(error).__name__}: {error}"))

    async def _stream(self, exchange: _Exchange, watch: Watch, action: Action | None) -> None:
        """Send a watch until its time is over, its client leaves or a fault ends it."""
        hub, woken = self._api.hub, asyncio.Event()
        watch.wake = _waker(woken)
        self._connections.when_lost(exchange.client, lambda: hub.close(watch))
        timer = asyncio.get_running_loop().call_later(watch.seconds, self._expire, watch)
        await exchange.begin(200, JSON)
        if isinstance(action, Gone):
            watch.take()
            error = ApiError(410, "too old resource version: injected by the test")
            watch.add(b'{"type":"ERROR","object":%s}\n' % orjson.dumps(error.body()))
            hub.close(watch)
        left = action.events if isinstance(action, CloseWatch) else None
        try:
            while left is None or left > 0:
                woken.clear()
                data, taken = watch.take(left)
                if data:
                    left = None if left is None else left - taken
                    await exchange.more(data)
                elif watch.ended:
                    break
                else:
                    await woken.wait()
        finally:
            timer.cancel()
            hub.close(watch)
        if watch.abrupt or (isinstance(action, CloseWatch) and action.abrupt):
            await self._connections.break_off(exchange.client)
        else:
            await exchange.end()

    def _expire(self, watch: Watch) -> None:
        self._api.hub.bookmark([watch])
        self._api.hub.close(watch)


class _Exchange:
    """One request and the way to answer it."""

    def __init__(self, request: HttpRequest, client: Address, send: Send, clock: Callable[[], datetime]) -> None:
        self.request = request
        self.client = client
        self._clock = clock
        self.gate: WebhookAdmission | None = None
        self._send = send

    async def send(self, answer: HttpResponse) -> None:
        """A whole answer at once."""
        body = b"" if self.request.method == "HEAD" else answer.body
        length = [(b"content-length", str(len(answer.body)).encode())]
        await self.begin(answer.code, answer.media, [*_encoded(answer.headers), *length])
        await self._send({"type": "http.response.body", "body": body})

    async def begin(self, code: int, media: str, headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
        """The head of an answer."""
        fixed = [
            (b"content-type", media.encode()),
            (b"cache-control", b"no-cache, private"),
            (b"date", format_datetime(self._clock().astimezone(UTC), usegmt=True).encode()),
        ]
        await self._send({"type": "http.response.start", "status": code, "headers": [*fixed, *headers]})

    async def more(self, data: bytes) -> None:
        """A part of a stream."""
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def end(self) -> None:
        """The end of a stream."""
        await self._send({"type": "http.response.body", "body": b""})


def _warning(answer: HttpResponse | Watch, warnings: Iterable[str]) -> HttpResponse | Watch:
    """The answer with what webhooks warn of."""
    texts = ", ".join(f"299 - {orjson.dumps(text).decode()}" for text in warnings)
    if not texts or isinstance(answer, Watch):
        return answer
    return replace(answer, headers={**answer.headers, "Warning": texts})


def _waker(woken: asyncio.Event) -> Callable[[], None]:
    """Sets the event, from whichever thread a write comes."""
    loop, home = asyncio.get_running_loop(), threading.get_ident()

    def wake() -> None:
        if threading.get_ident() == home:
            woken.set()
            return
        with contextlib.suppress(RuntimeError):  # the server has just stopped, so no client waits
            loop.call_soon_threadsafe(woken.set)

    return wake


async def _read(scope: Scope, receive: Receive) -> HttpRequest:
    """The request with its body; of one that is too large, enough to see that."""
    body = bytearray()
    while True:
        message: Any = await receive()
        if len(body) <= MAX_BODY:
            body += message.get("body", b"")
        if not message.get("more_body"):
            break
    return HttpRequest(
        method=scope["method"],
        path=scope["path"],
        query=dict(parse_qsl(scope["query_string"].decode(), keep_blank_values=True)),
        headers={name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]},
        body=bytes(body),
    )


def _encoded(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode(), value.encode()) for name, value in headers.items()]
