"""Devices without their names: what one accelerator is, and what is promised of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from hami_plugins.model.units import CoreShare, DeviceId, MiB, VendorName


class SlicePlacement(NamedTuple):
    """A stretch of memory slices on a partitioned card: ``[start, start + size)``."""

    start: int
    size: int

    def overlaps(self, other: SlicePlacement) -> bool:
        """Whether two stretches share a slice (half-open intervals)."""
        return self.start < other.start + other.size and other.start < self.start + self.size


@dataclass(frozen=True, slots=True)
class Profile:
    """A fixed slice that a card can be cut into: a MIG profile or an Enflame DRS profile.

    Where a card is cut as a whole, ``group`` names the cut that this slice belongs to: two groups exclude each other.
    """

    name: str
    memory: MiB
    cores: CoreShare
    slices: int
    placements: tuple[SlicePlacement, ...] = ()
    profile_id: str = ""
    group: str = ""


class Instance(NamedTuple):
    """Mark of a share that holds a hardware partition: profile, place, and the geometry group where one is in force."""

    profile: str
    placement: SlicePlacement
    group: str = ""


class CoreMask(NamedTuple):
    """Mark of a share that holds particular cores of a device, bit 0 for core 0 (AWS Neuron)."""

    bits: int


class Tenant(NamedTuple):
    """Mark of a share whose neighbours matter: MetaX application class and scheduling quality."""

    app_class: str
    qos: str


class GroupMember(NamedTuple):
    """Mark of a share whose pod must not share a device with its own group (Volcano podgroup spread)."""

    group: str


class Unplaced(NamedTuple):
    """Mark of a share on a partitioned card whose place on the card is not recorded."""

    why: str


Mark = Instance | CoreMask | Tenant | GroupMember | Unplaced
"""What a share leaves on a device beyond amounts, because later decisions depend on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One physical accelerator as its node reports it, without its id.

    ``slots`` is how many containers may share it, ``memory`` and ``cores`` its whole capacity (scaled, if the node
    scales), ``group`` the interconnect group it belongs to (Ascend NetworkID, MetaX link zone, Vastai AIC), ``traits``
    further vendor facts as sorted pairs.
    """

    vendor: VendorName
    model: str
    slots: int
    memory: MiB
    cores: CoreShare
    index: int
    numa: int = 0
    mode: str = ""
    healthy: bool = True
    cordoned: bool = False
    group: str | None = None
    profiles: tuple[Profile, ...] = ()
    traits: tuple[tuple[str, str], ...] = ()

    def trait(self, name: str) -> str | None:
        """The value of one vendor fact, or ``None``."""
        for key, value in self.traits:
            if key == name:
                return value
        return None


MEMORY_BY_CORES: Final = "memory-by-cores"
"""A trait: MiB of a device of which a share has as much as of the cores. It is only told; nothing is decided by it."""


class DeviceShare(NamedTuple):
    """The part of one device that one container gets; ``position`` indexes the node's devices."""

    position: int
    memory: MiB
    cores: CoreShare
    mark: Mark | None = None


class DeviceUsage(NamedTuple):
    """What is promised of one device: containers, memory, cores, and the marks they leave (in canonical order)."""

    slots: int = 0
    memory: MiB = MiB(0)
    cores: CoreShare = CoreShare(0)
    marks: tuple[Mark, ...] = ()

    def plus(self, memory: MiB, cores: CoreShare, marks: tuple[Mark, ...] = (), slots: int = 1) -> DeviceUsage:
        """The usage with one more share on the device."""
        joined = tuple(sorted(self.marks + marks, key=_mark_order)) if marks else self.marks
        return DeviceUsage(self.slots + slots, MiB(self.memory + memory), CoreShare(self.cores + cores), joined)


IDLE = DeviceUsage()


def _mark_order(mark: Mark) -> tuple[str, tuple[object, ...]]:
    return type(mark).__name__, tuple(mark)


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocatedShare:
    """A share with its names: what annotations carry between scheduler and node agent.

    ``word`` is the type member of the assignment string (HAMi writes the vendor's common word, AMD the card model).
    """

    device: DeviceId
    vendor: VendorName
    word: str
    memory: MiB
    cores: CoreShare
    mark: Mark | None = None
