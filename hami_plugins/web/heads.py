"""Requests that never come: connections on which nobody asks, heads that do not end.

uvicorn waits for them without an end, and keeps all that it is sent meanwhile.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from hami_plugins.web.joining import Joining

LARGEST: Final = 64 * 1024
"""Bytes of a head. The API server's own are a few hundred."""

PATIENCE: Final = 30.0
"""Seconds that may pass from the beginning of a head until it is there."""


class Guarded(Joining):
    """Closes such connections. Counts the bytes that have become neither a whole head nor a part of a body."""

    def __init__(self, *given: Any, patience: float = PATIENCE, **named: Any) -> None:
        super().__init__(*given, **named)
        self._patience = patience
        self._waits: asyncio.TimerHandle | None = None
        self._unread = 0
        self._advanced = self._in_head = False

    def connection_made(self, transport: Any) -> None:
        """See ``asyncio.Protocol``."""
        super().connection_made(transport)
        # uvicorn's own timer, which it starts after an answer and ends with the next data.
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def connection_lost(self, exc: Exception | None) -> None:
        """See ``asyncio.Protocol``."""
        self._came()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """See ``asyncio.Protocol``."""
        self._advanced = False
        super().data_received(data)
        if self._advanced:
            self._came()
        else:
            self._unread += len(data)
        if self._unread > LARGEST and not self.transport.is_closing():
            self.send_400_response(f"the head of the request is too large: limit is {LARGEST} bytes")
        elif self._in_head and self._waits is None:
            self._wait()

    def on_message_begin(self) -> None:
        """See ``httptools``."""
        self._in_head = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """See ``httptools``."""
        self._in_head, self._advanced = False, True
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """See ``httptools``."""
        self._advanced = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        """See ``httptools``."""
        self._advanced = True
        super().on_message_complete()

    def _wait(self) -> None:
        self._waits = self.loop.call_later(self._patience, self.timeout_keep_alive_handler)

    def _came(self) -> None:
        self._unread = 0
        if self._waits is not None:
            self._waits.cancel()
            self._waits = None
