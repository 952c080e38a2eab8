"""The Neuron allocator over sockets: restarts, replicas, pods of any scheduler, and gangs of Volcano."""

from __future__ import annotations

import json
from typing import Any

from hami_plugins.kube import paths
from hami_plugins.kube.client import connect_to
from hami_plugins.vendors.awsneuron import IDS_KEY, STATE_KEY
from tests.integration.neuron_topology.server.servers import JOBS, Site, a_gang, a_node, a_pod, ids_of
from tests.unit.allocator.products import MARK
from tests.waiting import wait_for


def binding(pod: dict[str, Any], node: str, annotations: dict[str, str] | None = None) -> dict[str, Any]:
    metadata = {"name": pod["metadata"]["name"], "namespace": "default", "annotations": annotations or {}}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": {"kind": "Node", "name": node}}


def test_a_pod_of_any_scheduler_gets_its_devices_with_its_binding(cluster: Site) -> None:
    client = cluster.start()
    cluster.install(client)
    api = connect_to(cluster.server.url)
    for name, scheduler in (("of-volcano", "volcano"), ("of-kube", "default-scheduler")):
        made = api.create(paths.pods("default"), a_pod(name, scheduler=scheduler))
        assert made["metadata"]["annotations"][MARK] == "extender"
        sent = {"other": "stays"} if name == "of-volcano" else {}
        api.create(paths.pod_binding("default", name), binding(dict(made), "n1", sent))
        found = api.get(paths.pod("default", name))
        assert len(ids_of(found)) == 4
        assert found["metadata"]["annotations"][STATE_KEY] == "false"
        assert found["metadata"]["annotations"].items() >= sent.items()
    assert not cluster.wrong()


def test_an_annotation_that_somebody_else_writes_at_the_same_time_survives(cluster: Site) -> None:
    client = cluster.start()
    cluster.install(client)
    api = connect_to(cluster.server.url)
    made = api.create(paths.pods("default"), a_pod("p"))
    api.merge_patch(paths.pod("default", "p"), {"metadata": {"annotations": {"k8s.ovn.org/pod-networks": "{}"}}})
    api.create(paths.pod_binding("default", "p"), binding(dict(made), "n1"))
    found = api.get(paths.pod("default", "p"))
    assert found["metadata"]["annotations"]["k8s.ovn.org/pod-networks"] == "{}"
    assert len(ids_of(found)) == 4


def test_a_gang_of_parts_of_nodes_is_bound_on_linked_sets(cluster: Site) -> None:
    cluster.put(a_node("n3"), a_node("n4"))
    client = cluster.start()
    cluster.install(client)
    with cluster.volcano(client):
        connect_to(cluster.server.url).create(JOBS, a_gang("train", 8, 4))
        wait_for(lambda: cluster.bound("train", 8), "all eight are bound")
        complete = 'hami_allocator_gangs{state="complete"} 1.0'
        wait_for(lambda: complete in client.get("/metrics")[1], "the gang is seen to be complete")
    _, text = client.get("/metrics")
    assert "hami_allocator_gang_admission_seconds_count 1.0" in text
    assert "hami_allocator_gang_partial_starts_total 0.0" in text
    assert not cluster.wrong()


def test_a_gang_that_finds_no_sets_waits_with_our_reason_and_holds_nothing(cluster: Site) -> None:
    """Eleven devices of a node are free, and no four of them are a set; added up they would do."""
    client = cluster.start()
    cluster.install(client)
    cluster.put(a_pod("spread-out", 5, node="n1", annotations={IDS_KEY: "0,2,5,11,13"}))
    with cluster.volcano(client):
        connect_to(cluster.server.url).create(JOBS, a_gang("large", 5, 4))
        wait_for(lambda: "Neuron" in str([each.get("status") for each in cluster.pods("large")]), "it is told why")
    assert not any(each["spec"].get("nodeName") for each in cluster.pods("large"))
    (other,) = cluster.put(a_pod("other", 16))
    wait_for(lambda: not client.predicate(other, "n2"), "nothing of it is held")


