"""What nodes have left for one request, by arithmetic alone: bounds that say where an exact try is worth it.

The rules of single vendors are not looked at, so a node may refuse what its gauge allows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from hami_plugins.engine.checks import clamped, wanted_model
from hami_plugins.model.devices import IDLE, Device
from hami_plugins.model.nodes import NodeEntry, NodeShape
from hami_plugins.model.policy import Policy
from hami_plugins.model.requests import DeviceRequest
from hami_plugins.model.vendor import Candidate, ContainerRequest, VendorSpec

_ANY = 2**62


class DeviceShortage(NamedTuple):
    """How much more would have to be free on one device; nothing lacks where all are 0."""

    slots: int
    memory: int
    cores: int


class Limit(NamedTuple):
    """The most that other pods may use of one device for the request to fit.

    ``times`` is how many of the requested devices it can stand for: a partitioned card can give several partitions.
    """

    at: int
    slots: int
    memory: int
    cores: int
    times: int
    device: Device


class RequestBounds:
    """Measures what nodes have left for one request. What a shape's devices allow is worked out once per shape."""

    __slots__ = ("_limits", "_policy", "request", "spec")

    def __init__(self, spec: VendorSpec, request: DeviceRequest, policy: Policy) -> None:
        self.spec = spec
        self.request = request
        self._policy = policy
        self._limits: dict[NodeShape, tuple[Limit, ...]] = {}

    def limits(self, entry: NodeEntry) -> tuple[Limit, ...]:
        """Every healthy device that passes the pod's model, mode and id lists, used or not, with its limits."""
        shape = entry.state.shape
        found = self._limits.get(shape)
        if found is None:
            positions = shape.positions.get(self.request.vendor, ())
            found = tuple(self._limit(shape.devices[at], at) for at in positions if self._serves(shape, at))
            self._limits[shape] = found
        selector = self.request.selector
        if selector.names_ids:
            return tuple(limit for limit in found if selector.accepts_id(entry.ids[limit.at]))
        return found

    def capable(self, entry: NodeEntry) -> int:
        """How many devices of a node hold the request."""
        usage = entry.state.usage
        times = 0
        for at, most_slots, most_memory, most_cores, of_device, _ in self.limits(entry):
            slots, memory, cores, _ = usage[at]
            if memory <= most_memory and cores <= most_cores and slots <= most_slots:
                times += of_device
        return times

    def lacking(self, entry: NodeEntry) -> Iterator[tuple[int, DeviceShortage]]:
        """The usable devices that would hold the request if fewer used them, by position, and what they lack."""
        usage = entry.state.usage
        for at, most_slots, most_memory, most_cores, _, _ in self.limits(entry):
            if most_slots < 0 or most_memory < 0 or most_cores < 0:
                continue
            slots, memory, cores, _ = usage[at]
            if memory > most_memory or cores > most_cores or slots > most_slots:
                shortage = (slots - most_slots, memory - most_memory, cores - most_cores)
                yield at, DeviceShortage(*(max(part, 0) for part in shortage))

    def most_memory(self, entry: NodeEntry) -> int:
        """The most MiB that each of the requested devices of a node could give; -1 when there are too few devices."""
        usage = entry.state.usage
        return self._best(
            (device.memory - usage[at].memory, times)
            for at, slots, _, cores, times, device in self.limits(entry)
            if usage[at].slots <= slots and usage[at].cores <= cores
        )

    def most_percent(self, entry: NodeEntry) -> int:
        """The same as a percentage of each device's memory (of which the amount is rounded down)."""
        usage = entry.state.usage
        return self._best(
            (((device.memory - usage[at].memory + 1) * 100 - 1) // max(device.memory, 1), times)
            for at, slots, _, cores, times, device in self.limits(entry)
            if usage[at].slots <= slots and usage[at].cores <= cores
        )

    def most_cores(self, entry: NodeEntry) -> int:
        """The most cores that each of the requested devices could give, or -1; all of one only if it is unused."""
        usage = entry.state.usage
        return self._best(
            (device.cores - max(usage[at].cores, min(usage[at].slots, 1)), times)
            for at, slots, memory, _, times, device in self.limits(entry)
            if usage[at].slots <= slots and usage[at].memory <= memory
        )

    def _best(self, offers: Iterable[tuple[int, int]]) -> int:
        """The amount that as many (amount, times) offers as devices are asked have at least, or -1."""
        missing = self.request.count
        for amount, times in sorted(offers, reverse=True):
            missing -= times
            if missing <= 0:
                return amount
        return -1

    def _serves(self, shape: NodeShape, at: int) -> bool:
        device = shape.devices[at]
        ask = ContainerRequest(self.request, self._policy, shape)
        return device.healthy and not device.cordoned and wanted_model(Candidate(at, device, IDLE), ask) is None

    def memory_on(self, device: Device) -> int:
        """The MiB that the request takes of a device."""
        hook = self.spec.fitting.memory_of
        return self.request.memory.on(device) if hook is None else hook(device, self.request)

    def cores_on(self, device: Device) -> int | None:
        """The cores that the request takes of a device; ``None`` when no rule about cores applies to it."""
        spec, request = self.spec, self.request
        if spec.fitting.takes_no_cores is not None and spec.fitting.takes_no_cores(request):
            return None
        return clamped(spec, request) if spec.fitting.cores_of is None else spec.fitting.cores_of(device, request)

    def _limit(self, device: Device, at: int) -> Limit:
        slots, most_cores = device.slots - 1, _ANY
        cores = self.cores_on(device)
        if cores is not None:
            most_cores = device.cores - cores
            if cores == device.cores > 0:
                slots = min(slots, 0)
            elif cores == 0 < device.cores:
                most_cores -= 1
        return Limit(
            at=at,
            slots=min(slots, 0) if self._policy.exclusive else slots,
            memory=device.memory - self.memory_on(device),
            cores=most_cores,
            times=device.slots if self.spec.fitting.partitions and device.profiles else 1,
            device=device,
        )
