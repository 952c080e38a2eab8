"""Allocations of bound pods, whichever component bound them: this allocator, AWS's scheduler extension, or
kube-scheduler or Volcano alone.

AWS's device plugin hands out the numbers of ``AWS_NEURON_IDS`` and reads nothing else, so the devices with these
numbers are held; HAMi's list names them per container. Readable parts are held; contradictions are reported in
addition. A pod without a complete device annotation is assumed to hold every device of its node: nothing is ever
allocated twice. A pod that requests nothing gets nothing from the kubelet, and so holds nothing, whatever its
annotations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hami_plugins.model.devices import AllocatedShare, CoreMask
from hami_plugins.model.pods import Container, ContainerAllocation, Pod, Unlocated
from hami_plugins.model.quantity import Quantity
from hami_plugins.model.requests import ContainerKind
from hami_plugins.model.units import CoreShare, DeviceId, MiB
from hami_plugins.model.vendor import ForeignAllocation, VendorSpec
from hami_plugins.vendors.awsneuron import IDS_KEY, KIND_KEY
from neuron_topology.core.nodes import MOST_CORES

EVERY_CORE: Final = (1 << MOST_CORES) - 1
"""The mask of a device that is held whole, however many cores it has."""

CORES_OF_A_DEVICE: Final = (1, 2, 4, 8)
"""How many logical cores a device of any type may have."""

_DIGITS: Final = 6
"""A longer number is none of a device or core."""

_UNKNOWN: Final = "its annotations do not name its Neuron devices, so it is assumed to hold all devices of the node"
_WRITE_DOWN: Final = f"annotate it with {IDS_KEY}, or recreate it with a scheduler that writes them"

_NOTHING: Final = "it requests no Neuron devices, so it holds none, whatever its annotations name"
_TAKE_OFF: Final = "remove them"


def asked_by(spec: VendorSpec, container: Container) -> list[tuple[str, Quantity]]:
    """What a container asks for, by name; an explicit zero is nothing."""
    names = spec.resources
    wanted = (names.count, names.cores, *names.older)
    return [(name, found) for name in wanted if (found := container.amount(name)) is not None and found.nano]


def foreign_allocations(spec: VendorSpec, pod: Pod, listed: Sequence[Sequence[AllocatedShare]]) -> ForeignAllocation:
    """The devices or cores that AWS's plugin gives the pod by its annotation, or every device if that is unreadable.

    ``listed`` is each container's allocation in HAMi's list. It counts if it covers the plugin's numbers, or if there
    are none; otherwise both are held.
    """
    amounts = [sum(max(0, found.ceiling) for _, found in asked_by(spec, each)) for each in pod.containers]
    written = pod.annotations.get(IDS_KEY, "")
    if not any(amounts):
        return (
            ForeignAllocation(remarks=(_NOTHING,), remedy=_TAKE_OFF) if written or any(listed) else ForeignAllocation()
        )
    if any(listed) and (not written or _covers(spec, pod, listed, _numbers(written))):
        return ForeignAllocation(_allocations(pod, listed))
    found = _told(spec, pod, amounts)
    if not any(listed):
        return found
    beside = {share.device for allocation in found.allocations for share in allocation.shares}
    both = _allocations(pod, [[each for each in shares if each.device not in beside] for shares in listed])
    allocations = [
        ContainerAllocation(one.kind, (*one.shares, *other.shares))
        for one, other in zip(both, found.allocations or _allocations(pod, [()] * len(listed)), strict=True)
    ]
    remark = f"{IDS_KEY} {written!r} names what {spec.keys.allocated} does not, and both are held until the pod ends"
    return ForeignAllocation(tuple(allocations), found.unlocated, (remark, *found.remarks), found.remedy)


def _told(spec: VendorSpec, pod: Pod, amounts: Sequence[int]) -> ForeignAllocation:
    """The numbers for AWS's plugin, of a pod that requests devices."""
    written = pod.annotations.get(IDS_KEY, "")
    numbers = _numbers(written)
    peak = _peak(pod.containers, amounts)
    of_cores = any(name == spec.resources.cores for each in pod.containers for name, _ in asked_by(spec, each))
    unclear = KIND_KEY in pod.annotations and not of_cores
    remarks = _remarks(written, _parts(written), numbers, peak)
    holder = _first_asking(pod.containers, amounts)
    if len(numbers) < peak or not numbers or unclear:
        held = (Unlocated(holder, _whole(spec, "")),)
        return ForeignAllocation(unlocated=held, remarks=(*remarks, _UNKNOWN), remedy=_WRITE_DOWN)
    if of_cores:
        return ForeignAllocation(unlocated=(Unlocated(holder, _whole(spec, ""), numbers),), remarks=remarks)
    return ForeignAllocation(_dealt(spec, pod, amounts, numbers, holder), remarks=remarks)


