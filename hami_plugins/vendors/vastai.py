"""Vastai cards: whole cards, or in die mode the dies of cards ("AICs"), shared by count alone.

Source: HAMi 2.10.0 ``pkg/device/vastai/device.go``. Nothing of memory or cores is booked. In die mode several dies come
from few cards, and an exclusive pod wants cards of which no die is in use.

Deviations from HAMi 2.10, on purpose: an unusable count is refused (HAMi takes the container for one without cards);
among equally large groups of dies the one tried first wins (HAMi leaves it to chance); dies without a card id can be
allocated together (HAMi then allocates fewer than it says).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hami_plugins.engine.inventories import json_register
from hami_plugins.model.devices import Device
from hami_plugins.model.inventory import DeviceInventory, NodeObject
from hami_plugins.model.requests import DeviceRequest
from hami_plugins.model.units import CoreShare, MiB, VendorName
from hami_plugins.model.vendor import Candidate, ContainerRequest, FittingRules, Scoring, ScoringRules, VendorSpec
from hami_plugins.model.vendor_names import AnnotationKeys, ResourceNames
from hami_plugins.model.verdicts import Reason
from hami_plugins.vendors import facts

CARD_CORES: Final = CoreShare(100)
"""Whatever the register says; it only makes the device score work."""

STRATEGY: Final = "DeviceStrategy"
CARD_ID: Final = "AIC"


def inventory(spec: VendorSpec, node: NodeObject) -> DeviceInventory:
    """Cards or dies from the JSON register; ``group`` is the card that a die is on."""
    return json_register(spec, node, cores=CARD_CORES, group=CARD_ID, traits=(STRATEGY,))


def card_is_idle(candidate: Candidate, ask: ContainerRequest) -> Reason | None:
    """An exclusive pod takes no die of a card on which another die is in use."""
    card = candidate.device.group
    if not ask.policy.exclusive or not _is_die(candidate.device) or card is None:
        return None
    devices = ask.shape.devices
    busy = any(
        ask.usage[at].slots > 0 and devices[at].group == card for at in ask.shape.positions[candidate.device.vendor]
    )
    return Reason.EXCLUSIVE if busy else None


def from_few_cards(candidates: Sequence[Candidate], ask: ContainerRequest) -> Sequence[Candidate]:
    """The dies of the card with most of them first; whole cards, and dies that are all taken, as they come."""
    count = ask.request.count
    if count in (1, len(candidates)) or not _is_die(candidates[0].device):
        return candidates[:count]
    by_card: dict[str | int, list[Candidate]] = {}
    for candidate in candidates:
        card = candidate.device.group
        by_card.setdefault(candidate.position if card is None else card, []).append(candidate)
    return [die for dies in sorted(by_card.values(), key=len, reverse=True) for die in dies][:count]


def no_memory(device: Device, request: DeviceRequest) -> MiB:
    """A slot on the card or die is all that is taken; the percentage of a request only ranks cards, as in HAMi."""
    return MiB(0)


def no_cores(request: DeviceRequest) -> bool:
    """Cores are not counted here."""
    return True


def score_node(scoring: Scoring) -> float:
    """Per container the part of its dies that are on one card, summed up; 0 outside die mode."""
    score = 0.0
    for shares in scoring.containers:
        devices = [scoring.state.shape.devices[share.position] for share in shares]
        groups = [device.group for device in devices if _is_die(device) and device.group is not None]
        if len(groups) < len(devices):
            return 0.0
        if groups:
            score += max(map(groups.count, groups)) / len(groups)
    return score


def _is_die(device: Device) -> bool:
    return device.trait(STRATEGY) == "die"


SPEC: Final = VendorSpec(
    name=VendorName("Vastai"),
    title="Vastai VA",
    vendor="Vastai",
    resources=ResourceNames(count="vastaitech.com/va"),
    keys=AnnotationKeys(
        allocated="hami.io/Vastai-devices-allocated",
        to_allocate="hami.io/Vastai-devices-to-allocate",
        register="hami.io/node-va-register",
        handshake="hami.io/node-handshake-va",
        use_ids=("vastaitech.com/use-gpuuuid",),
        avoid_ids=("vastaitech.com/nouse-gpuuuid",),
    ),
    inventory=inventory,
    fitting=FittingRules(
        late_checks=(card_is_idle,), select=from_few_cards, memory_of=no_memory, takes_no_cores=no_cores
    ),
    scoring=ScoringRules(score_node=score_node),
    memory_step="none: whole card or die",
    core_step="none",
    several="whole cards or dies, from few cards",
    facts=facts.VASTAI,
)
