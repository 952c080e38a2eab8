"""A session of Volcano's that makes room, over HTTP: from the predicate call to the pods that the server evicts."""

from __future__ import annotations

from typing import Any

from tests.integration.volcano_vgpu.allocation.servers import Client, Site, a_pod, marked
from tests.unit.volcano_vgpu.allocation.cluster import task
from tests.waiting import wait_for

FULL: dict[str, Any] = {"mode": "full", "priorityClasses": ["*"], "atOnce": 20}
GROUP = "scheduling.k8s.io/group-name"
PENDING, PIPELINED, RUNNING = 1, 4, 32


def of_group(pod: dict[str, Any], priority: int) -> dict[str, Any]:
    name = f"podgroup-{pod['metadata']['name']}"
    marked(pod)["metadata"]["annotations"] |= {GROUP: name, "note": "x" * 4_000}
    pod["spec"]["priority"] = priority
    return pod


def called(pod: dict[str, Any], status: int, node: str = "") -> dict[str, Any]:
    return task(pod, node) | {"Job": f"default/{pod['metadata']['annotations'][GROUP]}", "Status": status}


def running(cluster: Site, name: str, card: str) -> dict[str, Any]:
    pod = of_group(a_pod(name, node="n1", ids=f"{card},NVIDIA,4000,0:"), 100)
    return cluster.put({**pod, "status": {"phase": "Running"}})[0]


def code(client: Client, pod: dict[str, Any]) -> int:
    return int(client.call("predicate", task=called(pod, PENDING), node={"Name": "n1", "Node": {}})["code"])


def test_a_session_over_http_evicts_the_pods_of_one_card(cluster: Site) -> None:
    cluster.server.delete("nodes", "n2")
    pods = [running(cluster, f"low-{at}", f"GPU-n1-{at % 2}") for at in range(20)]
    high = cluster.put(of_group(a_pod("high", memory=40_000), 1000))[0]
    client = cluster.start(preemption=FULL)
    wait_for(lambda: code(client, high) == 2, "a plan for the pod")
    found = client.call("prioritize", task=called(high, PENDING), nodes=[{"Name": "n1", "Node": {}}])
    assert found["nodeScore"]["n1"] >= 1e6
    evictees = [called(pod, RUNNING, "n1") for pod in pods]
    victims = client.call("preemptable", evictor=called(high, PENDING), evictees=evictees)
    assert victims["status"] == 1
    named = {each["UID"] for each in victims["victims"]}
    chosen = {pod["metadata"]["name"] for pod in pods if pod["metadata"]["uid"] in named}
    assert chosen in ({f"low-{at}" for at in range(20) if at % 2 == card} for card in (0, 1))
    assert client.call("allocate", task=called(high, PIPELINED, "n1"))["errorMessage"] == ""
    assert client.call("onSessionClose") == {}

    def ending() -> set[str]:
        listed = cluster.server.objects("pods", "default")
        stay = {pod["metadata"]["name"] for pod in listed if not pod["metadata"].get("deletionTimestamp")}
        return {pod["metadata"]["name"] for pod in pods} - stay

    wait_for(lambda: ending() == chosen, "the server evicts them")
    assert code(client, high) == 2
    assert client.call("preemptable", evictor=called(high, PENDING), evictees=evictees)["victims"] == []
