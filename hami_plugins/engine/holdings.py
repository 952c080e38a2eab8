"""What a running pod holds, held against its node: does it add up, and what would it ask for if it came again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from hami_plugins.engine.usage import held_by
from hami_plugins.model.devices import AllocatedShare, CoreMask, Device, DeviceUsage, Instance, Unplaced
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.pods import ContainerAllocation, PodRecord
from hami_plugins.model.requests import Absolute, ContainerDemand, DeviceDemand, DeviceRequest
from hami_plugins.model.units import DeviceId


class InconsistencyKind(StrEnum):
    """What can be wrong with an allocation."""

    STRANGER = "stranger"
    UNHEALTHY = "unhealthy"
    CORDONED = "cordoned"
    SLOTS = "over-slots"
    MEMORY = "over-memory"
    CORES = "over-cores"
    UNPLACED = "unplaced"
    OVERLAP = "overlap"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inconsistency:
    """Something wrong with what a pod holds of one device.

    ``promised`` of ``capacity`` are given where a device is promised more than it has (slots, MiB or cores); ``others``
    are the other pods (``namespace/name``) that hold a part of the device, or the same partition. ``why`` is what the
    reader of a partition said.
    """

    kind: InconsistencyKind
    device: DeviceId
    promised: int = 0
    capacity: int = 0
    others: tuple[str, ...] = ()
    why: str = ""


def flaws_of(record: PodRecord, entry: NodeEntry) -> tuple[Inconsistency, ...]:
    """Everything that does not add up about what a pod holds on its node, device by device."""
    found: list[Inconsistency] = []
    for device in held_by(record.allocations, init_finished=record.init_finished):
        at = entry.position(device)
        if at is None:
            found.append(Inconsistency(kind=InconsistencyKind.STRANGER, device=device))
            continue
        others = [other for other in entry.pods if other is not record and _shares_of(other, device)]
        overdrawn = list(_overdrawn(device, entry.state.shape.devices[at], entry.state.usage[at], others))
        found.extend(overdrawn)
        found.extend(_misplaced(record, device, others))
        if not any(flaw.others for flaw in overdrawn):
            found.extend(_met(record, device, others))
    return tuple(found)


def demand_again(record: PodRecord) -> DeviceDemand:
    """A demand for just what a pod holds: as many devices, and on each of them the most that it has of any.

    The original request of a running pod is unknown, so its constraints (selectors, policies) are not included.
    """
    return DeviceDemand(tuple(_asked(allocation) for allocation in record.allocations))


def _asked(allocation: ContainerAllocation) -> ContainerDemand:
    by_vendor: dict[str, list[AllocatedShare]] = {}
    for share in allocation.shares:
        by_vendor.setdefault(share.vendor, []).append(share)
    return ContainerDemand(
        allocation.kind,
        tuple(
            DeviceRequest(
                vendor=shares[0].vendor,
                count=len(shares),
                memory=Absolute(max(share.memory for share in shares)),
                cores=max(share.cores for share in shares),
            )
            for shares in by_vendor.values()
        ),
    )


def _overdrawn(device: DeviceId, card: Device, used: DeviceUsage, others: list[PodRecord]) -> Iterator[Inconsistency]:
    if not card.healthy:
        yield Inconsistency(kind=InconsistencyKind.UNHEALTHY, device=device)
    if card.cordoned:
        yield Inconsistency(kind=InconsistencyKind.CORDONED, device=device)
    names = tuple(sorted(other.full_name for other in others))
    for kind, promised, capacity in (
        (InconsistencyKind.SLOTS, used.slots, card.slots),
        (InconsistencyKind.MEMORY, used.memory, card.memory),
        (InconsistencyKind.CORES, used.cores, card.cores),
    ):
        if promised > capacity:
            yield Inconsistency(kind=kind, device=device, promised=promised, capacity=capacity, others=names)


def _misplaced(record: PodRecord, device: DeviceId, others: list[PodRecord]) -> Iterator[Inconsistency]:
    for share in _shares_of(record, device):
        mark = share.mark
        if isinstance(mark, Unplaced):
            yield Inconsistency(kind=InconsistencyKind.UNPLACED, device=device, why=mark.why)
        elif isinstance(mark, Instance):
            names = sorted({other.full_name for other in others if _overlaps(other, device, mark)})
            if names:
                yield Inconsistency(kind=InconsistencyKind.OVERLAP, device=device, others=tuple(names))


def _met(record: PodRecord, device: DeviceId, others: list[PodRecord]) -> Iterator[Inconsistency]:
    """Cores that other pods hold as well."""
    cores = _cores_of(record, device)
    names = sorted(other.full_name for other in others if cores & _cores_of(other, device))
    if names:
        yield Inconsistency(kind=InconsistencyKind.OVERLAP, device=device, others=tuple(names))


def _cores_of(record: PodRecord, device: DeviceId) -> int:
    """The mask of the cores that a pod holds of a device, where it holds particular ones."""
    found = 0
    for share in _shares_of(record, device):
        if isinstance(share.mark, CoreMask):
            found |= share.mark.bits
    return found


def _overlaps(other: PodRecord, device: DeviceId, mark: Instance) -> bool:
    return any(
        isinstance(share.mark, Instance) and share.mark.placement.overlaps(mark.placement)
        for share in _shares_of(other, device)
    )


def _shares_of(record: PodRecord, device: DeviceId) -> list[AllocatedShare]:
    return [share for allocation in record.allocations for share in allocation.shares if share.device == device]