def test_a_job_that_cannot_be_complete_is_told_so_where_its_first_pods_would_fit(cluster: Site) -> None:
    client = cluster.start()
    cluster.install(client)
    cluster.put(a_pod("spread-out", 2, node="n1", annotations={IDS_KEY: "0,10"}))
    with cluster.volcano(client):
        connect_to(cluster.server.url).create(JOBS, a_gang("large", 3, 8))
        told = "the job has to start together: 3 of its pods have no devices yet"
        wait_for(lambda: told in str([each.get("status") for each in cluster.pods("large")]), "it is told why")
    assert cluster.value(client, "answers_total", kind="allocate", outcome="reserved") == 0


def test_after_a_restart_nothing_is_allocated_twice(cluster: Site) -> None:
    client = cluster.start()
    cluster.install(client)
    api = connect_to(cluster.server.url)
    for at in range(6):
        made = api.create(paths.pods("default"), a_pod(f"p{at}"))
        api.create(paths.pod_binding("default", f"p{at}"), binding(dict(made), f"n{at % 2 + 1}"))
        if at in (1, 3):
            cluster.end(client)
            client = cluster.start(f"again-{at}")
            cluster.install(client)
    assert not cluster.wrong()
    assert len(cluster.bound("p", 6)) == 6


def test_of_two_replicas_one_answers_and_the_other_refuses(cluster: Site) -> None:
    one = cluster.start("one")
    two = cluster.start("two", ready=False)
    (pod,) = cluster.put(a_pod("p"))
    assert one.predicate(pod, "n1") == ""
    status, text = two.post(two.plain("/extender/predicate"), b"{}")
    assert status == 503
    assert b"this replica does not answer" in text
    cluster.end(one)
    wait_for(lambda: not two.server.trouble, "the other takes over")
    assert two.predicate(pod, "n1") == ""


def test_kube_scheduler_asks_and_has_its_pods_bound(cluster: Site) -> None:
    client = cluster.start()
    cluster.install(client)
    api = connect_to(cluster.server.url)
    made = api.create(paths.pods("default"), a_pod("p", 16, scheduler="default-scheduler"))

    def ask(verb: str, **body: Any) -> Any:
        status, text = client.post(client.plain(f"/scheduler/{verb}"), json.dumps(body).encode())
        assert status == 200, text
        return json.loads(text)

    asked = {"Pod": made, "Nodes": None, "NodeNames": ["n1", "n2"]}
    assert ask("filter", **asked)["NodeNames"] == ["n1", "n2"]
    assert [each["Host"] for each in ask("prioritize", **asked)] == ["n1", "n2"]
    names = {"PodName": "p", "PodNamespace": "default", "PodUID": made["metadata"]["uid"]}
    assert ask("bind", **names, Node="n1") == {"Error": ""}
    found = api.get(paths.pod("default", "p"))
    assert (found["spec"]["nodeName"], len(ids_of(found))) == ("n1", 16)
    (other,) = cluster.put(a_pod("other", 1))
    assert ask("filter", **{**asked, "Pod": other})["NodeNames"] == ["n2"]
    assert "is bound, or asks for no" in ask("bind", **names, Node="n2")["Error"]


def test_the_replica_that_answers_tells_how_the_devices_are_used(cluster: Site) -> None:
    cluster.put(a_pod("column", 4, node="n1", annotations={IDS_KEY: "0,4,8,12"}))
    client = cluster.start()
    _, text = client.get("/metrics")
    assert 'neuron_devices{state="held"} 4.0' in text
    assert 'neuron_recognised_sets_ratio{family="linked",instance_type="trn1.32xlarge"} 1.0' in text
    assert 'neuron_allocations{linkage="ring"} 1.0' in text
