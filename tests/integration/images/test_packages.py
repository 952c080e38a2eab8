"""No library in an image that no process of it imports, and none missing: every command that the charts run, traced."""

from __future__ import annotations

import json
import socket
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import urllib3
import yaml

from charts.docker.targets import AGENT, ALLOCATOR, KOORDINATOR, TARGETS, Target
from hami_plugins.allocations.manifests import webhooks as allocator
from hami_plugins.allocations.manifests.webhooks import WebhookTarget as Asked
from hami_plugins.sandbox.apiserver import VOLCANO, ApiServer
from hami_plugins.sandbox.fleet import bare_node
from koordinator_adapter.core import webhooks as koordinator
from tests.integration.images.trees import Tree
from tests.integration.volcano_vgpu.machines import NODE, container, machine, pod
from tests.waiting import wait_for

HERE = "127.0.0.1"
GPU = "GPU-aaaaaaaa-1"


@pytest.fixture
def lay(tmp_path: Path) -> Callable[[Target], Tree]:
    def laid(target: Target) -> Tree:
        found = Tree(target, tmp_path / "image")
        found.lay()
        return found

    return laid


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with ApiServer(kinds=VOLCANO) as running:
        yield running


def free_port() -> int:
    with socket.socket() as made:
        made.bind((HERE, 0))
        return int(made.getsockname()[1])


def ask(url: str, body: object = None, **headers: str) -> tuple[int, str]:
    """The answer of a process on loopback, with any certificate."""
    with urllib3.PoolManager(cert_reqs="CERT_NONE") as pool, warnings.catch_warnings():
        warnings.simplefilter("ignore", urllib3.exceptions.InsecureRequestWarning)
        sent = None if body is None else json.dumps(body).encode()
        try:
            answer = pool.request("GET" if body is None else "POST", url, body=sent, headers=headers, retries=False)
        except urllib3.exceptions.HTTPError:
            return 0, ""
        return answer.status, answer.data.decode()


def is_ready(port: int) -> bool:
    return ask(f"http://{HERE}:{port}/readyz")[0] == 200


