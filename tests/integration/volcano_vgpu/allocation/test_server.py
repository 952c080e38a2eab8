"""An allocator over sockets: what it answers, when it answers, and what becomes of it in trouble."""

from __future__ import annotations

import base64
import contextlib
import gc
import json
import weakref
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import urllib3

from hami_plugins.allocations.cache import AllocationCache
from hami_plugins.cli.kit import trust
from hami_plugins.kube import paths
from hami_plugins.kube.client import connect_to
from hami_plugins.sandbox.apiserver.faults import Delay, Fault, Refuse
from tests.integration.volcano_vgpu.allocation.servers import IDS, MEMORY, NODE, Client, Site, a_node, a_pod, marked
from tests.integration.web.certificates import a_certificate
from tests.schema import published
from tests.unit.allocator.products import settings, target, webhooks
from tests.waiting import PATIENCE, wait_for


def patched(response: dict[str, Any]) -> dict[str, str]:
    """The annotations that a response puts on a Binding."""
    assert response["allowed"], response
    (step,) = json.loads(base64.b64decode(response["patch"]))
    assert (step["op"], step["path"]) == ("add", "/metadata/annotations")
    found: dict[str, str] = step["value"]
    return found


def test_from_predicate_to_binding_one_cache_has_the_word(cluster: Site) -> None:
    client = cluster.start()
    (pod,) = cluster.put(a_pod("p", memory=30_000))
    assert client.predicate(pod, "n1") == ""
    assert client.call("prioritize", task={**_task(pod)}, nodes=[{"Name": "n1"}, {"Name": "n9"}])[
        "nodeScore"
    ].keys() == {"n1"}
    assert client.allocate(pod, "n1") == ""
    status, response = client.bind(pod, "n1")
    assert status == 200
    allocation = patched(response)
    assert (len(allocation), allocation[NODE], allocation[IDS]) == (6, "n1", "GPU-n1-0,NVIDIA,30000,0:")
    assert cluster.value(client, "answers_total", kind="binding", outcome="reserved") == 1


def _task(pod: Any) -> dict[str, Any]:
    metadata = pod["metadata"]
    return {"UID": metadata["uid"], "Name": metadata["name"], "Namespace": metadata["namespace"], "Pod": pod}


def test_new_pods_are_marked(cluster: Site) -> None:
    client = cluster.start()
    pod = a_pod("p")
    pod["spec"]["containers"][0]["resources"]["limits"] = {MEMORY: "5"}
    _, response = client.create(pod)
    steps = json.loads(base64.b64decode(response["patch"]))
    assert [step["path"] for step in steps] == [
        "/metadata/annotations/hami-plugins.io~1allocator",
        "/spec/containers/0/resources/limits/volcano.sh~1vgpu-number",
    ]


def test_probes_say_who_answers_and_metrics_what(cluster: Site) -> None:
    client = cluster.start()
    assert client.get("/healthz")[0] == 200
    assert client.get("/readyz")[0] == 200
    text = client.get("/metrics")[1]
    for line in (
        "hami_allocator_active 1.0",
        "hami_allocator_nodes 2.0",
        "hami_allocator_cards 4.0",
        'hami_allocator_assumptions{state="reserved"} 0.0',
        "hami_allocator_unreadable_total 0.0",
        "hami_allocator_missed_changes 0.0",
    ):
        assert line in text


def test_pods_with_wrong_allocations_are_counted_and_named(cluster: Site) -> None:
    cluster.put(a_pod("old", memory=10_000, node="n1", ids="GPU-n2-0,NVIDIA,10000,0:"))
    client = cluster.start()
    wait_for(lambda: cluster.value(client, "findings", finding="card-of-another-node") == 1, "it is counted")
    assert cluster.value(client, "findings", finding="over-memory") == 0
    status, text = client.get("/findings")
    found = published(text)
    assert (status, found["kind"], found["findings"][0]["pods"]) == (200, "AllocationAudit", ["default/old"])
    assert cluster.start("two", ready=False).get("/findings")[0] == 503


def test_session_calls_are_let_through_and_garbage_is_named(cluster: Site) -> None:
    client = cluster.start()
    assert client.call("onSessionOpen", Jobs={}) == {}
    reply = json.loads(client.post(client.plain("/extender/predicate"), b"what?")[1])
    assert reply["code"] == 1
    assert "not JSON" in reply["status"]
    status, text = client.review("/webhooks/bindings", uid="")
    assert status == 400
    assert "AdmissionReview: request" in text


