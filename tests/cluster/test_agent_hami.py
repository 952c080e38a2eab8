"""The agent in HAMi's dialect on the real kubelet, with our allocator before the real kube-scheduler.

The agent changes its dialect under pods that run.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.cluster.agents import CORES, MEMORY, NodeAgent, card, uuid
from tests.cluster.api import Object
from tests.cluster.hami import MARK, SCHEDULER, HamiAllocator, allocated_to, hami_gpu
from tests.cluster.kubernetes import NODE, ControlPlane
from tests.cluster.node import Node
from tests.cluster.objects import binding, pod
from tests.cluster.slices import IDS, gpu, plain, pods, said, volcano_pod, wait_refused, wanted
from tests.cluster.waiting import wait_until

REGISTER: Final = "hami.io/node-nvidia-register"
VOLCANO_REGISTER: Final = "volcano.sh/node-vgpu-register"
CARDS: Final = (1, 2)
SLOTS: Final = 20


def an_agent(node: Node, dialect: str) -> NodeAgent:
    found = NodeAgent(node, f"agent-{dialect}", settings={"dialect": dialect})
    found.cards(*map(card, CARDS))
    return found


@pytest.fixture(scope="module")
def hami_agent(node: Node) -> Iterator[NodeAgent]:
    found = an_agent(node, "hami")
    try:
        found.start(SLOTS)
        yield found
    finally:
        found.stop()


@pytest.fixture(scope="module")
def allocator(control_plane: ControlPlane, hami_agent: NodeAgent) -> Iterator[HamiAllocator]:
    with HamiAllocator(control_plane) as server:
        yield server


def amiss(plane: ControlPlane, found: Object) -> list[str]:
    """How what the containers printed differs from HAMi's annotation; empty where all is as allocated."""
    namespace, name, uid = (found["metadata"][key] for key in ("namespace", "name", "uid"))
    problems = []
    for container, devices in allocated_to(found).items():
        if not devices:
            continue
        printed = said(plane, namespace, name, container)
        given = {key: text for key, text in printed.slice.items() if key != "CUDA_DEVICE_MEMORY_SHARED_CACHE"}
        own_cache = printed.cache.endswith(f"/containers/{uid}_{container}")
        if given != wanted(devices) or printed.uid != uid or not own_cache:
            problems.append(f"{name}/{container}: allocated {devices} to {uid}, it has {given}, {printed.cache}")
    return problems


def listed(plane: ControlPlane, *arguments: str) -> str:
    """What ``hami-plugins nodes`` prints of the cluster."""
    cluster = ("--kubeconfig", str(plane.admin_kubeconfig))
    whole = [sys.executable, "-m", "hami_plugins.cli", "nodes", NODE, *arguments, *cluster]
    return subprocess.run(whole, check=False, capture_output=True, text=True).stdout


def events_of(plane: ControlPlane, namespace: str, name: str) -> str:
    found = plane.api.get(f"{pods(namespace)}/{name}")
    told = [str(each.get("message", "")) for each in found["status"].get("conditions", [])]
    return "\n".join([*told, *plane.events(namespace, name)])


def bound(plane: ControlPlane, namespace: str, body: Object, annotations: dict[str, str]) -> None:
    """A pod that a scheduler places with an allocation, as Volcano from 1.16 on and our allocator do."""
    made = plane.api.create(pods(namespace), body)
    name = body["metadata"]["name"]
    target = binding(name, NODE, annotations=annotations, uid=made["metadata"]["uid"])
    plane.api.create(f"{pods(namespace)}/{name}/binding", target)


def starts(plane: ControlPlane, namespace: str, name: str) -> int:
    """How often the pod's container has started again."""
    statuses = plane.api.get(f"{pods(namespace)}/{name}")["status"].get("containerStatuses") or [{}]
    return int(statuses[0].get("restartCount", 0))


def restarted(plane: ControlPlane, namespace: str, name: str, before: int) -> Object:
    """A pod whose container has started once more than ``before``, and runs."""

    def again() -> Object:
        found: Object = plane.api.get(f"{pods(namespace)}/{name}")
        (status,) = found["status"].get("containerStatuses") or [{}]
        return found if status.get("restartCount", 0) > before and status["state"].get("running") else {}

    return wait_until(again, f"{name} has started once more", 180, show=lambda: events_of(plane, namespace, name))


@pytest.mark.usefixtures("allocator")
def test_a_pod_in_hamis_words_runs_in_its_slices(
    hami_agent: NodeAgent, control_plane: ControlPlane, namespace: str
) -> None:
    body = pod(
        "walk",
        hami_gpu("main", memory=4096, cores=30),
        plain("idle"),
        hami_gpu("pair", gpus=2, memory=1000),
        init=[hami_gpu("init", memory=500, then="true")],
    )
    control_plane.api.create(pods(namespace), body)
    found = control_plane.wait_for_pod(namespace, "walk", "Running")
    assert (found["spec"]["schedulerName"], found["metadata"]["annotations"][MARK]) == (SCHEDULER, "extender")
    shares = allocated_to(found)
    assert [len(shares[name]) for name in ("init", "main", "idle", "pair")] == [1, 1, 0, 2]
    assert {each[1:] for each in shares["main"]} == {("4096", "30")}
    assert not amiss(control_plane, found)
    notes = found["metadata"]["annotations"]
    assert "hami.io/bind-phase" not in notes
    assert "hami.io/mutex.lock" not in hami_agent.object()["metadata"]["annotations"]
    cache = said(control_plane, namespace, "walk").env["CUDA_DEVICE_MEMORY_SHARED_CACHE"]
    assert cache.startswith("/usr/local/vgpu/")


