"""The annotations and labels that the scheduler of a dialect writes for a placement."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from hami_plugins.engine.registry import Registry
from hami_plugins.engine.segments import asks_for_a_card
from hami_plugins.model.decisions import Placed
from hami_plugins.model.devices import AllocatedShare, CoreMask, Instance
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.pods import ContainerAllocation, Pod
from hami_plugins.model.requests import ContainerKind
from hami_plugins.model.units import CoreShare, DeviceId
from hami_plugins.model.vendor import AllocationView, VendorSpec
from hami_plugins.wire import pod_devices, volcano

NODE_KEY: Final = "hami.io/vgpu-node"
TIME_KEY: Final = "hami.io/vgpu-time"
PHASE_KEY: Final = "hami.io/bind-phase"
BIND_TIME_KEY: Final = "hami.io/bind-time"
BOOKKEEPING: Final = (NODE_KEY, TIME_KEY, PHASE_KEY, BIND_TIME_KEY)
"""What HAMi's scheduler and device plugins write on a pod, whatever the vendor of its devices."""

_NS: Final = 1_000_000_000


def annotations_of(pod: Pod, placed: Placed, entry: NodeEntry, registry: Registry, *, now_ns: int) -> dict[str, str]:
    """The annotations of a newly placed pod, in the dialect of the devices it was allocated.

    ``now_ns`` is the time to write, in Unix nanoseconds. A pod without devices gets nothing.
    """
    return annotations_with(pod, placed.containers, entry, registry, now_ns=now_ns)


def annotations_with(
    pod: Pod, allocations: Sequence[ContainerAllocation], entry: NodeEntry, registry: Registry, *, now_ns: int
) -> dict[str, str]:
    """The same for a pod that is given these shares of a node's devices."""
    devices = dict(zip(entry.ids, entry.state.shape.devices, strict=True))
    written: dict[str, str] = {}
    vendors = {share.vendor for allocation in allocations for share in allocation.shares}
    for spec in registry:
        if spec.name not in vendors and not _lists_nothing(spec, pod):
            continue
        containers = tuple(
            tuple(share for share in allocation.shares if share.vendor == spec.name) for allocation in allocations
        )
        view = AllocationView(
            spec=spec,
            pod=pod,
            node=entry.name,
            containers=containers,
            indexes={name: device.index for name, device in devices.items()},
            devices=devices,
            now_ns=now_ns,
            notes=entry.notes,
        )
        if spec.records.read is None:
            written |= _volcano(view) if spec.dialect is Dialect.VOLCANO else _hami(view)
        if spec.records.annotate is not None:
            written |= spec.records.annotate(view)
    return written


def _lists_nothing(spec: VendorSpec, pod: Pod) -> bool:
    """Volcano writes an empty list for a pod that asks for zero cards; HAMi writes none."""
    if spec.dialect is not Dialect.VOLCANO:
        return False
    return any(asks_for_a_card(spec, container) for container in pod.containers)


def labels_of(written: Mapping[str, str]) -> dict[str, str]:
    """The labels that go with the annotations: HAMi writes the node's name there as well."""
    return {NODE_KEY: node} if (node := written.get(NODE_KEY)) else {}


def _hami(view: AllocationView) -> dict[str, str]:
    spec = view.spec
    text = pod_devices.encode(map(_assigned, view.containers))
    written = {NODE_KEY: str(view.node), TIME_KEY: str(view.now_ns // _NS)}
    if spec.keys.to_allocate and spec.records.writes_to_allocate:
        written[spec.keys.to_allocate] = text
    written[spec.keys.allocated] = text
    return written


def _volcano(view: AllocationView) -> dict[str, str]:
    """Volcano lists only the applications that ask for cards. What others get stands in a list of ours, by name; one
    that the pod has already is never left as it was."""
    asking: list[tuple[AllocatedShare, ...]] = []
    more: dict[str, tuple[AllocatedShare, ...]] = {}
    for container, shares in zip(view.pod.containers, view.containers, strict=True):
        if container.kind is not ContainerKind.APP:
            if shares:
                more[container.name] = shares
        elif shares or asks_for_a_card(view.spec, container):
            asking.append(shares)
    keys = view.spec.keys
    text = volcano.encode_assignment(map(_assigned, asking))
    written = {keys.allocated: text, keys.to_allocate: text}
    if more or keys.more in view.pod.annotations:
        written[keys.more] = volcano.encode_named({name: _assigned(shares) for name, shares in more.items()})
    return written


def _assigned(shares: Iterable[AllocatedShare]) -> Iterable[pod_devices.AssignedDevice]:
    """The records of one container; a share of particular cores carries them as a bit mask instead of their number."""
    for share in shares:
        cores = CoreShare(share.mark.bits) if isinstance(share.mark, CoreMask) else share.cores
        yield pod_devices.AssignedDevice(_named(share), share.word, share.memory, cores)


def _named(share: AllocatedShare) -> DeviceId:
    """The device's id; where a card is cut by a named group, the id of the slice."""
    mark = share.mark
    if isinstance(mark, Instance) and mark.group:
        return volcano.encode_slot(volcano.MigSlot(share.device, mark.group, mark.placement.start))
    return share.device
