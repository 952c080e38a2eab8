"""Memory that much work used goes back to the system."""

from __future__ import annotations

import asyncio
import ctypes
from contextlib import suppress
from typing import Final

_LATER: Final = 10.0
"""Seconds after which memory is given back that many connections used."""


def give_back() -> None:
    """Return free memory to the system. glibc keeps it otherwise; other libraries have no such function and need none.

    Takes milliseconds, and no lock of Python's.
    """
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


class GivingBack:
    """Gives memory back a while after it is asked to, in a thread of its own. In the thread of an event loop."""

    def __init__(self, later: float = _LATER) -> None:
        self._later = later
        self._waits = False

    def soon(self) -> None:
        """Give back what is free in a while; asked again before that, it is done once."""
        if not self._waits:
            self._waits = True
            asyncio.get_running_loop().call_later(self._later, self._now)

    def _now(self) -> None:
        self._waits = False
        asyncio.get_running_loop().run_in_executor(None, give_back)
