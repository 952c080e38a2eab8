"""Calls about many nodes for pods of namespaces with a quota: what is left changes, what nodes say seldom does."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from hami_plugins.allocator import time_slices
from hami_plugins.allocator.locked_cache import LockedAllocationCache
from hami_plugins.engine.decide import CacheStatistics
from hami_plugins.kube.reflector import ObjectChange
from hami_plugins.model.units import NodeName, PodUid
from tests import raw_objects
from tests.unit.allocations.test_quotas import a_pod, a_quota
from tests.unit.allocator.products import product, settings

NAMES = tuple(NodeName(f"n{at}") for at in range(6))
LARGE = 40_960


def a_node(name: str, *memories: int, **changes: Any) -> dict[str, Any]:
    """A node whose cards have so much memory; the changes are those of its last card."""
    cards = raw_objects.registered_cards(*(f"{name}-{at}" for at in range(len(memories))))
    cards = [{**card, "devmem": memory} for card, memory in zip(cards, memories, strict=True)]
    cards[-1] |= changes
    notes = {"hami.io/node-nvidia-register": json.dumps(cards)}
    return {"metadata": {"name": name, "annotations": notes}, "status": {}}


def a_cluster(*given: dict[str, Any], nodes: int = len(NAMES)) -> LockedAllocationCache:
    """The nodes that are given, or so many of two large cards."""
    made = LockedAllocationCache(product(found=settings(vendors=["NVIDIA"])), keep=90.0, clock=lambda: 0.0)
    for raw in given or (a_node(f"n{at}", LARGE, LARGE) for at in range(nodes)):
        made.node_changed(ObjectChange("added", raw, f"uid-{raw['metadata']['name']}"))
    return made


def limit(cache: LockedAllocationCache, memory: int, namespace: str = "team") -> None:
    cache.quota_changed(ObjectChange("modified", a_quota(memory, namespace), f"q-{namespace}"))


def hold(cache: LockedAllocationCache, name: str, card: str, memory: int, namespace: str = "team") -> None:
    """A pod is bound and has so much of a card, whose name begins with that of its node."""
    raw, node = a_pod(name, memory, namespace), card.partition("-")[0]
    notes = {"hami.io/vgpu-devices-allocated": f"{card},NVIDIA,{memory},0:;", "hami.io/vgpu-node": node}
    raw["metadata"]["annotations"], raw["spec"]["nodeName"] = notes, node
    cache.pod_changed(ObjectChange("modified", raw, f"uid-{name}"))


def asked(cache: LockedAllocationCache, raw: dict[str, Any], names: tuple[NodeName, ...] = NAMES) -> dict[str, str]:
    return {str(name): found.text for name, found in cache.refusals(names, cache.intake(raw)).items()}


def singly(cache: LockedAllocationCache, raw: dict[str, Any]) -> dict[str, str]:
    found = {str(name): cache.answer(name, cache.intake(raw)) for name in NAMES}
    return {name: text for name, text in found.items() if text}


def counted(cache: LockedAllocationCache) -> tuple[int, int]:
    """How often a verdict was made, and how often a node was asked."""
    found: CacheStatistics = cache._cache.decider.statistics  # noqa: SLF001 - what is counted is kept there
    return found.misses, found.misses + found.hits


@pytest.mark.parametrize("seed", range(6))
def test_calls_say_what_each_node_says_alone_whatever_the_quota_leaves(seed: int) -> None:
    draw, cache, there = random.Random(seed), a_cluster(), list[str]()
    for turn in range(50):
        namespace = draw.choice(("team", "other", "free"))
        match draw.randrange(4):
            case 0 if namespace != "free":
                limit(cache, draw.choice((4_000, 12_000, 30_000, 100_000)), namespace)
            case 1 if there:
                cache.pod_changed(ObjectChange("deleted", None, there.pop(draw.randrange(len(there)))))
            case 2:
                there.append(f"uid-h{turn}")
                hold(cache, f"h{turn}", f"{draw.choice(NAMES)}-0", draw.choice((1_000, 9_000, 30_000)), namespace)
            case _:
                cache.reserve(draw.choice(NAMES), cache.intake(a_pod(f"r{turn % 3}", 5_000, namespace)))
        raw = a_pod(f"r{turn % 3}", draw.choice((5_000, 12_000)), namespace)
        refused = asked(cache, raw)
        assert cache.scores(NAMES, cache.intake(raw)).keys() == set(NAMES) - refused.keys()
        assert refused == singly(cache, raw)


@pytest.mark.parametrize(("memory", "fits"), [(100_000, True), (9_000, False)])
def test_while_a_pod_stays_within_or_beyond_a_quota_only_nodes_that_changed_are_asked(
    memory: int, *, fits: bool
) -> None:
    found = []
    for nodes in (6, 60):
        cache, names = a_cluster(nodes=nodes), tuple(NodeName(f"n{at}") for at in range(nodes))
        limit(cache, memory)
        asked(cache, a_pod(memory=10_000), names)
        before = counted(cache)
        for turn in range(3):
            hold(cache, f"h{turn}", "n1-0", 1_000)
            assert (not asked(cache, a_pod(memory=10_000), names)) is fits
        found.append([now - then for now, then in zip(counted(cache), before, strict=True)])
    assert found[0] == found[1]
    assert 0 < found[0][1] <= 6, "the node of the three pods, with its quota and without"


def test_two_namespaces_with_different_answers_do_not_have_nodes_asked_in_turn() -> None:
    cache = a_cluster()
    limit(cache, 1_000)
    limit(cache, 100_000, "other")
    for namespace in ("team", "other"):
        asked(cache, a_pod(memory=5_000, namespace=namespace))
    before = counted(cache)
    for namespace in ("team", "other", "team"):
        asked(cache, a_pod(memory=5_000, namespace=namespace))
    assert counted(cache) == before


def test_a_pod_that_a_quota_holds_back_is_told_what_is_left_now() -> None:
    cache = a_cluster()
    limit(cache, 8_000)
    for turn, left in enumerate(("7,000", "6,000", "5,000")):
        hold(cache, f"h{turn}", "n1-0", 1_000)
        found = asked(cache, a_pod(memory=10_000))
        assert len(found) == len(NAMES)
        assert all(f"the namespace has {left} MiB left" in text for text in found.values())


def test_a_quota_that_comes_is_raised_and_goes_counts_in_the_next_call() -> None:
    cache, raw = a_cluster(), a_pod(memory=10_000)
    found = [len(asked(cache, raw))]
    for memory in (9_999, 10_000, 1):
        limit(cache, memory)
        found.append(len(asked(cache, raw)))
    cache.quota_changed(ObjectChange("deleted", None, "q-team"))
    found.append(len(asked(cache, raw)))
    assert found == [0, 6, 0, 6, 0]


def test_what_the_pod_holds_itself_is_not_taken_from_what_is_left_for_it() -> None:
    cache, own, second = a_cluster(), a_pod("own", 10_000), a_pod("second", 10_000)
    limit(cache, 15_000)
    assert not asked(cache, own)
    cache.reserve(NAMES[0], cache.intake(own))
    assert [len(asked(cache, each)) for each in (own, second, own)] == [0, 6, 0]
    assert cache.release(PodUid("uid-own"))
    assert not asked(cache, second)


def test_pods_of_another_namespace_are_told_nothing_of_a_quota() -> None:
    cache = a_cluster()
    limit(cache, 1_000)
    for _ in range(2):
        assert len(asked(cache, a_pod(memory=5_000))) == len(NAMES)
        assert not asked(cache, a_pod(memory=5_000, namespace="other"))
    limit(cache, 2_000, "other")
    for _ in range(2):
        for namespace, left in (("team", "1,000 MiB"), ("other", "2,000 MiB")):
            assert all(left in text for text in asked(cache, a_pod(memory=5_000, namespace=namespace)).values())


@pytest.mark.parametrize("first", ["team", "free"])
def test_a_node_that_refuses_with_a_quota_and_without_is_told_why_in_each_case(first: str) -> None:
    cache = a_cluster(a_node("n0", LARGE, LARGE, health=False))
    hold(cache, "large", "n0-0", 35_000, "free")
    limit(cache, 10_000)
    raws = {namespace: a_pod(memory=20_000, namespace=namespace) for namespace in ("team", "free")}
    found = {each: asked(cache, raws[each], NAMES[:1])["n0"] for each in sorted(raws, reverse=first == "team")}
    assert "1 of 2 cards is unhealthy" in found["team"]
    assert "memory: asked 20,000 MiB" in found["free"]


def test_the_container_that_a_quota_holds_back_is_named_on_each_node_of_one_shape() -> None:
    cache = a_cluster(*(a_node(name, 10_000, LARGE, LARGE) for name in ("n0", "n1")))
    for at in range(10):
        hold(cache, f"h{at}", "n1-0", 1, "other")
    limit(cache, 8_000)
    raw = a_pod()
    halves = {"limits": {"nvidia.com/gpu": "1", "nvidia.com/gpumem-percentage": "50"}}
    notes = {"hami.io/gpu-scheduler-policy": "binpack"}
    raw["metadata"]["annotations"] = notes
    raw["spec"]["containers"] = [{"name": name, "resources": halves} for name in ("one", "two")]
    found = asked(cache, raw, NAMES[:2])
    assert [found[name].partition(": quota")[0].rpartition(" ")[2] for name in ("n0", "n1")] == ["two", "one"]


@pytest.mark.parametrize(("own", "refused"), [("first", [0, 6]), ("second", [6, 0])])
def test_calls_of_one_namespace_that_run_at_a_time_are_each_told_by_what_is_left_for_them(
    monkeypatch: pytest.MonkeyPatch, own: str, refused: list[int]
) -> None:
    """The second begins while the first lets others have the lock. More is left for the one that has a reservation."""
    cache = a_cluster()
    pods = {name: a_pod(name, 10_000) for name in ("first", "second")}
    limit(cache, 15_000)
    cache.reserve(NAMES[0], cache.intake(pods[own]))
    second = list[int]()

    def other_call(_seconds: float) -> None:
        if not second:
            second.append(-1)
            second[0] = len(asked(cache, pods["second"]))

    monkeypatch.setattr(time_slices, "_SLICE", 0.0)
    monkeypatch.setattr("time.sleep", other_call)
    assert [len(asked(cache, pods["first"])), *second] == refused
    assert [len(asked(cache, pods[name])) for name in ("first", "second")] == refused
