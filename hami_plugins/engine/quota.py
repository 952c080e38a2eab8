"""ResourceQuota arithmetic: what a namespace may still take of a vendor's memory and cores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from hami_plugins.engine.registry import Registry
from hami_plugins.engine.usage import held_by
from hami_plugins.model.cluster import ClusterSnapshot, NamespaceQuota
from hami_plugins.model.devices import Device
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.pods import PodRecord
from hami_plugins.model.quantity import NANO
from hami_plugins.model.units import CoreShare, MiB, VendorName
from hami_plugins.model.vendor import Headroom, VendorSpec


def used_by(snapshot: ClusterSnapshot, namespace: str, registry: Registry) -> Mapping[VendorName, tuple[int, int]]:
    """Memory (MiB) and cores (as a quota counts them) that the pods of a namespace hold, per vendor."""
    held = ((entry, record) for entry in snapshot.nodes for record in entry.pods if record.namespace == namespace)
    return used(held, registry)


def used(
    holders: Iterable[tuple[NodeEntry | None, PodRecord]], registry: Registry
) -> Mapping[VendorName, tuple[int, int]]:
    """The same for pods that are listed with their nodes, ``None`` for a node that is not known."""
    sums: dict[VendorName, tuple[int, int]] = {}
    for entry, record in holders:
        vendors = {share.device: share.vendor for allocation in record.allocations for share in allocation.shares}
        for device, held in held_by(record.allocations, init_finished=record.init_finished).items():
            memory, cores = sums.get(vendors[device], (0, 0))
            at = None if entry is None else entry.position(device)
            counted = (
                held.cores
                if entry is None or at is None
                else counted_cores(registry[vendors[device]], entry.state.shape.devices[at], held.cores)
            )
            sums[vendors[device]] = (memory + held.memory, cores + counted)
    return sums


def counted_cores(spec: VendorSpec, device: Device, cores: int) -> int:
    """The quota usage of cores booked on a device."""
    return cores if spec.fitting.cores_in_quota is None else spec.fitting.cores_in_quota(device, CoreShare(cores))


def headroom(
    quota: NamespaceQuota | None, used: Mapping[VendorName, tuple[int, int]], registry: Registry
) -> tuple[tuple[VendorName, Headroom], ...]:
    """What HAMi's webhook leaves per vendor under ``limits.<resource>`` keys; vendors without a limit do not appear.

    A memory limit counts in the vendor's units, so it is multiplied by MiB per unit.
    An overdrawn quota leaves less than nothing, and then refuses even a request for nothing, as HAMi does.
    """
    if quota is None:
        return ()
    left: list[tuple[VendorName, Headroom]] = []
    for spec in registry:
        if spec.dialect is not Dialect.HAMI:
            continue
        memory = _limit(quota, spec.resources.memory)
        cores = _limit(quota, spec.resources.cores)
        if memory is None and cores is None:
            continue
        used_memory, used_cores = used.get(spec.name, (0, 0))
        left.append(
            (
                spec.name,
                Headroom(
                    None if memory is None else MiB(memory * spec.memory_factor() - used_memory),
                    None if cores is None else CoreShare(cores - used_cores),
                ),
            )
        )
    return tuple(left)


def left_in(snapshot: ClusterSnapshot, namespace: str, registry: Registry) -> dict[VendorName, Headroom] | None:
    """What a namespace's quota leaves now, per vendor; ``None`` when the namespace has none."""
    limits = snapshot.quotas.get(namespace)
    if limits is None:
        return None
    return dict(headroom(limits, used_by(snapshot, namespace, registry), registry))


def less(
    left: Mapping[VendorName, Headroom], taken: Mapping[VendorName, tuple[int, int]]
) -> dict[VendorName, Headroom]:
    """What is left after more was taken (``used``)."""
    found: dict[VendorName, Headroom] = {}
    for vendor, room in left.items():
        memory, cores = taken.get(vendor, (0, 0))
        found[vendor] = Headroom(
            None if room.memory is None else MiB(room.memory - memory),
            None if room.cores is None else CoreShare(room.cores - cores),
        )
    return found


class QuotaExcess(NamedTuple):
    """A limit of a namespace that a request breaks; amounts are MiB of memory, or cores."""

    vendor: VendorName
    of_memory: bool
    asked: int
    left: int

    def words(self, spec: VendorSpec) -> str:
        """The same in the units of the vendor's resource."""
        resource, factor = (
            (spec.resources.memory, spec.memory_factor()) if self.of_memory else (spec.resources.cores, 1)
        )
        return f"limits.{resource}: asks {self.asked // factor:,}, {self.left // factor:,} left"


def excesses(asked: Mapping[VendorName, tuple[int, int]], left: Mapping[VendorName, Headroom]) -> Iterator[QuotaExcess]:
    """What is asked (MiB, cores per vendor) beyond what is left; asking nothing of a vendor always fits."""
    for vendor, (memory, cores) in asked.items():
        room = left.get(vendor)
        if room is None or not (memory or cores):
            continue
        if room.memory is not None and memory > room.memory:
            yield QuotaExcess(vendor, of_memory=True, asked=memory, left=room.memory)
        if room.cores is not None and cores > room.cores:
            yield QuotaExcess(vendor, of_memory=False, asked=cores, left=room.cores)


def within(asked: Mapping[VendorName, tuple[int, int]], left: Mapping[VendorName, Headroom]) -> bool:
    """Whether amounts (MiB, cores per vendor) fit into what is left."""
    return next(excesses(asked, left), None) is None


def _limit(quota: NamespaceQuota, resource: str) -> int | None:
    """The whole units of ``limits.<resource>``; an explicit 0 is a limit."""
    if not resource:
        return None
    nano = quota.hard.get(f"limits.{resource}")
    return None if nano is None else nano // NANO
