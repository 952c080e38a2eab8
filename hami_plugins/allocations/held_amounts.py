"""What bound pods hold now, by who is charged for it: for metrics and for the journal of allocations."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Final, NamedTuple

from hami_plugins.allocations.findings import AuditSnapshot
from hami_plugins.engine.usage import HeldDevice, held_by
from hami_plugins.model.charges import ChargeKey, HeldAmount
from hami_plugins.model.devices import Device
from hami_plugins.model.nodes import NodeEntry, NodeShape
from hami_plugins.model.pods import PodRecord
from hami_plugins.model.units import DeviceId, MiB, PodUid, VendorName

OTHER_OWNERS: Final = "(other)"
"""The owner of what is held by more owners than are named."""


class Payer(NamedTuple):
    """A namespace, a queue and an owner: one of the series that a metric may have."""

    namespace: str
    queue: str
    owner: str


class HeldTotal(NamedTuple):
    """Whole devices and their memory."""

    devices: Fraction
    memory: MiB


class HeldAmounts:
    """What each bound pod holds of each vendor's devices; of a pod that has not changed it is worked out once.

    The owner is the value of ``owner_label`` where a pod has that label, else its controller (``Job/train``).
    """

    def __init__(self, owner_label: str = "") -> None:
        self._owner_label = owner_label
        self._known: dict[PodUid, _KnownAmounts] = {}

    def of(self, sheet: AuditSnapshot) -> tuple[HeldAmount, ...]:
        """What they hold by this snapshot."""
        found: dict[PodUid, _KnownAmounts] = {}
        for entry in sheet.entries:
            for record in entry.pods:
                if record.uid in sheet.bound:
                    known = self._known.get(record.uid)
                    if known is None or known.record is not record or known.node != (entry.state.shape, entry.ids):
                        amounts = tuple(_of_pod(record, entry, self._owner_label))
                        known = _KnownAmounts(record, (entry.state.shape, entry.ids), amounts)
                    found[record.uid] = known
        self._known = found
        return tuple(amount for known in found.values() for amount in known.amounts)


class _KnownAmounts(NamedTuple):
    """What a record amounts to on a node with these devices."""

    record: PodRecord
    node: tuple[NodeShape, tuple[DeviceId, ...]]
    amounts: tuple[HeldAmount, ...]


def named_payers(before: Collection[Payer], held: Iterable[HeldAmount], most: int) -> frozenset[Payer]:
    """The payers that are named, ``most`` at most: those that were named before as long as they hold something.

    The others are counted as ``OTHER_OWNERS`` of their namespace and queue.
    """
    there = {_payer(each.key) for each in held}
    kept = sorted(there.intersection(before))[:most]
    new = sorted(there.difference(before))[: most - len(kept)]
    return frozenset((*kept, *new))


def totals(held: Iterable[HeldAmount], named: Collection[Payer]) -> Mapping[ChargeKey, HeldTotal]:
    """What is held in all, by key; the owner of those who are not named is ``OTHER_OWNERS``."""
    found: dict[ChargeKey, HeldTotal] = {}
    for each in held:
        key = each.key if _payer(each.key) in named else each.key._replace(owner=OTHER_OWNERS)
        before = found.get(key, HeldTotal(Fraction(0), MiB(0)))
        found[key] = HeldTotal(before.devices + each.devices, MiB(before.memory + each.memory))
    return found


def _payer(key: ChargeKey) -> Payer:
    return Payer(key.namespace, key.queue, key.owner)


def _of_pod(record: PodRecord, entry: NodeEntry, owner_label: str) -> Iterator[HeldAmount]:
    vendors = {share.device: share.vendor for allocation in record.allocations for share in allocation.shares}
    amounts: dict[VendorName, HeldTotal] = {}
    for name, held in held_by(record.allocations, init_finished=record.init_finished).items():
        before = amounts.get(vendors[name], HeldTotal(Fraction(0), MiB(0)))
        part = part_of(held, entry.device(name))
        amounts[vendors[name]] = HeldTotal(before.devices + part, MiB(before.memory + held.memory))
    owner = record.labels.get(owner_label) or record.owner
    for vendor, total in amounts.items():
        yield HeldAmount(
            uid=record.uid,
            pod=record.name,
            node=entry.name,
            key=ChargeKey(record.namespace, record.queue, owner, vendor),
            devices=total.devices,
            memory=total.memory,
        )


def part_of(held: HeldDevice, device: Device | None) -> Fraction:
    """How much of a device is held: the larger one of the shares of memory and of cores, 1 at most.

    A device that its node does not have, or that has neither, counts whole.
    """
    if device is None:
        return Fraction(1)
    shares = [
        Fraction(amount, capacity)
        for amount, capacity in ((held.memory, device.memory), (held.cores, device.cores))
        if capacity > 0
    ]
    return min(max(shares), Fraction(1)) if shares else Fraction(1)
