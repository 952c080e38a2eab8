"""A container's region as it was read, and what is known of its processes. Values alone; ``files`` reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from hami_plugins.wire import shared_region
from hami_plugins.wire.shared_region import Header, NotReady, RegionProcess, Tail, UnreadableRegion
from hami_plugins.wire.usage import ReadStatus


class Presence(Enum):
    """Whether a process that has a slot is still there; ``UNKNOWN`` where the host's processes are not to be seen."""

    RUNNING = "running"
    GONE = "gone"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """A region. ``unsettled`` are the places of processes that were booking while they were read, each time."""

    header: Header
    tail: Tail
    processes: tuple[RegionProcess, ...]
    unsettled: frozenset[int] = frozenset()

    @property
    def silent(self) -> bool:
        """Whether a process seems to compute nothing. That may be the moment in which a watcher asks the driver."""
        return any(
            device.utilization == 0 for process in self.processes if process.counts for device in process.devices
        )

    def with_busiest(self, again: Region) -> Region:
        """The same with the higher utilisation of two reads."""
        return replace(self, processes=shared_region.busiest(self.processes, again.processes))


Content = Region | NotReady | UnreadableRegion | None
"""What a container's directory holds; ``None`` for no file: the container has not used a card yet."""


@dataclass(frozen=True, slots=True)
class ContainerRegion:
    """A directory (``<pod UID>_<container>``), what it holds, and who of the region's processes is there."""

    directory: str
    content: Content
    presence: Sequence[Presence] = ()


def reading_of(content: Content) -> ReadStatus:
    """The read status of a content."""
    match content:
        case Region():
            return ReadStatus.READ
        case NotReady():
            return ReadStatus.NOT_READY
        case UnreadableRegion():
            return ReadStatus.UNREADABLE
    return ReadStatus.NO_FILE
