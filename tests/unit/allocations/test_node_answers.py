"""A pod asked of many nodes at a time, of which some may be known to the caller alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from hami_plugins.allocations.cache import UNKNOWN_NODE, AllocationCache
from hami_plugins.allocations.node_answers import NodeAnswers
from hami_plugins.engine.decide import Decider
from hami_plugins.model.units import DeviceId, NodeName
from hami_plugins.model.verdicts import Fit, NoFit
from hami_plugins.wire import objects
from tests.unit.allocations.objects import N1, N2, REGISTRY, Raw, a_node, a_pod, asking, bound, register

N3 = NodeName("n3")


@pytest.fixture
def cache() -> AllocationCache:
    made = AllocationCache(Decider(REGISTRY))
    for name in (N1, N2):
        made.see_node(objects.node_object(a_node(name)))
    return made


def full(cache: AllocationCache, node: NodeName) -> None:
    ids = f"GPU-{node}-0,NVIDIA,40960,0:"
    cache.see_pod(objects.pod(bound(a_pod(f"whole-{node}", memory=40_960), node, ids)), 0.0)


def of(cache: AllocationCache, pod: Raw | None = None, given: Mapping[NodeName, Raw] | None = None) -> NodeAnswers:
    return NodeAnswers(cache, asking(pod or a_pod()), given or {})


def test_many_nodes_are_answered_each_as_if_it_were_asked_alone(cache: AllocationCache) -> None:
    full(cache, N2)
    names = [NodeName(name) for name in ("n8", "n1", "n2")]

    answers = of(cache).answers(names)

    assert answers == {name: cache.answer(name, asking(a_pod())) for name in names}
    assert [isinstance(answers[name], Fit) for name in names] == [False, True, False]


@pytest.mark.parametrize("at", [0, 1])
def test_nodes_of_one_kind_are_asked_one_by_one_for_a_card_with_this_id(cache: AllocationCache, at: int) -> None:
    raw = a_pod()
    raw["spec"]["containers"].append({**raw["spec"]["containers"][0], "name": "second"})
    intake = asking(raw)
    containers = list(intake.demand.devices.containers)
    (request,) = containers[at].requests
    selector = replace(request.selector, use_ids=frozenset({DeviceId("GPU-n1-0")}))
    containers[at] = replace(containers[at], requests=(replace(request, selector=selector),))
    devices = replace(intake.demand.devices, containers=tuple(containers))
    named = replace(intake, demand=replace(intake.demand, devices=devices))

    answers = NodeAnswers(cache, named, {}).answers([N1, N2])

    assert isinstance(answers[N1], Fit)
    assert isinstance(answers[N2], NoFit)


def test_a_node_that_only_the_caller_knows_is_taken_as_its_object_says_and_without_pods(cache: AllocationCache) -> None:
    small = a_node("small", register("GPU-small", memory=4_000))
    given = {N3: a_node("n3"), NodeName("small"): small, NodeName("plain"): a_node("plain", "")}

    answers = of(cache, given=given).answers(given)

    assert [isinstance(each, Fit) for each in answers.values()] == [True, False, False]
    assert cache.entry(N3) is None


def test_a_node_that_the_cache_knows_is_asked_with_its_pods_whatever_its_object_says(cache: AllocationCache) -> None:
    full(cache, N1)
    larger = a_node("n1", register("GPU-n1-0", "GPU-n1-1"))

    found = of(cache, given={N1: larger})

    assert isinstance(found.answers([N1])[N1], NoFit)
    assert found.entry(N1) == cache.entry(N1)


def test_a_given_node_that_cannot_be_read_is_not_known_and_hides_no_other(cache: AllocationCache) -> None:
    broken = {**a_node("n3"), "status": {"capacity": 1}}
    found = of(cache, given={N3: broken, N1: broken})

    answers = found.answers([N3, N1])

    assert answers[N3] == UNKNOWN_NODE
    assert isinstance(answers[N1], Fit)
    assert "capacity" in found.unreadable[N3]
    assert found.lasts(N3)


@pytest.mark.parametrize(
    ("text", "lasting"),
    [
        (register("GPU-n3-0"), False),
        (register("GPU-n3-0", memory=9_999), True),
        (register("GPU-n3-0", healthy=False), True),
        ("", True),
    ],
)
def test_a_refusal_lasts_where_the_empty_node_would_refuse_as_well(
    cache: AllocationCache, text: str, *, lasting: bool
) -> None:
    cache.see_node(objects.node_object(a_node("n3", text)))
    if not lasting:
        full(cache, N3)
    found = of(cache)
    assert not isinstance(found.answers([N3])[N3], Fit)
    assert found.lasts(N3) is lasting
    assert found.lasts(NodeName("unknown"))
    assert found.entry(NodeName("unknown")) is None
