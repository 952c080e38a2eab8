"""Koordinator's record of a placement as the records of HAMi and Volcano and as allocations, and back.

Koordinator records cards of a pod, the others cards of each container: the one container that asks for cards has them
all. Source: Koordinator 1.7.0 ``apis/extension/device_share.go``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from hami_plugins.engine import koordinator as rules
from hami_plugins.errors import WireError
from hami_plugins.model.devices import AllocatedShare
from hami_plugins.model.pods import Container, ContainerAllocation
from hami_plugins.model.quantity import NANO, Quantity
from hami_plugins.model.units import MEBIBYTE, CoreShare, DeviceId, MiB, VendorName
from hami_plugins.wire import pod_devices, quantity, volcano
from hami_plugins.wire.koordinator import (
    ALLOCATED_KEY,
    CORE,
    GPU_TYPE,
    MEMORY,
    RATIO,
    AllocatedDevice,
    Allocations,
)
from hami_plugins.wire.pod_devices import AssignedDevice

WORD: Final = "NVIDIA"


class NodeDevice(NamedTuple):
    """A card of a node: its number there, its id, and its memory in bytes."""

    minor: int
    id: DeviceId
    memory: int


def assigned(allocations: Allocations, cards: Iterable[NodeDevice] = ()) -> tuple[AssignedDevice, ...]:
    """The cards of a pod as HAMi and Volcano record them. ``cards`` are those of its node, for what the record omits.

    Raises ``WireError`` for a card whose id or share is missing: it is held, but which one or how much is unknown.
    """
    by_minor = {card.minor: card for card in cards}
    return tuple(_assigned(each, by_minor.get(each.minor)) for each in allocations.get(GPU_TYPE, ()))


def hami_record(devices: Sequence[AssignedDevice], *, containers: int, at: int) -> str:
    """HAMi's text for a pod of so many containers, the cards being those of the one at ``at``."""
    return pod_devices.encode(_placed(devices, containers, at))


def volcano_record(devices: Sequence[AssignedDevice], *, containers: int, at: int) -> str:
    """The same for Volcano, whose text does not end in a separator."""
    return volcano.encode_assignment(_placed(devices, containers, at))


def allocations(
    devices: Sequence[AssignedDevice], containers: Sequence[Container], *, at: int
) -> tuple[ContainerAllocation, ...]:
    """The same as what each container of the pod holds."""
    shares = tuple(
        AllocatedShare(
            device=each.device, vendor=VendorName(WORD), word=each.word, memory=each.memory, cores=each.cores
        )
        for each in devices
    )
    return tuple(
        ContainerAllocation(container.kind, shares if index == at else ()) for index, container in enumerate(containers)
    )


def synthesised(devices: Iterable[AssignedDevice], cards: Iterable[NodeDevice]) -> Allocations:
    """The record by which Koordinator counts cards that another scheduler gave out, as it would write it itself.

    Raises ``WireError`` for a card that the node does not have.
    """
    by_id: Mapping[DeviceId, NodeDevice] = {card.id: card for card in cards}
    found = []
    for each in devices:
        card = by_id.get(each.device)
        if card is None:
            raise WireError(ALLOCATED_KEY, each.device, "the node has no card of this id")
        found.append(_synthesised(each, card))
    return {GPU_TYPE: tuple(found)} if found else {}


def _placed(devices: Sequence[AssignedDevice], containers: int, at: int) -> list[Sequence[AssignedDevice]]:
    return [devices if index == at else () for index in range(containers)]


def _assigned(device: AllocatedDevice, card: NodeDevice | None) -> AssignedDevice:
    name = device.id or (card.id if card else "")
    if not name:
        raise WireError(ALLOCATED_KEY, str(device.minor), "no id, and the node has no card of this number")
    size = _bytes(device, card)
    cores = device.resources.get(CORE)
    return AssignedDevice(
        DeviceId(name), WORD, MiB(size // MEBIBYTE), CoreShare(cores.ceiling if cores is not None else 0)
    )


def _bytes(device: AllocatedDevice, card: NodeDevice | None) -> int:
    memory, ratio = device.resources.get(MEMORY), device.resources.get(RATIO)
    if memory is not None:
        return memory.ceiling
    if ratio is None or card is None:
        raise WireError(ALLOCATED_KEY, str(device.minor), f"no {MEMORY}, and no card of which {RATIO} would be a part")
    return rules.bytes_of(ratio.ceiling, card.memory)


def _synthesised(device: AssignedDevice, card: NodeDevice) -> AllocatedDevice:
    size = device.memory * MEBIBYTE
    amounts = {CORE: device.cores, MEMORY: size, RATIO: rules.percent_of(size, card.memory) if card.memory else 0}
    if not device.cores:
        del amounts[CORE]
    return AllocatedDevice(
        minor=card.minor, id=card.id, resources={name: _quantity(amount) for name, amount in amounts.items()}
    )


def _quantity(amount: int) -> Quantity:
    return Quantity(amount * NANO, quantity.canonical(amount * NANO, binary=True))
