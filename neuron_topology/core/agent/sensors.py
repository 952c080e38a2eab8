"""What the driver counts of each device, and what that means for allocation.

Source: the Neuron sysfs user guide (AWS Neuron SDK 2.32), ``stats/hardware``. An uncorrected error of device memory or
SRAM may have changed results: the device is not allocated until the driver is loaded anew, which sets its counters to
zero. An error that the device can repair by itself makes it the second choice.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from neuron_topology.core.hardware.machines import MachineHealth


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceErrors:
    """Errors of one device since its driver was loaded, by where they were; zero where the driver does not count."""

    index: int
    memory: int = 0
    sram: int = 0
    repairable: int = 0

    @property
    def broken(self) -> bool:
        """Whether results of the device may be wrong."""
        return self.memory + self.sram > 0


@dataclass(frozen=True, slots=True)
class Sensors:
    """The devices that the driver has now, by index. Equal where nothing has changed."""

    devices: tuple[DeviceErrors, ...] = field(default=())

    @property
    def present(self) -> frozenset[int]:
        """The indexes of the devices."""
        return frozenset(each.index for each in self.devices)

    def joined(self, others: Iterable[DeviceErrors]) -> Sensors:
        """The same devices with the larger of two counts: a driver may show one that another source does not have."""
        known = {each.index: each for each in others}
        return Sensors(tuple(_larger(each, known.get(each.index, each)) for each in self.devices))


def _larger(one: DeviceErrors, other: DeviceErrors) -> DeviceErrors:
    return DeviceErrors(
        index=one.index,
        memory=max(one.memory, other.memory),
        sram=max(one.sram, other.sram),
        repairable=max(one.repairable, other.repairable),
    )


def health_of(sensors: Sensors, listed: Iterable[int]) -> MachineHealth:
    """What is broken and what was repaired. ``listed`` are the devices that neuron-ls knew of: one that the driver has
    lost since is broken before neuron-ls runs again."""
    broken = {each.index for each in sensors.devices if each.broken} | (frozenset(listed) - sensors.present)
    repaired = {each.index for each in sensors.devices if each.repairable} - broken
    return MachineHealth(devices=frozenset(broken), repaired=frozenset(repaired))
