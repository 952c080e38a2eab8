"""Maps of AWS's scheduler extension that say something else than the pods do."""

from __future__ import annotations

import pytest

from hami_plugins.vendors.awsneuron import IDS_KEY, KIND_KEY
from neuron_topology.core.names import CORES
from neuron_topology.core.nodes import USAGE_KEYS
from neuron_topology.core.usage_maps import stale, without
from tests.unit.neuron_topology.server.cluster import Cluster, a_node, a_pod

DEVICE_MAP, CORE_MAP = USAGE_KEYS


def words(places: int, *used: int) -> str:
    return ",".join("true" if at in used else "false" for at in range(places))


@pytest.fixture
def cluster() -> Cluster:
    """Four devices and a core of a fifth are held."""
    found = Cluster(a_node("n1"))
    found.shows(a_pod("four", 4, node="n1", annotations={IDS_KEY: "0,1,2,3"}))
    found.shows(a_pod("core", cores=1, node="n1", annotations={IDS_KEY: "9", KIND_KEY: CORES}))
    return found


def told(cluster: Cluster, **maps: str) -> dict[str, str]:
    (entry,) = cluster.cache.snapshot().nodes
    named = {"devices": DEVICE_MAP, "cores": CORE_MAP}
    return {each.key: each.what for each in stale(entry, {named[name]: text for name, text in maps.items()})}


def test_maps_that_say_what_pods_hold_are_right(cluster: Cluster) -> None:
    assert told(cluster, devices=words(16, 0, 1, 2, 3, 4), cores=words(32, *range(8), 9)) == {}
    assert told(cluster) == {}
    assert told(cluster, devices=words(16, 0, 1, 2, 3, 4).replace("true", " True ")) == {}


def test_what_a_pod_that_is_gone_left_behind_is_told(cluster: Cluster) -> None:
    assert told(cluster, devices=words(16, 0, 1, 2, 3, 4, 7, 8)) == {
        DEVICE_MAP: "says that devices 7-8 are in use by no pod"
    }


def test_what_pods_of_another_scheduler_hold_is_told(cluster: Cluster) -> None:
    assert told(cluster, devices=words(16, 4, 5), cores=words(32, *range(10))) == {
        DEVICE_MAP: "says that devices 5 are in use by no pod and that devices 0-3 are free, which pods hold",
        CORE_MAP: "says that cores 8 are in use by no pod",
    }


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "is not a list of true and false: ''"),
        ("true,fal", "is not a list of true and false: 'true,fal'"),
        ("1,0", "is not a list of true and false: '1,0'"),
        (words(12), "has 12 words, and the node has 16 devices"),
    ],
)
def test_half_written_maps_are_told(cluster: Cluster, text: str, what: str) -> None:
    assert told(cluster, devices=text) == {DEVICE_MAP: what}


def test_maps_of_a_node_that_has_no_devices_any_more_are_told() -> None:
    bare = a_node("n1")
    bare["status"] = {}
    assert told(Cluster(bare), devices=words(16)) == {DEVICE_MAP: "has 16 words, and the node has 0 devices"}


def test_the_repair_is_about_what_was_read() -> None:
    assert without("7") == {"metadata": {"resourceVersion": "7", "annotations": {DEVICE_MAP: None, CORE_MAP: None}}}
