"""The connections of one port: how many there are, and which is closed first when there are too many.

uvicorn's ``limit_concurrency`` answers 503 to every client beyond a number, probes included, so that a stranger with
idle connections would have the kubelet restart the process. Here the oldest connection that waits for its client is
closed instead, of the client that has the most.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from hami_plugins.web.fairness import ByClient

MOST: Final = 512
"""Connections of one port. An API server keeps 25 idle ones, a scheduler and a scraper a few."""

MOST_UNREAD: Final = 32 * 1024 * 1024
"""Bytes of answers that clients of one port do not read."""

A_TURN: Final = 64
"""Connections that are accepted in one turn of the event loop; the ones that they replace end in the next turn."""

_WAITING: Final = 2048
"""Connections that the kernel keeps until they are accepted."""

_MANY: Final = 128
"""Connections after whose end memory is given back."""

_FLOOD: Final = 64
"""Connections that come without a pause. From then on a client that has its share is refused before anything else."""

_LEAST: Final = 2
"""Connections that ask nothing yet and that each client may have in a flood: a kubelet probes twice at a time."""


class OpenConnections:
    """Used in the thread of the event loop alone. Connections are known by their file descriptors.

    ``on_many_closed`` is called each time that many of them have come to their end.
    """

    def __init__(
        self, most: int = MOST, unread: int = MOST_UNREAD, *, on_many_closed: Callable[[], object] = lambda: None
    ) -> None:
        self._most = most
        self._on_many_closed = on_many_closed
        self._closed = 0
        self._most_unread = unread
        self._ends: dict[int, Callable[[], object]] = {}
        self._clients: dict[int, str] = {}
        self._waiting: ByClient[int] = ByClient()
        self._asked_nothing: ByClient[int] = ByClient()
        self._unread: dict[int, int] = {}
        self._unread_by: ByClient[int] = ByClient()

    def __len__(self) -> int:
        return len(self._ends)

    def opened(self, number: int, client: str, end: Callable[[], object]) -> None:
        """A connection was accepted; ``end`` closes it."""
        self.closed(number)
        self._ends[number], self._clients[number] = end, client
        self._waiting.add(number, client)
        self._asked_nothing.add(number, client)
        if len(self._ends) > self._most and (victim := self._waiting.victim()) is not None:
            self._end(victim)

    def crowds(self, client: str) -> bool:
        """Whether the client has half of all connections, or its share of that half in ones that asked nothing yet."""
        half, new = self._most // 2, self._asked_nothing
        share = max(_LEAST, half // max(1, new.clients))
        return new.count(client) >= share or self._waiting.count(client) >= half

    def ends_by(self, number: int, end: Callable[[], object]) -> None:
        """From now on ``end`` closes the connection."""
        if number in self._ends:
            self._ends[number] = end

    def works(self, number: int) -> None:
        """The server works on a request of the connection, which is not closed for others meanwhile."""
        self._waiting.discard(number)
        self._asked_nothing.discard(number)

    def waits(self, number: int) -> None:
        """The next step is the client's."""
        if number in self._ends:
            self._waiting.add(number, self._clients[number])

    def unread(self, number: int, size: int) -> None:
        """The client has not read so many bytes; 0 when it has."""
        self._unread.pop(number, None)
        self._unread_by.discard(number)
        if size and number in self._ends:
            self._unread[number] = size
            self._unread_by.add(number, self._clients[number])
        while sum(self._unread.values()) > self._most_unread:
            victim = self._unread_by.victim()
            if victim is None:
                return
            self._end(victim)

    def closed(self, number: int) -> None:
        """The connection is closed."""
        if self._ends.pop(number, None) is not None:
            self._closed += 1
            if self._closed % _MANY == 0:
                self._on_many_closed()
        self._clients.pop(number, None)
        self._waiting.discard(number)
        self._asked_nothing.discard(number)
        self._unread.pop(number, None)
        self._unread_by.discard(number)

    def _end(self, number: int) -> None:
        end = self._ends[number]
        self.closed(number)
        end()


class Listener(socket.socket):
    """A listening socket whose connections are known to ``connections`` from their first moment, before TLS begins."""

    connections: OpenConnections
    _at_a_stretch = 0

    def accept(self) -> tuple[socket.socket, Any]:
        """See ``socket.socket``. Who waits for a connection waits for all before it, so a flood is refused quickly."""
        for _ in range(_WAITING):
            try:
                accepted, address = super().accept()
            except BlockingIOError:
                self._at_a_stretch = 0
                raise
            self._at_a_stretch += 1
            client = str(address[0])
            if self._at_a_stretch <= _FLOOD or not self.connections.crowds(client):
                connection = _Accepted(accepted.family, accepted.type, accepted.proto, fileno=accepted.detach())
                connection.connections = self.connections
                self.connections.opened(connection.fileno(), client, connection.cut)
                return connection, address
            accepted.close()
        raise BlockingIOError

    def listen(self, backlog: int = 0, /) -> None:
        """See ``socket.socket``. asyncio accepts as many connections in one turn as it asks to be kept waiting."""
        del backlog
        super().listen(_WAITING)


class _Accepted(socket.socket):
    connections: OpenConnections

    def cut(self) -> None:
        """End the connection; the transport that has it learns that it ended, and closes."""
        with suppress(OSError):  # the client was faster
            self.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """See ``socket.socket``."""
        number = self.fileno()
        super().close()
        if number >= 0:
            self.connections.closed(number)


def listening(host: str, port: int, connections: OpenConnections) -> Listener:
    """A socket that listens there. Raises ``OSError``."""
    with socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET) as made:
        listener = Listener(made.family, made.type, made.proto, fileno=made.detach())
    listener.connections = connections
    # Handed down to its connections. asyncio does it only for sockets made with the protocol's number, and without it
    # each answer waits for the client's delayed acknowledgement, 40 ms.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener
