"""How a long-lived process keeps the garbage collector from pausing it."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


def rest() -> None:
    """Lets the garbage collector pass over what is there for good, modules above all.

    Looking at them again takes tens of milliseconds, in which nobody is answered.
    """
    gc.collect()
    gc.freeze()


@contextmanager
def undisturbed() -> Iterator[None]:
    """While much is taken in that stays, nothing of it is looked at; afterwards it is there for good.

    The collector would go through all of it again and again, and take half of the time.
    """
    gc.disable()
    try:
        yield
    finally:
        rest()
        gc.enable()
