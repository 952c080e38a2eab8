"""Who is charged for which devices: what a pod holds at a moment, and what that amounts to over a time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, NamedTuple

from hami_plugins.model.units import MiB, NodeName, PodUid, VendorName

MILLISECONDS_PER_HOUR: Final = 3_600_000

_MIB_PER_GIB: Final = 1024


class ChargeKey(NamedTuple):
    """Who is charged for which devices. ``queue`` and ``owner`` are empty where a pod has none."""

    namespace: str
    queue: str
    owner: str
    vendor: VendorName


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldAmount:
    """What one bound pod holds of one vendor's devices on its node.

    ``devices`` counts whole devices: a slice counts with the larger one of its shares of memory and of cores.
    """

    uid: PodUid
    pod: str
    node: NodeName
    key: ChargeKey
    devices: Fraction
    memory: MiB

    @property
    def holder(self) -> tuple[PodUid, VendorName]:
        """The key that identifies it."""
        return self.uid, self.key.vendor

    def during(self, milliseconds: int) -> ChargedAmount:
        """The amount when it is held for a time."""
        return ChargedAmount(self.devices * milliseconds, Fraction(self.memory * milliseconds))


class ChargedAmount(NamedTuple):
    """Devices and memory over a time, exactly: device milliseconds and MiB milliseconds."""

    device_milliseconds: Fraction = Fraction(0)
    mib_milliseconds: Fraction = Fraction(0)

    def plus(self, other: ChargedAmount) -> ChargedAmount:
        """Both together."""
        return ChargedAmount(
            self.device_milliseconds + other.device_milliseconds, self.mib_milliseconds + other.mib_milliseconds
        )

    @property
    def device_hours(self) -> Fraction:
        """One whole device for an hour is 1."""
        return self.device_milliseconds / MILLISECONDS_PER_HOUR

    @property
    def gib_hours(self) -> Fraction:
        """One GiB of device memory for an hour is 1."""
        return self.mib_milliseconds / (_MIB_PER_GIB * MILLISECONDS_PER_HOUR)


NOTHING_CHARGED: Final = ChargedAmount()


def together(amounts: Iterable[ChargedAmount]) -> ChargedAmount:
    """All of them."""
    found = NOTHING_CHARGED
    for each in amounts:
        found = found.plus(each)
    return found
