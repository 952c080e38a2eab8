"""What the server says where a node's devices are short, and what it reads of pods that it cannot read."""

from __future__ import annotations

import pytest

from hami_plugins.allocator.audit import told
from hami_plugins.model.units import NodeName
from hami_plugins.vendors.awsneuron import IDS_KEY
from neuron_topology.core.names import INSTANCE_LABEL
from neuron_topology.core.vendor import SPEC
from tests.unit.allocator.products import product
from tests.unit.neuron_topology.server.cluster import Cluster, a_node, a_pod, said


@pytest.mark.parametrize(
    ("text", "containers"),
    [
        ({SPEC.keys.allocated: "n1-AWSNeuron-0,AWSNeuron,0,3:;n1-AWSNeuron-1,AWSNeuron,0,3:;"}, 2),
        ({SPEC.keys.allocated: "no list", IDS_KEY: "0"}, 1),
        ({SPEC.keys.allocated: "half,a:list", IDS_KEY: "0"}, 1),
        ({IDS_KEY: "0,1"}, 1),
        ({}, 0),
    ],
)
def test_containers_are_those_that_the_allocation_speaks_of(text: dict[str, str], containers: int) -> None:
    assert len(product().containers_of(text)) == containers


def test_a_number_that_no_set_has_is_answered_in_awss_words_with_what_could_be_had() -> None:
    cluster = Cluster(a_node(family="aws"))
    assert cluster.predicate(a_pod(devices=7)) == (
        "Neuron Instance type trn1.32xlarge does not support requests for device: 7; "
        "the nearest supported: 4 or 8; request one of these"
    )


def test_a_pool_that_would_have_a_set_under_the_other_family_is_told() -> None:
    cluster = Cluster(a_node(family="aws"))
    cluster.shows(a_pod("busy", 4, node="n1", annotations={IDS_KEY: "0,5,10,15"}))
    said_ = cluster.predicate(a_pod(devices=4))
    assert "none of AWS's sets of 4 among the 12 devices that are free" in said_
    assert "hami-plugins.io/neuron-sets=linked would have one" in said_


def test_a_node_of_an_unknown_type_gives_single_devices_and_all_of_them() -> None:
    node = a_node()
    node["metadata"]["labels"][INSTANCE_LABEL] = "trn9.48xlarge"
    cluster = Cluster(node)
    assert not cluster.predicate(a_pod(devices=1))
    assert not cluster.predicate(a_pod(devices=16))
    assert "Instance type trn9.48xlarge does not support requests for device: 4" in cluster.predicate(a_pod(devices=4))


def test_a_node_that_comes_back_smaller_gives_nothing_that_its_pods_hold() -> None:
    cluster = Cluster(a_node())
    cluster.shows(pod := a_pod("first", 1))
    taken = said(cluster.bind(pod))[IDS_KEY]
    cluster.bound(pod)
    cluster.shows_node(a_node(kind="trn1.2xlarge"))
    cluster.shows(other := a_pod("other", 1))
    assert cluster.predicate(other) if taken == "0" else not cluster.predicate(other)
    cluster.shows_node(a_node())
    whole = set(said(cluster.bind(other))[IDS_KEY].split(","))
    assert taken not in whole


def test_numbers_that_no_device_has_are_found_and_hold_nothing_else() -> None:
    cluster = Cluster(a_node())
    cluster.shows(a_pod("odd", 2, node="n1", annotations={IDS_KEY: "3,99"}))
    (found,) = cluster.cache.findings()
    assert (found.device, found.node) == ("n1-AWSNeuron-99", "n1")
    cluster.shows(pod := a_pod("other", 8))
    assert "3" not in said(cluster.bind(pod))[IDS_KEY].split(",")


def test_devices_that_overlap_by_hand_are_found_and_nobody_else_gets_them() -> None:
    cluster = Cluster(a_node())
    for name, ids in (("one", "0,1,2,3"), ("other", "3,7,11,15")):
        cluster.shows(a_pod(name, 4, node="n1", annotations={IDS_KEY: ids}))
    assert "n1-AWSNeuron-3" in {found.device for found in cluster.cache.findings()}
    cluster.shows(pod := a_pod("third", 4))
    assert set(said(cluster.bind(pod))[IDS_KEY].split(",")).isdisjoint({"0", "1", "2", "3", "7", "11", "15"})


@pytest.mark.parametrize(
    ("devices", "reason"),
    [
        (
            16,
            "idle devices: asked 16 without others on them; most on one node 0, 0 in all; wait until pods end, or ask "
            "for fewer devices",
        ),
        (
            1,
            "idle devices: asked 1 without others on them; most on one node 0, 0 in all; wait until pods end, or ask "
            "for cores instead of a whole device",
        ),
    ],
)
def test_cores_are_offered_only_to_who_asks_for_one_device(devices: int, reason: str) -> None:
    cluster = Cluster(a_node())
    cluster.shows(a_pod("busy", 16, node="n1", annotations={IDS_KEY: ",".join(map(str, range(16)))}))
    assert cluster.predicate(a_pod(devices=devices)) == f"Neuron {reason}"


def test_a_node_that_cannot_be_read_is_told_with_what_is_wrong_until_it_can() -> None:
    cluster = Cluster(a_node("n1"))
    broken = a_node("n2")
    broken["status"]["capacity"] = {"cpu": "many"}
    cluster.shows_node(broken)
    assert cluster.predicate(a_pod(), "n2").startswith("Neuron: the node cannot be read: node n2: ")
    assert "many" in cluster.predicate(a_pod(), "n2")
    assert cluster.predicate(a_pod(), "n3") == "Neuron: the node is not known"
    cluster.shows_node(a_node("n2"))
    assert not cluster.predicate(a_pod(), "n2")
    cluster.shows_node(broken)
    cluster.shows_node(broken, "deleted")
    assert cluster.predicate(a_pod(), "n2") == "Neuron: the node is not known"


def test_what_is_wrong_with_many_devices_of_a_pod_is_one_line_for_people() -> None:
    cluster = Cluster(a_node())
    for name in ("one", "other"):
        cluster.shows(a_pod(name, 16, node="n1", annotations={IDS_KEY: ",".join(map(str, range(16)))}))
    found = cluster.cache.findings()
    assert len(found) == 16
    (line,) = told(found, SPEC.noun)
    assert line.text.startswith("16 devices (n1-AWSNeuron-0, n1-AWSNeuron-1, ")
    assert "and 12 more) on node n1: 4 of 2 cores are promised, to x/one, x/other; delete some" in line.text
    assert line.devices.count(",") == 15


def test_a_finding_has_one_remedy() -> None:
    cluster = Cluster(a_node("n1"), a_node("n2"))
    cluster.shows(a_pod("untold", 4, node="n1"))
    cluster.shows(a_pod("elsewhere", 1, node="n2", annotations={SPEC.keys.allocated: "n1-AWSNeuron-0,AWSNeuron,0,3:;"}))
    untold, elsewhere = sorted(cluster.cache.findings(), key=lambda each: each.node)
    assert untold.text.endswith(f"annotate it with {IDS_KEY}, or recreate it with a scheduler that writes them")
    assert elsewhere.text.endswith(
        "holds n1-AWSNeuron-0, which belongs to node n1. Delete it, so that it is placed anew"
    )


def test_a_node_that_nobody_knows_is_named_so() -> None:
    cluster = Cluster(a_node())
    assert cluster.cache.answer(NodeName("nowhere"), cluster.cache.intake(a_pod())) == "Neuron: the node is not known"
