"""The stand-in for Volcano places pods as the real one does: patch, then binding; gangs whole or not at all."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest

from hami_plugins.kube.client import KubeClient, connect_to
from hami_plugins.sandbox.apiserver import VOLCANO, ApiServer
from hami_plugins.sandbox.fleet import bare_node
from hami_plugins.sandbox.kubelet import EmulatedKubelet, Times
from hami_plugins.sandbox.volcano import EmulatedVolcano
from tests import raw_objects
from tests.contract.kubelet.plugin import ScriptedPlugin
from tests.waiting import wait_for

Raw = dict[str, Any]
Found = TypeVar("Found")

CARD = "GPU-0000000{}-0000-0000-0000-000000000000,10,40960,NVIDIA-NVIDIA A100-SXM4-40GB,true,hami-core"
PODS = "/api/v1/namespaces/default/pods"
JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with ApiServer(kinds=VOLCANO) as running:
        yield running


@pytest.fixture
def client(server: ApiServer) -> Iterator[KubeClient]:
    made = connect_to(server.url, component="test")
    yield made
    made.close()


@pytest.fixture
def volcano(server: ApiServer, client: KubeClient) -> Iterator[EmulatedVolcano]:
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "default"}}
    server.put({**queue, "spec": {"weight": 1}, "status": {"state": "Open"}})
    with EmulatedVolcano(client, period=0.02) as running:
        yield running


def a_vgpu_node(name: str, cards: int = 2) -> Raw:
    return bare_node(
        name,
        capacity={
            "volcano.sh/vgpu-number": str(10 * cards),
            "volcano.sh/vgpu-memory": str(40960 * cards),
            "volcano.sh/vgpu-cores": str(100 * cards),
        },
        annotations={
            "volcano.sh/node-vgpu-register": "".join(f"{CARD.format(n)}:" for n in range(cards)),
            "volcano.sh/node-vgpu-handshake": "Requesting_2099.01.01 00:00:00",
        },
    )


def a_pod(name: str, *, memory: int = 2048, annotations: dict[str, str] | None = None) -> Raw:
    limits = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": str(memory), "volcano.sh/vgpu-cores": "25"}
    metadata = {"namespace": "default", "annotations": annotations or {}}
    return raw_objects.pod(
        name, raw_objects.container("c", limits=limits, image="i"), metadata=metadata, scheduler="volcano"
    )


def a_job(name: str, replicas: int, memory: int) -> Raw:
    template = {"spec": {**a_pod("unused", memory=memory)["spec"], "restartPolicy": "Never"}}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minAvailable": replicas, "tasks": [{"name": "w", "replicas": replicas, "template": template}]},
    }


def pod(server: ApiServer, name: str) -> Raw:
    return next((each for each in server.objects("pods") if each["metadata"]["name"] == name), {})


def bound(server: ApiServer, name: str) -> Raw | None:
    found = pod(server, name)
    return found if found.get("spec", {}).get("nodeName") else None


def condition(server: ApiServer, name: str) -> str | None:
    conditions = pod(server, name).get("status", {}).get("conditions") or ()
    return next((str(each["message"]) for each in conditions if each.get("reason") == "Unschedulable"), None)


def job_status(server: ApiServer, name: str) -> Raw:
    return dict(server.get("jobs.batch.volcano.sh", name, "default").get("status") or {})


def test_a_pod_is_patched_with_six_annotations_and_then_bound(
    server: ApiServer, client: KubeClient, volcano: EmulatedVolcano
) -> None:
    server.put(a_vgpu_node("n1"))
    client.create(PODS, a_pod("p1"))
    placed = wait_for(lambda: bound(server, "p1"))
    written = {key: text for key, text in placed["metadata"]["annotations"].items() if key.startswith("volcano.sh/")}
    devices = "GPU-00000001-0000-0000-0000-000000000000,NVIDIA,2048,25:"
    seconds = written["volcano.sh/vgpu-time"]
    assert written == {
        "volcano.sh/bind-phase": "allocating",
        "volcano.sh/bind-time": seconds,
        "volcano.sh/devices-to-allocate": devices,
        "volcano.sh/vgpu-ids-new": devices,
        "volcano.sh/vgpu-node": "n1",
        "volcano.sh/vgpu-time": seconds,
    }
    group = placed["metadata"]["annotations"]["scheduling.k8s.io/group-name"]
    assert group == f"podgroup-{placed['metadata']['uid']}"


def test_a_gang_that_does_not_fit_as_a_whole_stays_out_as_a_whole(
    server: ApiServer, client: KubeClient, volcano: EmulatedVolcano
) -> None:
    server.put(a_vgpu_node("n1"))
    client.create(JOBS, a_job("big", 3, 30000))
    wait_for(lambda: condition(server, "big-w-2"))
    assert [bound(server, f"big-w-{n}") for n in range(3)] == [None] * 3
    server.put(a_vgpu_node("n2"))
    pods = [wait_for(partial(bound, server, name)) for name in ("big-w-0", "big-w-1", "big-w-2")]
    assert {each["spec"]["nodeName"] for each in pods} == {"n1", "n2"}
    cards = {(each["spec"]["nodeName"], each["metadata"]["annotations"]["volcano.sh/vgpu-ids-new"]) for each in pods}
    assert len(cards) == 3


def test_a_job_that_is_deleted_takes_its_pods_along(
    server: ApiServer, client: KubeClient, volcano: EmulatedVolcano
) -> None:
    client.create(JOBS, a_job("brief", 2, 30000))
    wait_for(lambda: len(server.objects("pods")) == 2)
    client.delete(f"{JOBS}/brief")
    wait_for(lambda: not server.objects("pods"))


def test_the_job_says_how_many_of_its_pods_run(server: ApiServer, client: KubeClient, volcano: EmulatedVolcano) -> None:
    server.put(a_vgpu_node("n1"))
    client.create(JOBS, a_job("seen", 2, 1024))
    for name in ("seen-w-0", "seen-w-1"):
        wait_for(partial(bound, server, name))
        client.merge_patch(f"{PODS}/{name}/status", {"status": {"phase": "Running"}})
    wait_for(lambda: job_status(server, "seen").get("running") == 2)
    assert job_status(server, "seen")["state"]["phase"] == "Running"


def test_without_changes_nothing_is_written(server: ApiServer, client: KubeClient, volcano: EmulatedVolcano) -> None:
    server.put(a_vgpu_node("n1"))
    client.create(PODS, a_pod("huge", memory=50000))
    wait_for(lambda: condition(server, "huge"))
    version = server.store.version
    time.sleep(0.3)
    assert server.store.version == version


def test_pods_of_other_schedulers_are_left_alone(
    server: ApiServer, client: KubeClient, volcano: EmulatedVolcano
) -> None:
    server.put(a_vgpu_node("n1"))
    other = a_pod("other")
    other["spec"]["schedulerName"] = "default-scheduler"
    client.create(PODS, other)
    client.create(PODS, a_pod("mine"))
    wait_for(lambda: bound(server, "mine"))
    assert bound(server, "other") is None


def test_a_job_is_placed_and_runs_on_the_emulated_kubelet(
    server: ApiServer, client: KubeClient, volcano: EmulatedVolcano
) -> None:
    server.put(a_vgpu_node("n1"))
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kubelet-")))
        kubelet = stack.enter_context(EmulatedKubelet(client, "n1", root, times=Times.fast()))
        devices = {f"slot-{n}": True for n in range(20)}
        plugin = ScriptedPlugin(kubelet.plugin_directory, "volcano.sh/vgpu-number", devices)
        stack.callback(plugin.stop)
        plugin.start()
        client.create(JOBS, a_job("train", 2, 4096))
        wait_for(lambda: job_status(server, "train").get("running") == 2)
        assert job_status(server, "train")["state"]["phase"] == "Running"
        assert len(plugin.verbs("PreStartContainer")) == 2
        client.delete(f"{JOBS}/train")
        wait_for(lambda: not server.objects("pods"))
