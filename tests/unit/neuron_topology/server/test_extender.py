"""Volcano's answers about Neuron pods: whether a linked set is left, what an allocation costs, what is reserved."""

from __future__ import annotations

import json

import pytest

from hami_plugins.vendors.awsneuron import IDS_KEY
from neuron_topology.core.nodes import HEALTH_KEY
from tests.unit.neuron_topology.server.cluster import Cluster, a_node, a_pod, said


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(a_node("n1"), a_node("n2"))


def test_a_node_with_enough_devices_and_no_linked_set_does_not_take_the_pod(cluster: Cluster) -> None:
    cluster.shows(a_pod("worst", 5, node="n1", annotations={IDS_KEY: "0,2,5,11,13"}))
    reason = cluster.predicate(a_pod(devices=4), "n1")
    assert reason.startswith("Neuron ")
    assert "no linked set of 4 among the 11 devices that are free" in reason
    assert not cluster.predicate(a_pod(devices=4), "n2")


def test_a_node_without_devices_says_so_and_what_to_do(cluster: Cluster) -> None:
    bare = a_node("bare")
    bare["status"] = {}
    cluster.shows_node(bare)
    assert cluster.predicate(a_pod(), "bare").endswith("run AWS's device plugin there")


def test_the_node_that_loses_the_fewest_future_sets_has_the_highest_score(cluster: Cluster) -> None:
    cluster.shows(pod := a_pod("half", 8))
    cluster.bound(pod, "n1")
    scores = cluster.prioritize(a_pod(devices=8), "n1", "n2")
    assert scores["n1"] > scores["n2"]


def test_repaired_errors_lower_the_score() -> None:
    worn = a_node("worn", annotations={HEALTH_KEY: json.dumps({"repaired": list(range(16))})})
    cluster = Cluster(a_node("well"), worn)
    scores = cluster.prioritize(a_pod(devices=4), "well", "worn")
    assert scores["well"] > scores["worn"]


def test_under_spread_the_emptier_node_has_the_higher_score(cluster: Cluster) -> None:
    cluster.shows(pod := a_pod("half", 8))
    cluster.bound(pod, "n1")
    wants = a_pod(devices=4, annotations={"hami.io/node-scheduler-policy": "spread"})
    scores = cluster.prioritize(wants, "n1", "n2")
    assert scores["n2"] > scores["n1"]


def test_what_is_reserved_is_what_the_binding_says(cluster: Cluster) -> None:
    pods = [a_pod(f"p{at}") for at in range(4)]
    for pod in pods:
        cluster.shows(pod)
        assert not cluster.allocate(pod)
    cluster.shows(more := a_pod("more"))
    assert cluster.allocate(more)
    sets = [set(said(cluster.bind(pod))[IDS_KEY].split(",")) for pod in reversed(pods)]
    assert len(set().union(*sets)) == 16


def test_what_is_given_up_is_free_again(cluster: Cluster) -> None:
    cluster.shows(pod := a_pod("whole", 16))
    assert not cluster.allocate(pod)
    cluster.shows(other := a_pod("other", 1))
    assert cluster.predicate(other)
    cluster.deallocate(pod)
    assert not cluster.predicate(other)


def test_a_reservation_ends_when_nobody_comes_for_it(cluster: Cluster) -> None:
    cluster.shows(pod := a_pod("whole", 16))
    assert not cluster.allocate(pod)
    cluster.time = 15.0
    cluster.cache.expire(0.0)
    assert not cluster.predicate(a_pod("other", 1))


def test_devices_and_cores_in_one_container_get_nothing_and_the_reason(cluster: Cluster) -> None:
    pod = a_pod()
    pod["spec"]["containers"][0]["resources"]["limits"]["aws.amazon.com/neuroncore"] = "2"
    assert "keep one of the two: whole devices, or cores of a device" in cluster.predicate(pod)
