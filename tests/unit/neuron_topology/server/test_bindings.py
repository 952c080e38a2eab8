"""What the webhook writes on Bindings of Neuron pods: what AWS's device plugin reads, in its own words."""

from __future__ import annotations

import pytest

from hami_plugins.engine import annotate
from hami_plugins.errors import KubeError
from hami_plugins.vendors.awsneuron import IDS_KEY, KIND_KEY, STATE_KEY, TIME_KEY
from hami_plugins.wire.admission_review import Allowed, Denied
from hami_plugins.wire.fields import Json
from neuron_topology.core.names import CORES
from tests.unit.allocator.products import MARK, product
from tests.unit.neuron_topology.server.cluster import NOW_NS, TRN1, Cluster, a_node, a_pod, said


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def test_the_binding_of_a_pod_says_its_devices_in_the_words_of_awss_plugin(cluster: Cluster) -> None:
    cluster.shows(pod := a_pod(devices=2))
    written = said(cluster.bind(pod))
    assert written[IDS_KEY] == "0,1"
    assert (written[STATE_KEY], written[TIME_KEY]) == ("false", str(NOW_NS))
    assert KIND_KEY not in written


def test_the_binding_of_a_pod_with_cores_says_which_and_that_they_are_cores(cluster: Cluster) -> None:
    cluster.shows(pod := a_pod(cores=2))
    written = said(cluster.bind(pod))
    assert (written[IDS_KEY], written[KIND_KEY]) == ("0,1", CORES)


def test_annotations_of_others_on_the_binding_stay(cluster: Cluster) -> None:
    cluster.shows(pod := a_pod())
    answer = cluster.bind(pod, annotations={"k8s.ovn.org/pod-networks": "{}"})
    touched = {operation["path"] for operation in answer.operations}
    assert not any("ovn" in path for path in touched)
    assert said(answer)[IDS_KEY]


def test_who_comes_second_gets_other_devices_whoever_schedules_it(cluster: Cluster) -> None:
    taken: set[str] = set()
    for at, scheduler in enumerate(["volcano", "default-scheduler", "volcano", "my-scheduler"]):
        cluster.shows(pod := a_pod(f"p{at}", scheduler=scheduler))
        ids = said(cluster.bind(pod))[IDS_KEY].split(",")
        assert len(ids) == 4
        assert taken.isdisjoint(ids)
        taken |= set(ids)


def test_a_binding_for_which_no_set_is_left_is_refused_with_the_reason() -> None:
    cluster = Cluster(a_node(family="aws"))
    for at in range(4):
        cluster.shows(pod := a_pod(f"one-{at}", devices=1))
        cluster.bound(pod)
    cluster.shows(pod := a_pod(devices=16))
    answer = cluster.bind(pod)
    assert isinstance(answer, Denied)
    assert answer.reason.startswith("node n1: Neuron ")
    cluster.shows(pod := a_pod("odd", devices=7))
    answer = cluster.bind(pod)
    assert isinstance(answer, Denied)
    assert "does not support requests for device: 7; the nearest supported: 4 or 8" in answer.reason


def test_numbers_by_hand_are_replaced_by_the_caches(cluster: Cluster) -> None:
    cluster.shows(first := a_pod("first", annotations={IDS_KEY: "5,9", KIND_KEY: "x"}))
    written = said(cluster.bind(first, annotations={IDS_KEY: "5,9"}))
    assert len(written[IDS_KEY].split(",")) == 4
    assert written[KIND_KEY] == ""


def test_numbers_by_hand_on_a_pod_that_asks_for_nothing_are_taken_off(cluster: Cluster) -> None:
    pod = a_pod(annotations={IDS_KEY: "0,1,2,3"})
    pod["spec"]["containers"][0]["resources"] = {}
    cluster.shows(pod)
    assert said(cluster.bind(pod, annotations={IDS_KEY: "0,1,2,3"})) == {IDS_KEY: ""}


def test_pods_that_awss_extension_or_nobody_annotated_hold_what_they_may_use(cluster: Cluster) -> None:
    cluster.shows(a_pod("theirs", node="n1", annotations={IDS_KEY: "0,1,2,3"}))
    cluster.shows(pod := a_pod(devices=8))
    ids = set(said(cluster.bind(pod))[IDS_KEY].split(","))
    assert ids.isdisjoint({"0", "1", "2", "3"})
    cluster.shows(a_pod("nobody", node="n1", devices=1))
    cluster.shows(late := a_pod("late", devices=1))
    assert isinstance(cluster.bind(late), Denied)


