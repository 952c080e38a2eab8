"""The three places where vendors tell what a node has: a JSON register, a colon register, or the node's capacity."""

from __future__ import annotations

from functools import lru_cache

from hami_plugins.errors import WireError
from hami_plugins.model.devices import Device
from hami_plugins.model.inventory import NO_DEVICES, DeviceInventory, NodeObject
from hami_plugins.model.units import INT32_MAX, CoreShare, DeviceId, MiB, VendorName
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.wire import node_devices
from hami_plugins.wire.node_devices import RegisteredDevice

MOST_CARDS = 16_384
"""More cards than this on one node is a mistake in the node object, not a machine."""


def json_register(
    spec: VendorSpec,
    node: NodeObject,
    *,
    cores: CoreShare | None = None,
    group: str = "",
    traits: tuple[str, ...] = (),
) -> DeviceInventory:
    """Devices from the vendor's JSON register annotation (HAMi 2.10.0 ``pkg/device/devices.go``).

    ``cores`` overrides the entries' cores; ``group`` names the custom member that distinguishes interconnect groups;
    ``traits`` are custom members to keep. The registers of most nodes differ in ids alone; the rest is read once.
    """
    text = node.annotations.get(spec.keys.register)
    if text is None:
        return NO_DEVICES
    ids, common = node_devices.without_ids(spec.keys.register, text)
    return DeviceInventory(_devices_of_text(spec.name, spec.keys.register, common, cores, group, traits), ids)


def colon_register(spec: VendorSpec, node: NodeObject) -> DeviceInventory:
    """Devices from the vendor's colon register annotation (HAMi 2.10.0 ``pkg/device/devices.go``)."""
    text = node.annotations.get(spec.keys.register)
    return NO_DEVICES if text is None else registered(spec, node_devices.decode_csv(spec.keys.register, text))


def registered(spec: VendorSpec, found: tuple[RegisteredDevice, ...]) -> DeviceInventory:
    """An inventory from decoded register entries."""
    return DeviceInventory(_devices(spec.name, found), tuple(each.id for each in found))


@lru_cache(maxsize=1024)
def _devices_of_text(  # noqa: PLR0913, PLR0917 - all that the devices depend on
    vendor: VendorName, key: str, text: str, cores: CoreShare | None, group: str, traits: tuple[str, ...]
) -> tuple[Device, ...]:
    return _devices(vendor, node_devices.decode_json(key, text), cores, group, traits)


def _devices(
    vendor: VendorName,
    found: tuple[RegisteredDevice, ...],
    cores: CoreShare | None = None,
    group: str = "",
    traits: tuple[str, ...] = (),
) -> tuple[Device, ...]:
    return tuple(
        Device(
            vendor=vendor,
            model=each.model,
            slots=each.slots,
            memory=each.memory,
            cores=each.cores if cores is None else cores,
            index=each.index,
            numa=each.numa,
            mode=each.mode,
            healthy=each.healthy,
            group=_word(each.custom.get(group)) if group else None,
            profiles=each.profiles,
            traits=tuple((name, word) for name in sorted(traits) if (word := _word(each.custom.get(name))) is not None),
        )
        for each in found
    )


def cards(  # noqa: PLR0913 - one parameter for each fact about a card
    spec: VendorSpec,
    node: NodeObject,
    count: int,
    *,
    infix: str,
    slots: int,
    memory: MiB,
    cores: CoreShare,
    right_half_numa: bool = False,
) -> DeviceInventory:
    """``count`` equal cards named ``<node>-<infix>-<i>``, for vendors that say only how many they have.

    ``right_half_numa`` puts the second half on NUMA node 1.
    """
    place = f"node {node.name}: {spec.resources.count}"
    if not 0 <= count <= MOST_CARDS:
        raise WireError(place, str(count), f"not a number of cards up to {MOST_CARDS}")
    if memory > INT32_MAX:
        raise WireError(place, str(memory), "more MiB per card than any has")
    if count == 0:
        return NO_DEVICES
    return DeviceInventory(
        tuple(
            Device(
                vendor=spec.name,
                model=spec.name,
                slots=slots,
                memory=memory,
                cores=cores,
                index=index,
                numa=1 if right_half_numa and index >= count // 2 else 0,
            )
            for index in range(count)
        ),
        tuple(DeviceId(f"{node.name}-{infix}-{index}") for index in range(count)),
    )


def cards_by_cores(
    spec: VendorSpec, node: NodeObject, *, infix: str, card_cores: CoreShare, memory_unit: MiB
) -> DeviceInventory:
    """Equal cards from the node's capacity; one whose cores are not all there counts, and memory is spread evenly."""
    cores = capacity_of(node, spec.resources.cores)
    if cores is None:
        return NO_DEVICES
    memory = capacity_of(node, spec.resources.memory) or 0
    return cards(
        spec,
        node,
        -(-cores // card_cores),
        infix=infix,
        slots=100,
        memory=MiB(memory * memory_unit * card_cores // cores),
        cores=card_cores,
    )


def capacity_of(node: NodeObject, resource: str) -> int | None:
    """A node's capacity of a resource as a whole number; ``None`` when there is none of it.

    Raises ``WireError`` for an amount that no device plugin can mean.
    """
    found = node.capacity.get(resource) if resource else None
    if found is None or found.nano == 0:
        return None
    if found.whole is None or not 0 < found.whole <= INT32_MAX * 1024:
        raise WireError(f"node {node.name}: capacity {resource}", str(found), "not a whole amount of devices")
    return found.whole


def _word(value: object) -> str | None:
    """A custom member as text."""
    if value is None or isinstance(value, bool):
        return None if value is None else str(value).lower()
    return str(value)
