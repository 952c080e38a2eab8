"""Things that go wrong on purpose: lost connections, late answers, refusals, cut and outdated watches."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple


class ObservedRequest(NamedTuple):
    """What faults are chosen by."""

    verb: str
    resource: str
    subresource: str
    namespace: str
    name: str
    agent: str
    user: str


@dataclass(frozen=True, slots=True)
class DropConnection:
    """The connection breaks before the request is looked at; if ``handled``, after it: only the answer is lost."""

    handled: bool = False


@dataclass(frozen=True, slots=True)
class Delay:
    """The server takes so many seconds before it looks at the request, and does not when the client has left."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Refuse:
    """The server answers with an error: 403, 429 (with ``retry_after`` in seconds), 500, 503 ..."""

    code: int
    retry_after: int | None = None
    message: str = "injected by the test"


@dataclass(frozen=True, slots=True)
class CloseWatch:
    """The watch ends after so many events; ``abrupt`` breaks its connection instead of ending the answer."""

    events: int = 0
    abrupt: bool = False


@dataclass(frozen=True, slots=True)
class Gone:
    """The watch gets the error that its version is too old."""


Action = DropConnection | Delay | Refuse | CloseWatch | Gone


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """An action and the requests it strikes; a field that is ``None`` does not matter.

    ``verb`` and ``resource`` are the words of request counts (``watch``, ``pods``), ``agent`` is a part of the user
    agent. ``times`` is how often it strikes, ``None`` for ever; ``where`` decides further.
    """

    action: Action
    verb: str | None = None
    resource: str | None = None
    subresource: str | None = None
    namespace: str | None = None
    name: str | None = None
    agent: str | None = None
    user: str | None = None
    times: int | None = 1
    where: Callable[[ObservedRequest], bool] | None = None

    def strikes(self, seen: ObservedRequest) -> bool:
        """Whether a request is one of those meant."""
        for name in ("verb", "resource", "subresource", "namespace", "name", "user"):
            wanted = getattr(self, name)
            if wanted is not None and wanted != getattr(seen, name):
                return False
        if self.agent is not None and self.agent not in seen.agent:
            return False
        return self.where is None or self.where(seen)


class Faults:
    """The faults in force, the first that strikes wins. May be changed from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._left: dict[int, tuple[Fault, int | None]] = {}
        self._struck: dict[int, int] = {}
        self._next = 0

    def add(self, fault: Fault) -> int:
        """Put a fault in force; the number is for ``remove`` and ``struck``."""
        with self._lock:
            self._next += 1
            self._left[self._next] = (fault, fault.times)
            self._struck[self._next] = 0
            return self._next

    def remove(self, number: int) -> None:
        """Take a fault back; nothing happens when it is used up."""
        with self._lock:
            self._left.pop(number, None)

    def clear(self) -> None:
        """Take all back."""
        with self._lock:
            self._left.clear()

    def struck(self, number: int) -> int:
        """How often a fault has struck."""
        with self._lock:
            return self._struck.get(number, 0)

    def strike(self, seen: ObservedRequest) -> Action | None:
        """What happens to this request, if anything; counts."""
        if not self._left:
            return None
        with self._lock:
            for number, (fault, left) in self._left.items():
                if fault.strikes(seen):
                    self._struck[number] += 1
                    if left is not None and left <= 1:
                        del self._left[number]
                    elif left is not None:
                        self._left[number] = (fault, left - 1)
                    return fault.action
        return None
