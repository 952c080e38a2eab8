"""Vastai cards and dies."""

import json
from typing import Any

import pytest

from hami_plugins.model.devices import IDLE, Device, DeviceShare
from hami_plugins.model.inventory import NodeObject
from hami_plugins.model.policy import DEFAULT_POLICY
from hami_plugins.model.units import CoreShare, MiB
from hami_plugins.model.vendor import Candidate, Scoring
from hami_plugins.vendors.vastai import SPEC, from_few_cards, score_node
from tests.builders import a_container, a_device, a_node_object, a_pod, a_request, a_state, an_ask
from tests.unit.vendors.placing import holder, place

COUNT, LIST = SPEC.resources.count, SPEC.keys.allocated
DIE = (("DeviceStrategy", "die"),)
MUTEX = {"hami.io/gpu-scheduler-policy": "mutex"}


def node(*cards: str | None, strategy: str = "die") -> NodeObject:
    """A node with one die per entry, on the card of that id."""
    devices: list[dict[str, Any]] = [
        {"id": f"d{at}", "index": at, "count": 1, "devmem": 32768, "type": "Vastai", "health": True}
        for at in range(len(cards))
    ]
    for device, card in zip(devices, cards, strict=True):
        device["custominfo"] = {"DeviceStrategy": strategy, **({} if card is None else {"AIC": card})}
    return a_node_object("n", annotations={SPEC.keys.register: json.dumps(devices)})


def dies(*cards: str | None) -> list[Device]:
    return [a_device(vendor=SPEC.name, index=at, group=card, traits=DIE) for at, card in enumerate(cards)]


def chosen(count: int, devices: list[Device]) -> list[int]:
    candidates = [Candidate(at, device, IDLE) for at, device in enumerate(devices)]
    ask = an_ask(a_request(vendor=SPEC.name, count=count), DEFAULT_POLICY, *devices)
    return [candidate.position for candidate in from_few_cards(candidates, ask)]


def test_a_node_that_registered_nothing_has_nothing() -> None:
    assert SPEC.inventory(SPEC, a_node_object()).ids == ()


def test_dies_know_their_card() -> None:
    found = SPEC.inventory(SPEC, node("7", None))
    assert [(device.group, device.trait("DeviceStrategy"), device.cores) for device in found.devices] == [
        ("7", "die", 100),
        (None, "die", 100),
    ]


def test_whole_cards_are_taken_as_they_come() -> None:
    assert chosen(2, [a_device(vendor=SPEC.name, index=at, group=card) for at, card in enumerate("abb")]) == [0, 1]


@pytest.mark.parametrize(("count", "positions"), [(1, [0]), (2, [1, 3]), (3, [1, 3, 5]), (4, [1, 3, 5, 2])])
def test_several_dies_come_from_the_cards_with_most_of_them(count: int, positions: list[int]) -> None:
    assert chosen(count, dies("a", "b", "c", "b", "c", "b")) == positions


def test_dies_keep_their_order_when_all_of_them_are_taken() -> None:
    assert chosen(3, dies("a", "b", "b")) == [0, 1, 2]


def test_dies_without_a_card_are_cards_of_their_own() -> None:
    assert chosen(3, dies(None, None, "a", "a")) == [2, 3, 0]


def test_a_die_takes_one_container_and_books_nothing_else() -> None:
    written = place(SPEC, node("a"), a_pod(a_container({COUNT: 1})))
    assert isinstance(written, dict)
    assert written[LIST] == "d0,Vastai,0,0:;"
    running = [holder(SPEC, written[LIST])]
    assert place(SPEC, node("a"), a_pod(a_container({COUNT: 1})), running) == "1/1 CardTimeSlicingExhausted"


def test_an_exclusive_pod_takes_no_die_of_a_card_in_use() -> None:
    running = [holder(SPEC, "d0,Vastai,0,0:;")]
    pod = a_pod(a_container({COUNT: 1}), annotations=MUTEX)
    written = place(SPEC, node("a", "a", "b"), pod, running)
    assert isinstance(written, dict)
    assert written[LIST] == "d2,Vastai,0,0:;"
    words = place(SPEC, node("a", "a"), pod, running)
    assert words == "1/2 CardTimeSlicingExhausted, 1/2 ExclusiveDeviceAllocateConflict"


def test_neighbours_do_not_matter_for_whole_cards_and_dies_without_a_card() -> None:
    running = [holder(SPEC, "d0,Vastai,0,0:;")]
    pod = a_pod(a_container({COUNT: 1}), annotations=MUTEX)
    for there in (node("a", "a", strategy="card"), node(None, None)):
        written = place(SPEC, there, pod, running)
        assert isinstance(written, dict)
        assert written[LIST] == "d1,Vastai,0,0:;"


def score(devices: list[Device], *containers: tuple[int, ...]) -> float:
    shares = tuple(tuple(DeviceShare(at, MiB(0), CoreShare(0)) for at in positions) for positions in containers)
    return score_node(Scoring(a_state(*devices), (), shares, DEFAULT_POLICY))


def test_a_node_scores_by_how_well_containers_keep_to_one_card() -> None:
    assert score(dies("a", "a", "a", "b"), (0, 1, 2, 3)) == 0.75
    assert score(dies("a", "a", "b"), (0,), (), (1, 2)) == 1.5


def test_whole_cards_and_unknown_cards_score_nothing() -> None:
    assert score(dies("a", None), (0, 1)) == 0
    assert score([a_device(vendor=SPEC.name, group="a")], (0,)) == 0
