"""Memory that a large call used goes back to the system."""

from __future__ import annotations

import ctypes
from contextlib import suppress


def give_back() -> None:
    """Return free memory to the system. glibc keeps it otherwise; other libraries have no such function and need none.

    Takes milliseconds, and no lock of Python's.
    """
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