@pytest.mark.usefixtures("allocator", "hami_agent")
def test_a_second_pod_waits_with_numbers_and_nodes_shows_what_is_held(
    control_plane: ControlPlane, namespace: str
) -> None:
    control_plane.api.create(pods(namespace), pod("first", hami_gpu(gpus=2, memory=30000)))
    control_plane.wait_for_pod(namespace, "first", "Running")
    control_plane.api.create(pods(namespace), pod("second", hami_gpu(memory=20000)))
    wait_until(
        lambda: "10,960" in events_of(control_plane, namespace, "second"),
        "the second pod is told how much is free",
        show=lambda: events_of(control_plane, namespace, "second"),
    )
    shown = json.loads(listed(control_plane, "-o", "json"))
    assert {uuid(number) for number in CARDS} <= set(_texts(shown))
    shown_to_people = listed(control_plane, "-o", "wide")
    assert f"{namespace}/first" in shown_to_people
    assert f"{namespace}/second since" in shown_to_people
    control_plane.api.delete(f"{pods(namespace)}/first", grace=0)
    found = control_plane.wait_for_pod(namespace, "second", "Running")
    assert not amiss(control_plane, found)
    assert f"{namespace}/second" in listed(control_plane, "-o", "wide")


def _texts(found: Any) -> Iterator[str]:
    if isinstance(found, dict):
        for each in found.values():
            yield from _texts(each)
    elif isinstance(found, list):
        for each in found:
            yield from _texts(each)
    elif isinstance(found, str):
        yield found


@pytest.mark.usefixtures("allocator")
def test_the_dialect_changes_in_both_directions_under_pods_that_run(
    hami_agent: NodeAgent, node: Node, control_plane: ControlPlane, namespace: str
) -> None:
    volcanos = an_agent(node, "volcano")
    first = pod("hami", hami_gpu(memory=30000, then="sleep 20"), restart="Always")
    control_plane.api.create(pods(namespace), first)
    held = control_plane.wait_for_pod(namespace, "hami", "Running")
    ((full, _, _),) = allocated_to(held)["main"]
    hami_agent.stop()
    try:
        volcanos.start(SLOTS)
        wait_until(lambda: not hami_agent.annotation(REGISTER), "HAMi's register is gone")
        count = starts(control_plane, namespace, "hami")
        assert not amiss(control_plane, restarted(control_plane, namespace, "hami", count))
        late = volcano_pod("late", gpu(memory=20000))
        notes = {"volcano.sh/vgpu-node": NODE, "volcano.sh/vgpu-time": "1"}
        bound(control_plane, namespace, late, {**notes, IDS: f"{full},NVIDIA,20000,0:"})
        assert f"{namespace}/hami" in wait_refused(control_plane, namespace, "late", "which has 40960")
        control_plane.api.delete(f"{pods(namespace)}/late", grace=0)
        (other,) = {uuid(number) for number in CARDS} - {full}
        old = volcano_pod("volcano", gpu(memory=25000, then="sleep 20"), restart="Always")
        bound(control_plane, namespace, old, {**notes, IDS: f"{other},NVIDIA,25000,0:"})
        control_plane.wait_for_pod(namespace, "volcano", "Running")
    finally:
        volcanos.stop()
        hami_agent.start(SLOTS)
    wait_until(lambda: not volcanos.annotation(VOLCANO_REGISTER), "Volcano's register is gone")
    wait_until(
        lambda: not {MEMORY, CORES} & hami_agent.object()["status"]["capacity"].keys() and not volcanos.offered(),
        "Volcano's sums and slots are gone",
    )
    before = said(control_plane, namespace, "volcano").slice
    restarted(control_plane, namespace, "volcano", starts(control_plane, namespace, "volcano"))
    assert said(control_plane, namespace, "volcano").slice == before
    # Neither card has 20000 MiB left: one is held by a pod of HAMi, the other by a pod of Volcano.
    control_plane.api.create(pods(namespace), pod("waits", hami_gpu(memory=20000)))
    wait_until(
        lambda: "15,960" in events_of(control_plane, namespace, "waits"),
        "what both pods hold counts",
        show=lambda: events_of(control_plane, namespace, "waits"),
    )
    control_plane.api.create(pods(namespace), pod("fits", hami_gpu(memory=15000)))
    found = control_plane.wait_for_pod(namespace, "fits", "Running")
    assert allocated_to(found)["main"][0][0] == other
    assert not amiss(control_plane, found)
