"""What people are to be told, waiting to be written: equal things added up, bounded, at a limited rate. No IO here."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal, NamedTuple

from hami_plugins.wire.fields import Json

EventType = Literal["Normal", "Warning"]


class ObjectRef(NamedTuple):
    """The object of an event; ``namespace`` is empty for cluster-wide objects.

    The kubelet gives a node's name as its UID, and ``kubectl describe node`` looks for that one as well.
    """

    kind: str
    name: str
    uid: str
    namespace: str = ""
    api_version: str = "v1"

    @classmethod
    def of(cls, item: Json) -> ObjectRef:
        """The reference to an object as the API server sent it."""
        metadata = item.get("metadata") or {}
        return cls(
            kind=str(item.get("kind") or ""),
            name=str(metadata.get("name") or ""),
            uid=str(metadata.get("uid") or ""),
            namespace=str(metadata.get("namespace") or ""),
            api_version=str(item.get("apiVersion") or "v1"),
        )


class EventKey(NamedTuple):
    """What makes two events the same."""

    regarding: ObjectRef
    reason: str
    message: str
    type: EventType


@dataclass(frozen=True, slots=True)
class PendingEvent:
    """What is still to be written of one saying; ``tries`` failed so far, the next is not due before ``due``."""

    count: int
    first: datetime
    last: datetime
    tries: int = 0
    due: float = 0.0

    def plus(self, other: PendingEvent) -> PendingEvent:
        """Both together."""
        return replace(
            self,
            count=self.count + other.count,
            first=min(self.first, other.first),
            last=max(self.last, other.last),
            tries=max(self.tries, other.tries),
            due=max(self.due, other.due),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class EventLimits:
    """How much is written and kept.

    ``burst`` writes at once, then one in ``seconds_per_write``. ``waiting`` sayings may wait for that; of
    ``remembered`` ones it is known that they are written, so that they are counted on.
    """

    burst: int = 25
    seconds_per_write: float = 2.0
    waiting: int = 256
    remembered: int = 1024


class EventQueue:
    """Sayings in the order in which they came, and the budget for writing them. Times are seconds of one clock."""

    def __init__(self, limits: EventLimits, *, at: float) -> None:
        self._limits = limits
        self._pending: OrderedDict[EventKey, PendingEvent] = OrderedDict()
        self._budget = float(limits.burst)
        self._at = at

    def __len__(self) -> int:
        return len(self._pending)

    def put(self, saying: EventKey, pending: PendingEvent) -> bool:
        """Adds to what waits of this saying already; ``False`` when a new one finds no room."""
        waiting = self._pending.get(saying)
        if waiting is None and len(self._pending) >= self._limits.waiting:
            return False
        self._pending[saying] = pending if waiting is None else waiting.plus(pending)
        return True

    def take(self, at: float) -> tuple[EventKey, PendingEvent] | None:
        """The oldest one that is due, paid from the budget; ``None`` when there is none, or no budget."""
        self._refill(at)
        if self._budget < 1:
            return None
        for saying, pending in self._pending.items():
            if pending.due <= at:
                self._budget -= 1
                del self._pending[saying]
                return saying, pending
        return None

    def wait(self, at: float) -> float | None:
        """Seconds until ``take`` may have something; ``None`` while nothing waits."""
        if not self._pending:
            return None
        self._refill(at)
        for_budget = (1 - self._budget) * self._limits.seconds_per_write
        for_due = min(pending.due for pending in self._pending.values()) - at
        return max(for_budget, for_due, 0.0)

    def _refill(self, at: float) -> None:
        earned = (at - self._at) / self._limits.seconds_per_write
        self._budget = min(float(self._limits.burst), self._budget + earned)
        self._at = at
