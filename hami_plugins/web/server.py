"""An HTTP server in a thread, for an ASGI application."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
import threading
import time
from email.utils import formatdate
from functools import partial
from typing import Any, Final

import uvicorn
from uvicorn.server import ServerState

from hami_plugins.errors import ConfigError
from hami_plugins.runnable import Runnable
from hami_plugins.web.connections import A_TURN, MOST, Listener, OpenConnections, listening
from hami_plugins.web.heads import PATIENCE, Guarded
from hami_plugins.web.listeners import accept_no_more
from hami_plugins.web.loops import Loop
from hami_plugins.web.memory import GivingBack
from hami_plugins.web.tls import Rotation, Tls, TlsMetrics

IDLE: Final = 120
"""Seconds. Longer than the 90 for which Go keeps an idle connection: so no request meets a connection that ends."""

_START_SECONDS: Final = 10.0

_DESCRIPTORS: Final = 4096


class WebServer(Runnable):
    """Serves ``app`` on ``host``, by default for this machine alone; port 0 takes any free one.

    ``address`` is where it serves, once it is started. With ``tls`` it speaks TLS 1.2 or newer and follows the files
    while it runs, looking every ``look_every`` seconds. Requests that are being answered may take ``grace`` seconds to
    finish when the server stops. A connection ends after ``idle`` seconds without a request, and when a head, an
    answered body or the reading of an answer takes more than ``patience`` seconds. ``connections`` is how many there
    may be.
    """

    def __init__(  # noqa: PLR0913 - each has a default that fits
        self,
        app: Any,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        tls: Tls | None = None,
        tls_metrics: TlsMetrics | None = None,
        look_every: float = 1.0,
        grace: float = 5.0,
        patience: float = PATIENCE,
        idle: int = IDLE,
        connections: int = MOST,
    ) -> None:
        self._app = app
        self._tls = tls
        self._tls_metrics = tls_metrics
        self._look_every = look_every
        self._rotation: Rotation | None = None
        self._grace = grace
        self._patience = patience
        self._idle = idle
        self._connections = connections
        self.address = (host, port)
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> int:
        """Serves from now on, and returns the port.

        Raises ``ConfigError`` when the address is not to be had or the certificate cannot be used.
        """
        connections = OpenConnections(self._connections, on_many_closed=GivingBack().soon)
        config = self._config(connections)
        host = self.address[0]
        listener = _listen(*self.address, connections)
        _allow_descriptors()
        port: int = listener.getsockname()[1]
        self.address = (host, port)
        self._server = _Server(config)
        self._thread = threading.Thread(target=_serve, args=(self._server, listener), name=f"web-{port}", daemon=True)
        self._thread.start()
        if not self._server.serving.wait(_START_SECONDS) or not self._server.started:
            self.stop()
            raise ConfigError(f"{host}:{port}: the server did not start; its log says why")
        if self._rotation is not None:
            self._rotation.start()
        return port

    @property
    def serves(self) -> bool:
        """Whether it has been started and has not ended."""
        return self._thread is not None and self._thread.is_alive()

    def stop(self) -> None:
        """Takes no further request, lets those that run finish, and ends. May be called twice."""
        server, thread = self._server, self._thread
        if server is None or thread is None:
            return
        if self._rotation is not None:
            self._rotation.stop()
        server.end()
        thread.join(self._grace + _START_SECONDS)

    def _config(self, connections: OpenConnections) -> uvicorn.Config:
        protocol: Any = partial(Guarded, patience=self._patience, connections=connections)
        config = uvicorn.Config(
            self._app,
            timeout_graceful_shutdown=max(1, round(self._grace)),
            timeout_keep_alive=self._idle,
            backlog=A_TURN,
            # How the process logs is not the server's matter, and probes come every few seconds. Of requests that are
            # not understood uvicorn warns each time, so that a stranger decides how much is logged.
            log_config=None,
            log_level="error",
            access_log=False,
            lifespan="off",
            server_header=False,
            # Who asks is the other end of the connection, whatever a header says.
            proxy_headers=False,
            # The same on every machine, whatever else is installed there.
            loop=f"{Loop.__module__}:{Loop.__name__}",
            http=protocol,
            ws="none",
        )
        config.load()
        if self._tls is not None:
            self._rotation = Rotation(self._tls, metrics=self._tls_metrics, every=self._look_every)
            config.ssl = self._rotation.context
        return config


class _Server(uvicorn.Server):
    """Signals when it serves, or that it never will, and sleeps until a request arrives.

    uvicorn's own loop wakes ten times a second to see whether it shall end and to keep the date: half of what an idle
    node agent would cost.
    """

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.server_state: _State = _State()
        self.serving = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending: asyncio.Event | None = None

    def end(self) -> None:
        """Lets it shut down; from any thread, and also before it has begun."""
        self.should_exit = True
        loop, ending = self._loop, self._ending
        if loop is not None and ending is not None and not loop.is_closed():
            with contextlib.suppress(RuntimeError):  # closed in this very moment: then it has ended
                loop.call_soon_threadsafe(ending.set)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """See ``uvicorn.Server``."""
        self._loop, self._ending = asyncio.get_running_loop(), asyncio.Event()
        await super().startup(sockets)
        self.serving.set()

    async def main_loop(self) -> None:
        """See ``uvicorn.Server``."""
        # `should_exit` may have been set before `_ending` was there.
        if self._ending is not None and not self.should_exit:
            await self._ending.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """See ``uvicorn.Server``. No connection is left open: what is idle ends at once, and all else with its answer.

        TLS would wait for idle clients to agree.
        """
        await accept_no_more(self.servers)
        self.server_state.ending = True
        for connection in list(self.server_state.connections):
            transport, cycle = getattr(connection, "transport", None), getattr(connection, "cycle", None)
            idle = cycle is None or cycle.response_complete
            if idle and transport is not None and not transport.get_write_buffer_size():
                transport.abort()
        await super().shutdown(sockets)
        for connection in list(self.server_state.connections):  # their time to finish is over
            connection.transport.abort()


class _State(ServerState):
    """Reads the clock when an answer needs the date, at most once a second, instead of ten times a second.

    ``ending``: connections that are accepted now get a late refusal.
    """

    def __init__(self) -> None:
        self.ending = False
        self._second = -1
        self._headers: list[tuple[bytes, bytes]] = []
        super().__init__()

    @property
    def default_headers(self) -> list[tuple[bytes, bytes]]:
        """The headers of every answer; a new list when the second changes."""
        second = int(time.time())
        if second != self._second:
            self._second = second
            self._headers = [(b"date", formatdate(second, usegmt=True).encode())]
        return self._headers

    @default_headers.setter
    def default_headers(self, headers: list[tuple[bytes, bytes]]) -> None:
        # uvicorn begins with an empty list.
        self._headers = headers


def _serve(server: _Server, listener: socket.socket) -> None:
    try:
        with listener:
            server.run(sockets=[listener])
    finally:
        server.serving.set()


def _listen(host: str, port: int, connections: OpenConnections) -> Listener:
    try:
        return listening(host, port, connections)
    except OSError as error:
        raise ConfigError(
            f"{host}:{port} cannot be served: {error.strerror or error}; choose another address or port"
        ) from error


def _allow_descriptors(wanted: int = _DESCRIPTORS) -> None:
    """Raise the soft limit for this process: a container may begin with 1,024, which two ports can use up."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
