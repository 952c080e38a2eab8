"""HAMi's device plugin for NVIDIA, as a peer, behind the allocator and the real kube-scheduler.

Nodes have no kubelet; a stand-in asks the plugin for one pod after the other, as the kubelet does.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from signal import SIGKILL
from typing import Final

import pytest

from hami_plugins.kube.client import connect
from tests.cluster.agents import GPU, Numbers
from tests.cluster.api import Object
from tests.cluster.card_nodes import NODES, Pool
from tests.cluster.hami import HamiAllocator, allocated_to, hami_gpu
from tests.cluster.kubernetes import ControlPlane
from tests.cluster.objects import pod
from tests.cluster.slices import pods
from tests.cluster.waiting import wait_until
from tests.device_plugins.base import LOCK, notes_of
from tests.device_plugins.hami import nvidia
from tests.device_plugins.kubelets import Kubelets

CARDS: Final = 8
NAMES: Final = 3
BURST: Final = 60
KILLS: Final = 3


@pytest.fixture(scope="module")
def allocator(control_plane: ControlPlane) -> Iterator[HamiAllocator]:
    with HamiAllocator(control_plane) as server:
        yield server


@pytest.fixture
def nodes(control_plane: ControlPlane) -> Iterator[Pool]:
    with Pool(control_plane) as pool:
        for at in range(NAMES):
            name = f"{pool.name}-{at}"
            control_plane.api.create(NODES, a_node(name, pool))
            pool.cards[name] = ()
        untainted = lambda: not any(_of(pool, name)["spec"].get("taints") for name in pool.cards)  # noqa: E731
        wait_until(untainted, "the nodes take pods", 120)
        yield pool


def a_node(name: str, pool: Pool) -> Object:
    """A node as HAMi's plugin registers it: it offers a number of cards, and neither memory nor cores."""
    unique = secrets.token_hex(6)
    register = [
        {"id": f"GPU-{at:08x}-0000-0000-0000-{unique}", "index": at, "count": 10, "devmem": 40_960, "devcore": 100}
        | {"type": "NVIDIA A100", "mode": "hami-core", "health": True}
        for at in range(CARDS)
    ]
    notes = {
        "hami.io/node-nvidia-register": json.dumps(register),
        "hami.io/node-handshake": "Requesting_2099-01-01 00:00:00",
    }
    amounts = {"cpu": "96", "memory": "1024Gi", "pods": "500", GPU: str(10 * CARDS)}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    labels = {"kubernetes.io/hostname": name, **pool.selector}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": notes},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": [ready]},
    }


def _of(pool: Pool, name: str) -> Object:
    return pool.plane.api.get(f"{NODES}/{name}")


@contextmanager
def kubelets(pool: Pool) -> Iterator[Kubelets]:
    """The stand-ins of all nodes, each with the plugin."""
    api = pool.plane.api
    watching = connect(kubeconfig=str(pool.plane.admin_kubeconfig), component="kubelets")
    plugins = {name: {GPU: nvidia(api, name)} for name in pool.cards}
    try:
        with Kubelets(watching=watching, api=api, plugins=plugins) as running:
            yield running
    finally:
        watching.close()


def _has_served(running: Kubelets, count: int) -> bool:
    return len(running.served) >= count


def submit(pool: Pool, namespace: str, name: str, *containers: Object, init: Sequence[Object] = ()) -> None:
    body = pod(name, *containers, init=init, nodeSelector=dict(pool.selector))
    pool.plane.api.create(pods(namespace), body)


def wait_served(pool: Pool, namespace: str, running: Kubelets, containers: int, timeout: float) -> None:
    """All containers have the devices of their own pod's allocation, and no lock is left."""

    def story() -> str:
        found = pool.plane.api.items(pods(namespace))
        waiting = [each["metadata"]["name"] for each in found if not each["spec"].get("nodeName")]
        return f"{len(running.served)} served; not bound: {waiting[:5]}; refused: {running.refused}"

    wait_until(lambda: len(running.served) >= containers, f"{containers} containers are served", timeout, show=story)
    wait_until(lambda: not any(LOCK in notes_of(_of(pool, name)) for name in pool.cards), "no lock is left")
    assert not running.refused
    assert len(running.served) == containers
    every = {each["metadata"]["name"]: each for each in pool.plane.api.items(pods(namespace))}
    for served in running.served:
        assert served.right, served
        own = [
            ",".join((card, "NVIDIA", *amounts)) for card, *amounts in allocated_to(every[served.pod])[served.container]
        ]
        assert list(served.answer.devices) == own
        assert notes_of(every[served.pod])["hami.io/bind-phase"] == "success"


@pytest.mark.usefixtures("allocator")
def test_a_burst_of_pods_on_a_few_nodes_is_served_pod_by_pod(nodes: Pool, namespace: str, numbers: Numbers) -> None:
    with kubelets(nodes) as running:
        began = time.monotonic()
        for at in range(BURST):
            submit(nodes, namespace, f"p{at}", hami_gpu(memory=1000 + at))
        wait_served(nodes, namespace, running, BURST, 120)
        took = max(each.at for each in running.served) - began
    text = f"{BURST} pods at once on {NAMES} nodes with HAMi's plugin, created to all served"
    numbers.add(text, f"{took:.1f} s", "no lock is left")


@pytest.mark.usefixtures("allocator")
def test_each_container_of_a_pod_is_served_before_the_next_pod(nodes: Pool, namespace: str) -> None:
    with kubelets(nodes) as running:
        for at in range(6):
            two = [hami_gpu(name, memory=size) for name, size in (("a", 2000), ("b", 3000))]
            submit(nodes, namespace, f"p{at}", *two, init=[hami_gpu("before", memory=1000)])
        wait_served(nodes, namespace, running, 18, 90)


def test_no_pod_is_served_as_another_one_while_the_allocator_is_killed(
    allocator: HamiAllocator, nodes: Pool, namespace: str
) -> None:
    count = 30
    with kubelets(nodes) as running:
        for at in range(count):
            submit(nodes, namespace, f"p{at}", hami_gpu(memory=1000 + at))
        for kill in range(1, KILLS + 1):
            some = kill * count // (KILLS + 1)
            wait_until(partial(_has_served, running, some), f"{some} pods are served", 60)
            allocator.replica.component.restart(SIGKILL)
        wait_served(nodes, namespace, running, count, 180)