def test_whoever_makes_up_pods_holds_no_cards(cluster: Site) -> None:
    client = cluster.start()
    made_up = a_pod("made-up", memory=40_960)
    made_up["metadata"]["uid"] = "made-up"
    for node in ("n1", "n2"):
        assert "the API server has none with the UID made-up" in client.allocate(made_up, node)
    assert cluster.value(client, "assumptions", state="reserved") == 0
    assert cluster.value(client, "pod_reads_total") == 2


def test_a_large_call_is_answered_in_volcanos_form_alone(cluster: Site) -> None:
    client = cluster.start()
    (pod,) = cluster.put(marked(a_pod("p")))
    pods = {"Tasks": {"x": "y" * 3_000_000}}
    nodes = [{"Name": name, "Node": {"metadata": {"name": name}}, **pods} for name in ("n1", "n2")]
    assert client.call("prioritize", task=_task(pod), nodes=nodes)["nodeScore"].keys() == {"n1", "n2"}
    assert client.call("predicate", task=_task(pod), node=nodes[0])["code"] == 0
    assert client.call("onSessionOpen", task=_task(pod), nodes=nodes) == {}
    odd = json.dumps({"task": "x" * 3_000_000}).encode()
    for verb in ("predicate", "prioritize", "allocate", "deallocate"):
        status, why = client.post(client.plain(f"/extender/{verb}"), odd * 2)
        assert (status, b"too large: limit is" in why) == (413, True)


def test_the_pods_of_a_restarted_server_hold_what_they_had(cluster: Site) -> None:
    cluster.put(a_pod("old", memory=40_960, node="n1", ids="GPU-n1-0,NVIDIA,40960,0:"))
    first = cluster.start()
    (pod,) = cluster.put(a_pod("p", memory=40_000))
    assert patched(first.bind(pod, "n1")[1])[IDS].startswith("GPU-n1-1,")
    api = connect_to(cluster.server.url)
    allocation = {"name": "p", "uid": pod["metadata"]["uid"], "annotations": patched(first.bind(pod, "n1")[1])}
    api.create(paths.pod_binding("default", "p"), {"metadata": allocation, "target": {"name": "n1"}})
    cluster.end(first)

    second = cluster.start("two")
    (late,) = cluster.put(a_pod("late", memory=10_000))
    assert "largest free 960 MiB" in second.predicate(late, "n1")
    assert second.predicate(late, "n2") == ""


def test_of_two_replicas_one_answers_and_the_other_takes_over(cluster: Site) -> None:
    first = cluster.start("one")
    second = cluster.start("two", ready=False)
    assert second.get("/readyz")[0] == 503
    assert "held by one" in wait_for(lambda: "one" in second.get("/readyz")[1] and second.get("/readyz")[1], "told")
    (pod,) = cluster.put(a_pod("p"))
    status, text = second.bind(pod, "n1")
    assert status == 503
    assert "this replica does not answer" in text
    assert first.bind(pod, "n1")[0] == 200

    cluster.end(first)
    wait_for(lambda: not second.server.trouble, "the other one is active")
    assert second.bind(pod, "n1")[0] == 200


def test_a_replica_that_ends_keeps_the_lease_until_its_last_answers_are_in_effect(cluster: Site) -> None:
    client = cluster.start(linger=60.0)
    (pod,) = cluster.put(a_pod("p", memory=40_000))
    assert client.bind(pod, "n1")[1]["allowed"]
    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(cluster.end, client)
        other = cluster.start("two", ready=False)
        wait_for(lambda: "held by one" in other.get("/readyz")[1], "the lease is looked at")
        (late,) = cluster.put(a_pod("late"))
        wait_for(lambda: "the process ends" in str(client.bind(late, "n1", dryRun=True)[1]), "it answers no more")
        assert not ended.done()
        pod["spec"]["nodeName"] = "n1"
        pod["metadata"]["annotations"] = {IDS: "GPU-n1-0,NVIDIA,40000,0:", NODE: "n1"}
        cluster.put(pod)
        ended.result(PATIENCE)
    wait_for(lambda: not other.server.trouble, "the other one is active")
    assert cluster.value(other, "holders") == 1


def test_a_replica_that_ends_is_not_ready_some_time_before_it_stops_to_answer(cluster: Site) -> None:
    client = cluster.start(shutdownDelay=3.0)
    (pod,) = cluster.put(a_pod("p"))
    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(client.server.stop)
        wait_for(lambda: client.get("/readyz")[0] == 503, "it is not ready")
        assert "stopping: the process ends" in client.get("/readyz")[1]
        assert client.allocate(pod, "n1") == ""
        assert client.bind(pod, "n1")[1]["allowed"]
        client.close()
        ended.result(PATIENCE)
    assert "the process ends" in client.server.trouble


def test_a_replica_to_which_nobody_is_sent_ends_at_once(cluster: Site) -> None:
    cluster.start("one")
    second = cluster.start("two", ready=False, shutdownDelay=300)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(cluster.end, second).result(60)


