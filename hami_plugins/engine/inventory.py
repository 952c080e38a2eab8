"""From Kubernetes objects to node entries and pod records: every vendor asked, and no broken part hiding the rest."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from hami_plugins.engine.counterparts import counterpart
from hami_plugins.engine.registry import Registry
from hami_plugins.engine.resizes import with_memory
from hami_plugins.engine.segments import aligned, salvaged, shares_of
from hami_plugins.engine.usage import usage_of
from hami_plugins.errors import WireError
from hami_plugins.model.devices import AllocatedShare, CoreMask, Device, GroupMember
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.inventory import NO_DEVICES, NodeObject
from hami_plugins.model.nodes import NodeEntry, NodeFacts, NodeShape, NodeState, Problem
from hami_plugins.model.pods import ContainerAllocation, Pod, PodRecord, Unlocated
from hami_plugins.model.quantity import NANO
from hami_plugins.model.requests import ContainerKind
from hami_plugins.model.units import CoreShare, DeviceId, MiB
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.wire import pod_devices, resizes, volcano
from hami_plugins.wire.gang_keys import GROUP_KEY, QUEUE_KEY, TASK_KEY
from hami_plugins.wire.pod_devices import AssignedDevice


class NodeBuilder:
    """Makes node entries; equal shapes are shared, so that equal states are found quickly."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._shapes: dict[NodeShape, NodeShape] = {}

    def entry(self, node: NodeObject, facts: NodeFacts) -> NodeEntry:
        """The node without pods. What a vendor cannot read becomes a problem of the entry, the other vendors stay.

        A device that two have registered is of the one whose resources the node offers, else of the first.
        """
        devices: list[Device] = []
        ids: list[DeviceId] = []
        owners: list[VendorSpec] = []
        traits: list[tuple[str, str]] = []
        links: list[tuple[int, tuple[tuple[int, ...], ...]]] = []
        problems: list[Problem] = []
        notes: list[tuple[str, str]] = []
        for spec in self._registry:
            try:
                found = spec.inventory(spec, node)
            except WireError as error:
                problems.append(Problem(f"node {node.name}", str(error)))
                continue
            if found is NO_DEVICES:
                continue
            if found.links:
                links.append((len(devices), found.links))
            traits.extend(found.traits)
            notes.extend(found.notes)
            problems.extend(Problem(f"node {node.name}", each) for each in found.remarks)
            for device, name in zip(found.devices, found.ids, strict=True):
                if name in ids:
                    at = ids.index(name)
                    if owners[at] is not spec and _offers(node, spec) and not _offers(node, owners[at]):
                        devices[at], owners[at] = device, spec
                        continue
                    problems.append(
                        Problem(f"node {node.name}", f"device {name} is registered twice; the first counts")
                    )
                    continue
                devices.append(device)
                ids.append(name)
                owners.append(spec)
        shape = NodeShape(tuple(devices), _links(len(devices), links), tuple(sorted(traits)))
        shape = self._shapes.setdefault(shape, shape)
        return NodeEntry(
            name=node.name,
            state=NodeState.idle(shape),
            ids=tuple(ids),
            facts=facts,
            problems=tuple(problems),
            notes=tuple(notes),
        )


def _offers(node: NodeObject, spec: VendorSpec) -> bool:
    """Whether a node offers a vendor's devices to the scheduler that sums up nodes."""
    found = node.allocatable.get(spec.resources.count)
    return found is not None and found.nano > 0


def with_pods(entry: NodeEntry, pods: Iterable[PodRecord]) -> NodeEntry:
    """The node with exactly these pods on it; shares of devices that it does not have are kept on the records."""
    records = tuple(pods)
    requested: dict[str, int] = {}
    for record in records:
        add_requests(requested, record, sign=1)
    return NodeEntry(
        name=entry.name,
        state=NodeState(entry.state.shape, usage_of(records, entry.ids)),
        ids=entry.ids,
        facts=entry.facts,
        pods=records,
        requested=requested,
        problems=entry.problems,
        notes=entry.notes,
    )


