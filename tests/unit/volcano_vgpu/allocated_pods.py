"""Pods with allocations, nodes with cards, and what the kubelet gave: for tests of what a container gets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hami_plugins.errors import WireError
from hami_plugins.model.units import DeviceId, MiB, NodeName, PodUid
from hami_plugins.vendors.volcano import SPEC
from hami_plugins.wire import volcano
from hami_plugins.wire.node_devices import RegisteredDevice
from tests import raw_objects
from volcano_vgpu.core.allocations import AllocationLookup
from volcano_vgpu.core.model import MigInstance, NodeInventory, PhysicalDevice, SlotId
from volcano_vgpu.core.shares import NodeOffer

NODE = NodeName("n1")
COUNT, MEMORY, CORES = "volcano.sh/vgpu-number", "volcano.sh/vgpu-memory", "volcano.sh/vgpu-cores"
IDS, LEFT = "volcano.sh/vgpu-ids-new", "volcano.sh/devices-to-allocate"


def container(name: str, *, env: Mapping[str, str] | None = None, **amounts: int) -> dict[str, Any]:
    """A container that asks for ``count``, ``memory`` and ``cores`` as they are given."""
    names = {"count": COUNT, "memory": MEMORY, "cores": CORES}
    limits = {names[word]: str(amount) for word, amount in amounts.items()}
    variables = [{"name": key, "value": value} for key, value in (env or {}).items()]
    return {"name": name, "resources": {"limits": limits, "requests": limits}, "env": variables}


def pod(
    *containers: dict[str, Any],
    ids: str | None = "GPU-a,NVIDIA,2000,30:",
    name: str = "p",
    uid: str = "",
    node: str = NODE,
    allocated_for: str = NODE,
    init: Iterable[dict[str, Any]] = (),
    scheduler: str = "volcano",
    phase: str = "Pending",
    **annotations: str,
) -> dict[str, Any]:
    """A bound pod; ``ids`` is its allocation, the same to be served still unless annotations say otherwise.

    A container that names only how many cards it wants requests what ``ids`` has for it, as a scheduler allocates it.
    """
    given = list(containers) or [container("main", count=1)]
    written = {} if ids is None else {IDS: ids, LEFT: ids, "volcano.sh/vgpu-node": allocated_for}
    written |= {f"volcano.sh/{key.replace('_', '-')}": text for key, text in annotations.items()}
    metadata = {"namespace": "team", "uid": uid or f"uid-{name}", "resourceVersion": "1", "annotations": written}
    asking = _requesting(given, "GPU-a,NVIDIA,2000,30:" if ids is None else ids)
    return raw_objects.pod(
        name, *asking, metadata=metadata, node=node, scheduler=scheduler, phase=phase, initContainers=list(init)
    )


def _requesting(containers: list[dict[str, Any]], ids: str) -> list[dict[str, Any]]:
    """The containers, where they name only a number of cards with the amounts of their segment."""
    asking = [each for each in containers if {COUNT, MEMORY} & each["resources"]["limits"].keys()]
    try:
        segments = volcano.decode_assignment(IDS, ids)
    except WireError:
        return containers
    amounts: dict[str, dict[str, str]] = {}
    for each, segment in zip(asking, segments, strict=False):
        if segment and each["resources"]["limits"].keys() == {COUNT}:
            found = {MEMORY: max(given.memory for given in segment), CORES: max(given.cores for given in segment)}
            amounts[each["name"]] = {name: str(amount) for name, amount in found.items() if amount}
    return [_with(each, amounts.get(each["name"], {})) for each in containers]


def _with(each: dict[str, Any], amounts: Mapping[str, str]) -> dict[str, Any]:
    limits = each["resources"]["limits"] | amounts
    return {**each, "resources": {"limits": limits, "requests": limits}}


def card(uuid: str, *, memory: int = 40960, problems: tuple[str, ...] = (), **more: Any) -> PhysicalDevice:
    index = more.pop("index", ord(uuid[-1]) - ord("a"))
    return PhysicalDevice(
        uuid=DeviceId(uuid), index=index, minor=index, model="T4", memory=MiB(memory), problems=problems, **more
    )


def instances(*profiles: str) -> tuple[MigInstance, ...]:
    """MIG instances of those profiles one after the other; the UUID of each says where it starts."""
    return tuple(
        MigInstance(uuid=DeviceId(f"MIG-{at}"), profile=profile, memory=MiB(5000), start=at, size=1)
        for at, profile in enumerate(profiles)
    )


def offer(*cards: PhysicalDevice, slots: int = 10, mode: str = "hami-core", spec: Any = SPEC, **more: Any) -> NodeOffer:
    """A node that registered its healthy cards, with 40960 MiB each unless a card says otherwise."""
    found = cards or (card("GPU-a"), card("GPU-b"))
    register = volcano.encode_register(
        RegisteredDevice(
            id=each.uuid, slots=slots, memory=each.memory, model=f"NVIDIA-{each.model}", healthy=True, mode=mode
        )
        for each in found
        if each.healthy
    )
    return NodeOffer.of(NODE, register, NodeInventory(cards=found), spec=spec, **more)


def question(
    held: Mapping[str, int | Iterable[str]] | None = None, *, uid: str = "uid-p", **more: Any
) -> AllocationLookup:
    """What the kubelet gave to each container: so many slots of its own, or slots by name."""
    given = {"main": 1} if held is None else held
    slots = {
        name: frozenset(
            SlotId(slot) for slot in ([f"{name}-{at}" for at in range(ids)] if isinstance(ids, int) else ids)
        )
        for name, ids in given.items()
    }
    return AllocationLookup(uid=PodUid(uid), held=slots, **more)