def test_a_replica_that_loses_its_lease_while_it_reads_a_pod_does_not_answer(
    cluster: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hami_plugins.allocator.leader.READ_SECONDS", 20.0)
    client = cluster.start()
    pod = a_pod("p") | {"metadata": {"name": "p", "namespace": "default", "uid": "unknown"}}
    assert client.bind(pod, "n1") == (200, {"uid": "r", "allowed": True})
    lease = cluster.server.get("leases.coordination.k8s.io", "hami-plugins-allocator", "default")
    cluster.server.faults.add(Fault(action=Delay(3.0), verb="get", resource="pods"))
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(client.bind, pod, "n1")
        wait_for(lambda: cluster.value(client, "pod_reads_total") == 2, "the pod is read")
        spec = {**lease["spec"], "holderIdentity": "two", "leaseDurationSeconds": 3600}
        cluster.put({**lease, "spec": spec})
        status, text = answer.result(PATIENCE)
    assert (status, "held by two" in text) == (503, True)


def test_a_replica_that_cannot_renew_its_lease_answers_no_more(cluster: Site) -> None:
    client = cluster.start()
    (pod,) = cluster.put(a_pod("p"))
    cluster.server.pause()
    wait_for(lambda: client.server.trouble, "it has noticed")
    assert client.bind(pod, "n1")[0] == 503
    cluster.server.resume()
    wait_for(lambda: not client.server.trouble, "it is back")
    assert client.bind(pod, "n1")[0] == 200


def test_a_replica_that_lost_its_lease_keeps_nothing_of_its_cache(cluster: Site) -> None:
    """A serving process excludes its cache from garbage collection, so nothing may depend on that."""
    others = {id(each) for each in gc.get_objects() if isinstance(each, AllocationCache)}
    gc.disable()
    try:
        client = cluster.start()
        (pod,) = cluster.put(a_pod("p"))
        assert client.predicate(pod, "n1") == ""
        assert client.bind(pod, "n1")[1]["allowed"]
        (kept,) = (
            weakref.ref(each)
            for each in gc.get_objects()
            if isinstance(each, AllocationCache) and id(each) not in others
        )
        cluster.server.pause()
        wait_for(lambda: kept() is None, "its cache is gone")
    finally:
        gc.enable()
        cluster.server.resume()
    wait_for(lambda: not client.server.trouble, "it leads again")
    assert client.bind(pod, "n1")[1]["allowed"]


def test_while_the_api_server_hiccups_what_is_known_is_answered(cluster: Site) -> None:
    client = cluster.start()
    (pod,) = cluster.put(a_pod("p"))
    wait_for(lambda: cluster.value(client, "pods") == 1, "the watch shows it")
    cluster.server.cut_watches(abruptly=True)
    assert patched(client.bind(pod, "n1")[1])[NODE] == "n1"
    assert cluster.value(client, "pod_reads_total") == 0
    cluster.put(a_node("n3"))
    wait_for(lambda: client.predicate(pod, "n3") == "", "the watch goes on")


def test_a_pod_that_is_deleted_after_the_answer_gives_its_cards_back(cluster: Site) -> None:
    client = cluster.start()
    first, second = cluster.put(a_pod("a", memory=40_960), a_pod("b", memory=40_960))
    third = cluster.put(a_pod("c", memory=40_960))[0]
    assert client.bind(first, "n1")[1]["allowed"]
    assert client.bind(second, "n1")[1]["allowed"]
    assert not client.bind(third, "n1")[1]["allowed"]
    cluster.server.delete("pods", "a", "default", grace=0)
    wait_for(lambda: client.bind(third, "n1")[1]["allowed"], "the card is free again")


def test_bindings_that_fail_after_the_answer_hold_their_cards_until_time_ends_it(cluster: Site) -> None:
    client = cluster.start()
    (pod,) = cluster.put(a_pod("p", memory=40_960))
    assert client.bind(pod, "n1")[1]["allowed"]
    assert cluster.value(client, "assumptions", state="answered") == 1
    # Tried again elsewhere, the pod holds both places: either answer may come true.
    assert client.bind(pod, "n2")[1]["allowed"]
    assert cluster.value(client, "assumptions", state="answered") == 2
    bound = a_pod("p", memory=40_960, node="n2", ids="GPU-n2-0,NVIDIA,40960,0:")
    bound["metadata"]["uid"] = pod["metadata"]["uid"]
    cluster.put(bound)
    wait_for(lambda: cluster.value(client, "assumptions", state="answered") == 0, "the watch has the word")
    assert cluster.value(client, "holders") == 1


def test_mode_webhook_writes_every_node_when_it_begins_and_then_those_that_it_answered_for(cluster: Site) -> None:
    """While no server answered, Bindings failed, and Volcano still counts their cards."""
    client = cluster.start(volcano={"mode": "webhook"})
    first = {node: wait_for(partial(_touched, cluster, node), f"{node} is written") for node in ("n1", "n2")}
    for pod in cluster.put(*(a_pod(f"p{at}") for at in range(5))):
        assert client.bind(pod, "n1")[1]["allowed"]
    wait_for(lambda: _touched(cluster, "n1") != first["n1"], "the node is written again")
    assert _touched(cluster, "n2") == first["n2"]
    written = wait_for(lambda: _touches(cluster, client, at_least=3), "a write is counted after it was made")
    assert written <= 7


def test_mode_extender_writes_no_node(cluster: Site) -> None:
    client = cluster.start(volcano={"mode": "extender"})
    for pod in cluster.put(*(a_pod(f"p{at}") for at in range(5))):
        assert client.bind(pod, "n1")[1]["allowed"]
    assert not _touched(cluster, "n1")
    assert cluster.value(client, "node_touches_total") == 0


def test_a_node_that_cannot_be_written_is_tried_again_and_one_that_is_gone_is_not(cluster: Site) -> None:
    client = cluster.start(volcano={"mode": "webhook"})
    (pod,) = cluster.put(a_pod("p"))
    cluster.server.faults.add(Fault(action=Refuse(500), verb="patch", resource="nodes"))
    assert client.bind(pod, "n1")[1]["allowed"]
    wait_for(lambda: "volcano.sh/vgpu-touched" in _annotations(cluster, "n1"), "the node is written")
    assert not client.bind(cluster.put(a_pod("q"))[0], "n9")[1]["allowed"]
    wait_for(lambda: cluster.value(client, "node_touches_total", outcome="failed") == 1, "given up")


def _touches(cluster: Site, client: Client, *, at_least: int) -> float:
    """How many nodes were written, 0 before there are so many."""
    written = cluster.value(client, "node_touches_total", outcome="written")
    return written if written >= at_least else 0


def _touched(cluster: Site, node: str) -> str:
    return str(_annotations(cluster, node).get("volcano.sh/vgpu-touched", ""))


def _annotations(cluster: Site, node: str) -> dict[str, str]:
    found: dict[str, str] = cluster.server.get("nodes", node)["metadata"]["annotations"]
    return found


def test_certificates_of_its_own_reach_the_configuration_of_the_webhooks(cluster: Site) -> None:
    cluster.put(webhooks(target(namespace="default")))
    certificate = {"directory": str(cluster.folder / "own"), "bootstrap": True, "names": ["127.0.0.1"]}
    client = cluster.start(certificate=certificate)
    told = settings(certificate=certificate, service={"namespace": "default"})
    with contextlib.closing(connect_to(cluster.server.url, component="trust")) as api:
        assert trust.run(api, told, ["mutating"], patience=0) == 0
    found = cluster.server.get("mutatingwebhookconfigurations.admissionregistration.k8s.io", "hami-plugins-allocator")
    assert all(hook["clientConfig"]["caBundle"] for hook in found["webhooks"])
    assert cluster.server.get("secrets", "hami-plugins-allocator-tls", "default")["data"]["tls.crt"]
    (pod,) = cluster.put(a_pod("p"))
    assert client.bind(pod, "n1")[0] == 200


def test_with_an_authority_for_clients_nobody_else_reaches_the_webhooks(cluster: Site, tmp_path: Path) -> None:
    folder = tmp_path / "api-server"
    folder.mkdir()
    known = a_certificate(folder)
    directory = str(cluster.folder)
    client = cluster.start(certificate={"directory": directory, "clientCa": str(known.certificate)})
    (pod,) = cluster.put(a_pod("p"))
    with pytest.raises(urllib3.exceptions.HTTPError):
        client.bind(pod, "n1")
    shown = Client(client.server, cluster.folder / "tls.crt", certificate=known)
    assert shown.bind(pod, "n1")[1]["allowed"]
    shown.close()


@pytest.mark.parametrize("count", [30])
def test_bindings_at_once_never_give_a_slice_twice(cluster: Site, count: int) -> None:
    client = cluster.start()
    pods = cluster.put(*(a_pod(f"p{at}", memory=20_000) for at in range(count)))
    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(lambda pod: client.bind(pod, "n1")[1], pods))
    allocated = [patched(answer)[IDS].partition(",")[0] for answer in answers if answer["allowed"]]
    assert sorted(allocated) == ["GPU-n1-0", "GPU-n1-0", "GPU-n1-1", "GPU-n1-1"]
