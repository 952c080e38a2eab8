"""Counts of requests: who asked for what, and with which outcome."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Final, NamedTuple

WRITES: Final = frozenset({"create", "update", "patch", "delete", "deletecollection"})
"""Verbs that write."""

_MOST: Final = 4096


class RequestKey(NamedTuple):
    """What is counted apart. ``agent`` is the first word of the user agent, ``code`` 0 where no answer was sent."""

    verb: str
    resource: str
    subresource: str
    code: int
    agent: str
    user: str


class RequestTally:
    """Counts since the start or the last ``clear``; bounded, since callers past the limit count as ``other``."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[RequestKey] = Counter()

    def add(self, asked: RequestKey) -> None:
        """Count one."""
        with self._lock:
            if asked not in self._counts and len(self._counts) >= _MOST:
                asked = asked._replace(agent="other", user="")
            self._counts[asked] += 1

    def counts(self) -> dict[RequestKey, int]:
        """All counts."""
        with self._lock:
            return dict(self._counts)

    def total(self, **wanted: str | int) -> int:
        """How many requests had these fields: ``total(verb="patch", resource="nodes", code=200)``."""
        return sum(
            count
            for asked, count in self.counts().items()
            if all(getattr(asked, name) == value for name, value in wanted.items())
        )

    def writes(self, **wanted: str | int) -> int:
        """How many of them were writes, refused ones included."""
        return sum(self.total(verb=verb, **wanted) for verb in sorted(WRITES))

    def clear(self) -> None:
        """Begin anew."""
        with self._lock:
            self._counts.clear()
