"""What comes again and again: what was made of texts, and what stands in the log already; no more than fits."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

Made = TypeVar("Made")


class LogOnce:
    """What was said lately, ``most`` of it: the log says once what is asked on and on. From any thread."""

    def __init__(self, most: int = 1_000) -> None:
        self._most = most
        self._said: OrderedDict[tuple[str, ...], None] = OrderedDict()
        self._lock = threading.Lock()

    def first(self, *said: str) -> bool:
        """Whether this was not said lately; from now on it was."""
        with self._lock:
            known = said in self._said
            self._said[said] = None
            self._said.move_to_end(said)
            if len(self._said) > self._most:
                self._said.popitem(last=False)
        return not known


class LruCache(Generic[Made]):
    """``make``, for texts of which the last ones are remembered, ``most`` bytes of them. From any thread.

    A text of more than ``largest`` bytes is read each time, so that it drives no others out.
    """

    def __init__(self, make: Callable[[bytes], Made], *, most: int, largest: int) -> None:
        self._make = make
        self._most = most
        self._largest = largest
        self._made: OrderedDict[bytes, Made] = OrderedDict()
        self._lock = threading.Lock()
        self.size = 0

    def __call__(self, text: bytes) -> Made:
        """What ``make`` makes of it; whatever that raises is raised, and not remembered."""
        if len(text) > self._largest:
            return self._make(text)
        with self._lock:
            if text in self._made:
                self._made.move_to_end(text)
                return self._made[text]
        made = self._make(text)
        with self._lock:
            if text not in self._made:
                self.size += len(text)
            self._made[text] = made
            while self.size > self._most:
                oldest, _ = self._made.popitem(last=False)
                self.size -= len(oldest)
        return made