def used(tree: Tree) -> None:
    """Every library of the image was imported by one of its processes."""
    assert sorted(tree.imported) == sorted(tree.target.packages)


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder whose sockets have paths of fewer than 108 characters."""
    with tempfile.TemporaryDirectory(prefix="im") as found:
        yield Path(found)


def test_the_agents_image_has_what_the_agent_imports(lay: Callable[[Target], Tree], short: Path) -> None:
    tree = lay(AGENT)
    root = short / "n"
    root.mkdir()
    port = free_port()
    with machine(root) as node:
        settings = {
            "kubeletDirectory": str(node.kubelet.plugin_directory),
            "podResourcesSocket": str(node.kubelet.pod_resources_socket),
            "cdiDirectory": str(node.kubelet.cdi_directory),
            "hookPath": str(root / "hook"),
            "lockPath": str(root / "lock"),
            "librarySource": str(root / "image"),
            "cardsFile": str(node.cards),
            "startJitter": 0,
            "cdi": "always",
            "listen": {"host": HERE, "port": port},
            "log": {"form": "json"},
        }
        config = root / "agent.yaml"
        config.write_text(yaml.safe_dump(settings))
        cluster = ("--kubeconfig", str(node.server.kubeconfig(root / "kubeconfig")))
        with tree.process("volcano-vgpu", "agent", "--config", str(config), "--node-name", NODE, *cluster):
            wait_for(lambda: is_ready(port), "the agent is ready")
            wait_for(lambda: node.allocatable() == 20, "slots are offered")
            node.started(node.create(pod("a", container(memory=2000), ids=f"{GPU},NVIDIA,2000,0:")))
            assert ask(f"http://{HERE}:{port}/metrics", Accept="application/openmetrics-text; version=1.0.0")[0] == 200
            tree.run("volcano-vgpu", "verify", *cluster, code=0)
        tree.run("volcano-vgpu", "clean", "--dry-run", "--release", "default/vgpu", *cluster)
    assert "driver" in tree.run("volcano-vgpu", "cards", code=2)
    used(tree)


def settings_of(folder: Path, plain: int, hooks: int) -> dict[str, Any]:
    return {
        "listen": {"host": HERE, "port": plain},
        "webhooks": {"host": HERE, "port": hooks},
        "certificate": {"directory": str(folder / "certificate"), "bootstrap": True, "names": [HERE]},
        "service": {"namespace": "default"},
        "shutdownDelay": 0,
        "log": {"form": "json"},
    }


HOOKS = allocator.Hooks(resources=(), keys=())
PRODUCTS: dict[Target, tuple[str, str, list[dict[str, Any]]]] = {
    ALLOCATOR: (
        "allocator",
        "run",
        [allocator.webhooks(HOOKS, Asked(configuration="hami-plugins-allocator", service="s", namespace="default"))],
    ),
    KOORDINATOR: (
        "koordinator",
        "serve",
        [
            koordinator.mutating(Asked(configuration="koordinator-adapter", service="s", namespace="default")),
            koordinator.validating(Asked(configuration="koordinator-adapter", service="s", namespace="default")),
        ],
    ),
}
"""The product, the command of its server, and what is installed for its webhooks."""


@pytest.mark.parametrize("target", PRODUCTS, ids=lambda target: target.name)
def test_a_servers_image_has_what_its_processes_import(
    lay: Callable[[Target], Tree], server: ApiServer, tmp_path: Path, target: Target
) -> None:
    tree = lay(target)
    product, word, configurations = PRODUCTS[target]
    for each in configurations:
        server.put(each)
    server.put(bare_node("n1"))
    plain, hooks = free_port(), free_port()
    config = tmp_path / "settings.yaml"
    config.write_text(yaml.safe_dump(settings_of(tmp_path, plain, hooks)))
    given = ("--config", str(config), "--kubeconfig", str(server.kubeconfig(tmp_path / "kubeconfig")))
    asked = {"uid": "u", "operation": "CREATE", "resource": {"group": "", "version": "v1", "resource": "pods"}}
    made = {"metadata": {"name": "p", "namespace": "default"}, "spec": {"containers": [{"name": "a", "image": "a"}]}}
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {**asked, "object": made}}
    with tree.process(product, word, *given):
        wait_for(lambda: is_ready(plain), "the server is ready")
        status, text = ask(f"https://{HERE}:{hooks}/webhooks/pods", {**review}, **{"Content-Type": "application/json"})
        assert (status, json.loads(text)["response"]["allowed"]) == (200, True)
        assert ask(f"http://{HERE}:{plain}/metrics", Accept="application/openmetrics-text; version=1.0.0")[0] == 200
        tree.run(product, "trust", *given)
        url = f"http://{HERE}:{plain}"
        tree.run(product, "verify", url)
    if target is KOORDINATOR:
        node_part(tree, tmp_path, server)
        tree.run(product, "clean", "--kubeconfig", str(tmp_path / "kubeconfig"))
    used(tree)


def node_part(tree: Tree, folder: Path, server: ApiServer) -> None:
    port = free_port()
    config = folder / "node.yaml"
    settings = {
        "listen": {"host": HERE, "port": port},
        "injection": {"mode": "auto", "hookPath": str(folder / "hook"), "lockPath": str(folder / "lock")},
    }
    config.write_text(yaml.safe_dump(settings))
    given = ("--config", str(config), "--node-name", "n1", "--kubeconfig", str(server.kubeconfig(folder / "k")))
    with tree.process("koordinator", "node", *given):
        wait_for(lambda: ask(f"http://{HERE}:{port}/readyz")[0] != 0, "the part on nodes answers")


def test_every_target_is_traced() -> None:
    assert {AGENT, *PRODUCTS} == set(TARGETS)
