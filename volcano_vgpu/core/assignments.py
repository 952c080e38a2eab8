"""The lists of devices on pods, in either dialect: what each container was allocated, and what a pod holds.

HAMi's list (``hami.io/vgpu-devices-allocated``) has a piece for every container, in the order of the pod, and a
separate list has its MIG places. Volcano's has one for each application that requests devices; the other containers are
in a list of this project.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hami_plugins.engine.inventory import RecordReader, named_in
from hami_plugins.engine.registry import Registry
from hami_plugins.engine.resizes import with_memory
from hami_plugins.errors import WireError
from hami_plugins.model.devices import AllocatedShare, Instance
from hami_plugins.model.pods import FINISHED, ContainerAllocation, Pod, PodRecord
from hami_plugins.model.requests import ContainerKind
from hami_plugins.model.units import DeviceId
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.wire import lenient, resizes, volcano
from hami_plugins.wire import pods as wire_pods
from hami_plugins.wire.fields import Json
from hami_plugins.wire.pod_devices import AssignedDevice
from hami_plugins.wire.volcano import MigSlot
from volcano_vgpu.core.dialects import keys_of
from volcano_vgpu.core.refusals import ContainerRefusal, RefusalCode
from volcano_vgpu.core.requests import requested
from volcano_vgpu.core.shares import NodeOffer

Segment = tuple[AssignedDevice, ...]
"""The cards of one container."""

Served = Mapping[str, Segment]
"""What was handed to the containers of a pod, by name; a borrowed slice is listed for the borrower as well."""


def record_of(raw: Json, offer: NodeOffer, served: Served | None = None) -> PodRecord | None:
    """What a pod holds on this node; ``None`` for one that has ended, is elsewhere or cannot be read.

    A pod that was ``served`` holds that. For another one its annotations count, with at most what it requests.
    """
    try:
        pod = wire_pods.pod(raw)
    except WireError:
        return None
    if pod.phase in FINISHED or pod.node != offer.node:
        return None
    reader = RecordReader(Registry([offer.spec]))
    if served is not None:
        held = _holding(pod, served, offer.spec, reader)
        return held and _resized(held, pod)
    # A resize that is booked may be larger than the request: it is laid over what the request allows.
    record = reader.record(unresized(pod))[0]
    allocations = (
        replace(allocation, shares=requested(container, allocation.shares, pod, offer))
        for container, allocation in zip(pod.containers, record.allocations, strict=True)
    )
    return _resized(replace(record, allocations=tuple(allocations)), pod)


def resized_devices(raw: Json, devices: Mapping[str, Segment]) -> Mapping[str, Segment]:
    """The same cards with the memory that the allocator has booked for the containers since they were given them."""
    found = resizes.decode(lenient.texts(lenient.inside(raw, "metadata").get("annotations")))
    booked = {} if found is None else found.booked
    return {
        name: (each[0]._replace(memory=booked[name]),) if name in booked and len(each) == 1 else each
        for name, each in devices.items()
    }


def _resized(record: PodRecord, pod: Pod) -> PodRecord:
    found = resizes.decode(pod.annotations)
    if found is None:
        return record
    return replace(record, allocations=with_memory(record.allocations, record.containers, found.booked))


def unresized(pod: Pod) -> Pod:
    """The pod as if the memory of its slices had never been changed."""
    if resizes.BOOKED_KEY not in pod.annotations:
        return pod
    rest = {key: text for key, text in pod.annotations.items() if key != resizes.BOOKED_KEY}
    return replace(pod, annotations=rest)


def asking(pod: Pod, spec: VendorSpec) -> list[str]:
    """The containers that the scheduler writes a segment for, in the order of the segments."""
    if keys_of(spec).lists_every:
        return [each.name for each in pod.containers]
    names = spec.resources
    return [
        each.name
        for each in pod.containers
        if each.kind is ContainerKind.APP and (names.count in each.limits or names.memory in each.limits)
    ]


def allocated_devices(raw: Json, spec: VendorSpec) -> Mapping[str, tuple[AssignedDevice, ...]]:
    """The recorded allocation of each container that has one; empty if it cannot be read."""
    try:
        pod = wire_pods.pod(raw)
        if keys_of(spec).lists_every:
            found = listed(pod, spec)
            return {} if isinstance(found, ContainerRefusal) else found
        key = spec.keys.allocated
        segments = volcano.decode_assignment(key, pod.annotations.get(key, ""))
        return {**dict(zip(asking(pod, spec), segments, strict=True)), **named_in(spec, pod)}
    except (WireError, ValueError):
        return {}


def allocated_cards(raw: Json, offer: NodeOffer) -> Mapping[str, tuple[DeviceId, ...]]:
    """The cards named for each container that asks; empty for a pod without an allocation that can be read."""
    try:
        found = allocated_devices(raw, offer.spec).items()
        return {name: tuple(_card(each, offer.spec) for each in devices) for name, devices in found}
    except WireError:
        return {}


def listed(pod: Pod, spec: VendorSpec) -> Mapping[str, Segment] | ContainerRefusal:
    """The cards of each container that has some, as the engine reads HAMi's list.

    The list of what is left to serve is not compared: HAMi's plugins count pieces in it, and break it by that.
    """
    # A container that starts again is held to its request; what is booked since is put in force afterwards.
    record, problems = RecordReader(Registry([spec])).record(unresized(pod))
    if problems:
        text = f"{problems[0].what}; only a scheduler may write this, delete the pod"
        return ContainerRefusal(RefusalCode.MALFORMED, text, heals=False)
    return {
        container.name: tuple(map(_assigned, allocation.shares))
        for container, allocation in zip(pod.containers, record.allocations, strict=True)
        if allocation.shares
    }


def _holding(pod: Pod, served: Served, spec: VendorSpec, reader: RecordReader) -> PodRecord | None:
    """The record of a pod that holds what was served, whichever dialect it was placed in.

    MIG places are those of the pod's own annotation; without one its card is not shared any further.
    """
    keys = spec.keys
    listed_in = frozenset((keys.allocated, keys.more))
    bare = replace(pod, annotations={key: text for key, text in pod.annotations.items() if key not in listed_in})
    held = tuple(
        ContainerAllocation(each.kind, tuple(_share(given, spec) for given in served.get(each.name, ())))
        for each in pod.containers
    )
    try:
        return replace(reader.record(bare)[0], allocations=reader.recalled(spec, pod, held))
    except WireError:
        return replace(reader.record(bare)[0], allocations=held)


def _share(given: AssignedDevice, spec: VendorSpec) -> AllocatedShare:
    device = _card(given, spec) if keys_of(spec).lists_every else given.device
    return AllocatedShare(device=device, vendor=spec.name, word=given.word, memory=given.memory, cores=given.cores)


def _card(assigned: AssignedDevice, spec: VendorSpec) -> DeviceId:
    slot = volcano.decode_slot(spec.keys.allocated, assigned.device)
    return assigned.device if slot is None else slot.device


def _assigned(share: AllocatedShare) -> AssignedDevice:
    """A share as it is written; that of a MIG instance by the name of a slot, which has its profile and its start."""
    mark, device = share.mark, share.device
    if isinstance(mark, Instance):
        device = volcano.encode_slot(MigSlot(device, mark.profile, mark.placement.start))
    return AssignedDevice(device, share.word, share.memory, share.cores)
