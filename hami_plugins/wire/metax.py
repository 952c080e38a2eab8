"""MetaX's own annotations: the sGPU cards of a node, the shares of a pod, and what a count of linked cards costs.

``metax-tech.com/node-gpu-devices``, ``metax-tech.com/gpu-devices-allocated``, ``metax-tech.com/gpu.topology.losses``
and ``.scores``.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from hami_plugins.errors import WireError
from hami_plugins.model.units import CoreShare, DeviceId, MiB
from hami_plugins.wire import documents, fields, scalars


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedCard:
    """A card that takes sGPU shares. ``link_zone`` is its MetaLink group, 0 for none; ``qos`` the policy in force."""

    id: DeviceId
    bus: str = ""
    model: str = ""
    slots: int = 0
    cores: CoreShare = CoreShare(0)
    memory: MiB = MiB(0)
    numa: int = 0
    healthy: bool = False
    qos: str = ""
    link_zone: int = 0


class SharedPart(NamedTuple):
    """What one container gets of one card."""

    device: DeviceId
    cores: CoreShare
    memory: MiB


def decode_cards(key: str, text: str) -> tuple[SharedCard, ...]:
    """The cards of a node, in the order of the annotation, which is their index."""
    return tuple(_card(item, f"{key}[{at}]") for at, item in enumerate(documents.load_list(key, text)))


def encode_cards(cards: Iterable[SharedCard]) -> str:
    """The annotation of a node's cards; empty members are left out."""
    return documents.dump([_members(card) for card in cards])


def decode_parts(key: str, text: str) -> tuple[tuple[SharedPart, ...], ...]:
    """The shares of each container of a pod (init containers first)."""
    containers = []
    for at, raw in enumerate(documents.load_list(key, text)):
        place = f"{key}[{at}]"
        if not isinstance(raw, list):
            raise fields.wrong(place, raw, "a list")
        containers.append(tuple(_part(item, f"{place}[{inner}]") for inner, item in enumerate(raw)))
    return tuple(containers)


def encode_parts(containers: Iterable[Iterable[SharedPart]]) -> str:
    """The annotation of a pod's shares; zero members are left out, containers without shares stay as empty lists."""
    return documents.dump(
        [
            [
                {"uuid": part.device} | documents.filled({"compute": part.cores, "vRam": part.memory})
                for part in container
            ]
            for container in containers
        ]
    )


def decode_topology(key: str, text: str) -> dict[int, int]:
    """Loss or score per number of cards."""
    costs = fields.number_map({"costs": documents.load(key, text)}, "costs", f"{key}:")
    try:
        return {scalars.integer(count): costs[count] for count in costs}
    except ValueError as error:
        raise WireError(key, text, f"number of cards: {error}") from None


def encode_topology(costs: Mapping[int, int]) -> str:
    """The annotation of losses or scores, by number of cards."""
    return documents.dump({str(count): costs[count] for count in sorted(costs)})


def _card(item: object, place: str) -> SharedCard:
    body = documents.folded(item, place)
    return SharedCard(
        id=fields.device(body, "uuid", place),
        bus=fields.text(body, "bdf", place),
        model=fields.text(body, "model", place),
        slots=fields.natural(body, "totaldevcount", place),
        cores=CoreShare(fields.natural(body, "totalcompute", place)),
        memory=MiB(fields.natural(body, "totalvram", place)),
        numa=fields.number(body, "numa", place),
        healthy=fields.flag(body, "healthy", place),
        qos=fields.text(body, "qospolicy", place),
        link_zone=fields.number(body, "linkzone", place),
    )


def _members(card: SharedCard) -> fields.Json:
    return {"uuid": card.id} | documents.filled(
        {
            "bdf": card.bus,
            "model": card.model,
            "totalDevCount": card.slots,
            "totalCompute": card.cores,
            "totalVRam": card.memory,
            "numa": card.numa,
            "healthy": card.healthy,
            "qosPolicy": card.qos,
            "linkZone": card.link_zone,
        }
    )


def _part(item: object, place: str) -> SharedPart:
    body = documents.folded(item, place)
    return SharedPart(
        device=fields.device(body, "uuid", place),
        cores=CoreShare(fields.natural(body, "compute", place)),
        memory=MiB(fields.natural(body, "vram", place)),
    )
