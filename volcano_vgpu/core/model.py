"""The values of the agent: the cards of its node, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NewType

from hami_plugins.model.devices import Profile
from hami_plugins.model.units import DeviceId, MiB

SlotId = NewType("SlotId", str)
"""One of the names under which the kubelet hands out a card; see ``slots``."""


class SharingMode(StrEnum):
    """How the cards of a node are shared. Volcano knows the first and the last; to it MPS is hami-core."""

    HAMI_CORE = "hami-core"
    MPS = "mps"
    MIG = "mig"


@dataclass(frozen=True, slots=True, kw_only=True)
class MigInstance:
    """A slice that the driver has cut: its UUID (``MIG-...``), profile name (``1g.10gb``) and where it lies."""

    uuid: DeviceId
    profile: str
    memory: MiB
    start: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceLink:
    """What joins a card to another: NVLink lanes, or the closest common PCIe ancestor as NVML names it."""

    peer: DeviceId
    kind: str
    lanes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PhysicalDevice:
    """A physical card as found.

    ``memory`` is all of it, in MiB; ``index`` is NVML's, ``minor`` that of its device file. ``problems`` says why it
    cannot be used now, each with its remedy; without any it is healthy. ``unreadable`` names what the driver would not
    tell. ``partitions`` are the profiles and places at which the agent makes MIG instances when they are needed.
    """

    uuid: DeviceId
    index: int
    minor: int
    model: str
    memory: MiB
    numa: int | None = None
    pci_bus: str = ""
    links: tuple[DeviceLink, ...] = ()
    mig: bool = False
    instances: tuple[MigInstance, ...] = ()
    partitions: tuple[Profile, ...] = ()
    problems: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()

    @property
    def healthy(self) -> bool:
        """Whether it can be given out."""
        return not self.problems


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceMeasurement:
    """What the driver measures on a card now; ``None`` for what it does not tell. Ratios are 0 to 1, amounts bytes."""

    memory_used: int | None = None
    utilization: float | None = None
    temperature: float | None = None
    power_watts: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeInventory:
    """The cards of a node in a stable order (minor number, then UUID), and what was passed over with the reason."""

    driver: str = ""
    cards: tuple[PhysicalDevice, ...] = ()
    passed_over: Mapping[str, str] = field(default_factory=dict)

    def card(self, uuid: DeviceId) -> PhysicalDevice | None:
        """The card of that UUID."""
        return next((card for card in self.cards if card.uuid == uuid), None)
