"""The end of accepting connections, so that none of them is lost on its way to a protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable


async def accept_no_more(servers: Iterable[asyncio.Server]) -> None:
    """Stops listening, and lets those begin that have just been accepted; to be called before the servers are closed.

    asyncio creates the transport of a connection one turn of the loop after accepting it, and notifies its protocol one
    turn later. A transport that finds its server closed fails, and is never closed.
    """
    loop = asyncio.get_running_loop()
    for server in servers:
        for listener in server.sockets:
            loop.remove_reader(listener)
    for _ in range(2):
        await asyncio.sleep(0)
