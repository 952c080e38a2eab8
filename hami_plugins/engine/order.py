"""The order in which a node's devices are tried."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from hami_plugins.model.devices import Device, DeviceUsage
from hami_plugins.model.nodes import DEVICE_WEIGHT
from hami_plugins.model.policy import Policy, SortKey, Weights
from hami_plugins.model.requests import DeviceRequest, Percent
from hami_plugins.model.units import CoreShare, MiB

_SCORED: Final = frozenset({SortKey.LEAST_SCORE, SortKey.MOST_SCORE})


_Column = Callable[[Sequence[int], Sequence[Device], Sequence[DeviceUsage], Sequence[float]], Sequence[float]]
"""Of positions, devices, usage, and scores (in the order of the positions): what a sort key compares."""

_COLUMNS: Final[Mapping[SortKey, _Column]] = {
    SortKey.LEAST_SCORE: lambda _, __, ___, scores: scores,
    SortKey.MOST_SCORE: lambda _, __, ___, scores: [-score for score in scores],
    SortKey.HIGH_NUMA: lambda positions, devices, *_: [-devices[at].numa for at in positions],
    SortKey.LOW_NUMA: lambda positions, devices, *_: [devices[at].numa for at in positions],
    SortKey.LAST: lambda positions, *_: range(0, -len(positions), -1),
    SortKey.FIRST: lambda positions, *_: range(len(positions)),
    SortKey.LEAST_SHARED: lambda positions, _, usage, __: [usage[at].slots for at in positions],
    SortKey.MOST_MEMORY: lambda positions, _, usage, __: [-usage[at].memory for at in positions],
    SortKey.LEAST_MEMORY: lambda positions, _, usage, __: [usage[at].memory for at in positions],
    SortKey.HIGH_INDEX: lambda positions, devices, *_: [-devices[at].index for at in positions],
    SortKey.LOW_INDEX: lambda positions, devices, *_: [devices[at].index for at in positions],
}


def arranged(
    arrangement: Sequence[int],
    devices: Sequence[Device],
    usage: Sequence[DeviceUsage],
    policy: Policy,
    requests: Sequence[DeviceRequest],
) -> list[int]:
    """The positions of ``arrangement`` in the order in which they are tried, first choice first.

    Equals decide by the arrangement itself, so the answer never depends on chance.
    """
    keys = policy.order
    scores = (
        device_scores([devices[at] for at in arrangement], [usage[at] for at in arrangement], policy.weights, requests)
        if not _SCORED.isdisjoint(keys)
        else []
    )
    columns = [_COLUMNS[key](arrangement, devices, usage, scores) for key in keys]
    return [row[-1] for row in sorted(zip(*columns, arrangement, strict=True))]


def device_scores(
    devices: Sequence[Device], usage: Sequence[DeviceUsage], weights: Weights, requests: Sequence[DeviceRequest]
) -> list[float]:
    """How full each device is (``policy/gpu_policy.go``), 0 for a device without slots, memory or cores.

    A container's own requests count only on devices whose model is spelled like the vendor, as HAMi compares them.
    HAMi computes in 32-bit floats and so do we: on equal sums its rounding decides which card comes first.
    """
    slots, cores, memory = _ratios(devices, usage, requests)
    slots, cores, memory = _narrow(slots), _narrow(cores), _narrow(memory)
    if weights != (1, 1, 1):
        slots = _narrow([weights.slot * part for part in slots])
        cores = _narrow([weights.core * part for part in cores])
        memory = _narrow([weights.memory * part for part in memory])
    sums = _narrow([one + other for one, other in zip(slots, cores, strict=True)])
    sums = _narrow([one + other for one, other in zip(sums, memory, strict=True)])
    return _narrow([DEVICE_WEIGHT * part for part in sums])


def _ratios(
    devices: Sequence[Device], usage: Sequence[DeviceUsage], requests: Sequence[DeviceRequest]
) -> tuple[list[float], list[float], list[float]]:
    """How much of the slots, cores and memory of each device is taken. Most fleets go the short way."""
    own = {request.vendor for request in requests}
    if own.isdisjoint([device.model for device in devices]):
        pairs = list(zip(devices, usage, strict=True))
        try:
            return (
                [used.slots / device.slots for device, used in pairs],
                [used.cores / device.cores for device, used in pairs],
                [used.memory / device.memory for device, used in pairs],
            )
        except ZeroDivisionError:
            pass
    rows = [_ratio(device, used, requests) for device, used in zip(devices, usage, strict=True)]
    return [row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows]


def _ratio(device: Device, used: DeviceUsage, requests: Sequence[DeviceRequest]) -> tuple[float, float, float]:
    if not (device.slots and device.cores and device.memory):
        return 0.0, 0.0, 0.0
    slots, cores, memory = used.slots, used.cores, used.memory
    for request in requests:
        if request.vendor == device.model:
            slots += 1
            cores = CoreShare(cores + request.cores)
            memory = MiB(memory + _scored_memory(request, device))
    return slots / device.slots, cores / device.cores, memory / device.memory


def _scored_memory(request: DeviceRequest, device: Device) -> int:
    if isinstance(request.memory, Percent) and request.memory.of_device == 0:
        return 0
    return request.memory.on(device)


def _narrow(values: list[float]) -> list[float]:
    """The values rounded to 32-bit floats."""
    return array("f", values).tolist()
