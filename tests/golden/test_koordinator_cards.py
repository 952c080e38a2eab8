"""What Koordinator's scheduler finds on cards, against the vectors: accounting on one card, and its filter."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from hami_plugins.engine.annotate import annotations_of
from hami_plugins.engine.decide import Decider
from hami_plugins.engine.intake import Rules, take_in
from hami_plugins.engine.inventory import NodeBuilder, RecordReader, settled, with_pods
from hami_plugins.engine.policies import PolicyDefaults
from hami_plugins.engine.registry import Registry
from hami_plugins.model.decisions import UNREGISTERED, Placed
from hami_plugins.model.inventory import NodeObject
from hami_plugins.model.nodes import NodeFacts
from hami_plugins.vendors.koordinator import ISOLATION, SPEC
from tests.builders import a_container, a_node_object, a_pod, a_snapshot
from tests.golden.cases import Case, each, of
from tests.unit.vendors.placing import Written, place

NO_RECORD: Written | str = {}
"""What Koordinator gives a pod that it binds to a node without a Device object."""

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
    "place-11": "a whole card is one that nobody has a part of: the second pod waits",
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


@each("koordinator/filter.yaml", without=("filter-148", "filter-no-resources", "filter-node-selector"))
def test_a_node_is_refused_in_the_schedulers_words(case: Case) -> None:
    names = ["koordinator.sh/gpu-core", "koordinator.sh/gpu-memory", "koordinator.sh/gpu-memory-ratio"]
    labels = {ISOLATION: "HAMi-core"}
    cards = [a_card(at, names, "81559Mi") for at in range(8)]
    match case.id:
        case "filter-no-device":
            assert asked(SHARED_POD, a_node_object(), []) == UNREGISTERED.words
            answer = NO_RECORD
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


PACKED = Rules(policies=PolicyDefaults(koordinator="binpack"))
EIGHT = [
    a_card(at, ["koordinator.sh/gpu-core", "koordinator.sh/gpu-memory", "koordinator.sh/gpu-memory-ratio"], "81559Mi")
    for at in range(8)
]
ONE_AFTER_ANOTHER = ("place-01", "place-02", "place-03")
"""Placements, each made with the ones before in place."""


def recorded(request: Any, running: list[Any]) -> list[dict[str, Any]]:
    """What a plan says will be recorded of one pod, on eight cards, where the scheduler packs."""
    registry = Registry([SPEC])
    lists = request.get("containers", [request])
    containers = [a_container(each, requests=each, name=f"c{at}") for at, each in enumerate(lists)]
    pod = a_pod(*containers, name=f"p{len(running)}", scheduler="koord-scheduler")
    entry = NodeBuilder(registry).entry(a_node(*EIGHT), NodeFacts())
    reader = RecordReader(registry)
    entry = with_pods(entry, [settled(reader.record(each)[0], entry) for each in running])
    intake = take_in(pod, registry, PACKED)
    assert intake.refusal == ""
    decider = Decider(registry, uncounted=registry.resources)
    decision = decider.decide(a_snapshot(entry), intake.demand, intake.policy)
    assert isinstance(decision, Placed)
    written = annotations_of(pod, decision, entry, registry, now_ns=0)
    running.append(replace(pod, annotations=written))
    items: list[dict[str, Any]] = json.loads(written[SPEC.keys.allocated])["gpu"]
    return items


@each("koordinator/placements-real.yaml")
def test_a_plan_says_what_the_real_scheduler_recorded(case: Case) -> None:
    running: list[Any] = []
    if case.id in ONE_AFTER_ANOTHER:
        for before in of("koordinator/placements-real.yaml")[: ONE_AFTER_ANOTHER.index(case.id)]:
            recorded(before.given["request"], running)
    request = case.given["request"]
    for each_one in request["sequence"][:-1] if "sequence" in request else ():
        recorded(each_one, running)
    if "sequence" in request:
        request = request["sequence"][-1]
    if case.id in DEVIATIONS:
        with pytest.raises(AssertionError):
            recorded(request, running)
        return
    items = recorded(request, running)
    assert len(items) == case.expect.get("count", len(case.expect.get("items", items)))
    if case.id in ONE_AFTER_ANOTHER:
        assert [item["minor"] for item in items] == case.expect["minors"]
    for item, told in zip(items, case.expect.get("items", ()), strict=False):
        assert {name: item["resources"][name] for name in told["resources"]} == told["resources"]
    for name in case.expect.get("absent", ()):
        assert all(name not in item["resources"] for item in items)
    if "each_percent" in case.expect:
        assert {item["resources"]["koordinator.sh/gpu-memory-ratio"] for item in items} == {
            str(case.expect["each_percent"])
        }