def test_a_dry_run_gets_an_answer_and_keeps_nothing(cluster: Cluster) -> None:
    cluster.shows(pod := a_pod(devices=16))
    assert said(cluster.bind(pod, dry=True))[IDS_KEY]
    cluster.shows(other := a_pod("other", devices=16))
    assert said(cluster.bind(other))[IDS_KEY]


def test_a_bound_pod_that_cannot_be_read_keeps_its_devices(cluster: Cluster) -> None:
    cluster.shows(pod := a_pod(devices=8))
    shown = cluster.bound(pod)
    broken: Json = {**shown, "spec": {**shown["spec"], "containers": "none"}}
    again = Cluster()
    again.shows(broken)
    again.shows(other := a_pod("other", devices=16))
    assert isinstance(again.bind(other), Denied)


def test_a_pod_that_the_watch_has_not_shown_is_read_and_an_unmarked_one_passes_where_that_fails(
    cluster: Cluster,
) -> None:
    pod = a_pod()
    cluster.server["x", "p"] = KubeError("away")
    assert cluster.bind(pod) == Allowed()
    assert isinstance(cluster.bind(pod, annotations={MARK: "extender"}), Denied)
    cluster.server["x", "p"] = pod
    assert said(cluster.bind(pod))[IDS_KEY]


def test_a_restart_rebuilds_the_cache_from_annotations_alone() -> None:
    before = Cluster(a_node("n1"), a_node("n2", "trn2.48xlarge"))
    shown = []
    steps = [(4, 0, "n1"), (2, 0, "n1"), (0, 1, "n1"), (8, 0, "n2"), (0, 8, "n2")]
    for at, (devices, cores, node) in enumerate(steps):
        before.shows(pod := a_pod(f"p{at}", devices=devices, cores=cores))
        shown.append(before.bound(pod, node))
    after = Cluster(a_node("n1"), a_node("n2", "trn2.48xlarge"))
    for each in shown:
        after.shows(each)
    of_both = zip(after.cache.snapshot().nodes, before.cache.snapshot().nodes, strict=True)
    assert all(one.state == other.state and one.state.usage for one, other in of_both)
    assert not after.cache.findings()


def test_every_key_of_an_allocation_is_known() -> None:
    """A key that is missing here would stay on a pod from an earlier try."""
    cluster = Cluster(a_node(kind=TRN1))
    cluster.shows(pod := a_pod(cores=1))
    assert set(said(cluster.bind(pod))) - {annotate.NODE_KEY, annotate.TIME_KEY} <= set(product().keys)


def test_what_a_pod_without_neuron_devices_holds_of_another_maker_stays(cluster: Cluster) -> None:
    notes = {annotate.NODE_KEY: "n1", "hami.io/vgpu-devices-allocated": "GPU-0,NVIDIA,1000,0:;"}
    pod = a_pod(annotations=notes)
    pod["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "1"}}
    cluster.shows(pod)
    assert cluster.bind(pod, annotations=notes) == Allowed()


def test_a_pod_on_a_machine_of_an_ultraserver_is_told_which_one_it_is() -> None:
    labels = {
        "neuron.amazonaws.com/ultraserver-server-id-4": "5f0e",
        "neuron.amazonaws.com/ultraserver-node-id-4": "2",
        "neuron.amazonaws.com/ultraserver-node-id-2": "",
    }
    cluster = Cluster(a_node("n1", "trn2u.48xlarge", labels=labels), a_node("n2"))
    for name in "pq":
        cluster.shows(a_pod(name, 16))
    written = said(cluster.bind(a_pod("p", 16), "n1"))
    assert {key: told for key, told in written.items() if "ultraserver" in key} == {
        "hami-plugins.io/ultraserver-server-id-4": "5f0e",
        "hami-plugins.io/ultraserver-node-id-4": "2",
    }
    assert not any("ultraserver" in key for key in said(cluster.bind(a_pod("q", 16), "n2")))
