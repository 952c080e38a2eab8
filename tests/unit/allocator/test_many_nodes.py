"""A call about many nodes: it says what each node says by itself, and asks only nodes that have changed."""

from __future__ import annotations

import random
from typing import Any

import pytest

from hami_plugins.allocations.answers import Declined
from hami_plugins.allocator import time_slices
from hami_plugins.engine.decide import CacheStatistics
from hami_plugins.kube.reflector import ObjectChange
from hami_plugins.model.units import NodeName
from tests.unit.volcano_vgpu.allocation.cluster import IDS, MEMORY, NODE, NUMBER, Cluster, a_node, a_pod

NAMES = tuple(NodeName(f"n{at}") for at in range(12))
SIZES = (4_000, 12_000, 30_000, 40_000, 50_000)


def a_cluster(nodes: int = len(NAMES)) -> Cluster:
    return Cluster(*(a_node(f"n{at}", cards=at % 3, memory=(20_480, 40_960)[at % 2]) for at in range(nodes)))


def counted(cluster: Cluster) -> int:
    """How often a node was asked."""
    found: CacheStatistics = cluster.cache._cache.decider.statistics  # noqa: SLF001 - what is counted is kept there
    return found.hits + found.misses


def asked(cluster: Cluster, raw: dict[str, Any], *names: str) -> dict[str, str]:
    """The refusals of one call."""
    found = cluster.cache.refusals(tuple(map(NodeName, names)) or NAMES, cluster.cache.intake(raw))
    return {str(name): unfit.text for name, unfit in found.items()}


def singly(cluster: Cluster, raw: dict[str, Any]) -> dict[str, str]:
    """The refusals of a call for each node."""
    found = {str(name): cluster.cache.answer(name, cluster.cache.intake(raw)) for name in NAMES}
    return {name: text for name, text in found.items() if text}


def bound(name: str, node: str, memory: int) -> dict[str, Any]:
    return a_pod(name, node=node, ids=f"GPU-{node}-0,NVIDIA,{memory},0:;")


@pytest.mark.parametrize("seed", range(6))
def test_a_call_about_many_nodes_says_what_each_says_alone_whatever_has_happened(seed: int) -> None:
    draw, cluster, there = random.Random(seed), a_cluster(), dict[str, dict[str, Any]]()
    for turn in range(60):
        node, act = draw.choice(NAMES), draw.randrange(5)
        if act == 0 and there:
            cluster.shows(there.pop(draw.choice(sorted(there))), "deleted")
        elif act == 1:
            raw = a_node(node, cards=draw.randrange(3), memory=draw.choice((20_480, 40_960)))
            cluster.cache.node_changed(ObjectChange("modified", raw, f"uid-{node}"))
        elif act == 2:
            cluster.cache.node_changed(ObjectChange("deleted", None, f"uid-{node}"))
        elif act == 3:
            waits = a_pod(f"waits-{turn}", memory=draw.choice(SIZES))
            cluster.cache.reserve(node, cluster.cache.intake(waits))
        else:
            there[f"p{turn}"] = bound(f"p{turn}", node, draw.choice(SIZES))
            cluster.shows(there[f"p{turn}"])
        raw = a_pod("asks", memory=draw.choice(SIZES))
        assert asked(cluster, raw) == singly(cluster, raw)


def test_between_two_calls_only_nodes_that_changed_are_asked() -> None:
    cluster = a_cluster()
    asked(cluster, a_pod("a"))
    before = counted(cluster)
    asked(cluster, a_pod("b"))
    assert counted(cluster) == before
    cluster.shows(bound("p", "n1", 4_000))
    asked(cluster, a_pod("c"))
    assert 0 < counted(cluster) - before <= 2


def test_ten_times_the_nodes_are_asked_no_more_often_once_they_are_known() -> None:
    found = []
    for nodes in (30, 300):
        cluster, names = a_cluster(nodes), [f"n{at}" for at in range(nodes)]
        for _ in range(2):
            before = counted(cluster)
            asked(cluster, a_pod("a"), *names)
            cluster.shows(bound("p", "n1", 4_000))
            cluster.shows(bound("p", "n1", 4_000), "deleted")
        asked(cluster, a_pod("a"), *names)
        before = counted(cluster)
        cluster.shows(bound("p", "n1", 4_000))
        asked(cluster, a_pod("a"), *names)
        found.append(counted(cluster) - before)
    assert found[0] == found[1]


