"""Names that are to be looked at, each once at a time, now or later: client-go's work queue, for threads."""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Callable


class WorkQueue:
    """A name that is put in twice before it is taken is taken once; one that is being worked on comes again after.

    Of several times for one name the earliest counts. ``clock`` counts seconds.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._due: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []
        self._busy: set[str] = set()
        self._ended = False
        self._changed = threading.Condition()

    def __len__(self) -> int:
        with self._changed:
            return len(self._due)

    def put(self, name: str, *, after: float = 0.0) -> None:
        """Have a name looked at in so many seconds, or earlier if that was asked for."""
        at = self._clock() + after
        with self._changed:
            if self._due.get(name, at + 1) <= at:
                return
            self._due[name] = at
            heapq.heappush(self._heap, (at, name))
            self._changed.notify()

    def take(self) -> str | None:
        """The next name that is due and not in work; waits for one. ``None`` once the queue has ended."""
        with self._changed:
            while not self._ended:
                name, wait = self._next()
                if name is not None:
                    self._busy.add(name)
                    del self._due[name]
                    return name
                self._changed.wait(wait)
        return None

    def done(self, name: str) -> None:
        """The worker that took a name is ready with it."""
        with self._changed:
            self._busy.discard(name)
            if name in self._due:
                heapq.heappush(self._heap, (self._due[name], name))
                self._changed.notify()

    def end(self) -> None:
        """Nothing is taken any more."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _next(self) -> tuple[str | None, float | None]:
        """A name to be worked on, or how long there is none (``None``: until one is put in or given back)."""
        now = self._clock()
        while self._heap:
            at, name = self._heap[0]
            if self._due.get(name) != at or name in self._busy:
                heapq.heappop(self._heap)  # put earlier since, or it comes back when it is given back
                continue
            if at > now:
                return None, at - now
            heapq.heappop(self._heap)
            return name, None
        return None, None
