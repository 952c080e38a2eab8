"""How a long-lived process uses memory: one heap, and a garbage collector that does not pause it."""

from __future__ import annotations

import ctypes
import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

LONGEST: Final = 60.0
"""Seconds. Where a cluster does not come, requests that are turned away leave garbage all the same."""


_MOST_HEAPS: Final = -8
"""``M_ARENA_MAX`` of glibc's ``malloc.h``."""


def one_heap() -> None:
    """Have all threads allocate from one heap. Called before threads are started.

    glibc gives each thread a heap of its own, up to eight for each CPU; what a burst leaves in each of them cannot be
    returned to the system. Other C libraries have no such function, and need none.
    """
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(_MOST_HEAPS, 1)


def rest() -> None:
    """Lets the garbage collector pass over what is there for good, modules above all.

    Scanning them again takes tens of milliseconds, during which no request is answered. Objects that were permanent
    before and are garbage by now are freed: the cache of a lost lease.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()


@contextmanager
def undisturbed(longest: float = LONGEST, *, collect: bool = True) -> Iterator[None]:
    """While much is taken in that stays, nothing of it is looked at; afterwards it is there for good.

    The collector would go through all of it again and again, and take half of the time. It is kept away for ``longest``
    seconds at the most. Without ``collect`` no garbage is looked for afterwards: a process that ends soon needs none.
    """
    gc.disable()
    end = threading.Timer(longest, gc.enable)
    end.daemon = True
    end.start()
    try:
        yield
    finally:
        end.cancel()
        if collect:
            rest()
        else:
            gc.freeze()
        gc.enable()
