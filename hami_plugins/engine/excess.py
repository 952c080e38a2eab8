"""Compares what is allocated to a container with what the container requests, and cuts it to that.

A scheduler allocates the requested amounts. These are larger by its own rules, and count as equal:

* memory that the container does not name is the whole device, and a percentage is taken of the device's memory;
* a MIG slot may be larger than the memory that is allocated in it (Volcano takes the smallest free slot of the group);
* cores of AWS Neuron beyond one device are whole devices.

An allocation of less is not compared, except that 0 % of cores means no limit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from hami_plugins.model.devices import AllocatedShare, CoreMask, Device
from hami_plugins.model.requests import Absolute, DeviceRequest, MemoryDemand
from hami_plugins.model.units import CoreShare, DeviceId, MiB
from hami_plugins.model.vendor import VendorSpec


class DeviceExcess(NamedTuple):
    """An amount that is larger than the request. ``device`` is empty for an amount over all devices of the container.

    An ``allocated`` 0 of cores is no limit.
    """

    resource: str
    allocated: int
    requested: int
    device: DeviceId = DeviceId("")

    def __str__(self) -> str:
        amount = f"{self.allocated} of {self.resource}{f' on {self.device}' if self.device else ''}"
        if not self.allocated:
            amount += " (no limit)"
        return f"{amount}, and {self.requested} requested"


def excess_of(
    spec: VendorSpec,
    asked: DeviceRequest | None,
    shares: Sequence[AllocatedShare],
    device_of: Callable[[DeviceId], Device | None],
) -> DeviceExcess | None:
    """The first amount of these shares that is larger than the request of their container, which may be none.

    ``device_of`` finds a device of the node; a percentage of a device that it does not find is not compared.
    """
    names = spec.resources
    if asked is None:
        return DeviceExcess(names.count, len(shares), 0) if shares else None
    if any(isinstance(share.mark, CoreMask) for share in shares):
        return _of_cores(names.count, names.cores, asked, shares)
    if len(shares) > asked.count:
        return DeviceExcess(names.count, len(shares), asked.count)
    for share in shares:
        most = _memory_on(asked.memory, device_of(share.device))
        if most is not None and share.memory > most:
            return DeviceExcess(names.memory, share.memory, most, share.device)
        if share.cores > asked.cores or (asked.cores and not share.cores):
            return DeviceExcess(names.cores, share.cores, asked.cores, share.device)
    return None


def within(
    asked: DeviceRequest | None, shares: Sequence[AllocatedShare], device_of: Callable[[DeviceId], Device | None]
) -> tuple[AllocatedShare, ...]:
    """The shares with no amount larger than the request; for a container without a request there are none."""
    return () if asked is None else tuple(_cut(asked, share, device_of) for share in shares[: asked.count])


def _cut(asked: DeviceRequest, share: AllocatedShare, device_of: Callable[[DeviceId], Device | None]) -> AllocatedShare:
    most = _memory_on(asked.memory, device_of(share.device))
    memory = share.memory if most is None else min(share.memory, most)
    cores = min(share.cores, asked.cores) or asked.cores
    unchanged = (memory, cores) == (share.memory, share.cores)
    return share if unchanged else replace(share, memory=MiB(memory), cores=CoreShare(cores))


def _memory_on(asked: MemoryDemand, device: Device | None) -> MiB | None:
    """The requested memory of one device; ``None`` for a percentage of a device that is not known."""
    if isinstance(asked, Absolute):
        return asked.mib
    return None if device is None else asked.on(device)


def _of_cores(count: str, cores: str, asked: DeviceRequest, shares: Sequence[AllocatedShare]) -> DeviceExcess | None:
    """The same where shares are particular cores. Of several devices for cores, the last one may be needed in part."""
    if not asked.cores:
        return DeviceExcess(count, len(shares), asked.count) if len(shares) > asked.count else None
    held = [share.mark.bits.bit_count() for share in shares if isinstance(share.mark, CoreMask)]
    needed = sum(held) - min(held) < asked.cores if len(held) > 1 else held[0] <= asked.cores
    return None if needed else DeviceExcess(cores, sum(held), asked.cores)
