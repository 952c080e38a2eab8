"""Volcano's vGPU annotations: the node register, the pod assignment, and the names of MIG slots.

::

    GPU-a,10,81920,NVIDIA-NVIDIA A100-SXM4-80GB,true,hami-core:        volcano.sh/node-vgpu-register
    GPU-a,NVIDIA,2000,0:;GPU-m[group2-0],NVIDIA,8000,0:                volcano.sh/vgpu-ids-new, devices-to-allocate
    log=GPU-a,NVIDIA,500,0:;warm=GPU-b,NVIDIA,9000,0:                  hami-plugins.io/vgpu-more-ids, which is ours

Amounts of memory are in the node's register units: MiB divided by the agent's ``gpuMemoryFactor``.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from hami_plugins.errors import WireError
from hami_plugins.model.units import CoreShare, DeviceId, MiB
from hami_plugins.wire import node_devices, pod_devices, scalars
from hami_plugins.wire.node_devices import RegisteredDevice
from hami_plugins.wire.pod_devices import AssignedContainers, AssignedDevice

WHOLE_CARD: Final = CoreShare(100)
"""Volcano counts compute in percent of a card, whatever the card."""

_SLOT: Final = re.compile(r"([^\[\]]+)\[([^\[\]\s-]+)-(\d{1,9})\]", re.ASCII)


class MigSlot(NamedTuple):
    """One slice of a card that is cut by a named geometry group; ``position`` counts all slices of the group."""

    device: DeviceId
    group: str
    position: int


def decode_register(key: str, text: str) -> tuple[RegisteredDevice, ...]:
    """The cards of a node. ``index`` is the place in the text, so empty records leave gaps, as in the scheduler.

    Volcano takes a bad number for 0 or for a huge one, and drops all cards of a node for one record that is too short.
    Here each is a ``WireError`` that says which record, what it lacks and what Volcano makes of it.
    """
    if text and ":" not in text:
        raise WireError(key, text, "no ':' after the last card; Volcano sees no card on this node")
    return tuple(_card(key, at, part) for at, part in enumerate(text.split(":")) if "," in part)


def is_unseen(text: str) -> bool:
    """Whether Volcano sees no card in a register at all: none is in it, or one record is too short."""
    records = [part for part in text.split(":") if "," in part]
    return ":" not in text or not records or any(part.count(",") < 5 for part in records)


def encode_register(cards: Iterable[RegisteredDevice]) -> str:
    """The register of a node, cards in the order given; no cards give the empty text."""
    return "".join(_record(card) for card in cards)


def decode_assignment(key: str, text: str) -> AssignedContainers:
    """The cards of each container that asks for some (others have no piece); served pieces are empty.

    Volcano drops a record that does not parse and goes on; here it is a ``WireError``, for the card is not free.
    """
    if not text:
        return ()
    try:
        return tuple(tuple(pod_devices.records(piece)) for piece in text.split(";"))
    except ValueError as error:
        raise WireError(key, text, str(error)) from None


def encode_assignment(containers: Iterable[Iterable[AssignedDevice]]) -> str:
    """The text that Volcano writes: ``;`` between containers, not after the last one."""
    return ";".join("".join(pod_devices.record(device) for device in container) for container in containers)


def decode_named(key: str, text: str) -> Mapping[str, tuple[AssignedDevice, ...]]:
    """The cards of containers that are named, because Volcano has no piece for them: sidecars and init containers."""
    found: dict[str, tuple[AssignedDevice, ...]] = {}
    for piece in text.split(";") if text else ():
        name, equals, records = piece.partition("=")
        if not name or not equals or name in found:
            raise WireError(key, text, f"want <container>=<cards> once for each container, got {piece!r}")
        try:
            found[name] = tuple(pod_devices.records(records))
        except ValueError as error:
            raise WireError(key, text, f"container {name}: {error}") from None
    return found


def encode_named(containers: Mapping[str, Iterable[AssignedDevice]]) -> str:
    """The text for such containers; none give the empty text."""
    return ";".join(
        f"{name}={''.join(pod_devices.record(device) for device in devices)}" for name, devices in containers.items()
    )


def decode_slot(key: str, text: str) -> MigSlot | None:
    """The MIG slot that an assigned id names, ``None`` for the id of a whole card."""
    if not {"[", "]"}.intersection(text):
        return None
    match = _SLOT.fullmatch(text)
    if match is None:
        raise WireError(key, text, "no MIG slot; want <id>[<group>-<position>], no hyphen in the group")
    device, group, position = match.groups()
    return MigSlot(DeviceId(device), group, int(position))


def encode_slot(slot: MigSlot) -> DeviceId:
    """The id by which an assignment names a MIG slot."""
    text = f"{slot.device}[{slot.group}-{slot.position}]"
    if _SLOT.fullmatch(text) is None:
        raise WireError("slot", text, "a card or group name that the id of a slot cannot carry")
    return DeviceId(text)


def _card(key: str, at: int, part: str) -> RegisteredDevice:
    values = part.split(",")
    place = f"{key}[{at}]"
    if len(values) < 6:
        why = f"{len(values)} fields, want id, count, memory, type, health and mode"
        raise WireError(place, part, f"{why}; Volcano sees no card on this node")
    id_, count, memory, model, health, mode = values[:6]
    try:
        return RegisteredDevice(
            id=scalars.device_id(id_),
            slots=scalars.natural(count),
            memory=MiB(scalars.natural(memory)),
            cores=WHOLE_CARD,
            model=model,
            healthy=scalars.truth(health),
            index=at,
            mode="mig" if mode == "mig" else node_devices.DEFAULT_MODE,
        )
    except ValueError as error:
        raise WireError(place, part, str(error)) from None


def _record(card: RegisteredDevice) -> str:
    if any(not scalars.SEPARATORS.isdisjoint(text) for text in (card.id, card.model, card.mode)) or not card.id:
        raise WireError("card", card.id, "an id, model or mode that the register cannot carry")
    health = "true" if card.healthy else "false"
    return f"{card.id},{card.slots},{card.memory},{card.model},{health},{card.mode}:"
