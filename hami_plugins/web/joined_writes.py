"""Head and body of an answer in one piece.

uvicorn writes them one after the other, and each write is a system call, a packet, a TLS record and a wake-up of the
client: for a small answer a sixth of what the whole request costs.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

CLOSING: Final = 10.0
"""Seconds in which a client may read the rest of its last answer; without it a closed connection stays for ever."""


class JoinedWrites:
    """A transport that holds back what is written until the event loop's next turn; everything else is as it was."""

    __slots__ = ("_held", "_loop", "_transport")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._held: list[bytes] = []

    def __getattr__(self, name: str) -> Any:
        """Other requests go to the transport unchanged."""
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """See ``asyncio.WriteTransport``."""
        if not self._held:
            self._loop.call_soon(self._send)
        self._held.append(data)

    def close(self) -> None:
        """See ``asyncio.BaseTransport``. Bytes that the client has not read some seconds later are lost."""
        if self._transport.is_closing():
            return
        self._send()
        self._transport.close()
        if self._transport.get_write_buffer_size():
            self._loop.call_later(CLOSING, self._transport.abort)

    def get_write_buffer_size(self) -> int:
        """See ``asyncio.WriteTransport``."""
        return self._transport.get_write_buffer_size() + sum(map(len, self._held))

    def _send(self) -> None:
        held, self._held = self._held, []
        if held and not self._transport.is_closing():
            self._transport.write(b"".join(held))


class Joining(HttpToolsProtocol):
    """uvicorn's HTTP protocol over transports that join writes.

    httptools parses, which costs half of what uvicorn's own parser does.
    """

    def connection_made(self, transport: Any) -> None:
        """See ``asyncio.Protocol``."""
        super().connection_made(JoinedWrites(transport))  # type: ignore[arg-type]
        if getattr(self.server_state, "ending", False):  # a handshake that took longer than the server was there
            transport.abort()