def settled(record: PodRecord, entry: NodeEntry, known: Collection[str] = ()) -> PodRecord:
    """The record as its node has it: with what only the node can tell, and devices that it does not have set apart.

    ``known`` are the ids of the node's devices, where the caller has them at hand as a set.
    """
    known = known or entry.ids
    misnumbered: tuple[AllocatedShare, ...] = ()
    if record.unlocated:
        misnumbered = tuple(_misnumbered(record, entry))
        record = _located(record, entry)
    if any(_is_uncounted(share) for allocation in record.allocations for share in allocation.shares):
        record = _counted(record, entry)
    strangers = tuple(
        share for allocation in record.allocations for share in allocation.shares if share.device not in known
    )
    strangers += misnumbered
    return record if strangers == record.strangers else replace(record, strangers=strangers)


def _misnumbered(record: PodRecord, entry: NodeEntry) -> Iterator[AllocatedShare]:
    """Core numbers that the node does not go up to, under names that nothing has."""
    devices = entry.state.shape.devices
    for each in record.unlocated:
        cores = sum(devices[at].cores for at in entry.state.shape.positions.get(each.share.vendor, ()))
        for number in each.numbers:
            if number >= cores:
                yield replace(each.share, device=DeviceId(f"core {number}"))


def _is_uncounted(share: AllocatedShare) -> bool:
    """Whether a share holds a whole device by its mask, and its reader did not know how many cores that has."""
    return isinstance(share.mark, CoreMask) and not share.cores


def _counted(record: PodRecord, entry: NodeEntry) -> PodRecord:
    """The record with the cores of such devices, and the mask of those that there are."""
    cores = {name: device.cores for name, device in zip(entry.ids, entry.state.shape.devices, strict=True)}

    def counted(share: AllocatedShare) -> AllocatedShare:
        if share.device not in cores or not isinstance(share.mark, CoreMask) or share.cores:
            return share
        there = share.mark.bits & ((1 << cores[share.device]) - 1)
        return replace(share, cores=CoreShare(there.bit_count()), mark=CoreMask(there))

    allocations = tuple(
        replace(allocation, shares=tuple(map(counted, allocation.shares))) for allocation in record.allocations
    )
    return replace(record, allocations=allocations)


def _located(record: PodRecord, entry: NodeEntry) -> PodRecord:
    allocations = list(record.allocations)
    for each in record.unlocated:
        before = allocations[each.container]
        allocations[each.container] = replace(before, shares=(*before.shares, *_found(each, entry)))
    return replace(record, allocations=tuple(allocations), unlocated=())


def _found(each: Unlocated, entry: NodeEntry) -> Iterator[AllocatedShare]:
    """The cores of each numbered device; every device, whole, if there are no numbers or one that no device has."""
    devices = entry.state.shape.devices
    if each.whole:
        device = entry.device(each.share.device)
        yield each.share if device is None else replace(each.share, memory=device.memory, cores=device.cores)
        return
    if each.device_index is not None:
        yield _numbered(each, each.device_index, entry)
        return
    held: dict[int, int] = {}
    core = 0
    for position in entry.state.shape.positions.get(each.share.vendor, ()):
        cores = devices[position].cores
        held[position] = sum(1 << number - core for number in each.numbers if core <= number < core + cores)
        core += cores
    certain = bool(each.numbers) and max(each.numbers) < core
    for position, bits in held.items():
        told = bits if certain else (1 << devices[position].cores) - 1
        if told or not certain:
            share = replace(each.share, cores=CoreShare(told.bit_count()), mark=CoreMask(told))
            yield replace(share, device=entry.ids[position])


