"""Findings about what bound pods hold, as messages for operators.

Pods that another scheduler bound are accepted as they are, because they run. Inconsistencies are reported; no
allocation is removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from hami_plugins.allocations.answers import AuditFinding, AuditFindingKind
from hami_plugins.allocations.requests import Compared
from hami_plugins.allocations.resizes import BookedMemory
from hami_plugins.engine.holdings import Inconsistency, InconsistencyKind, flaws_of
from hami_plugins.engine.registry import Registry
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.pods import Container, ContainerAllocation, Pod, PodRecord, Unlocated
from hami_plugins.model.requests import ContainerKind
from hami_plugins.model.units import DeviceId, NodeName, PodUid
from hami_plugins.model.vendor import VendorSpec

_OVERDRAWN: Final = {
    InconsistencyKind.SLOTS: (AuditFindingKind.SLOTS, "slots"),
    InconsistencyKind.MEMORY: (AuditFindingKind.MEMORY, "MiB"),
    InconsistencyKind.CORES: (AuditFindingKind.CORES, "cores"),
}

_AGAIN: Final = "Delete it, so that it is placed anew"

_MOST_NAMES: Final = 5


Written = tuple[tuple[ContainerAllocation, ...], tuple[Unlocated, ...]]
"""What a pod's annotations say of its devices."""


class BoundPod(NamedTuple):
    """A pod that the watch shows on a node.

    ``unreadable`` is what could not be read of its allocation, ``wanting`` are the containers that ask for devices and
    have none; ``changed`` is whether its annotations say something else by now than when it was bound. ``fault`` is why
    nothing of it could be read but its annotations, ``edited`` who wrote them after it was bound, before it was seen.
    ``remedied`` is whether ``unreadable`` says what to do about it. ``larger`` is the amount that is larger than its
    request, ``uncompared`` what has to be compared once the node is known, ``written`` what its annotations said first.
    ``plain`` is what it holds without resizes, ``memory`` what those have booked.
    """

    node: NodeName
    unreadable: str
    wanting: tuple[str, ...]
    changed: bool
    fault: str
    edited: str
    remedied: bool
    larger: str
    uncompared: tuple[Compared, ...]
    written: Written
    plain: tuple[ContainerAllocation, ...] = ()
    memory: BookedMemory = BookedMemory()

    def written_first(self, said: Written) -> Written:
        """What the annotations said first, where they say this now: a pod that may use any device may be told which."""
        allocations, unlocated = self.written
        return allocations, unlocated if all_particular(unlocated) else said[1]

    @property
    def is_wrong(self) -> bool:
        """Whether the pod has a finding although it may hold no devices."""
        return bool(self.unreadable or self.fault or self.wanting or self.larger)

    def larger_on(self, entry: NodeEntry) -> str:
        """The amount that is larger than its request, with the devices of its node."""
        return self.larger or next(filter(None, (each.excess(entry.device) for each in self.uncompared)), "")


class AuditSnapshot(NamedTuple):
    """What pods hold on all nodes at one moment. Nothing of it changes, so that it can be looked through at leisure."""

    entries: tuple[NodeEntry, ...]
    bound: Mapping[PodUid, BoundPod]

    def findings(self) -> tuple[AuditFinding, ...]:
        """What is wrong with it, node by node: allocations of another scheduler, or by hand."""
        homes = _homes_of(self.entries)
        return tuple(found for entry in self.entries for found in on_node(entry, self.bound, homes))


def all_particular(unlocated: Iterable[Unlocated]) -> bool:
    """Whether it is known which devices these are, once their node is."""
    return all(each.is_particular for each in unlocated)


def wanting(pod: Pod, record: PodRecord, registry: Registry) -> tuple[str, ...]:
    """The containers that ask for devices and hold none. Init containers may use what an application has later.

    Devices that only the node can name are held as well.
    """
    told = {each.share.vendor for each in record.unlocated}
    return tuple(
        container.name
        for container, allocation in zip(pod.containers, record.allocations, strict=True)
        if not allocation.shares and container.kind is not ContainerKind.INIT
        if any(_asks(spec, container) for spec in registry if spec.name not in told)
    )


def _asks(spec: VendorSpec, container: Container) -> bool:
    """Whether a container wants anything of a vendor: an explicit zero of devices wants nothing."""
    count = container.amount(spec.resources.count)
    if count is not None:
        return bool(count.nano)
    return any((amount := container.amount(name)) is not None and amount.nano for name in spec.resources.all())


def on_node(
    entry: NodeEntry, bound: Mapping[PodUid, BoundPod], homes: Mapping[DeviceId, NodeName]
) -> Iterator[AuditFinding]:
    """What is wrong on one node: pod by pod, and once for each device that is promised more than it has.

    Pods that are not ``bound`` yet are left out; ``homes`` are the nodes of all known devices.
    """
    told: set[tuple[InconsistencyKind, DeviceId]] = set()
    suspect = _suspect(entry)
    for record in entry.pods:
        known = bound.get(record.uid)
        if known is None:
            continue
        if (own := _own(known, record, entry)) is not None:
            yield _of_pod(own[0], entry, record, own[1])
        for flaw in flaws_of(record, entry) if suspect else ():
            if (flaw.kind, flaw.device) not in told:
                if flaw.kind in _OVERDRAWN:
                    told.add((flaw.kind, flaw.device))
                yield from _found(flaw, record, entry, homes)


