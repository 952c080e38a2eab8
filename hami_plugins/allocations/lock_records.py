"""What is remembered of one node's locks: each lock, each pod that waits for some, each pod that has some."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Self

from hami_plugins.allocations.lock_demand import ALLOCATING, LockDemand, LockPod, ReleaseReason
from hami_plugins.errors import WireError
from hami_plugins.wire import node_lock
from hami_plugins.wire.node_lock import NodeLock

GRACE: Final = 1.0
"""Seconds that a plugin has to remove its lock after it wrote the bind phase: it does both in a row."""


@dataclass(slots=True)
class SeenLock:
    """A lock as the node has it. ``since`` is when its age began, by our clock; ``why`` is why it cannot be read.

    ``inherited`` says that it was there when the node was seen first: a former leader may have taken it. ``changes``
    counts those of the pod that it names, ``inspected`` says that this pod was read after the last one, and
    ``dangling`` that it can have no use for the lock.
    """

    text: str
    since: float
    lock: NodeLock | None = None
    why: str = ""
    inherited: bool = False
    changes: int = 0
    inspected: bool = False
    dangling: bool = False

    @classmethod
    def of(cls, key: str, text: str, now: float, wall: datetime | None) -> Self:
        """A lock that is new to us; ``wall`` is the time where its node is new as well, so that the lock may be old."""
        try:
            lock = node_lock.parse(key, text)
        except WireError as error:
            return cls(text, now, why=str(error))
        age = 0.0 if wall is None else max(0.0, (wall - lock.since).total_seconds())
        return cls(text, now - age, lock, inherited=wall is not None)

    @property
    def owner(self) -> tuple[str, str] | None:
        """Namespace and name of the pod that it names."""
        return (self.lock.namespace, self.lock.name) if self.lock is not None and self.lock.name else None


@dataclass(slots=True)
class Waiter:
    """A pod that asked for its locks. ``callers`` wait for it now; ``texts`` are what they try to write.

    ``why`` is why it gets none any more, ``reason`` the same for what is on its way to the node.
    """

    pod: LockPod
    demand: LockDemand
    callers: int = 0
    left_at: float = 0.0
    texts: dict[str, str] = field(default_factory=dict)
    why: str = ""
    reason: ReleaseReason | None = None

    @property
    def asks(self) -> bool:
        """Whether a call waits that may get the locks."""
        return self.callers > 0 and not self.why


@dataclass(slots=True)
class Holder:
    """A pod that has its locks. ``texts`` are those that are still on the node, or that may get there late.

    ``counted`` is when the time of the plugin began, ``adopted`` whether an earlier leader wrote the locks, ``written``
    whether they have been seen on the node.
    """

    pod: LockPod
    demand: LockDemand
    texts: dict[str, str]
    taken: float
    counted: float
    adopted: bool = False
    written: bool = True
    bound: bool = False
    phase: str = ""
    unserved: frozenset[str] = frozenset()
    ended: ReleaseReason | None = None
    ended_at: float = 0.0
    releasing: bool = False

    @property
    def due(self) -> float:
        """When its locks are to be removed."""
        return self.ended_at + (GRACE if self.ended is ReleaseReason.ANSWERED else 0.0)

    @property
    def unsettled(self) -> bool:
        """Whether the pod still says that a plugin is on its way to it, although none can be, or none came in time.

        Plugins that do not read the lock would take the pod for the next one (``upstream.md hami-vendors 4.3``).
        """
        return self.phase == ALLOCATING and self.ended in (ReleaseReason.FINISHED, ReleaseReason.EXPIRED)

    def blocks(self, key: str) -> bool:
        """Whether the lock is unavailable to other pods.

        The first of several plugins removes the lock for all: then the turn is kept until the others are ready.
        """
        return self.written and (key in self.texts or (bool(self.unserved) and key in self.demand.keys))


def older(version: str, than: str) -> bool:
    """Whether one version of an object comes before another, as far as both are numbers."""
    return version.isdecimal() and than.isdecimal() and int(version) < int(than)
