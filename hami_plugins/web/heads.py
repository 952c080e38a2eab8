"""What one connection can make a server keep, and for how long: heads, queued requests, bodies, unread answers.

uvicorn waits for requests without an end, keeps all that it is sent meanwhile, and starts no timer for a client that
sends a part of something. It has no setting for that.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from hami_plugins.web.connections import OpenConnections
from hami_plugins.web.joined_writes import Joining

LARGEST: Final = 16 * 1024
"""Bytes of a head. The API server's own are a few hundred."""

MOST_HEADERS: Final = 100
"""Headers of a request."""

MOST_QUEUED: Final = 4
"""Requests that wait for the answer to the one before them on their connection. No client of ours sends two."""

PATIENCE: Final = 30.0
"""Seconds that may pass from the beginning of a head until it is there, then for the body, and for unread answers."""

_HIGH_WATER: Final = 64 * 1024
"""Unread bytes of a connection before its next answer waits. asyncio's own limit is eight times that for TLS."""


class _HeadTooLargeError(Exception):
    """Ends the parser: nothing more of the connection is read."""


class Guarded(Joining):
    """Closes connections that pass a limit. Counts the bytes that became neither a whole head nor a part of a body."""

    def __init__(self, *given: Any, patience: float = PATIENCE, connections: OpenConnections, **named: Any) -> None:
        super().__init__(*given, **named)
        self._patience = patience
        self._connections = connections
        self._number = -1
        self._deadline: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None
        self._unread = self._head = 0
        self._advanced = self._in_message = self._in_body = False

    def never_connected(self) -> None:
        """The handshake failed: nothing else is called. The parser and this refer to each other."""
        self.parser = None  # type: ignore[assignment] # as uvicorn does at the end of a connection

    def connection_made(self, transport: Any) -> None:
        """See ``asyncio.Protocol``."""
        super().connection_made(transport)
        self._number = transport.get_extra_info("socket").fileno()
        self._connections.ends_by(self._number, transport.abort)
        transport.set_write_buffer_limits(_HIGH_WATER)
        self._idle()

    def connection_lost(self, exc: Exception | None) -> None:
        """See ``asyncio.Protocol``."""
        self._in_time()
        self._unset_keepalive_if_required()
        if self._stalled is not None:
            self._stalled.cancel()
        super().connection_lost(exc)
        if self.pipeline:  # these never begin, and each refers to this
            self.pipeline.clear()
            self.cycle = None  # type: ignore[assignment] # as before the first request

    def data_received(self, data: bytes) -> None:
        """See ``asyncio.Protocol``."""
        self._advanced = False
        super().data_received(data)
        if self._advanced:
            self._unread = 0
        else:
            self._unread += len(data)
        if self.transport.is_closing():
            return
        if self._unread > LARGEST:
            self._refuse_head()
        elif self._in_message:
            if self._deadline is None:
                self._deadline = self.loop.call_later(self._patience, self._too_late)
        elif self._answers():
            self._connections.works(self._number)
        else:
            self._idle()

    def send_400_response(self, msg: str) -> None:
        """See ``HttpToolsProtocol``. A connection that ends hears one reason at most."""
        if not self.transport.is_closing():
            super().send_400_response(msg)

    def pause_writing(self) -> None:
        """See ``asyncio.Protocol``: the client does not read."""
        super().pause_writing()
        self._connections.unread(self._number, self.transport.get_write_buffer_size())
        if self._stalled is None:
            self._stalled = self.loop.call_later(self._patience, self.transport.abort)

    def resume_writing(self) -> None:
        """See ``asyncio.Protocol``."""
        super().resume_writing()
        self._connections.unread(self._number, 0)
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def on_message_begin(self) -> None:
        """See ``httptools``."""
        self._in_message, self._in_body, self._head = True, False, 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """See ``httptools``."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """See ``httptools``. Trailers come here as well."""
        self._count(len(name) + len(value))
        super().on_header(name, value)
        if len(self.headers) > MOST_HEADERS:
            self._refuse_head()
            raise _HeadTooLargeError

    def on_headers_complete(self) -> None:
        """See ``httptools``."""
        if len(self.pipeline) >= MOST_QUEUED:
            self.transport.abort()
            raise _HeadTooLargeError
        self._in_body = self._advanced = True
        self._in_time()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """See ``httptools``."""
        self._advanced = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        """See ``httptools``."""
        self._advanced, self._in_message = True, False
        self._in_time()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """See ``HttpToolsProtocol``."""
        super().on_response_complete()
        if not self.pipeline:
            self._connections.waits(self._number)

    def _answers(self) -> bool:
        """Whether a request is being answered; before the first there is none, which uvicorn's type does not say."""
        cycle: Any = self.cycle
        return cycle is not None and not cycle.response_complete

    def _count(self, size: int) -> None:
        self._head += size
        if self._head > LARGEST:
            self._refuse_head()
            raise _HeadTooLargeError

    def _refuse_head(self) -> None:
        limits = f"limit is {LARGEST} bytes and {MOST_HEADERS} headers"
        self.send_400_response(f"the head of the request is too large: {limits}")

    def _idle(self) -> None:
        """uvicorn's own timer, which it starts after an answer and ends with any data."""
        if self.timeout_keep_alive_task is None:
            handler = self.timeout_keep_alive_handler
            self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, handler)

    def _too_late(self) -> None:
        """The head is not there, or a body that was answered already. A body that is read has its reader's limit."""
        self._deadline = None
        if self._in_body and not self.cycle.response_complete:
            self._deadline = self.loop.call_later(self._patience, self._too_late)
        else:
            self.transport.close()

    def _in_time(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
