"""From positions on a node to the names of its devices, and back."""

from __future__ import annotations

from collections.abc import Sequence

from hami_plugins.engine.place import Given
from hami_plugins.engine.registry import Registry
from hami_plugins.model.devices import AllocatedShare, Device
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.pods import ContainerAllocation
from hami_plugins.model.requests import DeviceDemand
from hami_plugins.model.units import VendorName
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.model.verdicts import Fit
from hami_plugins.wire import scalars


def allocated(entry: NodeEntry, fit: Fit, demand: DeviceDemand, registry: Registry) -> tuple[ContainerAllocation, ...]:
    """A fit with the node's names put in."""
    allocations: list[ContainerAllocation] = []
    ids, devices = entry.ids, entry.state.shape.devices
    for container, shares in zip(demand.containers, fit.containers, strict=True):
        named: list[AllocatedShare] = []
        for vendor, of_vendor in shares.by_vendor:
            spec = registry[vendor]
            word = "" if spec.records.word_is_model else spec.wire_word()
            for at, memory, cores, mark in of_vendor:
                said = word or _word(spec, devices[at])
                named.append(
                    AllocatedShare(device=ids[at], vendor=vendor, word=said, memory=memory, cores=cores, mark=mark)
                )
        allocations.append(ContainerAllocation(container.kind, tuple(named)))
    return tuple(allocations)


def positions_of(entry: NodeEntry, allocations: Sequence[ContainerAllocation]) -> Given | None:
    """Where the allocated devices stand on the node, or ``None`` when it has not all of them."""
    found: list[dict[VendorName, tuple[int, ...]]] = []
    for allocation in allocations:
        of_container: dict[VendorName, tuple[int, ...]] = {}
        for share in allocation.shares:
            at = entry.position(share.device)
            if at is None or entry.state.shape.devices[at].vendor != share.vendor:
                return None
            known = of_container.get(share.vendor, ())
            of_container[share.vendor] = known if at in known else (*known, at)
        found.append(of_container)
    return found


def _word(spec: VendorSpec, device: Device) -> str:
    """The type member of an assignment; a model that it could not carry gives way to the vendor's word."""
    if spec.records.word_is_model and scalars.SEPARATORS.isdisjoint(device.model):
        return device.model
    return spec.wire_word()
