"""What nodes have left for one request, by arithmetic alone: bounds that say where an exact try is worth it.

The rules of single vendors are not looked at, so a node may refuse what its gauge allows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from hami_plugins.engine.checks import clamped, wanted_model
from hami_plugins.model.devices import IDLE, Device, DeviceUsage
from hami_plugins.model.nodes import NodeEntry, NodeShape
from hami_plugins.model.policy import Policy
from hami_plugins.model.requests import DeviceRequest
from hami_plugins.model.units import CoreShare, MiB
from hami_plugins.model.vendor import Ask, Candidate, VendorSpec


class Lack(NamedTuple):
    """How much more would have to be free on one device; nothing lacks where all are 0."""

    slots: int
    memory: int
    cores: int


ENOUGH = Lack(0, 0, 0)


class Gauge:
    """Measures what nodes have left for one request. Which devices of a shape can serve is found out once per shape."""

    __slots__ = ("_cores", "_exclusive", "_policy", "_positions", "_takes_cores", "request", "spec")

    def __init__(self, spec: VendorSpec, request: DeviceRequest, policy: Policy) -> None:
        self.spec = spec
        self.request = request
        self._policy = policy
        self._exclusive = policy.exclusive
        self._takes_cores = spec.takes_no_cores is None or not spec.takes_no_cores(request)
        self._cores = clamped(spec, request) if self._takes_cores else CoreShare(0)
        self._positions: dict[NodeShape, tuple[int, ...]] = {}

    def usable(self, entry: NodeEntry) -> tuple[int, ...]:
        """Positions of healthy devices that pass the pod's model, mode and id lists, whoever uses them."""
        shape = entry.state.shape
        found = self._positions.get(shape)
        if found is None:
            found = tuple(at for at in shape.positions.get(self.request.vendor, ()) if self._serves(shape, at))
            self._positions[shape] = found
        selector = self.request.selector
        if selector.names_ids:
            return tuple(at for at in found if selector.accepts_id(entry.ids[at]))
        return found

    def lacks(self, entry: NodeEntry) -> Iterator[tuple[int, Lack]]:
        """What is missing on each usable device, by position."""
        devices, usage = entry.state.shape.devices, entry.state.usage
        for at in self.usable(entry):
            yield at, self.lack(devices[at], usage[at])

    def lack(self, device: Device, used: DeviceUsage) -> Lack:
        """What is missing on one device."""
        cores = self.cores_on(device)
        slots = used.slots - device.slots + 1 if used.slots >= device.slots else 0
        short = 0
        if self._takes_cores:
            if cores == device.cores > 0:
                slots = max(slots, used.slots)
            short = max(cores - device.cores + used.cores, 1 if cores == 0 and used.cores == device.cores > 0 else 0)
        if self._exclusive:
            slots = max(slots, used.slots)
        missing = self.memory_on(device) - device.memory + used.memory
        if slots == 0 and missing <= 0 and short <= 0:
            return ENOUGH
        return Lack(slots, max(missing, 0), max(short, 0))

    def capable(self, entry: NodeEntry) -> int:
        """How many devices of a node hold the request."""
        devices = entry.state.shape.devices
        return sum(self._times(devices[at]) for at, lack in self.lacks(entry) if lack == ENOUGH)

    def most_memory(self, entry: NodeEntry) -> int:
        """The most MiB that each of the requested devices of a node could give; -1 when there are too few devices."""
        return self._most(entry, _free_memory, lambda lack: not (lack.slots or lack.cores))

    def most_percent(self, entry: NodeEntry) -> int:
        """The same as a percentage of each device's memory."""
        return self._most(entry, _free_percent, lambda lack: not (lack.slots or lack.cores))

    def most_cores(self, entry: NodeEntry) -> int:
        """The most cores (of the device's unit) that each of the requested devices of a node could give, or -1."""
        return self._most(entry, _free_cores, lambda lack: not (lack.slots or lack.memory))

    def memory_on(self, device: Device) -> MiB:
        """The memory that the request takes of one device."""
        hook = self.spec.memory_of
        return self.request.memory.on(device) if hook is None else hook(device, self.request)

    def cores_on(self, device: Device) -> CoreShare:
        """The cores that the request takes of one device."""
        hook = self.spec.cores_of
        return self._cores if hook is None or not self._takes_cores else hook(device, self.request)

    def _serves(self, shape: NodeShape, at: int) -> bool:
        device = shape.devices[at]
        ask = Ask(self.request, self._policy, shape)
        return device.healthy and not device.cordoned and wanted_model(Candidate(at, device, IDLE), ask) is None

    def _times(self, device: Device) -> int:
        """How often one device may serve the request: a partitioned card may give several of its partitions."""
        return device.slots if self.spec.partitions and device.profiles else 1

    def _most(
        self, entry: NodeEntry, left: Callable[[Device, DeviceUsage], int], otherwise_fine: Callable[[Lack], bool]
    ) -> int:
        """The amount that ``count`` devices have at least, best ones first, of those that lack nothing else."""
        devices, usage = entry.state.shape.devices, entry.state.usage
        offers = [
            (left(devices[at], usage[at]), self._times(devices[at]))
            for at, lack in self.lacks(entry)
            if otherwise_fine(lack)
        ]
        return best(offers, self.request.count)


def best(offers: Iterable[tuple[int, int]], count: int) -> int:
    """The amount that ``count`` of (amount, times) offers have at least, or -1 when there are not that many."""
    for amount, times in sorted(offers, reverse=True):
        count -= times
        if count <= 0:
            return amount
    return -1


def _free_memory(device: Device, used: DeviceUsage) -> int:
    return device.memory - used.memory


def _free_percent(device: Device, used: DeviceUsage) -> int:
    """The largest percentage whose amount, which is rounded down, is still free."""
    return ((device.memory - used.memory + 1) * 100 - 1) // device.memory if device.memory else 100


def _free_cores(device: Device, used: DeviceUsage) -> int:
    """Who takes all cores of a device must be alone on it."""
    return min(device.cores - used.cores, device.cores - 1 if used.slots else device.cores)
