"""Nodes that Neuron pods must not begin on although devices are free, as reported to schedulers and the API server."""

from __future__ import annotations

from typing import Any

from hami_plugins.kube.reflector import ObjectChange
from hami_plugins.wire.gang_keys import GROUP_KEY
from neuron_topology.core.capacity_block_end import DURATION_KEY, END_KEY
from tests.unit.neuron_topology.server.cluster import Cluster, a_node, a_pod

END = 1_800_000_000.0


def test_only_who_says_how_long_he_runs_is_kept_off() -> None:
    cluster = Cluster(a_node("block", annotations={END_KEY: "1800000000"}), a_node("own"))
    cluster.now = END - 3600
    long, short, silent = (
        a_pod(name, annotations=notes)
        for name, notes in (("long", {DURATION_KEY: "1h"}), ("short", {DURATION_KEY: "30m"}), ("silent", {}))
    )
    assert "Capacity Block ends" in cluster.predicate(long, "block")
    assert not cluster.predicate(long, "own")
    assert not cluster.predicate(short, "block")
    assert not cluster.predicate(silent, "block")
    for pod in (long, short):
        cluster.shows(pod)
    assert "Capacity Block ends" in cluster.allocate(long, "block")
    assert "Capacity Block ends" in cluster.bind(long, "block").reason
    assert not cluster.allocate(short, "block")


def test_pods_that_ask_for_the_same_hear_what_their_own_job_meets_on_a_node() -> None:
    cluster = Cluster(a_node("block", annotations={END_KEY: "1800000000"}), a_node("own"))
    cluster.now = END - 3600
    silent, long = a_pod("silent"), a_pod("long", annotations={DURATION_KEY: "50m"})
    for _ in range(2):
        assert cluster.filter(silent, "block", "own") == (["block", "own"], {})
    assert cluster.filter(long, "block", "own")[0] == ["own"]
    assert cluster.filter(silent, "block", "own") == (["block", "own"], {})
    cluster.now = END
    assert cluster.filter(silent, "block", "own")[0] == ["block", "own"]
    assert cluster.filter(a_pod("brief", annotations={DURATION_KEY: "1s"}), "block", "own")[0] == ["own"]


def test_a_node_that_has_not_changed_is_not_asked_for_the_next_pod() -> None:
    names = [f"n{at}" for at in range(40)]
    cluster = Cluster(*map(a_node, names))
    statistics = cluster.cache._cache.decider.statistics  # noqa: SLF001 - what is counted is kept there

    def asked(pod: str) -> int:
        before = statistics.hits + statistics.misses
        assert len(cluster.filter(a_pod(pod), *names)[0]) == len(names)
        return statistics.hits + statistics.misses - before

    assert asked("first") == len(names)
    assert asked("next") == 0


def test_a_node_that_has_not_changed_is_not_asked_for_the_next_pod_of_a_gang() -> None:
    """Only the node that the first one got is, with its pods and without.

    What is in the way of the whole gang is said of all nodes that could hold the pod.
    """
    names = [f"n{at}" for at in range(40)]
    cluster = Cluster(*map(a_node, names))
    statistics = cluster.cache._cache.decider.statistics  # noqa: SLF001 - what is counted is kept there
    pods = [a_pod(f"w{at}", 16, annotations={GROUP_KEY: "train"}) for at in range(3)]
    cluster.cache.group_changed(a_group({}, least=3))
    for pod in pods:
        cluster.shows(pod)

    def asked(pod: dict[str, Any], fitting: int) -> int:
        before = statistics.hits + statistics.misses
        assert len(cluster.filter(pod, *names)[0]) == fitting
        return statistics.hits + statistics.misses - before

    assert asked(pods[0], 40) == 40
    assert not cluster.allocate(pods[0], "n0")
    assert asked(pods[1], 39) == 2
    cluster.cache.group_changed(a_group({}, least=41))
    for at in range(3, 41):
        cluster.shows(a_pod(f"w{at}", 16, annotations={GROUP_KEY: "train"}))
    fits, refused = cluster.filter(pods[2], *names)
    assert not fits
    assert "start together" in refused["n1"]
    assert "start together" not in refused["n0"]


