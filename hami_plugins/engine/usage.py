"""What a pod uses, once: the only accounting there is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from hami_plugins.model.devices import IDLE, DeviceUsage, Mark
from hami_plugins.model.pods import ContainerAllocation, PodRecord
from hami_plugins.model.requests import ContainerKind
from hami_plugins.model.units import CoreShare, DeviceId, MiB

Key = TypeVar("Key", DeviceId, int)
"""A device by id, or by its position on a node."""


class HeldDevice(NamedTuple):
    """What a pod effectively holds of one device at its peak."""

    slots: int
    memory: int
    cores: int
    marks: tuple[Mark, ...] = ()


_NOTHING = HeldDevice(0, 0, 0)


def held_by(
    allocations: Sequence[ContainerAllocation], *, init_finished: bool = False
) -> Mapping[DeviceId, HeldDevice]:
    """What a pod holds of each device at its peak; once its init containers are done they no longer count."""
    return peak(
        (
            allocation.kind,
            ((share.device, held_of(share.memory, share.cores, share.mark)) for share in allocation.shares),
        )
        for allocation in allocations
        if not (init_finished and allocation.kind is ContainerKind.INIT)
    )


def held_of(memory: int, cores: int, mark: Mark | None) -> HeldDevice:
    """What one share holds."""
    return HeldDevice(1, memory, cores, () if mark is None else (mark,))


def peak(containers: Iterable[tuple[ContainerKind, Iterable[tuple[Key, HeldDevice]]]]) -> Mapping[Key, HeldDevice]:
    """What containers in the pod's order hold of each device at most.

    Init containers run one after another, the others together: per device and dimension the larger of the sum over
    sidecars and applications, and of each init container together with the sidecars started before it (HAMi
    ``initContainer.go``; sidecars as Kubernetes counts them). An init phase takes one slot.
    """
    running: dict[Key, HeldDevice] = {}
    peaks: dict[Key, HeldDevice] = {}
    for kind, shares in containers:
        if kind is ContainerKind.INIT:
            for device, held in _together(shares).items():
                most = _sum(running.get(device, _NOTHING), held._replace(slots=1))
                peaks[device] = _larger(peaks.get(device, _NOTHING), most)
        else:
            for device, held in _together(shares).items():
                running[device] = _sum(running.get(device, _NOTHING), held)
    if not peaks:
        return running
    return {
        device: _larger(running.get(device, _NOTHING), peaks.get(device, _NOTHING)) for device in {**running, **peaks}
    }


def usage_of(pods: Iterable[PodRecord], ids: Sequence[DeviceId]) -> tuple[DeviceUsage, ...]:
    """The usage of a node's devices, from nothing but its pods. Shares of unknown devices are not counted anywhere."""
    usage = dict.fromkeys(ids, IDLE)
    for pod in pods:
        add(usage, pod)
    return tuple(usage.values())


def add(usage: dict[DeviceId, DeviceUsage], pod: PodRecord) -> None:
    """Add one pod to the usage of the devices that are keys of ``usage``."""
    for device, held in held_by(pod.allocations, init_finished=pod.init_finished).items():
        used = usage.get(device)
        if used is not None:
            usage[device] = used.plus(MiB(held.memory), CoreShare(held.cores), held.marks, held.slots)


def _together(shares: Iterable[tuple[Key, HeldDevice]]) -> dict[Key, HeldDevice]:
    """One container's shares per device (a partitioned card may be named more than once)."""
    found: dict[Key, HeldDevice] = {}
    for device, held in shares:
        before = found.get(device)
        found[device] = held if before is None else _sum(before, held)
    return found


def _sum(one: HeldDevice, other: HeldDevice) -> HeldDevice:
    return HeldDevice(
        one.slots + other.slots, one.memory + other.memory, one.cores + other.cores, _joined(one.marks, other.marks)
    )


def _larger(one: HeldDevice, other: HeldDevice) -> HeldDevice:
    return HeldDevice(
        max(one.slots, other.slots),
        max(one.memory, other.memory),
        max(one.cores, other.cores),
        _joined(one.marks, other.marks),
    )


def _joined(one: tuple[Mark, ...], other: tuple[Mark, ...]) -> tuple[Mark, ...]:
    """Both sets of marks; a place that an init container and an application hold in turn counts once."""
    return one + tuple(mark for mark in other if mark not in one) if other else one
