"""A takeover from HAMi on the real API server and the real kube-scheduler: its pods stay as they are, and none is lost.

Nodes have no kubelet; HAMi's scheduler is a double that writes what HAMi writes, and so is its device plugin.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from hami_plugins.kube.client import connect
from tests.cluster.allocator import HOOKS
from tests.cluster.api import Object
from tests.cluster.card_nodes import NODES
from tests.cluster.hami import ALLOCATED, MARK, HamiAllocator, hami_gpu
from tests.cluster.hami_nodes import HamiNodes
from tests.cluster.kubernetes import ControlPlane
from tests.cluster.objects import pod
from tests.cluster.slices import pods
from tests.cluster.waiting import wait_until
from tests.integration.allocator.hami_pods import LOCK
from tests.integration.allocator.hami_scheduler import HamiScheduler

BIG = 30_000
"""MiB: a card has room for one such pod."""

HAMI_WEBHOOK = "hami-webhook"


@pytest.fixture
def nodes(control_plane: ControlPlane) -> Iterator[HamiNodes]:
    made = HamiNodes(control_plane)
    with made:
        yield made


@pytest.fixture
def hami_webhook(control_plane: ControlPlane) -> Iterator[None]:
    """HAMi's webhook by its name; it is asked about nothing."""
    client = {"url": "https://127.0.0.1:1/webhook"}
    rule = {"apiGroups": ["none.example"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["none"]}
    hook = {"name": "vgpu.hami.io", "clientConfig": client, "rules": [rule], "sideEffects": "None"}
    body = {"metadata": {"name": HAMI_WEBHOOK}, "webhooks": [{**hook, "admissionReviewVersions": ["v1"]}]}
    control_plane.apply(HOOKS, body)
    yield
    if control_plane.api.find(f"{HOOKS}/{HAMI_WEBHOOK}") is not None:
        control_plane.api.delete(f"{HOOKS}/{HAMI_WEBHOOK}")


def check(plane: ControlPlane, config: str) -> dict[str, Any]:
    """What ``allocator check`` says of this cluster."""
    whole = [sys.executable, "-m", "hami_plugins.cli", "allocator", "check", "-o", "json", "--config", config]
    cluster = ["--kubeconfig", str(plane.admin_kubeconfig), "--account", "kube-system/hami-allocator"]
    found = subprocess.run([*whole, *cluster], check=False, capture_output=True, text=True)
    assert found.returncode in (0, 1), found.stderr
    return dict(json.loads(found.stdout))


def errors(found: dict[str, Any]) -> list[dict[str, Any]]:
    return [each for each in found["findings"] if each["severity"] == "error"]


def placed(plane: ControlPlane, namespace: str, name: str) -> Object:
    """A pod, once it is bound."""
    path = f"{pods(namespace)}/{name}"

    def bound() -> Object:
        found = plane.api.get(path)
        return found if found["spec"].get("nodeName") else {}

    return wait_until(bound, f"{name} is bound", 60, show=lambda: "\n".join(plane.events(namespace, name)))


def card_of(found: Object) -> str:
    return str(found["metadata"]["annotations"][ALLOCATED]).partition(",")[0]


def served(plane: ControlPlane, node: str) -> None:
    """HAMi's device plugin has answered: the lock of its node is gone."""
    plane.api.merge_patch(f"{NODES}/{node}", {"metadata": {"annotations": {LOCK: None}}})


def waiting(name: str, nodes: HamiNodes, scheduler: str) -> Object:
    body = pod(name, hami_gpu(memory=BIG))
    body["spec"] |= {"schedulerName": scheduler, "nodeSelector": dict(nodes.selector)}
    return body


@pytest.mark.usefixtures("hami_webhook")
def test_the_allocator_takes_over_and_hamis_pods_stay_as_they_are(
    control_plane: ControlPlane, nodes: HamiNodes, namespace: str
) -> None:
    plane, (node,) = control_plane, nodes.boot(cards=3)
    api = connect(kubeconfig=str(plane.admin_kubeconfig), component="hami-scheduler")
    scheduler = HamiScheduler(api)
    old, late = (plane.api.create(pods(namespace), waiting(name, nodes, "hamis-own")) for name in ("old", "late"))
    scheduler.filter(old, node, f"GPU-{node}-0,NVIDIA,{BIG},0:")
    scheduler.lock(old, node)
    assert scheduler.bind(old, node) == ""
    served(plane, node)
    before = placed(plane, namespace, "old")

    server = HamiAllocator(plane)
    config = str(server.replica.config)
    assert check(plane, config)["stage"] == "before"
    with server:
        during = check(plane, config)
        assert (during["stage"], errors(during)) == ("during", [])

        plane.api.create(pods(namespace), waiting("new", nodes, "default-scheduler"))
        new = placed(plane, namespace, "new")
        assert new["metadata"]["annotations"][MARK] == "extender"
        served(plane, node)

        # HAMi's scheduler does not know of it yet, and assigns the same card.
        scheduler.filter(late, node, f"{card_of(new)},NVIDIA,{BIG},0:")
        scheduler.lock(late, node)
        assert scheduler.bind(late, node) == ""
        moved = placed(plane, namespace, "late")
        assert {card_of(each) for each in (before, new, moved)} == {f"GPU-{node}-{at}" for at in range(3)}
        served(plane, node)

        plane.api.delete(f"{HOOKS}/{HAMI_WEBHOOK}")
        after = check(plane, config)
        assert (after["stage"], errors(after)) == ("after", [])
        assert plane.api.get(f"{pods(namespace)}/old") == before
    api.close()
