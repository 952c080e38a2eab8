"""The intended Device object of a node: its cards, and removed ones while a pod still holds them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from hami_plugins.model.pods import ResourceList
from hami_plugins.model.quantity import NANO, Quantity
from hami_plugins.model.units import MEBIBYTE, DeviceId, NodeName
from hami_plugins.wire import quantity
from hami_plugins.wire.koordinator import CORE, GPU_TYPE, MEMORY, RATIO
from hami_plugins.wire.koordinator_devices import (
    MODEL_LABEL,
    VENDOR_LABEL,
    CardPlace,
    DeviceCondition,
    DeviceObject,
    PublishedDevice,
)
from koordinator_adapter.core.devices.cards import NVIDIA, NodeCards, RegisteredCard, label_value
from koordinator_adapter.core.devices.minors import numbered
from koordinator_adapter.core.translation.vocabulary import DEVICE_ID_LABEL

PUBLISHER_LABEL: Final = "hami-plugins.io/publisher"
PUBLISHER: Final = "koordinator-adapter"
CARD_MODEL_LABEL: Final = "gpu-model"
HEALTHY: Final = "Healthy"
UNHEALTHY_REASON: Final = "Unhealthy"
VANISHED_REASON: Final = "Vanished"

_FULL: Final = 100


class Wanted(NamedTuple):
    """The object with its cards alone, and what could not be put into it."""

    object: DeviceObject
    remarks: tuple[str, ...] = ()


def wanted(found: NodeCards, live: DeviceObject | None, held: Collection[int], now: str) -> Wanted:
    """What is to be published of a node.

    ``live`` is what we have published before: numbers come from there. ``held`` are the numbers that pods of the node
    hold, ``now`` the time in RFC 3339. Cards of which nothing certain is known stay as they were published.
    """
    before: Mapping[DeviceId, PublishedDevice] = {DeviceId(each.id): each for each in _cards(live) if each.id}
    present = {card.id for card in found.cards}
    gone = _gone(found, before, present, held)
    numbers = numbered(
        [(card.id, card.index) for card in found.cards],
        {name: each.minor for name, each in before.items()},
        {each.minor for each in gone},
    )
    cards = [
        _published(card, numbers.of[card.id], before.get(card.id), now) for card in found.cards if card.id in numbers.of
    ]
    cards += [_vanished(each, now) if found.certain else each for each in gone]
    cards.sort(key=lambda each: each.minor)
    remarks = [
        f"node {found.node}: card {name}: no number is left for it; Koordinator has 63 for each node"
        for name in numbers.without
    ]
    remarks += _elsewhere(found, numbers.of)
    labels = {**(live.labels if live else {}), **_labels(found, live), PUBLISHER_LABEL: PUBLISHER}
    return Wanted(
        DeviceObject(
            node=NodeName(found.node),
            devices=tuple(cards),
            labels=labels,
            annotations=live.annotations if live else {},
        ),
        tuple(remarks),
    )


def _gone(
    found: NodeCards, before: Mapping[DeviceId, PublishedDevice], present: Collection[DeviceId], held: Collection[int]
) -> list[PublishedDevice]:
    """Earlier cards. They are remembered while pods hold their numbers, and while no component reports any card: a
    restarted agent has the same cards, and each has to find its number again."""
    missing = [each for name, each in before.items() if name not in present]
    if not found.cards or not found.certain:
        return missing
    return [each for each in missing if each.minor in held]


def _elsewhere(found: NodeCards, numbers: Mapping[DeviceId, int]) -> list[str]:
    """The effect on cards whose number differs from their place (Koordinator 1.7.0
    ``pkg/koordlet/runtimehooks/hooks/gpu/gpu.go``).

    Koordinator's records name cards by number; koordlet's hook shows them by it, and NVIDIA's runtime takes such a
    number for the place in its own list.
    """
    moved = [
        f"{name} has number {numbers[name]} and is in place {place}"
        for name, place in found.places.items()
        if numbers.get(name, place) != place
    ]
    if found.vendor != NVIDIA or not moved:
        return []
    return [
        f"node {found.node}: {', '.join(moved)}: where koordlet's hook (gate GPUEnvInject) shows cards by "
        "number, containers see other cards. Once no pod of the node holds cards, have them renumbered: kubectl delete "
        f"devices.scheduling.koordinator.sh {found.node}; limits that are injected here name cards by id"
    ]


def _published(card: RegisteredCard, minor: int, before: PublishedDevice | None, now: str) -> PublishedDevice:
    labels = {DEVICE_ID_LABEL: label_value(card.id), CARD_MODEL_LABEL: card.model}
    amounts = {CORE: _FULL, MEMORY: card.memory * MEBIBYTE, RATIO: _FULL, **card.npu}
    device = PublishedDevice(
        kind=GPU_TYPE,
        minor=minor,
        id=card.id,
        resources=_amounts(amounts),
        # An id that is not a valid label value is left out: a truncated one could be another card's.
        labels={key: value for key, value in labels.items() if value and (key != DEVICE_ID_LABEL or value == card.id)},
        # No component reports switches, and a topology without one is invalid: each card is alone on its own.
        place=CardPlace(numa=card.numa, pcie=card.id),
        conditions=before.conditions if before else (),
    )
    if card.healthy:
        return _with(device, healthy=True, conditions=())
    return _unhealthy(device, UNHEALTHY_REASON, "reported by the node's agent", now)


def _vanished(device: PublishedDevice, now: str) -> PublishedDevice:
    return _unhealthy(device, VANISHED_REASON, "the node no longer reports this card", now)


def _unhealthy(device: PublishedDevice, reason: str, message: str, now: str) -> PublishedDevice:
    """The device, out of service; the time stays as long as the reason does."""
    since = next((each.since for each in device.conditions if each.kind == HEALTHY and each.reason == reason), "")
    return _with(device, healthy=False, conditions=(DeviceCondition(HEALTHY, False, reason, message, since or now),))


def _with(device: PublishedDevice, *, healthy: bool, conditions: tuple[DeviceCondition, ...]) -> PublishedDevice:
    return PublishedDevice(
        kind=device.kind,
        minor=device.minor,
        id=device.id,
        healthy=healthy,
        resources=device.resources,
        labels=device.labels,
        place=device.place,
        conditions=conditions,
    )


def _labels(found: NodeCards, live: DeviceObject | None) -> Mapping[str, str]:
    """Vendor and model of the first card; unchanged while no card is reported."""
    if not found.cards:
        return {} if live is None else live.labels
    first = min(found.cards, key=lambda each: each.index)
    return {key: value for key, value in ((VENDOR_LABEL, found.vendor), (MODEL_LABEL, first.model)) if value}


def _cards(live: DeviceObject | None) -> Iterable[PublishedDevice]:
    return () if live is None else live.cards


def _amounts(amounts: Mapping[str, int]) -> ResourceList:
    return {name: _quantity(amount, binary=name == MEMORY) for name, amount in amounts.items()}


def _quantity(amount: int, *, binary: bool) -> Quantity:
    return Quantity(amount * NANO, quantity.canonical(amount * NANO, binary=binary))
