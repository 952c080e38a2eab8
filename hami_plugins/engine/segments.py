"""Lists of allocated devices, a segment for each container: which container a segment is of, and what can still be read
of a list that as a whole cannot be read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TypeVar

from hami_plugins.errors import WireError
from hami_plugins.model.devices import AllocatedShare
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.pods import Container, ContainerAllocation, Pod, Unlocated
from hami_plugins.model.requests import ContainerKind
from hami_plugins.model.units import CoreShare, MiB
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.wire import pod_devices
from hami_plugins.wire.pod_devices import AssignedDevice

Of = TypeVar("Of")


def salvaged(spec: VendorSpec, pod: Pod, text: str) -> tuple[tuple[ContainerAllocation, ...], tuple[Unlocated, ...]]:
    """What an unreadable list of HAMi's holds: the records that can be read, and all of the devices of the others.

    The pod runs with some of these devices, so that no other pod may be given them. What the list says for more
    containers than the pod has counts for the last one. An unreadable list of another form holds nothing, and what a
    pod holds of a vendor with ``foreign_allocations`` is found out there.
    """
    records = spec.records
    if spec.dialect is not Dialect.HAMI or records.read is not None or records.foreign_allocations is not None:
        return (), ()
    if not pod.containers:
        return (), ()
    pieces = list(pod_devices.salvaged(text))
    most = len(pod.containers)
    pieces[most - 1 :] = [tuple(chain.from_iterable(pieces[most - 1 :]))] if len(pieces) > most else pieces[most - 1 :]
    shares: list[list[AllocatedShare]] = [[] for _ in pod.containers]
    wholes: list[Unlocated] = []
    for at, piece in enumerate(aligned(pieces, spec, pod.containers)):
        for each in piece:
            if isinstance(each, AssignedDevice):
                shares[at].extend(shares_of(spec, (each,)))
            else:
                unread = AssignedDevice(each, spec.wire_word(), MiB(0), CoreShare(0))
                wholes.extend(Unlocated(at, share, whole=True) for share in shares_of(spec, (unread,)))
    found = (
        ContainerAllocation(container.kind, tuple(held)) for container, held in zip(pod.containers, shares, strict=True)
    )
    return tuple(found), tuple(wholes)


def shares_of(spec: VendorSpec, assigned: Iterable[AssignedDevice]) -> tuple[AllocatedShare, ...]:
    """The records of a list as shares of the vendor's devices."""
    return tuple(
        AllocatedShare(device=found.device, vendor=spec.name, word=found.word, memory=found.memory, cores=found.cores)
        for found in assigned
    )


def aligned(
    segments: Sequence[Sequence[Of]], spec: VendorSpec, containers: Sequence[Container]
) -> Sequence[Sequence[Of]]:
    """One segment per container. Volcano writes segments only for containers with devices; HAMi 2.10 forgets those of
    idle containers when the card model is not spelled like the vendor (HAMi 2.10.0 ``pkg/scheduler/score.go``)."""
    filled = list(segments)
    while len(filled) > len(containers) and not filled[-1]:
        filled.pop()
    if len(filled) > len(containers):
        raise WireError(
            spec.keys.allocated,
            f"{len(filled)} containers",
            f"names {len(filled)} containers, the pod has {len(containers)}",
        )
    if len(filled) == len(containers):
        return filled
    asking = [at for at, container in enumerate(containers) if _asks(spec, container)]
    if spec.dialect is Dialect.VOLCANO:
        # Volcano itself passes over init containers; what a running container holds must not end with one of them.
        running = [at for at in asking if containers[at].kind is ContainerKind.APP]
        asking = running if sum(map(bool, filled)) <= len(running) else asking
    spoken = [segment for segment in filled if segment]
    result: list[Sequence[Of]] = [() for _ in containers]
    places = asking if len(asking) >= len(spoken) else range(len(containers))
    for at, segment in zip(places, spoken if places is asking else filled, strict=False):
        result[at] = segment
    return result


def asks_for_a_card(spec: VendorSpec, container: Container) -> bool:
    """Whether Volcano writes a list of cards for a container: cores or a percentage alone ask for none."""
    return any(container.amount(name) is not None for name in (spec.resources.count, spec.resources.memory))


def _asks(spec: VendorSpec, container: Container) -> bool:
    if spec.dialect is Dialect.VOLCANO:
        return asks_for_a_card(spec, container)
    return spec.asked_of(container.limits) or spec.asked_of(container.requests)
