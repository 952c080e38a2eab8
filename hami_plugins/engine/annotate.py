"""The annotations and labels that the scheduler of a dialect writes for a placement."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from hami_plugins.engine.registry import Registry
from hami_plugins.model.decisions import Placed
from hami_plugins.model.devices import CoreMask, GrantedShare
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.pods import Pod
from hami_plugins.model.units import CoreShare
from hami_plugins.model.vendor import AllocationView, Dialect, VendorSpec
from hami_plugins.wire import pod_devices, volcano

NODE_KEY: Final = "hami.io/vgpu-node"
TIME_KEY: Final = "hami.io/vgpu-time"
_NS: Final = 1_000_000_000


def annotations_of(pod: Pod, placed: Placed, entry: NodeEntry, registry: Registry, *, now_ns: int) -> dict[str, str]:
    """What is written on the pod when it is placed, in the words of the dialect of the devices it got.

    ``now_ns`` is the time to write, in Unix nanoseconds. A pod without devices gets nothing.
    """
    written: dict[str, str] = {}
    for spec in registry:
        containers = tuple(
            tuple(share for share in grant.shares if share.vendor == spec.name) for grant in placed.containers
        )
        if not any(containers):
            continue
        if spec.dialect is Dialect.VOLCANO:
            written.update(_volcano(spec, pod, placed, containers, now_ns))
        else:
            written.update(_hami(spec, pod, placed, entry, containers, now_ns))
    return written


def labels_of(written: Mapping[str, str]) -> dict[str, str]:
    """The labels that go with the annotations: HAMi puts the node's name there, too."""
    return {NODE_KEY: written[NODE_KEY]} if NODE_KEY in written else {}


def _hami(
    spec: VendorSpec,
    pod: Pod,
    placed: Placed,
    entry: NodeEntry,
    containers: tuple[tuple[GrantedShare, ...], ...],
    now_ns: int,
) -> dict[str, str]:
    text = pod_devices.encode(map(_assigned, containers))
    written = {NODE_KEY: str(placed.node), TIME_KEY: str(now_ns // _NS)}
    if spec.keys.to_allocate and spec.writes_to_allocate:
        written[spec.keys.to_allocate] = text
    written[spec.keys.allocated] = text
    if spec.annotate is not None:
        devices = dict(zip(entry.ids, entry.state.shape.devices, strict=True))
        indexes = {name: device.index for name, device in devices.items()}
        view = AllocationView(spec, pod, placed.node, containers, indexes, devices, now_ns)
        written.update(spec.annotate(view))
    return written


def _assigned(shares: Iterable[GrantedShare]) -> Iterable[pod_devices.AssignedDevice]:
    """The records of one container; a share of particular cores carries them as a bit mask instead of their number."""
    for share in shares:
        cores = CoreShare(share.mark.bits) if isinstance(share.mark, CoreMask) else share.cores
        yield pod_devices.AssignedDevice(share.device, share.word, share.memory, cores)


def _volcano(
    spec: VendorSpec, pod: Pod, placed: Placed, containers: tuple[tuple[GrantedShare, ...], ...], now_ns: int
) -> dict[str, str]:
    seconds = str(now_ns // _NS)
    asking = [
        shares
        for container, shares in zip(pod.containers, containers, strict=True)
        if shares or spec.asked_of(container.limits)
    ]
    text = volcano.encode_assignment(map(_assigned, asking))
    return {
        "volcano.sh/vgpu-node": str(placed.node),
        "volcano.sh/vgpu-time": seconds,
        spec.keys.allocated: text,
        spec.keys.to_allocate: text,
        "volcano.sh/bind-phase": "allocating",
        "volcano.sh/bind-time": seconds,
    }
