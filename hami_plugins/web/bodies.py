"""Bodies that arrive: how much of one is kept, and how many there may be at a time.

Whatever a client sends, the server keeps so many bytes and works on so many bodies, fairly between the addresses of its
clients: one that sends a hundred large bodies waits for itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, NamedTuple, Protocol
from weakref import WeakValueDictionary

from starlette.types import Receive

from hami_plugins.errors import HamiPluginsError
from hami_plugins.web.fairness import ByClient

ALL_BODIES: Final = 32 * 1024 * 1024
"""Bytes of bodies that a server keeps while they arrive."""

SMALL: Final = 16 * 1024
"""Bytes of a body that never waits for a turn to be read."""

TURNS: Final = 8
"""Larger bodies of one client that are read or answered at a time; further ones wait, unread."""

WAITING: Final = 4
"""Calls of one client that wait for the thread of calls that take long, or are in it."""

SHARE: Final = 0.005
"""Seconds for which calls are worked on before every other connection has its turn, and those of one client before all
other clients have theirs."""

DISCARDED: Final = 8
"""So many times the limit are read and thrown away, so that a client that only sends hears why; then it is cut."""

SECONDS: Final = 30.0
"""The longest that an API server waits for a webhook."""


class TooLargeError(HamiPluginsError):
    """A body beyond the limit."""

    http_status = 413


class TooManyError(HamiPluginsError):
    """More bodies or calls than there is room for."""

    retryable = True
    http_status = 503


class SlowBodyError(HamiPluginsError):
    """A body that does not arrive."""

    http_status = 408


class Collector(Protocol):
    """What is kept of a body that arrives in parts."""

    @property
    def size(self) -> int:
        """Bytes that are kept."""

    def add(self, part: bytes) -> None:
        """The next part."""

    def text(self) -> bytes:
        """The body, or what stands for it."""


class Whole:
    """Keeps all."""

    __slots__ = ("_parts", "size")

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self.size = 0

    def add(self, part: bytes) -> None:
        """See ``Collector``."""
        self._parts.append(part)
        self.size += len(part)

    def text(self) -> bytes:
        """See ``Collector``."""
        return b"".join(self._parts)


class Nothing:
    """Keeps nothing of a body whose answer does not depend on it."""

    size = 0

    def add(self, part: bytes) -> None:
        """See ``Collector``."""

    def text(self) -> bytes:
        """See ``Collector``."""
        return b""


class BodyBudget:
    """For the bodies of one server: ``most`` bytes, of which ``taken`` are used. In the thread of the event loop."""

    def __init__(self, most: int = ALL_BODIES) -> None:
        self.most = most
        self.taken = 0
        self._arriving: ByClient[Arriving] = ByClient()
        self._turns: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._long = asyncio.Lock()
        self._waiting: dict[str, int] = {}
        self._spent: dict[str, float] = {}
        self._turn = 0.0

    def turn(self, client: str) -> asyncio.Semaphore:
        """Held by a body that is not small, until it is answered."""
        found = self._turns.get(client)
        if found is None:
            found = self._turns[client] = asyncio.Semaphore(TURNS)
        return found

    async def share(self, client: str) -> None:
        """Waits while other connections have not had their turn since calls, or those of this client, used a share."""
        while self._turn > SHARE or self._spent.get(client, 0.0) > SHARE:
            await asyncio.sleep(0)

    def spent(self, client: str, seconds: float) -> None:
        """The event loop worked for a client for so long."""
        if not self._spent:
            asyncio.get_running_loop().call_soon(self._end_turn)
        self._spent[client] = self._spent.get(client, 0.0) + seconds
        self._turn += seconds

    def _end_turn(self) -> None:
        if not self._turn:  # every client that waits has used its share
            self._spent.clear()
            return
        self._turn = 0.0
        asyncio.get_running_loop().call_soon(self._end_turn)

    @asynccontextmanager
    async def alone(self, client: str) -> AsyncIterator[None]:
        """For a call that takes long: one at a time. Raises ``TooManyError`` for a client of which enough wait."""
        waiting = self._waiting.get(client, 0)
        if waiting >= WAITING:
            raise TooManyError(f"{waiting} large calls from {client} are waiting: limit is {WAITING}; try again")
        self._waiting[client] = waiting + 1
        try:
            async with self._long:
                yield
        finally:
            self._waiting[client] -= 1
            if not self._waiting[client]:
                del self._waiting[client]

    def grow(self, body: Arriving, size: int) -> None:
        """A body takes so many bytes now. Raises ``TooManyError`` where its client is the one that takes too many."""
        self._arriving.add(body, body.client)
        self.taken += size - body.size
        body.size = size
        while self.taken > self.most:
            victim = self._arriving.victim()
            if victim is None or victim.client == body.client:
                self.leave(body)
                raise body.refusal()
            self.leave(victim)
            victim.give_up()

    def leave(self, body: Arriving) -> None:
        """A body takes nothing any more."""
        self._arriving.discard(body)
        self.taken -= body.size
        body.size = 0


class Arriving:
    """One body of a ``client``; ``timeout`` ends the reading of it."""

    __slots__ = ("_gave_up", "_has_turn", "_room", "_timeout", "_turn", "client", "size")

    def __init__(self, room: BodyBudget, client: str, timeout: asyncio.Timeout) -> None:
        self.client = client
        self.size = 0
        self._room = room
        self._timeout = timeout
        self._turn = room.turn(client)
        self._gave_up = self._has_turn = False

    async def take_turn(self) -> None:
        """Wait for its turn to be read and answered, unless it has it."""
        if not self._has_turn:
            await self._turn.acquire()
            self._has_turn = True

    def end_turn(self) -> None:
        """Leave the turn to the next, if it has it."""
        if self._has_turn:
            self._has_turn = False
            self._turn.release()

    def grow(self, size: int) -> None:
        """So many bytes of it are kept now. Raises ``TooManyError``."""
        self._room.grow(self, size)

    def leave(self) -> None:
        """It takes nothing any more."""
        self._room.leave(self)

    def give_up(self) -> None:
        """End the reading: another client needs the room."""
        self._gave_up = True
        if not self._timeout.expired():
            self._timeout.reschedule(asyncio.get_running_loop().time())

    def refusal(self) -> TooManyError:
        """Why there is no capacity for it."""
        room = self._room
        return TooManyError(f"{room.taken} bytes of other calls are arriving: limit is {room.most} bytes; try again")

    def late(self) -> HamiPluginsError:
        """Why the reading ended."""
        return self.refusal() if self._gave_up else SlowBodyError(f"the body did not arrive within {SECONDS:.0f} s")


class BodyLimits(NamedTuple):
    """At most ``limit`` bytes are kept of a body of at most ``longest``; ``collecting`` makes what keeps them."""

    limit: int
    longest: int
    collecting: Callable[[], Collector] = Whole


async def received(receive: Receive, message: object, arriving: Arriving, limits: BodyLimits) -> bytes | None:
    """What is kept of a body that begins with ``message``; ``None`` where the client left before it was through.

    Raises ``TooLargeError`` for a body beyond its limits.
    """
    limit, longest, collecting = limits
    collector = collecting()
    size, too_large = 0, False
    try:
        while isinstance(message, dict) and message["type"] == "http.request":
            part: bytes = message.get("body", b"")
            size += len(part)
            if not too_large:
                collector.add(part)
                too_large = size > longest or collector.size > limit
                if too_large:
                    collector = Nothing()
                arriving.grow(collector.size)
            if size > max(DISCARDED * limit, longest) or not message.get("more_body"):
                if too_large:
                    raise TooLargeError(f"the body is too large: limit is {min(limit, longest)} bytes")
                return collector.text()
            if size > SMALL:
                await arriving.take_turn()
            message = await receive()
    finally:
        arriving.leave()
    return None
