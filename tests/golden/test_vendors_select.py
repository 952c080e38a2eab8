"""Which of the fitting cards go together: wings, runs, zones, dies."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hami_plugins.engine.fit import Fitter, RequestRefusal
from hami_plugins.model.devices import IDLE, Device, DeviceUsage, Tenant
from hami_plugins.model.nodes import NodeShape
from hami_plugins.model.policy import DEFAULT_POLICY
from hami_plugins.model.requests import DeviceRequest, Percent
from hami_plugins.model.vendor import Candidate, ContainerRequest
from hami_plugins.vendors import awsneuron, builtin, kunlun, metax
from tests import builders
from tests.golden import cases

REGISTRY = builtin()

DEVIATIONS: dict[str, tuple[str, Any]] = {
    "select-067": (
        "with as many cards as wanted nobody chooses; HAMi's code, too, keeps their order",
        [1, 2, 5, 9],
    ),
    "select-071": ("ambiguous; three cards are too few for five, so nobody has to choose among them", None),
}
"""What differs on purpose: why, and the picks that we answer instead."""


@cases.each("hami-vendors/select.yaml")
def test_cards_are_chosen_as_their_vector_says(case: cases.Case) -> None:
    _, wanted = DEVIATIONS.get(case.id, ("", case.expect["picks"]))
    assert _picks(case.given) == wanted


def _picks(given: dict[str, Any]) -> list[int] | None:
    request, numbers, devices, usage = {
        "kunlun": _wings,
        "xpu": _slices,
        "neuron-graph": _runs,
        "metax-exclusive": _zones,
        "metax-online": _classes,
        "vastai-die": _dies,
    }[given["algorithm"]](given)
    spec = REGISTRY[request.vendor]
    fitter = Fitter.of(spec, request, DEFAULT_POLICY)
    ask = ContainerRequest(
        fitter.request,
        DEFAULT_POLICY,
        NodeShape(tuple(devices)),
        (),
        spec.fitting.cores_of,
        spec.fitting.memory_of,
        usage,
    )
    candidates = [Candidate(at, *pair) for at, pair in enumerate(zip(devices, usage, strict=True))]
    found = fitter.fit(candidates, ask)
    return None if isinstance(found, RequestRefusal) else [numbers[share.position] for share in found]


Situation = tuple[DeviceRequest, Sequence[int], Sequence[Device], Sequence[DeviceUsage]]


def _wings(given: dict[str, Any]) -> Situation:
    numbers = range(given["total"])
    card = builders.a_device(vendor="kunlun", memory=kunlun.CARD_MEMORY)
    usage = [builders.used(1, kunlun.CARD_MEMORY, 100) if at in given["busy"] else IDLE for at in numbers]
    request = builders.a_request(vendor="kunlun", count=given["nums"], memory=Percent(100))
    return request, numbers, [replace(card, index=at) for at in numbers], usage


def _slices(given: dict[str, Any]) -> Situation:
    numbers = range(given["total"])
    card = builders.a_device(vendor="XPU", slots=4, memory=kunlun.CARD_MEMORY)
    held = {int(at): builders.used(slots, memory) for at, (slots, memory) in given["used"].items()}
    request = builders.a_request(vendor="XPU", count=given["nums"], memory=given["memreq"])
    return request, numbers, [replace(card, index=at) for at in numbers], [held.get(at, IDLE) for at in numbers]


def _runs(given: dict[str, Any]) -> Situation:
    numbers = range(given["total"])
    mode = "ring" if given["family"] == "inf" else ""
    card = builders.a_device(vendor="AWSNeuron", slots=2, memory=0, cores=2, mode=mode)
    usage = [builders.used(1, 0, 2) if at in given["busy"] else IDLE for at in numbers]
    request = builders.a_request(
        vendor="AWSNeuron", count=given["nums"], memory=0, options=((awsneuron.WHOLE, "true"),)
    )
    return request, numbers, [replace(card, index=at) for at in numbers], usage


def _zones(given: dict[str, Any]) -> Situation:
    zones = [(number, zone) for zone, numbers in given["zones"].items() for number in numbers]
    devices = [
        builders.a_device(vendor="Metax-SGPU", index=number, group=None if zone == "0" else zone)
        for number, zone in zones
    ]
    request = builders.a_request(vendor="Metax-SGPU", count=given["nums"], memory=Percent(100), cores=100)
    return request, [number for number, _ in zones], devices, [IDLE] * len(devices)


def _classes(given: dict[str, Any]) -> Situation:
    numbers = [int(number) for number in given["cards"]]
    marks = [
        (Tenant(metax.ONLINE, ""),) * card["online"] + (Tenant(metax.OFFLINE, "best-effort"),) * card["offline"]
        for card in given["cards"].values()
    ]
    request = builders.a_request(
        vendor="Metax-SGPU", count=given["nums"], options=((metax.APP_CLASS_KEY, metax.ONLINE),)
    )
    devices = [builders.a_device(vendor="Metax-SGPU", index=number) for number in numbers]
    return request, numbers, devices, [builders.used(len(each), 0, 0, *each) if each else IDLE for each in marks]


def _dies(given: dict[str, Any]) -> Situation:
    cards = [(number, card) for card, numbers in given["zones"].items() for number in numbers]
    devices = [
        builders.a_device(vendor="Vastai", slots=1, index=number, group=card, traits=(("DeviceStrategy", "die"),))
        for number, card in cards
    ]
    request = builders.a_request(vendor="Vastai", count=given["nums"], memory=Percent(100))
    return request, [number for number, _ in cards], devices, [IDLE] * len(devices)
