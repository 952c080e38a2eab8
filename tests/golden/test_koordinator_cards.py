"""What Koordinator's scheduler finds on cards, against the vectors: accounting on one card, and its filter."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hami_plugins.model.decisions import UNREGISTERED
from hami_plugins.model.vendor import NodeObject
from hami_plugins.vendors.koordinator import ISOLATION, SPEC
from tests.builders import a_container, a_node_object, a_pod
from tests.golden.cases import Case, each
from tests.unit.vendors.placing import Written, place

SHARED_POD = {
    "koordinator.sh/gpu.shared": "1",
    "koordinator.sh/gpu-core": "50",
    "koordinator.sh/gpu-memory-ratio": "50",
}

DEVIATIONS = {
    "acc-100": "a whole card is one that nobody has a part of, however small",
    "acc-102": "the same, where the whole memory is asked for",
    "acc-103": "memory is compared as such, so that parts never come to more than the card",
    "acc-no-core-published": "a card that says nothing of its cores has all of them, and the second is refused",
    "filter-148": "models that are not to be shared stand in the scheduler's configuration, which nobody here reads",
    "filter-no-resources": "it is kube-scheduler's own filter that rejects the node: its sums are looked at before",
    "filter-node-selector": "the same, with its node affinity",
    "filter-no-device": "a node without a Device object has no cards; Koordinator binds the pod without any",
}
"""Where a plan says something else than the scheduler, on purpose."""


def a_card(minor: int, names: list[str], memory: str, *, healthy: bool = True) -> dict[str, Any]:
    known = {
        "koordinator.sh/gpu-core": "100",
        "koordinator.sh/gpu-memory": memory,
        "koordinator.sh/gpu-memory-ratio": "100",
    }
    resources = {name: known[name] for name in names}
    return {"type": "gpu", "id": f"GPU-{minor}", "minor": minor, "health": healthy, "resources": resources}


def a_node(*cards: dict[str, Any], labels: Mapping[str, str] | None = None) -> NodeObject:
    published = {"metadata": {"name": "node-0"}, "spec": {"devices": list(cards)}}
    return a_node_object(labels=labels)._replace(published=published)


def asked(amounts: Mapping[str, str], node: NodeObject, running: list[Any], **about: Any) -> Written | str:
    container = a_container(amounts, requests=amounts)
    return place(SPEC, node, replace(a_pod(container, scheduler="koord-scheduler"), **about), running)


@each("koordinator/accounting.yaml")
def test_parts_of_one_card_are_counted_as_the_scheduler_counts_them(case: Case) -> None:
    card = case.given["card"]
    node = a_node(a_card(0, card["publishes"], card.get("memory", "81559Mi")))
    running: list[Any] = []
    fits = []
    for at, amounts in enumerate(case.given["steps"]):
        answer = asked(amounts, node, running)
        fits.append(not isinstance(answer, str))
        if isinstance(answer, str):
            assert answer == "Insufficient GPU Devices"
            continue
        container = a_container(amounts, requests=amounts)
        running.append(a_pod(container, name=f"p{at}", annotations=dict(answer)))
    if case.id in DEVIATIONS and case.id != "acc-no-core-published":
        assert fits != case.expect["fits"]
        assert fits[-1] is False
        return
    assert fits == case.expect["fits"]
    shares = [json.loads(pod.annotations[SPEC.keys.allocated])["gpu"] for pod in running]
    assert len(shares) == sum(fits)


@each("koordinator/filter.yaml")
def test_a_node_is_refused_in_the_schedulers_words(case: Case) -> None:
    names = ["koordinator.sh/gpu-core", "koordinator.sh/gpu-memory", "koordinator.sh/gpu-memory-ratio"]
    labels = {ISOLATION: "HAMi-core"}
    cards = [a_card(at, names, "81559Mi") for at in range(8)]
    if case.id in DEVIATIONS:
        if case.id == "filter-no-device":
            assert asked(SHARED_POD, a_node_object(), []) == UNREGISTERED.words
        return
    match case.id:
        case "filter-147":
            answer = asked(SHARED_POD, a_node(*cards), [], labels=labels)
        case "filter-label-node-only":
            answer = asked(SHARED_POD, a_node(*cards, labels=labels), [])
        case "filter-unhealthy":
            cards[0]["health"] = False
            answer = asked({"koordinator.sh/gpu": "800"}, a_node(*cards), [])
        case _:
            assert case.id == "filter-device-deleted"
            for card in cards:
                card["health"] = False
            answer = asked(SHARED_POD, a_node(*cards), [])
    if case.expect.get("status") == "Success":
        assert not isinstance(answer, str)
    else:
        assert answer == case.expect["text"]
