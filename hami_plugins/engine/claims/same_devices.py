"""Devices that a claim holds and that a vendor's device plugin offers as well: they are in use on their node.

A Dynamic Resource Allocation driver and a device plugin of one vendor number the same devices. A device allocated to a
claim is held by the pod that the claim is reserved for, else by the claim itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from hami_plugins.model.claims import AttributeValue, DynamicResources, PoolDevice
from hami_plugins.model.devices import AllocatedShare, CoreMask, Device
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.pods import ContainerAllocation, PodRecord
from hami_plugins.model.requests import ContainerKind
from hami_plugins.model.units import DeviceId, NodeName, PodUid
from hami_plugins.model.vendor import ClaimedDevices, VendorSpec


class HeldByClaims:
    """What the claims of a cluster hold of the devices of these vendors, by node."""

    def __init__(self, vendors: Iterable[VendorSpec], dynamic: DynamicResources) -> None:
        self._claims = dynamic.claims
        self._held: dict[NodeName, dict[str, list[tuple[VendorSpec, int]]]] = {}
        drivers = {spec.records.claimed.driver: spec for spec in vendors if spec.records.claimed is not None}
        numbers = dict(_numbers(drivers, dynamic))
        for claim in dynamic.claims.values():
            for each in () if claim.allocation is None else claim.allocation.devices:
                found = numbers.get(each.device)
                if found is not None and not each.admin:
                    node, number = found
                    of_node = self._held.setdefault(node, defaultdict(list))
                    of_node[claim.full_name].append((drivers[each.device.pool.driver], number))

    def on(self, entry: NodeEntry) -> Iterator[PodRecord]:
        """The holders of the node's devices, each with whole devices and nothing else of the node."""
        devices = {
            (device.vendor, device.index): (device, name)
            for device, name in zip(entry.state.shape.devices, entry.ids, strict=True)
        }
        for name, held in self._held.get(entry.name, {}).items():
            claim = self._claims[name]
            found = [(spec, *devices[key]) for spec, number in held if (key := (spec.name, number)) in devices]
            shares = tuple(_whole(spec, device, known) for spec, device, known in found)
            if shares:
                pod = next(iter(claim.users), f"claim {claim.name}")
                allocations = (ContainerAllocation(ContainerKind.APP, shares),)
                uid = PodUid(f"claim:{claim.full_name}")
                yield PodRecord(namespace=claim.namespace, name=pod, uid=uid, allocations=allocations)


def _whole(spec: VendorSpec, device: Device, name: DeviceId) -> AllocatedShare:
    mark = CoreMask((1 << device.cores) - 1)
    return AllocatedShare(
        device=name, vendor=spec.name, word=spec.name, memory=device.memory, cores=device.cores, mark=mark
    )


def _numbers(
    drivers: Mapping[str, VendorSpec], dynamic: DynamicResources
) -> Iterator[tuple[PoolDevice, tuple[NodeName, int]]]:
    """The node and the number of each published device of these drivers."""
    for published in dynamic.slices:
        spec = drivers.get(published.pool.driver)
        if spec is None or spec.records.claimed is None or published.nodes.node is None:
            continue
        for device in published.devices:
            number = _number(device.attributes, spec.records.claimed)
            if number is not None:
                yield PoolDevice(published.pool, device.name), (published.nodes.node, number)


def _number(attributes: Mapping[str, AttributeValue], claimed: ClaimedDevices) -> int | None:
    """The number by which the device plugin knows a device; names may be written with the driver's domain."""
    for name in (claimed.number, f"{claimed.driver}/{claimed.number}"):
        value = attributes.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return None
