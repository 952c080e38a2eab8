"""kube-scheduler's extender: filter, prioritize and bind from the same cache as Volcano's calls."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from hami_plugins.errors import KubeError
from hami_plugins.vendors.awsneuron import IDS_KEY
from hami_plugins.wire import scheduler_extender
from hami_plugins.wire.admission_review import Denied
from tests.unit.allocator.products import MARK
from tests.unit.neuron_topology.server.cluster import Cluster, a_node, a_pod, said


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(a_node("n1"), a_node("n2"))


def test_nodes_without_a_linked_set_fail_with_the_reason(cluster: Cluster) -> None:
    cluster.shows(a_pod("spread-out", 5, node="n1", annotations={IDS_KEY: "0,2,5,11,13"}))
    taking, failed = cluster.filter(a_pod(), "n1", "n2", "unknown")
    assert taking == ["n2"]
    assert "no linked set of 4" in failed["n1"]
    assert failed["unknown"] == "Neuron: the node is not known"


def test_a_pod_that_asks_for_nothing_is_taken_everywhere(cluster: Cluster) -> None:
    pod = a_pod()
    pod["spec"]["containers"][0]["resources"] = {}
    assert cluster.filter(pod, "n1", "unknown") == (["n1", "unknown"], {})


def test_whole_nodes_come_back_where_whole_nodes_were_sent(cluster: Cluster) -> None:
    cluster.shows(a_pod("whole", 16, node="n1", annotations={IDS_KEY: ",".join(map(str, range(16)))}))
    nodes = [a_node("n1"), a_node("n2")]
    body = json.dumps({"pod": a_pod(), "nodes": {"items": nodes}, "nodenames": None}).encode()
    reply = json.loads(cluster.scheduler.filter(body))
    assert [each["metadata"]["name"] for each in reply["Nodes"]["items"]] == ["n2"]
    assert list(reply["FailedNodes"]) == ["n1"]


def test_scores_go_from_nothing_to_the_most_that_the_scheduler_takes(cluster: Cluster) -> None:
    cluster.shows(pod := a_pod("half", 8))
    cluster.bound(pod, "n1")
    assert cluster.rank(a_pod(devices=8), "n1", "n2", "unknown") == {"n1": 10, "n2": 0, "unknown": 0}
    assert cluster.rank(a_pod(devices=8), "n2") == {"n2": 0}


def test_the_extender_binds_with_the_allocation_and_the_mark(cluster: Cluster) -> None:
    cluster.shows(pod := a_pod(scheduler="default-scheduler"))
    assert cluster.bind_by_extender(pod) == ""
    ((path, body),) = cluster.posted
    assert path == "/api/v1/namespaces/x/pods/p/binding"
    assert (body["target"]["name"], body["metadata"]["uid"]) == ("n1", "uid-p")
    written = body["metadata"]["annotations"]
    assert MARK in written
    again = said(cluster.bind(pod, annotations=written))
    assert again.get(IDS_KEY, written[IDS_KEY]) == written[IDS_KEY]


def test_what_the_node_cannot_hold_is_not_bound(cluster: Cluster) -> None:
    cluster.shows(pod := a_pod("whole", 16))
    cluster.bound(pod)
    cluster.shows(other := a_pod("other", 1))
    assert cluster.bind_by_extender(other).startswith("node n1: Neuron ")
    assert not cluster.posted


def test_a_pod_that_asks_for_no_devices_or_is_bound_is_not_bound_for_whoever_asks(cluster: Cluster) -> None:
    pod = a_pod()
    pod["spec"]["containers"][0]["resources"] = {}
    cluster.shows(pod)
    assert "its scheduler has to bind it" in cluster.bind_by_extender(pod)
    cluster.server["x", "p"] = pod
    cluster.shows(pod, "deleted")
    assert "its scheduler has to bind it" in cluster.bind_by_extender(pod)
    cluster.shows(bound := a_pod("bound", node="n1"))
    assert "is bound, or asks for no devices that this server allocates" in cluster.bind_by_extender(bound)
    assert not cluster.posted


def test_a_server_that_is_to_bind_nobody_does_not(cluster: Cluster) -> None:
    cluster.shows(pod := a_pod())
    cluster.scheduler = replace(cluster.scheduler, create=None)
    assert "take bindVerb out of the extender" in cluster.bind_by_extender(pod)
    assert not cluster.cache.statistics.answered


@pytest.mark.parametrize(("status", "free"), [(409, False), (403, True), (500, False), (None, False)])
def test_a_binding_that_was_refused_holds_nothing_and_one_in_doubt_does(
    cluster: Cluster, status: int | None, *, free: bool
) -> None:
    cluster.shows(pod := a_pod("whole", 16))
    cluster.fails = KubeError("no", status=status)
    assert cluster.bind_by_extender(pod) == "no"
    cluster.shows(other := a_pod("other", 1))
    assert isinstance(cluster.bind(other), Denied) is not free


def test_a_binding_whose_answer_was_lost_holds_its_devices_whatever_the_next_one_is_told(cluster: Cluster) -> None:
    cluster.shows(pod := a_pod("whole", 16))
    cluster.fails = KubeError("timed out")
    assert cluster.bind_by_extender(pod) == "timed out"
    for status in (403, 409):
        cluster.fails = KubeError("no", status=status)
        assert cluster.bind_by_extender(pod) == "no"
        cluster.shows(other := a_pod("other", 1))
        assert isinstance(cluster.bind(other), Denied)


def test_a_pod_that_nobody_knows_is_not_bound(cluster: Cluster) -> None:
    assert "has none with the UID" in cluster.bind_by_extender(a_pod())
    cluster.server["x", "p"] = KubeError("away")
    assert "is not known yet: away" in cluster.bind_by_extender(a_pod())
    cluster.server["x", "p"] = a_pod()
    assert cluster.bind_by_extender(a_pod()) == ""


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"Pod": {}}', b'{"Pod": {"metadata": 1}, "NodeNames": []}'])
def test_what_is_no_call_gets_an_error_that_says_so(cluster: Cluster, body: bytes) -> None:
    assert json.loads(cluster.scheduler.filter(body))["Error"]
    assert json.loads(cluster.scheduler.bind(body))["Error"]
    assert json.loads(cluster.scheduler.prioritize(body)) == []


def test_lists_of_names_are_preferred_and_empty_ones_are_lists() -> None:
    asked = scheduler_extender.candidates(b'{"Pod": {"metadata": {"name": "p"}}, "NodeNames": [], "Nodes": null}')
    assert (asked.names, asked.objects) == ((), None)
    assert json.loads(scheduler_extender.filter_reply(asked, {}))["NodeNames"] == []


def test_a_pod_is_bound_by_one_call_at_a_time_so_that_no_failure_frees_what_another_call_has_bound_it_with(
    cluster: Cluster,
) -> None:
    """A scheduler that has run out of patience asks again while the first Binding is still on its way."""
    cluster.shows(pod := a_pod("whole", 16))
    second: list[str] = []

    def asks_again() -> None:
        cluster.meanwhile = lambda: None
        second.append(cluster.bind_by_extender(pod))
        cluster.fails = KubeError("too many requests", status=429)

    cluster.meanwhile = asks_again
    assert cluster.bind_by_extender(pod) == "too many requests"
    assert "is being bound already" in second[0]
    assert len(cluster.posted) == 1
    cluster.fails = None
    assert cluster.bind_by_extender(pod) == ""
    assert cluster.filter(a_pod("other", 1), "n1")[0] == []


def test_a_pod_larger_than_pods_are_is_answered_with_the_limit() -> None:
    pod = a_pod()
    pod["spec"]["containers"] = [{"name": f"c{number}"} for number in range(300)]
    body = json.dumps({"Pod": pod, "NodeNames": ["n1"]}).encode()
    assert "300 containers: limit is 256" in json.loads(Cluster().scheduler.filter(body))["Error"]
    assert json.loads(Cluster().scheduler.prioritize(body)) == []
