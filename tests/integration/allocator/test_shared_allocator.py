"""One server allocates the devices of several vendors for Volcano and for kube-scheduler, from one cache."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from hami_plugins.allocator.handlers import SCHEDULER_PATH
from tests.integration.allocator.sites import MARK, site
from tests.integration.neuron_topology.server import servers as neuron
from tests.integration.volcano_vgpu.allocation import servers as vgpu
from tests.integration.volcano_vgpu.allocation.servers import Client
from tests.waiting import wait_for

CARDS = "volcano.sh/vgpu-ids-new"
NUMBERS = "AWS_NEURON_IDS"


def a_task(name: str, replicas: int, pod: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "replicas": replicas, "template": {"spec": {**pod["spec"], "restartPolicy": "Never"}}}


def a_job(name: str, *tasks: dict[str, Any]) -> dict[str, Any]:
    least = sum(task["replicas"] for task in tasks)
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minAvailable": least, "schedulerName": "volcano", "tasks": list(tasks)},
    }


def scheduler(client: Client, verb: str, **body: Any) -> Any:
    status, text = client.post(client.plain(f"{SCHEDULER_PATH}/{verb}"), json.dumps(body).encode())
    assert status == 200, text
    return json.loads(text)


def notes_of(pod: dict[str, Any]) -> dict[str, str]:
    found: dict[str, str] = pod["metadata"].get("annotations") or {}
    return found


def test_a_gang_of_cards_and_neuron_devices_starts_together(tmp_path: Path) -> None:
    with site(tmp_path, vgpu.a_node("cards"), neuron.a_node("trn-a"), neuron.a_node("trn-b")) as place:
        client = place.start()
        with place.volcano(client):
            cards, devices = vgpu.a_pod("unused"), neuron.a_pod("unused", 4, scheduler="volcano")
            place.put(a_job("mixed", a_task("cards", 2, cards), a_task("devices", 2, devices)))
            pods = wait_for(lambda: place.bound(4))
    given = [notes_of(each) for each in pods]
    assert {each[MARK] for each in given} == {"extender"}
    assert sorted(bool(each.get(CARDS)) for each in given) == [False, False, True, True]
    assert sorted(len(each[NUMBERS].split(",")) for each in given if each.get(NUMBERS)) == [4, 4]
    assert not any(each.get(CARDS) and each.get(NUMBERS) for each in given)


def test_a_pod_of_two_vendors_is_one_decision(tmp_path: Path) -> None:
    both = neuron.a_node("both")
    both["metadata"]["annotations"] = vgpu.a_node("both")["metadata"]["annotations"]
    for where in ("capacity", "allocatable"):
        both["status"][where] |= vgpu.a_node("both")["status"][where]
    with site(tmp_path, both, vgpu.a_node("cards"), neuron.a_node("trn")) as place:
        client = place.start()
        pod = neuron.a_pod("p", 2, scheduler="volcano")
        pod["spec"]["containers"][0]["resources"]["limits"] |= {vgpu.NUMBER: "1", vgpu.MEMORY: "10000"}
        (pod,) = place.put(pod)
        wait_for(lambda: client.predicate(pod, "both") == "")
        assert "vGPU" in client.predicate(pod, "trn")
        assert "Neuron" in client.predicate(pod, "cards")
        assert client.allocate(pod, "both") == ""
        status, answer = client.bind(pod, "both")
    assert (status, answer["allowed"]) == (200, True)
    written = _written(answer)
    assert written[CARDS].startswith("GPU-both-")
    assert len(written[NUMBERS].split(",")) == 2


def test_kube_scheduler_gets_neuron_devices_from_the_same_server(tmp_path: Path) -> None:
    with site(tmp_path, vgpu.a_node("cards"), neuron.a_node("trn")) as place:
        client = place.start()
        (pod,) = place.put(neuron.a_pod("p", 4, scheduler="default-scheduler"))
        names = ["cards", "trn"]
        found = wait_for(lambda: _fitting(scheduler(client, "filter", Pod=pod, NodeNames=names)))
        uid = pod["metadata"]["uid"]
        done = scheduler(client, "bind", PodName="p", PodNamespace="default", PodUID=uid, Node="trn")
        bound = place.server.get("pods", "p", "default")
    assert found == ["trn"]
    assert not done["Error"], done
    assert bound["spec"]["nodeName"] == "trn"
    assert len(notes_of(bound)[NUMBERS].split(",")) == 4


def test_only_the_vendors_that_are_set_are_allocated(tmp_path: Path) -> None:
    with site(tmp_path, vgpu.a_node("cards"), neuron.a_node("trn")) as place:
        client = place.start(vendors=["Volcano-vGPU"])
        _, of_cards = client.create(vgpu.a_pod("a"))
        _, of_neuron = client.create(neuron.a_pod("b", 4, scheduler="volcano"))
    assert _marked(of_cards)
    assert not _marked(of_neuron)


def test_the_figures_of_both_vendors_are_on_one_page(tmp_path: Path) -> None:
    with site(tmp_path, vgpu.a_node("cards"), neuron.a_node("trn")) as place:
        client = place.start()
        _, page = client.get("/metrics")
        _, findings = client.get("/findings")
    assert "hami_allocator_answers_total" in page
    assert "hami_allocator_gangs{" in page
    assert 'neuron_devices{state="free"}' in page
    assert json.loads(findings) == {"apiVersion": "hami-plugins.io/v1alpha1", "kind": "AllocationAudit", "findings": []}


def _fitting(answer: dict[str, Any]) -> list[str]:
    assert not answer["Error"], answer
    return list(answer["NodeNames"] or ())


def _written(answer: dict[str, Any]) -> dict[str, str]:
    """The annotations that an answer adds."""
    found: dict[str, str] = {}
    for operation in json.loads(base64.b64decode(answer["patch"])):
        value = operation["value"]
        name = operation["path"].rpartition("/")[2].replace("~1", "/")
        found |= value if isinstance(value, dict) else {name: value}
    return found


def _marked(answer: dict[str, Any]) -> bool:
    return "patch" in answer and MARK in _written(answer)