def _parts(written: str) -> list[str]:
    return [part.strip() for part in written.split(",")] if written else []


def _numbers(written: str) -> tuple[int, ...]:
    """The different numbers of an annotation that may be anything."""
    legible = (int(each) for each in _parts(written) if each.isascii() and each.isdecimal() and len(each) <= _DIGITS)
    return tuple(dict.fromkeys(legible))


def _covers(spec: VendorSpec, pod: Pod, listed: Sequence[Sequence[AllocatedShare]], numbers: Sequence[int]) -> bool:
    """Whether the list contains all given numbers: devices of this node, or cores of these."""
    masks: dict[str, int] = {}
    for share in (each for shares in listed for each in shares):
        bits = share.mark.bits if isinstance(share.mark, CoreMask) else EVERY_CORE
        masks[share.device] = masks.get(share.device, 0) | bits
    if KIND_KEY not in pod.annotations:
        return all(_device(spec, pod, number) in masks for number in numbers)
    return any(
        all(masks.get(_device(spec, pod, number // cores), 0) >> number % cores & 1 for number in numbers)
        for cores in CORES_OF_A_DEVICE
    )


def _allocations(pod: Pod, shares: Sequence[Sequence[AllocatedShare]]) -> tuple[ContainerAllocation, ...]:
    return tuple(ContainerAllocation(each.kind, tuple(own)) for each, own in zip(pod.containers, shares, strict=True))


def _device(spec: VendorSpec, pod: Pod, number: int) -> str:
    """The name of a device of the pod's node."""
    return f"{pod.node}-{spec.name}-{number}"


def _remarks(written: str, parts: Sequence[str], numbers: Sequence[int], peak: int) -> tuple[str, ...]:
    if len(numbers) < len(parts):
        return (f"{IDS_KEY} {written!r} is not a list of different numbers; it asks for {peak}",)
    if written and len(numbers) != peak:
        return (f"{IDS_KEY} names {len(numbers)}, and the pod asks for {peak}",)
    return ()


def _peak(containers: Sequence[Container], amounts: Sequence[int]) -> int:
    """What a pod asks for at once: all that runs together, or the largest init container, as Kubernetes counts it."""
    together = sum(amount for each, amount in zip(containers, amounts, strict=True) if runs(each))
    return max(together, *amounts) if amounts else 0


def runs(container: Container) -> bool:
    """Whether a container stays, as applications and sidecars do."""
    return container.kind is not ContainerKind.INIT


def _first_asking(containers: Sequence[Container], amounts: Sequence[int]) -> int:
    """The container that holds what cannot be dealt out: the first that asks and stays, else the first that asks."""
    order = sorted(range(len(containers)), key=lambda at: (not amounts[at], not runs(containers[at]), at))
    return order[0]


def _dealt(
    spec: VendorSpec, pod: Pod, amounts: Sequence[int], numbers: Sequence[int], holder: int
) -> tuple[ContainerAllocation, ...]:
    """Every device to one container, in order; unrequested ones go to the holder.

    Init containers run on what the others are given later, and have devices only where no other container asks.
    """
    left = list(numbers)
    dealt: list[list[int]] = [[] for _ in amounts]
    for at, (container, amount) in enumerate(zip(pod.containers, amounts, strict=True)):
        if runs(container):
            dealt[at], left = left[:amount], left[amount:]
    dealt[holder] += left
    return tuple(
        ContainerAllocation(each.kind, tuple(_whole(spec, _device(spec, pod, number)) for number in found))
        for each, found in zip(pod.containers, dealt, strict=True)
    )


def _whole(spec: VendorSpec, device: str) -> AllocatedShare:
    return AllocatedShare(
        device=DeviceId(device),
        vendor=spec.name,
        word=spec.wire_word(),
        memory=MiB(0),
        cores=CoreShare(0),
        mark=CoreMask(EVERY_CORE),
    )
