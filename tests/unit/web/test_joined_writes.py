"""What is written in one turn of the event loop leaves in one piece."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from hami_plugins.web.joined_writes import JoinedWrites
from tests.threads import apart


class Recorded:
    """A transport that notes what reaches it."""

    def __init__(self) -> None:
        self.got: list[bytes | str] = []
        self.closed = False

    def write(self, data: bytes) -> None:
        self.got.append(data)

    def close(self) -> None:
        self.got.append("closed")
        self.closed = True

    def abort(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def get_write_buffer_size(self) -> int:
        return 5

    def get_extra_info(self, name: str) -> str:
        return f"the {name}"


def written(act: Callable[[Any], None], *, turns: int = 1) -> list[bytes | str]:
    """What reached the transport of ``act`` after so many turns."""
    transport = Recorded()

    async def run() -> list[bytes | str]:
        act(JoinedWrites(cast("asyncio.Transport", transport)))
        for _ in range(turns):
            await asyncio.sleep(0)
        return list(transport.got)

    return apart(lambda: asyncio.run(run()))


def head_and_body(transport: JoinedWrites) -> None:
    transport.write(b"head ")
    transport.write(b"body")


def test_head_and_body_leave_together_in_the_next_turn() -> None:
    assert written(head_and_body, turns=0) == []
    assert written(head_and_body) == [b"head body"]


def test_later_turns_are_pieces_of_their_own() -> None:
    def act(transport: JoinedWrites) -> None:
        transport.write(b"a")
        asyncio.get_running_loop().call_soon(transport.write, b"b")

    assert written(act, turns=3) == [b"a", b"b"]


def test_what_is_held_back_leaves_before_the_end() -> None:
    def act(transport: JoinedWrites) -> None:
        head_and_body(transport)
        transport.close()

    assert written(act) == [b"head body", "closed"]


def test_after_a_break_nothing_leaves() -> None:
    def act(transport: JoinedWrites) -> None:
        head_and_body(transport)
        transport.abort()

    assert written(act) == []


def test_what_is_held_back_counts_and_the_rest_is_the_transports_own() -> None:
    sizes: list[object] = []

    def act(transport: JoinedWrites) -> None:
        transport.write(b"abc")
        sizes.extend([transport.get_write_buffer_size(), transport.get_extra_info("socket")])

    written(act)
    assert sizes == [8, "the socket"]