def test_a_node_whose_end_cannot_be_read_or_is_gone_keeps_nobody_off() -> None:
    cluster = Cluster(a_node("n1", annotations={END_KEY: "1"}))
    pod = a_pod(annotations={DURATION_KEY: "1h"})
    assert cluster.predicate(pod)
    cluster.shows_node(a_node("n1", annotations={END_KEY: "never"}))
    assert not cluster.predicate(pod)
    assert cluster.cache.problems == 1


def a_group(annotations: dict[str, str], least: int = 1) -> ObjectChange:
    metadata: dict[str, Any] = {"name": "train", "namespace": "x", "uid": "g", "annotations": annotations}
    return ObjectChange("added", {"metadata": metadata, "spec": {"minMember": least}}, "g")


def test_what_a_job_says_of_its_time_holds_for_its_pods() -> None:
    cluster = Cluster(a_node("block", annotations={END_KEY: "1800000000"}))
    cluster.now = END - 3600
    silent, brief = (
        a_pod(name, annotations={GROUP_KEY: "train", **notes})
        for name, notes in (("silent", {}), ("brief", {DURATION_KEY: "20m"}))
    )
    for pod in (silent, brief):
        cluster.shows(pod)
    assert not cluster.predicate(silent, "block")
    cluster.cache.group_changed(a_group({DURATION_KEY: "2h"}))
    assert "declared duration is 2.0 h" in cluster.predicate(silent, "block")
    assert "declared duration is 2.0 h" in cluster.bind(silent, "block").reason
    assert not cluster.predicate(brief, "block")


def test_a_node_that_is_reported_broken_takes_no_pods_of_any_scheduler_until_it_is_not() -> None:
    broken = a_node("n1")
    condition = {"type": "AcceleratedHardwareReady", "status": "False", "reason": "NeuronHBMUncorrectableError"}
    broken["status"] = {**broken["status"], "conditions": [condition]}
    cluster = Cluster(broken, a_node("n2"))
    pod = a_pod()
    cluster.shows(pod)
    said = (
        "the node's condition AcceleratedHardwareReady is False (NeuronHBMUncorrectableError); it "
        "takes no pods until that ends or the node is replaced"
    )
    assert cluster.predicate(pod) == f"Neuron: {said}"
    assert cluster.filter(pod, "n1", "n2") == (["n2"], {"n1": f"Neuron: {said}"})
    assert cluster.allocate(pod) == f"node n1: {said}"
    assert cluster.bind(pod).reason.endswith(said)
    cluster.shows_node(a_node("n1"))
    assert not cluster.allocate(pod)
    assert not cluster.predicate(a_pod("other"))


def test_what_runs_on_a_node_when_it_is_reported_broken_keeps_what_it_has() -> None:
    cluster = Cluster(a_node("n1"))
    cluster.shows(pod := a_pod())
    cluster.bound(pod)
    broken = a_node("n1")
    condition = {"type": "NeuronHealth", "status": "True", "reason": "NeuronHasError_DMA_ERROR"}
    broken["status"] = {**broken["status"], "conditions": [condition]}
    cluster.shows_node(broken)
    assert [each.pods for each in cluster.cache.snapshot().nodes]
    assert cluster.cache.findings() == ()
    cluster.shows_node(a_node("n1"))
    assert "0,1,2,3" not in str(cluster.bind(a_pod("next")).operations)


def test_an_end_that_is_put_off_holds_at_once() -> None:
    cluster = Cluster(a_node("n1", annotations={END_KEY: "1800000000"}))
    cluster.now = END - 3600
    pod = a_pod(annotations={DURATION_KEY: "1h"})
    assert cluster.predicate(pod)
    cluster.shows_node(a_node("n1", annotations={END_KEY: "1800003600"}))
    assert not cluster.predicate(pod)
