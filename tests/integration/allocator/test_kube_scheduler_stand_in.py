"""The stand-in for kube-scheduler calls the allocator as the real one does, and emits an event on a waiting pod."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hami_plugins.allocator.handlers import SCHEDULER_PATH
from hami_plugins.kube.client import connect_to
from hami_plugins.sandbox.apiserver import ApiServer
from hami_plugins.sandbox.kube_scheduler import EmulatedKubeScheduler
from tests.integration.allocator.hami_pods import ALLOCATED, a_holder, a_node, a_pod, hami, notes_of
from tests.waiting import wait_for

GONE = "http://127.0.0.1:9"


def scheduled(server: ApiServer, url: str, pod: dict[str, Any], *nodes: str) -> str:
    api = connect_to(server.url, component="kube-scheduler")
    try:
        with EmulatedKubeScheduler.asking(url, api) as scheduler:
            return scheduler.schedule(pod, nodes)
    finally:
        api.close()


def condition(server: ApiServer, name: str) -> dict[str, Any]:
    (found,) = server.get("pods", name, "default")["status"]["conditions"]
    return dict(found)


def test_a_pod_is_bound_to_the_best_node_with_its_devices(tmp_path: Path) -> None:
    with hami(tmp_path, a_node("n1"), a_node("n2"), a_node("n3")) as (place, client):
        place.put(a_holder("holder", "n2", "GPU-n2-0", 20_000))
        wait_for(lambda: place.value(client, "holders") == 1)
        (pod,) = place.create(a_pod("p", 10_000))
        assert scheduled(place.server, client.plain(SCHEDULER_PATH), pod, "n1", "n2", "n3") == ""
        bound = place.server.get("pods", "p", "default")
        assert bound["spec"]["nodeName"] == "n2", "the fullest node that has room is the best"
        assert notes_of(bound)[ALLOCATED].startswith("GPU-n2-")


def test_a_pod_without_room_is_told_the_numbers_and_how_many_nodes_say_so(tmp_path: Path) -> None:
    with hami(tmp_path, a_node("n1"), a_node("n2")) as (place, client):
        (pod,) = place.create(a_pod("p", 50_000))
        why = scheduled(place.server, client.plain(SCHEDULER_PATH), pod, "n1", "n2")
        assert why.startswith("0/2 nodes are available: ")
        assert "50,000" in why
        found = condition(place.server, "p")
        assert (found["type"], found["status"], found["reason"]) == ("PodScheduled", "False", "Unschedulable")
        assert found["message"] == why


def test_without_an_answer_the_pod_waits(tmp_path: Path) -> None:
    with hami(tmp_path, a_node("n1")) as (place, _client):
        (pod,) = place.create(a_pod("p"))
        assert f"{GONE}/filter" in scheduled(place.server, GONE, pod, "n1")
        assert f"{GONE}/filter" in condition(place.server, "p")["message"]
