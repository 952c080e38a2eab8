"""The shared allocator's policies and webhook before the real API server: no user forges what HAMi's vendors record."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import urllib3
import yaml

from hami_plugins.allocations.manifests import webhooks as manifests
from hami_plugins.allocations.manifests.webhooks import WebhookTarget
from hami_plugins.allocations.served_vendors import served_vendors
from hami_plugins.allocator.app import allocator_server, hooks_of, product_of
from hami_plugins.allocator.handlers import SCHEDULER_PATH
from hami_plugins.allocator.metrics import AllocatorMetrics
from hami_plugins.allocator.server import AllocatorServer
from hami_plugins.allocator.settings import AllocatorSettings
from hami_plugins.cli.kit.inputs import registry_of
from hami_plugins.inputs import fleets
from hami_plugins.kube.client import connect
from tests import raw_objects
from tests.cluster.allocating import ADMISSION, PLURALS, Site, a_binding, a_site, annotated, installed, refused
from tests.cluster.allocator import HOOKS, marks
from tests.cluster.api import ApiError, Object
from tests.cluster.kubernetes import RBAC, ControlPlane
from tests.cluster.waiting import wait_until
from tests.integration.web.certificates import a_certificate

MARK = "hami-plugins.io/allocator"
VENDORS = {
    "NVIDIA": (
        "a100-80x8",
        {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "1000"},
        ("hami.io/vgpu-devices-allocated", "hami.io/vgpu-devices-to-allocate", "hami.io/vgpu-mig-allocations"),
    ),
    "Ascend310P": (
        "310px4",
        {"huawei.com/Ascend310P": "1"},
        (
            "hami.io/Ascend310P-devices-allocated",
            "hami.io/Ascend310P-devices-to-allocate",
            "huawei.com/Ascend310P",
            "predicate-time",
        ),
    ),
    "MLU": (
        "mlu370x8",
        {"cambricon.com/vmlu": "1", "cambricon.com/mlu.smlu.vmemory": "1"},
        ("hami.io/cambricon-mlu-devices-allocated", "hami.io/cambricon-mlu-devices-to-allocate"),
    ),
    "DCU": (
        "dcu-z100x4",
        {"hygon.com/dcunum": "1", "hygon.com/dcumem": "1000"},
        ("hami.io/dcu-devices-allocated", "hami.io/dcu-devices-to-allocate"),
    ),
}
"""By vendor a node, what a pod asks of it, and the keys of its allocation; the first is the list."""

BOOKKEEPING = ("hami.io/bind-phase", "hami.io/bind-time", "hami.io/vgpu-node", "hami.io/vgpu-time")
FORGED = dict.fromkeys((*(key for _, _, keys in VENDORS.values() for key in keys), *BOOKKEEPING), "forged")
PLUGIN = "system:serviceaccount:kube-system:hami-device-plugin"
STRATEGIC = "application/strategic-merge-patch+json"
SETTINGS: dict[str, Any] = {
    "vendors": list(VENDORS),
    "listen": {"host": "127.0.0.1", "port": 0},
    "webhooks": {"host": "127.0.0.1", "port": 0},
    "service": {"namespace": "default"},
    "lease": {"duration": 15.0, "deadline": 10.0, "retry": 1.0},
    "shutdownDelay": 0,
}

every_vendor = pytest.mark.parametrize("vendor", VENDORS)


class Forgers(Site):
    """A namespace of users, and the server that allocates for it."""

    server: AllocatorServer

    def bind(self, name: str, node: str) -> str:
        """kube-scheduler leaves the Binding to the server: why it was not made."""
        uid = self.plane.api.get(f"{self.pods}/{name}")["metadata"]["uid"]
        body = {"PodName": name, "PodNamespace": self.namespace, "PodUID": uid, "Node": node}
        url = f"http://127.0.0.1:{self.server.address[1]}{SCHEDULER_PATH}/bind"
        answer = urllib3.request("POST", url, body=json.dumps(body).encode(), timeout=60, retries=False)
        assert answer.status == 200, answer.data
        return str(json.loads(answer.data)["Error"])


def printed(folder: Path, *arguments: str) -> list[Object]:
    """What ``allocator policy`` prints for these settings; the server acts as ``allocator`` of this test."""
    config = folder / "settings.yaml"
    config.write_text(yaml.safe_dump({"vendors": list(VENDORS)}))
    command = [sys.executable, "-m", "hami_plugins.cli", "allocator", "policy", "--config", str(config), *arguments]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return list(yaml.safe_load_all(said))


@contextmanager
def _server(plane: ControlPlane, folder: Path) -> Iterator[AllocatorServer]:
    """The server and its webhooks."""
    a_certificate(folder)
    api = connect(kubeconfig=str(plane.admin_kubeconfig), component="allocator")
    settings = AllocatorSettings.model_validate({**SETTINGS, "certificate": {"directory": str(folder)}})
    vendors = served_vendors(registry_of(settings), settings.vendors)
    server = allocator_server(settings, api, vendors, None, metrics=AllocatorMetrics(), identity="one", linger=0.0)
    server.start()
    try:
        address = server.webhook_address
        assert address is not None
        hooks = hooks_of(product_of(settings, vendors))
        ca = base64.b64encode((folder / "tls.crt").read_bytes()).decode()
        target = WebhookTarget(
            configuration="forged", service="x", namespace="x", url=f"https://localhost:{address[1]}", ca=ca
        )
        plane.apply(HOOKS, manifests.webhooks(hooks, target))
        wait_until(lambda: not server.trouble, "the server is ready", 60)
        wait_until(lambda: marks(plane, _probe(), MARK), "the API server asks the webhook", 30)
        yield server
    finally:
        plane.api.delete(f"{HOOKS}/forged")
        server.stop()
        api.close()


def _probe() -> Object:
    return raw_objects.pod("probe", raw_objects.container(image="i", limits={"nvidia.com/gpu": "1"}))


@pytest.fixture(scope="module")
def site(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forgers]:
    folder = tmp_path_factory.mktemp("forged")
    nodes: list[Any] = [
        node for shape, _, _ in VENDORS.values() for node in fleets.nodes_of(fleets.add_nodes(f"{shape}=1"))
    ]
    with ExitStack() as stack:
        found = stack.enter_context(a_site(control_plane, "forged-hami", PLUGIN))
        for node in nodes:
            _put_node(control_plane, node)
            stack.callback(control_plane.api.delete, f"/api/v1/nodes/{node['metadata']['name']}")
        server = stack.enter_context(_server(control_plane, folder))
        stack.enter_context(installed(found, printed(folder), "hami.io/vgpu-devices-allocated"))
        made = Forgers(found.plane, found.namespace)
        object.__setattr__(made, "server", server)
        yield made


def _put_node(plane: ControlPlane, node: Any) -> None:
    """A node that no scheduler of this cluster uses, with what its kubelet and its plugin report."""
    taint = {"key": "test/forged", "value": "", "effect": "NoSchedule"}
    metadata = {name: node["metadata"][name] for name in ("name", "labels", "annotations") if name in node["metadata"]}
    body = {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {"taints": [taint]}}
    plane.api.create("/api/v1/nodes", body)
    status = {key: node["status"][key] for key in ("capacity", "allocatable", "conditions")}
    path = f"/api/v1/nodes/{node['metadata']['name']}/status"
    plane.api.request("PATCH", path, {"status": status}, content_type=STRATEGIC)


def a_pod(name: str, vendor: str, annotations: Mapping[str, str] | None = None, **spec: Any) -> Object:
    asks = raw_objects.container(image="none", limits=VENDORS[vendor][1])
    usual = {"automountServiceAccountToken": False, "terminationGracePeriodSeconds": 0}
    return raw_objects.pod(name, asks, metadata={"annotations": dict(annotations or {})}, **{**usual, **spec})


def node_of(vendor: str) -> str:
    return f"added-{VENDORS[vendor][0]}-0"


@every_vendor
def test_a_copied_manifest_loses_the_records_of_all_vendors(site: Forgers, vendor: str) -> None:
    site.editor.create(site.pods, a_pod(f"copied-{vendor.lower()}", vendor, {**FORGED, "mine": "x", MARK: "forged"}))
    assert site.annotations(f"copied-{vendor.lower()}") == {"mine": "x", MARK: "extender"}


@every_vendor
def test_a_pod_with_a_node_and_records_is_not_created(site: Forgers, vendor: str) -> None:
    for key in (*VENDORS[vendor][2], *BOOKKEEPING):
        with pytest.raises(ApiError, match="which only a scheduler writes"):
            site.editor.create(site.pods, a_pod("placed", vendor, {key: "forged"}, nodeName=node_of(vendor)))


@every_vendor
def test_no_user_writes_a_record_from_creation_to_the_start_of_the_container(site: Forgers, vendor: str) -> None:
    """Every step of a pod's way to a plugin: its scheduler and its plugin write, its owner does not."""
    name, node, keys = f"way-{vendor.lower()}", node_of(vendor), (*VENDORS[vendor][2], *BOOKKEEPING)
    path = f"{site.pods}/{name}"
    site.editor.create(site.pods, a_pod(name, vendor))
    _all_refused(site, path, keys)
    with pytest.raises(ApiError) as error:
        site.owner.create(f"{path}/binding", a_binding(name, FORGED))
    assert error.value.status == 403
    wait_until(lambda: site.bind(name, node) == "", "the server has bound it", 30)
    given = site.annotations(name)
    assert given[keys[0]] not in ("", "forged")
    assert given["hami.io/vgpu-node"] == node
    _all_refused(site, path, keys)
    debug = {"name": "d", "image": "none", "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}
    body = {"spec": {"ephemeralContainers": [debug]}}
    with pytest.raises(ApiError, match="an ephemeral container of a pod with devices"):
        site.owner.request("PATCH", f"{path}/ephemeralcontainers", body, content_type=STRATEGIC)
    assert site.annotations(name) == given
    site.acting(PLUGIN).merge_patch(path, annotated(**{"hami.io/bind-phase": "success"}))
    assert site.annotations(name) == {**given, "hami.io/bind-phase": "success"}


def _all_refused(site: Site, path: str, keys: Sequence[str]) -> None:
    for key in (*keys, MARK):
        refused(key, site.editor.merge_patch, path, annotated(**{key: "forged"}))
        refused(key, site.owner.merge_patch, f"{path}/status", annotated(**{key: "forged"}))
    refused(MARK, site.editor.merge_patch, path, annotated(**{MARK: None}))


NODE_WRITERS = "system:serviceaccounts"


@pytest.fixture
def node_records(site: Forgers, tmp_path: Path) -> Iterator[None]:
    """The policy for nodes, and accounts that may write every node."""
    plane = site.plane
    rule = {"apiGroups": [""], "resources": ["nodes", "nodes/status"], "verbs": ["*"]}
    plane.apply(f"{RBAC}/clusterroles", {"metadata": {"name": "forged-nodes"}, "rules": [rule]})
    subjects = [
        {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
        for kind, name in (("Group", NODE_WRITERS), ("User", "jane"))
    ]
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "forged-nodes"}
    body = {"metadata": {"name": "forged-nodes"}, "roleRef": role, "subjects": subjects}
    plane.apply(f"{RBAC}/clusterrolebindings", body)
    made = [(f"{ADMISSION}/{PLURALS[each['kind']]}", each) for each in printed(tmp_path, "--nodes")]
    try:
        for path, each in made:
            plane.api.create(path, each)
        yield
    finally:
        for path, each in made:
            plane.api.delete(f"{path}/{each['metadata']['name']}")
        plane.api.delete(f"{RBAC}/clusterrolebindings/forged-nodes")
        plane.api.delete(f"{RBAC}/clusterroles/forged-nodes")


@pytest.mark.usefixtures("node_records")
def test_records_of_nodes_are_written_by_agents_alone(site: Forgers) -> None:
    path = f"/api/v1/nodes/{node_of('NVIDIA')}"
    lock = "hami.io/mutex.lock"

    tries = count()

    def forged() -> bool:
        try:
            # the same text does not change anything
            site.editor.merge_patch(path, annotated(**{lock: f"try {next(tries)}"}))
        except ApiError as error:
            return error.status == 403
        return False

    wait_until(forged, "the policy is in force", 30)
    site.plane.api.merge_patch(path, annotated(**{lock: None}))
    before = site.plane.api.get(path)["metadata"]["annotations"]
    for key in ("hami.io/node-nvidia-register", "hami.io/node-handshake", "hami.io/node-register-Ascend310P", lock):
        for part in ("", "/status"):
            with pytest.raises(ApiError, match="only node agents, schedulers, and the allocator write") as error:
                site.editor.merge_patch(f"{path}{part}", annotated(**{key: "forged"}))
            assert key in error.value.body
    site.editor.merge_patch(path, annotated(**{"hami.io/device-cordon": "GPU-1"}))
    site.editor.merge_patch(path, {"metadata": {"labels": {"theirs": "x"}}})
    plugin = site.acting(PLUGIN, NODE_WRITERS)
    plugin.merge_patch(path, annotated(**{"hami.io/node-handshake": "Reported_1"}))
    found = site.plane.api.get(path)["metadata"]["annotations"]
    assert found["hami.io/node-nvidia-register"] == before["hami.io/node-nvidia-register"]
    assert found["hami.io/node-handshake"] == "Reported_1"
