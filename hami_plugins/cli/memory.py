"""How a long-lived process keeps the garbage collector from pausing it."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

LONGEST: Final = 60.0
"""Seconds. Where a cluster does not come, requests that are turned away leave garbage all the same."""


def rest() -> None:
    """Lets the garbage collector pass over what is there for good, modules above all.

    Looking at them again takes tens of milliseconds, in which nobody is answered. What was there for good before, and
    is garbage by now, goes: the ledger of a lease that was lost.
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
