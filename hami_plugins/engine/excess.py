"""Compares what is allocated to a container with what the container requests, and cuts it to that.

A scheduler allocates the requested amounts. These are larger by its own rules, and count as equal:

* memory that the container does not name is the whole device, and a percentage is taken of the device's memory;
* a MIG slot may be larger than the memory that is allocated in it (Volcano takes the smallest free slot of the group);
* cores of AWS Neuron beyond one device are whole devices;
* a partition of HAMi's (MIG) is booked with its own amounts, which are rounded up (HAMi 2.10.0 ``nvidia/device.go``);
* some vendors book amounts by rules of their own, in units of the device (``FittingRules``).

An allocation of less is not compared, except that 0 % of cores means no limit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from hami_plugins.model.devices import AllocatedShare, CoreMask, Device, Instance
from hami_plugins.model.requests import Absolute, DeviceRequest, MemoryDemand, Percent
from hami_plugins.model.units import CoreShare, DeviceId, MiB
from hami_plugins.model.vendor import VendorSpec


class DeviceExcess(NamedTuple):
    """An amount that is larger than the request. ``device`` is empty for an amount over all devices of the container.

    An ``allocated`` 0 of cores means unlimited.
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
        memory, cores = _most(spec, asked, share, device_of(share.device))
        if memory is not None and share.memory > memory:
            return DeviceExcess(names.memory, share.memory, memory, share.device)
        if cores is not None and (share.cores > cores or (cores and not share.cores)):
            return DeviceExcess(names.cores, share.cores, cores, share.device)
    return None


def needs_devices(spec: VendorSpec, asked: DeviceRequest) -> bool:
    """Whether the devices have to be known to compare an allocation with the request."""
    fitting = spec.fitting
    return isinstance(asked.memory, Percent) or fitting.memory_of is not None or fitting.cores_of is not None


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


def _most(
    spec: VendorSpec, asked: DeviceRequest, share: AllocatedShare, device: Device | None
) -> tuple[MiB | None, CoreShare | None]:
    """The most memory and cores that the request may take of one device; ``None`` for what is not compared."""
    fitting = spec.fitting
    if isinstance(share.mark, Instance) and not share.mark.group:
        return None, None
    if device is None and (fitting.memory_of is not None or fitting.cores_of is not None):
        return None, None
    memory, cores = _memory_on(asked.memory, device), asked.cores
    if fitting.memory_of is not None and device is not None:
        memory = fitting.memory_of(device, asked)
    if fitting.cores_of is not None and device is not None:
        cores = fitting.cores_of(device, asked)
    uncounted = not spec.resources.cores or (fitting.takes_no_cores is not None and fitting.takes_no_cores(asked))
    return memory, None if uncounted else cores


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