def _numbered(each: Unlocated, index: int, entry: NodeEntry) -> AllocatedShare:
    """The share on the device of that index; of one that the node does not have, under a name that nothing has."""
    share = each.share
    for position in entry.state.shape.positions.get(share.vendor, ()):
        device = entry.state.shape.devices[position]
        if device.index == index:
            memory = MiB(device.memory * each.percent // 100) if each.percent else share.memory
            return replace(share, device=entry.ids[position], memory=memory)
    return share if share.device else replace(share, device=DeviceId(f"number {index}"))


def add_requests(requested: dict[str, int], record: PodRecord, *, sign: int) -> None:
    """Add (or take away) what a pod counts for in the node's sums, itself included."""
    requested["pods"] = requested.get("pods", 0) + sign * NANO
    for resource, amount in record.requests:
        requested[resource] = requested.get(resource, 0) + sign * amount


class RecordReader:
    """Reads what placed pods hold from their annotations."""

    def __init__(self, registry: Registry) -> None:
        own = {spec.keys.allocated: spec for spec in registry}
        others = ((spec, other) for spec in registry for other in spec.records.counterparts)
        self._lists: Mapping[str, VendorSpec] = {
            other.keys.allocated: counterpart(spec, other) for spec, other in others
        } | own
        self._foreign = [
            (spec, spec.records.foreign_allocations)
            for spec in registry
            if spec.records.foreign_allocations is not None
        ]
        self._labels: dict[tuple[tuple[str, str], ...], Mapping[str, str]] = {}
        self._names: dict[tuple[str, ...], tuple[str, ...]] = {}

    def record(self, pod: Pod) -> tuple[PodRecord, tuple[Problem, ...]]:
        """What a pod on a node holds. An unreadable list is a problem, and holds what can be read of it (``salvaged``).

        Other lists still count. Where the list is fine and what goes with it is not, the amounts count and partitions
        are unknown.
        """
        merged: list[list[AllocatedShare]] = [[] for _ in pod.containers]
        problems: list[Problem] = []
        unlocated: list[Unlocated] = []
        for key, text in pod.annotations.items():
            spec = self._lists.get(key)
            if spec is None:
                continue
            allocated, wholes, wrong = self._held(spec, pod, key, text)
            unlocated.extend(wholes)
            problems.extend(Problem(f"pod {pod.full_name}", str(error)) for error in wrong)
            for at, allocation in enumerate(allocated):
                merged[at].extend(allocation.shares)
        unlocated.extend(self._elsewhere(pod, merged, problems))
        names = tuple(container.name for container in pod.containers)
        allocations = tuple(
            ContainerAllocation(container.kind, tuple(shares))
            for container, shares in zip(pod.containers, merged, strict=True)
        )
        resize = resizes.decode(pod.annotations)
        if resize is not None:
            problems.extend(Problem(f"pod {pod.full_name}", each) for each in resize.problems)
            allocations = with_memory(allocations, names, resize.booked)
        record = PodRecord(
            namespace=pod.namespace,
            name=pod.name,
            uid=pod.uid,
            allocations=allocations,
            containers=self._names.setdefault(names, names),
            requests=pod.constraints.requests,
            init_finished=pod.init_finished,
            terminating=pod.terminating,
            queue=pod.annotations.get(QUEUE_KEY, ""),
            group=pod.annotations.get(GROUP_KEY, ""),
            native_group=pod.native_group,
            task=pod.annotations.get(TASK_KEY, ""),
            priority=pod.priority,
            labels=self._shared(pod.labels),
            apart=pod.neighbours.apart,
            made_at=pod.made_at,
            preemptable=pod.preemptable,
            disruption=pod.disruption,
            owner=pod.owner,
            resize="" if resize is None else resize.message,
            unlocated=tuple(unlocated),
        )
        return record, tuple(problems)

    def _held(
        self, spec: VendorSpec, pod: Pod, key: str, text: str
    ) -> tuple[tuple[ContainerAllocation, ...], tuple[Unlocated, ...], tuple[WireError, ...]]:
        """What one list of a pod holds, what of it only the node can tell, and what is wrong with the list."""
        try:
            if spec.records.read is not None:
                found = spec.records.read(spec, pod, text)
                return found.allocations, found.unlocated, ()
            allocated = self._listed(spec, pod, key, text)
        except WireError as error:
            return (*salvaged(spec, pod, text), (error,))
        try:
            allocated = _with_named(spec, pod, allocated)
            allocated = self.recalled(spec, pod, allocated)
        except WireError as error:
            return allocated, (), (error,)
        return allocated, (), ()

    def _elsewhere(
        self, pod: Pod, merged: Sequence[list[AllocatedShare]], problems: list[Problem]
    ) -> tuple[Unlocated, ...]:
        """Puts in what a placed pod really holds of vendors whose devices are handed out by other words than the list.

        The answer is what of it only its node can tell.
        """
        unlocated: list[Unlocated] = []
        for spec, foreign_allocations in self._foreign if pod.node is not None else ():
            listed = tuple(tuple(each for each in shares if each.vendor == spec.name) for shares in merged)
            found = foreign_allocations(spec, pod, listed)
            for at, shares in enumerate(merged if found.allocations or any(listed) else ()):
                held = found.allocations[at].shares if found.allocations else ()
                shares[:] = [*(each for each in shares if each.vendor != spec.name), *held]
            unlocated.extend(found.unlocated)
            if found.remarks:
                told = "; ".join(filter(None, (*found.remarks, found.remedy)))
                problems.append(Problem(f"pod {pod.full_name}", told, remedied=bool(found.remedy)))
        return tuple(unlocated)

    def _shared(self, labels: Mapping[str, str]) -> Mapping[str, str]:
        """The same labels as one value, since the pods of a workload have them in common."""
        return self._labels.setdefault(tuple(labels.items()), labels)

    def _listed(self, spec: VendorSpec, pod: Pod, key: str, text: str) -> tuple[ContainerAllocation, ...]:
        decode = volcano.decode_assignment if spec.dialect is Dialect.VOLCANO else pod_devices.decode
        segments = [shares_of(spec, segment) for segment in decode(key, text)]
        return tuple(
            ContainerAllocation(container.kind, tuple(shares))
            for container, shares in zip(pod.containers, aligned(segments, spec, pod.containers), strict=True)
        )

    @staticmethod
    def recalled(
        spec: VendorSpec, pod: Pod, allocations: tuple[ContainerAllocation, ...]
    ) -> tuple[ContainerAllocation, ...]:
        """The same allocations with what the vendor's list leaves out. Raises ``WireError``."""
        if spec.records.recall is not None:
            allocations = spec.records.recall(pod.annotations, allocations)
        group = spec.fitting.group_of(pod) if spec.fitting.group_of is not None else ""
        return _of_group(allocations, group) if group else allocations


def _with_named(
    spec: VendorSpec, pod: Pod, allocations: tuple[ContainerAllocation, ...]
) -> tuple[ContainerAllocation, ...]:
    """The allocations with what the vendor's list has no place for put in."""
    named = named_in(spec, pod)
    if not named:
        return allocations
    return tuple(
        ContainerAllocation(allocation.kind, (*allocation.shares, *shares_of(spec, named.get(container.name, ()))))
        for container, allocation in zip(pod.containers, allocations, strict=True)
    )


def named_in(spec: VendorSpec, pod: Pod) -> Mapping[str, tuple[AssignedDevice, ...]]:
    """The allocation of a pod's non-application containers, from its second list, by name. Raises ``WireError``."""
    text = pod.annotations.get(spec.keys.more, "") if spec.keys.more else ""
    if not text:
        return {}
    found = volcano.decode_named(spec.keys.more, text)
    known = {container.name for container in pod.containers if container.kind is not ContainerKind.APP}
    unknown = next((name for name in found if name not in known), None)
    if unknown is not None:
        raise WireError(spec.keys.more, text, f"the pod has no sidecar or init container {unknown}")
    return found


def _of_group(allocations: tuple[ContainerAllocation, ...], group: str) -> tuple[ContainerAllocation, ...]:
    """The allocations with the group on every share that leaves no mark of its own."""
    return tuple(
        replace(
            allocation, shares=tuple(replace(each, mark=each.mark or GroupMember(group)) for each in allocation.shares)
        )
        for allocation in allocations
    )


def _links(devices: int, parts: Sequence[tuple[int, tuple[tuple[int, ...], ...]]]) -> tuple[tuple[int, ...], ...]:
    if not parts:
        return ()
    rows = [[0] * devices for _ in range(devices)]
    for offset, matrix in parts:
        for at, row in enumerate(matrix):
            for to, score in enumerate(row):
                if offset + at < devices and offset + to < devices:
                    rows[offset + at][offset + to] = score
    return tuple(tuple(row) for row in rows)