def test_what_a_pod_has_reserved_does_not_stand_in_its_own_way() -> None:
    cluster = Cluster(a_node("n1"))
    raw, names = a_pod("a", memory=30_000), (NodeName("n1"),)
    assert not asked(cluster, raw, "n1")
    assert not isinstance(cluster.cache.reserve(names[0], cluster.cache.intake(raw)), Declined)
    assert not asked(cluster, raw, "n1")
    assert set(asked(cluster, a_pod("b", memory=30_000), "n1")) == {"n1"}
    assert set(cluster.cache.scores(names, cluster.cache.intake(raw))) == {"n1"}
    assert not cluster.cache.scores(names, cluster.cache.intake(a_pod("b", memory=30_000)))


def test_nodes_that_are_not_known_say_so_and_are_not_remembered() -> None:
    cluster = Cluster(a_node("n1"))
    assert "not known" in asked(cluster, a_pod("a"), "n1", "later")["later"]
    raw = a_node("later")
    cluster.cache.node_changed(ObjectChange("added", raw, "uid-later"))
    assert not asked(cluster, a_pod("a"), "n1", "later")


def test_scores_are_those_of_nodes_that_fit_and_follow_changes() -> None:
    cluster = a_cluster()
    intake = cluster.cache.intake(a_pod("a", memory=30_000))
    before = cluster.cache.scores(NAMES, intake)
    fitting = set(NAMES) - set(cluster.cache.refusals(NAMES, intake))
    assert before.keys() == fitting
    cluster.shows(bound("p", "n1", 4_000))
    after = cluster.cache.scores(NAMES, intake)
    assert before[NodeName("n1")] < after[NodeName("n1")]
    assert {name for name in before if before[name] != after[name]} == {"n1"}


def test_texts_name_the_containers_of_the_pod_that_asks() -> None:
    cluster = Cluster(a_node("n1"))
    texts = []
    for first, second in (("trainer", "logger"), ("server", "cache")):
        raw = a_pod("two")
        (asks,) = raw["spec"]["containers"]
        amounts = {"limits": {NUMBER: "1", MEMORY: "30000"}}
        raw["spec"]["containers"] = [{**asks, "name": each, "resources": amounts} for each in (first, second)]
        texts.append(asked(cluster, raw, "n1")["n1"])
    assert "trainer" in texts[0]
    assert "trainer" not in texts[1]
    assert "server" in texts[1]


def test_a_node_that_changed_and_was_not_asked_in_time_is_not_told_of_as_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster, raw = a_cluster(), a_pod("a", memory=30_000)
    before = asked(cluster, raw)
    for name in ("n1", "n2"):
        cluster.cache.node_changed(ObjectChange("modified", a_node(name, memory=50_000), f"uid-{name}"))
    monkeypatch.setattr(time_slices, "BUDGET", 0.0)
    found = asked(cluster, raw, *NAMES, "unknown")
    unchecked = {name for name, text in found.items() if "not checked" in text}
    assert unchecked == {"n1", "n2", "unknown"}
    assert {name for name in found if found[name] != before.get(name)} == unchecked
    assert not cluster.cache.scores((NodeName("n1"), NodeName("n2")), cluster.cache.intake(raw))


def test_each_node_is_told_of_in_its_own_numbers() -> None:
    cluster = Cluster(a_node("n1"), a_node("n2"))
    for node, memory in (("n1", 20_000), ("n2", 30_000)):
        cluster.shows(bound(f"on-{node}", node, memory))
    found = asked(cluster, a_pod("a", memory=30_000), "n1", "n2")
    assert "largest free 20,960 MiB" in found["n1"]
    assert "largest free 10,960 MiB" in found["n2"]


def test_a_forgotten_cluster_leaves_no_answers() -> None:
    cluster = Cluster(a_node("n1"))
    raw = a_pod("a", node="n1", ids="GPU-n1-0,NVIDIA,4000,0:;")
    assert raw["metadata"]["annotations"][NODE] == "n1"
    assert IDS in raw["metadata"]["annotations"]
    assert not asked(cluster, a_pod("b"), "n1")
    cluster.cache.forget()
    assert "not known" in asked(cluster, a_pod("b"), "n1")["n1"]


def test_a_whole_node_that_is_not_known_is_taken_as_its_object_says() -> None:
    cluster, names = Cluster(a_node("n1")), ("new", "odd", "n1")
    given = {NodeName("new"): a_node("new", memory=20_480), NodeName("odd"): {"metadata": {"name": ["odd"]}}}
    raw = cluster.cache.intake(a_pod("a", memory=30_000))
    found = cluster.cache.refusals(tuple(map(NodeName, names)), raw, given)
    assert set(found) == {"new", "odd"}
    assert "20,480" in found[NodeName("new")].text
    assert "cannot be read" in found[NodeName("odd")].text
