"""HAMi's ``hami.io/vgpu-mig-allocations``: which hardware partition each share of a pod is.

The scheduler writes profile and placement; the node agent adds what the driver made of it.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from hami_plugins.errors import WireError
from hami_plugins.model.devices import SlicePlacement
from hami_plugins.model.units import DeviceId
from hami_plugins.wire import documents, fields
from hami_plugins.wire.fields import Json
from hami_plugins.wire.scalars import shown


class MigRuntime(NamedTuple):
    """The partition as the driver knows it; the instance ids count from 0."""

    uuid: str
    gpu_instance: int
    compute_instance: int


class MigAllocation(NamedTuple):
    """One partition. ``container`` and ``device`` index the pod's assignment (init containers first)."""

    container: int
    device: int
    gpu: DeviceId
    profile: str
    placement: SlicePlacement
    runtime: MigRuntime | None = None


def decode(key: str, text: str) -> tuple[MigAllocation, ...]:
    """The partitions of a pod; the empty text is none. One that is incomplete or named twice is a ``WireError``."""
    if not text:
        return ()
    found: dict[tuple[int, int], MigAllocation] = {}
    for at, item in enumerate(documents.load_list(key, text)):
        allocation = _allocation(item, f"{key}[{at}]")
        place = allocation.container, allocation.device
        if place in found:
            raise WireError(f"{key}[{at}]", text, f"container {place[0]} device {place[1]} has a partition already")
        found[place] = allocation
    return tuple(found.values())


def encode(allocations: Iterable[MigAllocation]) -> str:
    """The annotation; the empty text without partitions, for then HAMi writes none."""
    members = [_members(allocation) for allocation in allocations]
    return documents.dump(members) if members else ""


def _allocation(item: object, place: str) -> MigAllocation:
    body = documents.folded(item, place)
    placement = documents.folded(fields.member(body, "placement", place), f"{place}.placement")
    found = MigAllocation(
        container=fields.natural(body, "containerindex", place),
        device=fields.natural(body, "deviceindex", place),
        gpu=fields.device(body, "gpuuuid", place),
        profile=fields.text(body, "profile", place),
        placement=SlicePlacement(
            fields.natural(placement, "start", f"{place}.placement"),
            fields.natural(placement, "size", f"{place}.placement"),
        ),
        runtime=_runtime(body, place),
    )
    if not found.profile or not found.placement.size:
        raise WireError(place, shown(item), "incomplete: a partition needs a profile and a placement with a size")
    return found


def _runtime(body: Json, place: str) -> MigRuntime | None:
    uuid = fields.text(body, "miguuid", place)
    known = (bool(uuid), body.get("gpuinstanceid") is not None, body.get("computeinstanceid") is not None)
    if not any(known):
        return None
    if not all(known):
        raise WireError(place, shown(body), "half a runtime identity: want MIG UUID and both instance ids, or none")
    return MigRuntime(
        uuid, fields.natural(body, "gpuinstanceid", place), fields.natural(body, "computeinstanceid", place)
    )


def _members(allocation: MigAllocation) -> Json:
    start, size = allocation.placement
    members: dict[str, Any] = {
        "containerIndex": allocation.container,
        "deviceIndex": allocation.device,
        "gpuUUID": allocation.gpu,
        "profile": allocation.profile,
        "placement": {"start": start, "size": size},
    }
    if allocation.runtime is not None:
        uuid, gpu_instance, compute_instance = allocation.runtime
        members |= {"migUUID": uuid, "gpuInstanceID": gpu_instance, "computeInstanceID": compute_instance}
    return members
