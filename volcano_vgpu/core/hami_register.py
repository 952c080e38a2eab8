"""What a node says about its cards in HAMi's words: the JSON register and the scores of pairs of cards.

Source: HAMi 2.10.0 ``pkg/device-plugin/nvidiadevice`` and ``pkg/device/nvidia``. Like HAMi's own plugin the agent
registers unhealthy cards as such, and writes no handshake: the scheduler asks once, and keeps a node that offers slots.
Deviations, on purpose:

* cards stand in the order of their minor numbers, so that the text changes only where the cards do;
* each card names the agent that registered it, which no other reader looks at: such nodes need no node lock;
* a card in MIG mode is registered with the instances that exist on it, unless the agent makes them as pods need them
  (``flexible_mig``): then with all places at which it can;
* a pair with NVLinks scores by these alone, without the 10 to 60 for PCIe.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from itertools import groupby
from typing import Final

from hami_plugins.errors import WireError
from hami_plugins.model.devices import Profile, SlicePlacement
from hami_plugins.model.units import CoreShare, DeviceId, MiB
from hami_plugins.vendors.nvidia import MIG_MODE, SPEC
from hami_plugins.wire import node_devices
from hami_plugins.wire.node_devices import PairScores, RegisteredDevice
from volcano_vgpu.core.model import DeviceLink, MigInstance, PhysicalDevice, SharingMode
from volcano_vgpu.core.settings import AgentSettings

KEY: Final = SPEC.keys.register
SCORES_KEY: Final = SPEC.keys.pair_scores
HANDSHAKE_KEY: Final = SPEC.keys.handshake
REPORTED: Final = "Reported_by hami-plugins"
"""The answer to a scheduler that asks whether the node is alive; only its first word is read."""

AGENT: Final = "hami-plugins"

WHOLE: Final = 100
_BRAND: Final = "NVIDIA"
_CLOSENESS: Final = {
    "pcie-system": 10,
    "pcie-node": 20,
    "pcie-hostbridge": 30,
    "pcie-multiple": 40,
    "pcie-single": 50,
    "pcie-internal": 60,
}
_LANE: Final = 100
_SLICES: Final = (4, 7)
"""Into how many slices a card is cut at most."""


def registration(cards: Iterable[tuple[PhysicalDevice, MiB]], settings: AgentSettings) -> dict[str, str]:
    """The register of these cards with the memory that each shares, and the scores of their pairs, if there are any."""
    found = tuple(cards)
    said = {KEY: node_devices.encode_json(_registered(card, memory, settings) for card, memory in found)}
    scores = pair_scores([card for card, _ in found])
    return said | ({SCORES_KEY: node_devices.encode_pair_scores(scores)} if scores else {})


def obsolete(said: Mapping[str, str]) -> frozenset[str]:
    """The annotations to remove from a node: scores of pairs that are no longer linked."""
    return frozenset({SCORES_KEY} if KEY in said and SCORES_KEY not in said else ())


def decode(text: str) -> tuple[RegisteredDevice, ...]:
    """The cards of a register. Raises ``WireError``."""
    return node_devices.decode_json(KEY, text)


def is_ours(text: str) -> bool:
    """Whether our agent wrote a register, and not HAMi's own plugin. One that cannot be read names it as well."""
    try:
        return node_devices.agent_of(KEY, text) == AGENT
    except WireError:
        return f'"agent":"{AGENT}"' in text


def type_of(model: str) -> str:
    """A model as HAMi's scheduler knows it."""
    return model if model.startswith(_BRAND) else f"{_BRAND}-{model or 'GPU'}"


def pair_scores(cards: Iterable[PhysicalDevice]) -> PairScores:
    """How close the cards are to each other: 100 for each NVLink, 10 to 60 for what they have in common on PCIe.

    A pair that looks different from its two sides has no score.
    """
    seen: dict[tuple[DeviceId, DeviceId], int] = {}
    for card in (known := tuple(cards)):
        for link in card.links:
            pair = card.uuid, link.peer
            seen[pair] = seen.get(pair, 0) + _score(link)
    scores: dict[DeviceId, Mapping[DeviceId, int]] = {}
    for card in known:
        mine = {other: score for (one, other), score in seen.items() if one == card.uuid}
        if agreed := {other: score for other, score in mine.items() if seen.get((other, card.uuid)) == score}:
            scores[card.uuid] = agreed
    return scores


def profiles(card: PhysicalDevice) -> tuple[Profile, ...]:
    """The instances of a card as profiles with the places where they are, or could be where the agent makes them."""
    if card.partitions:
        return card.partitions
    order = sorted(card.instances, key=lambda each: (each.profile, each.start))
    return tuple(
        _profile(card, name, tuple(instances)) for name, instances in groupby(order, key=lambda each: each.profile)
    )


def _score(link: DeviceLink) -> int:
    return _LANE * link.lanes + _CLOSENESS.get(link.kind, 0)


def _registered(card: PhysicalDevice, memory: MiB, settings: AgentSettings) -> RegisteredDevice:
    cut = settings.mode is SharingMode.MIG
    cores = WHOLE if cut else int(WHOLE * Fraction(str(settings.device_core_scaling)))
    return RegisteredDevice(
        id=card.uuid,
        index=card.index,
        slots=_most_instances(card) if cut else settings.device_split_count,
        memory=memory,
        cores=CoreShare(cores),
        model=type_of(card.model),
        numa=card.numa or 0,
        mode=MIG_MODE if cut else settings.mode.value,
        profiles=profiles(card) if cut else (),
        healthy=card.healthy,
        agent=AGENT,
    )


def _most_instances(card: PhysicalDevice) -> int:
    """How many instances there are, or can be at a time, as HAMi's plugin counts them."""
    return max((len(each.placements) for each in card.partitions), default=len(card.instances))


def _profile(card: PhysicalDevice, name: str, instances: tuple[MigInstance, ...]) -> Profile:
    """One profile; HAMi asks the driver for its multiprocessors, which are in proportion to its slices."""
    slices = _slices_of(name)
    memory = instances[0].memory
    few, many = _SLICES
    most = few if memory and round(card.memory * slices / memory) <= few else many
    return Profile(
        name=name,
        memory=memory,
        cores=CoreShare(min(WHOLE, -(-WHOLE * slices // most))),
        slices=slices,
        placements=tuple(SlicePlacement(each.start, each.size) for each in instances),
    )


def _slices_of(profile: str) -> int:
    """The slices of ``3g.20gb``; 1 for a name that does not say."""
    number = profile.partition("g.")[0]
    return int(number) if number.isascii() and number.isdigit() else 1
