"""The event loop of a server: asyncio's own, which forgets handshakes that failed."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, Final

HANDSHAKE: Final = 10.0
"""Seconds for a client to finish a TLS handshake. asyncio's own limit is 60."""


class Loop(asyncio.SelectorEventLoop):
    """Frees the 300 KiB of a failed handshake when it fails.

    In asyncio they are in a reference cycle (transport, future, exception, traceback), which the garbage collector
    finds after thousands of handshakes, because it counts objects and not bytes.
    """

    def _make_ssl_transport(
        self, rawsock: Any, protocol: Any, sslcontext: Any, waiter: asyncio.Future[None] | None = None, **named: Any
    ) -> Any:
        if waiter is not None:
            waiter.add_done_callback(partial(self._forget_failure, protocol))
        named["ssl_handshake_timeout"] = HANDSHAKE
        made: Any = super()._make_ssl_transport(  # type: ignore[misc] # the place where asyncio makes it
            rawsock, protocol, sslcontext, waiter, **named
        )
        return made

    def _forget_failure(self, protocol: Any, waiter: asyncio.Future[None]) -> None:
        error = None if waiter.cancelled() else waiter.exception()
        if error is not None:
            self.call_soon(error.with_traceback, None)  # after the task that waits has raised it
            protocol.never_connected()
