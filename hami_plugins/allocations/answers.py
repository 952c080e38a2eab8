"""What the cache says: allocations and where they come from, refusals with their numbers, what ended, what is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from hami_plugins.engine.shortfall import WhyNot
from hami_plugins.model.decisions import Refusal
from hami_plugins.model.devices import AllocatedShare
from hami_plugins.model.pods import ContainerAllocation, PodRecord
from hami_plugins.model.requests import DeviceDemand
from hami_plugins.model.units import DeviceId, NodeName, PodUid


class AllocationSource(StrEnum):
    """Where an allocation comes from."""

    RESERVED = "reserved"
    CARRIED = "carried"
    PLACED = "placed"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodAllocation:
    """The shares of each container, in the pod's order; ``NOTHING`` is for a pod that asks for no device."""

    uid: PodUid
    node: NodeName
    containers: tuple[ContainerAllocation, ...]
    source: AllocationSource

    def shares(self) -> Iterator[AllocatedShare]:
        """All shares of the pod."""
        return (share for container in self.containers for share in container.shares)


class DeclineCode(StrEnum):
    """Why the cache gives nothing."""

    GONE = "pod-gone"
    BOUND = "already-bound"
    REQUEST = "request"
    NODE = "node"
    CARDS = "cards"


@dataclass(frozen=True, slots=True, kw_only=True)
class Declined:
    """Nothing is given, and nothing is kept.

    ``text`` says why in words; ``refusal`` is the node's answer where that is the reason (``CARDS`` and ``NODE``), and
    ``why`` are the numbers behind it, where cards are short.
    """

    uid: PodUid
    node: NodeName
    code: DeclineCode
    text: str
    refusal: Refusal | None = None
    why: WhyNot | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumption:
    """What a pod is assumed to hold on a node until a watch shows the pod there.

    A reservation is made while a scheduler looks; once a Binding was ``answered`` with it, it may be in effect already,
    so that only the watch, the pod's deletion or the time ends it. ``made`` and ``until`` are times as they were given,
    ``job`` is what the scheduler calls those that it places together, empty where it says nothing of them. ``foreign``
    is one that another scheduler has written on the pod and not bound yet.
    """

    node: NodeName
    record: PodRecord
    devices: DeviceDemand
    made: float
    until: float
    answered: bool
    job: str
    foreign: bool = False

    @property
    def state(self) -> str:
        """What metrics call it."""
        return "foreign" if self.foreign else "answered" if self.answered else "reserved"


@dataclass(frozen=True, slots=True, kw_only=True)
class Nomination:
    """Room on a node that is kept for one waiting pod while ``victims`` leave (``status.nominatedNodeName``).

    ``record`` is what the pod will hold; until the victims have gone it overlaps with what they hold. ``made`` and
    ``until`` are times of the cache's clock; at ``until`` it ends whatever is left. Other pods of its PodGroup find
    ``shared`` room free: Volcano puts now one of them there and now another.
    """

    node: NodeName
    record: PodRecord
    devices: DeviceDemand
    victims: frozenset[PodUid]
    made: float
    until: float
    shared: bool = False


class AuditFindingKind(StrEnum):
    """What can be wrong with what bound pods hold."""

    UNALLOCATED = "no-cards"
    UNREADABLE = "unreadable"
    CHANGED = "changed-after-binding"
    LARGER = "larger-than-request"
    OTHER_NODE = "card-of-another-node"
    UNKNOWN_CARD = "unknown-card"
    SLOTS = "over-slots"
    MEMORY = "over-memory"
    CORES = "over-cores"
    PARTITION = "partition"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFinding:
    """Something wrong on a node: with a device that ``pods`` (``namespace/name``) hold, or with one pod."""

    finding: AuditFindingKind
    node: NodeName
    pods: tuple[str, ...]
    text: str
    device: DeviceId = DeviceId("")


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """Sizes, for metrics. ``holders`` are bound pods that hold or ask for devices.

    ``foreign`` are the pods that another scheduler has assigned and not bound yet, ``nominated`` those for which room
    is kept while victims leave.
    """

    nodes: int
    devices: int
    holders: int
    reservations: int
    answered: int
    foreign: int = 0
    nominated: int = 0