def _own(known: BoundPod, record: PodRecord, entry: NodeEntry) -> tuple[AuditFindingKind, str] | None:
    """What is wrong with an allocation whatever the node has and what to do, in words that follow the pod's name."""
    if written := _written_later(known, record):
        return AuditFindingKind.CHANGED, f"{written}. {_AGAIN}"
    if larger := known.larger_on(entry):
        return AuditFindingKind.LARGER, f"has an allocation larger than its request ({larger}). {_AGAIN}"
    if known.unreadable:
        again = "" if known.remedied else f". {_AGAIN}"
        return AuditFindingKind.UNREADABLE, f"has an allocation that cannot be read: {known.unreadable}{again}"
    if known.fault:
        words = f"cannot be read, and is assumed to hold the devices that its annotations name: {known.fault}"
        return AuditFindingKind.UNREADABLE, f"{words}. {_AGAIN}"
    if known.wanting:
        words = f"runs without the devices that it asks for (container {', '.join(known.wanting)})"
        return AuditFindingKind.UNALLOCATED, f"{words}. {_AGAIN}"
    return None


def _written_later(known: BoundPod, record: PodRecord) -> str:
    """What is known of an allocation that was written after its pod was bound; empty where none was."""
    if known.changed:
        held = ", ".join(
            dict.fromkeys(share.device for allocation in record.allocations for share in allocation.shares)
        )
        return (
            f"was bound with {held}, and the allocation in its annotations was changed afterwards; the first one counts"
        )
    if known.edited:
        return f"has an allocation that {known.edited} wrote after it was bound, so that its actual devices are unknown"
    return ""


def _suspect(entry: NodeEntry) -> bool:
    """Whether a closer look at the pods of a node may find anything: on nearly all nodes it would not."""
    return any(record.strangers for record in entry.pods) or any(
        used.marks or used.slots > device.slots or used.memory > device.memory or used.cores > device.cores
        for device, used in zip(entry.state.shape.devices, entry.state.usage, strict=True)
    )


def _found(
    flaw: Inconsistency, record: PodRecord, entry: NodeEntry, homes: Mapping[DeviceId, NodeName]
) -> Iterator[AuditFinding]:
    overdrawn = _OVERDRAWN.get(flaw.kind)
    if overdrawn is not None:
        finding, unit = overdrawn
        pods = sorted({record.full_name, *flaw.others})
        remedy = "delete some, so that they are" if flaw.others else "delete it, so that it is"
        text = (
            f"{flaw.device} on node {entry.name}: {flaw.promised} of {flaw.capacity} {unit} are promised, to "
            f"{_named(pods)}; {remedy} placed anew"
        )
        yield AuditFinding(finding=finding, node=entry.name, pods=tuple(pods), text=text, device=flaw.device)
    elif flaw.kind is InconsistencyKind.STRANGER:
        home = homes.get(flaw.device)
        if home is None:
            words = f"holds {flaw.device}, which no node has registered. {_AGAIN}"
            yield _of_pod(AuditFindingKind.UNKNOWN_CARD, entry, record, words, flaw.device)
        else:
            words = f"holds {flaw.device}, which belongs to node {home}. {_AGAIN}"
            yield _of_pod(AuditFindingKind.OTHER_NODE, entry, record, words, flaw.device)
    elif flaw.kind is InconsistencyKind.UNPLACED:
        yield _of_pod(AuditFindingKind.PARTITION, entry, record, f"{flaw.device}: {flaw.why}. {_AGAIN}", flaw.device)
    elif flaw.kind is InconsistencyKind.OVERLAP:
        words = f"holds the same partition of {flaw.device} as {_named(flaw.others)}. {_AGAIN}"
        yield _of_pod(AuditFindingKind.PARTITION, entry, record, words, flaw.device)


def _of_pod(
    finding: AuditFindingKind,
    entry: NodeEntry,
    record: PodRecord,
    words: str,
    device: DeviceId = DeviceId(""),
) -> AuditFinding:
    """About one pod; the words follow its name."""
    text = f"pod {record.full_name} on node {entry.name} {words}"
    return AuditFinding(finding=finding, node=entry.name, pods=(record.full_name,), text=text, device=device)


def _named(pods: Sequence[str]) -> str:
    rest = len(pods) - _MOST_NAMES
    return ", ".join(pods[:_MOST_NAMES]) + (f" and {rest} more" if rest > 0 else "")


def _homes_of(entries: Iterable[NodeEntry]) -> dict[DeviceId, NodeName]:
    """On which node each device is."""
    return {device: entry.name for entry in entries for device in entry.ids}
