"""What may leave a node: pod by pod, or all of its pods in a few numbers. Bounds are worked out from either."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import itemgetter
from typing import NamedTuple, TypeAlias

from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.pods import PodRecord
from hami_plugins.model.quantity import NANO
from hami_plugins.model.units import DeviceId
from hami_plugins.preemption.costs import Scale

Amount: TypeAlias = tuple[int, int, int]
"""Slots, memory (MiB) and cores that are held, or missing, of one device."""

Leavers: TypeAlias = Iterable[tuple[PodRecord, int]]
"""Pods that may leave a node, and the priorities that they count with."""


class Row(NamedTuple):
    """Something that could leave a node: what it costs, and at most what it gives back by device and of node sums."""

    cost: int
    frees: tuple[tuple[int, Amount], ...]
    requests: tuple[tuple[str, int], ...]
    pods: int = 1

    def gives(self, name: str) -> int:
        """How much of a node sum comes back."""
        return NANO * self.pods if name == "pods" else dict(self.requests).get(name, 0)


class LeaverSummary(NamedTuple):
    """The pods that may leave a node, whichever devices of the node they hold.

    ``costs`` are theirs, the least first, ``by_device`` those of the pods that share a device. ``largest`` is the most
    that any pod gives back of one device, each amount for itself, and ``spans`` the most devices that one pod holds.
    """

    costs: list[int]
    by_device: Mapping[DeviceId, list[int]]
    largest: Amount
    spans: int


def rows_of(entry: NodeEntry, leavers: Leavers, scale: Scale) -> list[Row]:
    """The pods that may leave a node one by one, the cheapest first."""
    position = {device: at for at, device in enumerate(entry.ids)}
    rows = [
        Row(scale.of(record, priority), freed_by(record, position), record.requests) for record, priority in leavers
    ]
    rows.sort(key=itemgetter(0))
    return rows


def summary_of(leavers: Leavers, scale: Scale) -> LeaverSummary:
    """The pods that may leave a node in a few numbers, which takes less than a row for each."""
    costs: list[int] = []
    by_device: dict[DeviceId, list[int]] = {}
    slots = memory = cores = 0
    spans = 1
    for record, priority in leavers:
        cost = scale.of(record, priority)
        costs.append(cost)
        allocations = record.allocations
        if len(allocations) == 1 and len(shares := allocations[0].shares) == 1:  # nearly all pods
            share = shares[0]
            slots = slots or 1
            memory = share.memory if share.memory > memory else memory  # noqa: FURB136 - a call would take longer
            cores = share.cores if share.cores > cores else cores  # noqa: FURB136 - as above
            if share.device in by_device:
                by_device[share.device].append(cost)
            else:
                by_device[share.device] = [cost]
            continue
        held = held_by(record)
        spans = max(spans, len(held))
        for device, amount in held.items():
            slots, memory, cores = map(max, amount, (slots, memory, cores))
            by_device.setdefault(device, []).append(cost)
    costs.sort()
    return LeaverSummary(costs, by_device, (slots, memory, cores), spans)


def freed_by(record: PodRecord, position: Mapping[DeviceId, int]) -> tuple[tuple[int, Amount], ...]:
    """What a pod gives back of each device of a node."""
    return tuple((position[device], amount) for device, amount in held_by(record).items() if device in position)


def held_by(record: PodRecord) -> Mapping[DeviceId, Amount]:
    """What a pod holds of each device, or more: init containers count as if they ran with the others."""
    held: dict[DeviceId, Amount] = {}
    for allocation in record.allocations:
        for share in allocation.shares:
            held[share.device] = added(held.get(share.device), (1, share.memory, share.cores))
    return held


def added(one: Amount | None, other: Amount) -> Amount:
    """Both amounts together."""
    return other if one is None else (one[0] + other[0], one[1] + other[1], one[2] + other[2])
