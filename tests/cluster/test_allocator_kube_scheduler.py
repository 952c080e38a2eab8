"""Pods in HAMi's words under the real kube-scheduler and API server, with the allocator as webhook and extender.

Nodes have no kubelet, so what counts is what the API server says: HAMi's plugins read nothing else.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from datetime import datetime

import pytest

from tests.cluster.agents import Numbers, seconds_since
from tests.cluster.hami import SCHEDULER, HamiAllocator
from tests.cluster.hami_nodes import REQUEUED, HamiNodes, HamiPods
from tests.cluster.kubernetes import ControlPlane
from tests.cluster.waiting import wait_until

RECORDED = {
    "hami-plugins.io/allocator": "extender",
    "hami.io/bind-phase": "allocating",
    "hami.io/bind-time": r"[0-9]+",
    "hami.io/vgpu-devices-allocated": r"GPU-{node}-0,NVIDIA,10000,0:;",
    "hami.io/vgpu-devices-to-allocate": r"GPU-{node}-0,NVIDIA,10000,0:;",
    "hami.io/vgpu-node": "{node}",
    "hami.io/vgpu-time": r"[0-9]+",
}
"""The annotations of a bound pod as HAMi 2.10 writes them (``hami-core`` in the corpus), and the mark."""


@pytest.fixture(scope="module")
def allocator(control_plane: ControlPlane) -> Iterator[HamiAllocator]:
    with HamiAllocator(control_plane) as server:
        yield server


@pytest.fixture
def nodes(control_plane: ControlPlane) -> Iterator[HamiNodes]:
    made = HamiNodes(control_plane)
    with made:
        yield made


@pytest.fixture
def submitted(control_plane: ControlPlane, nodes: HamiNodes, namespace: str) -> HamiPods:
    return HamiPods(control_plane, nodes, namespace)


def requeues(allocator: HamiAllocator) -> float:
    """How many pods the server has had tried again."""
    return allocator.replica.metric("hami_allocator_requeues_total")


@pytest.mark.usefixtures("allocator")
def test_a_pod_is_bound_with_the_annotations_and_the_label_that_hamis_scheduler_writes(
    nodes: HamiNodes, submitted: HamiPods
) -> None:
    (node,) = nodes.boot()
    made = submitted.create("p", 10_000)
    assert made["spec"]["schedulerName"] == SCHEDULER
    found = submitted.wait_bound("p")
    notes = found["metadata"]["annotations"]
    assert sorted(notes) == sorted(RECORDED)
    wrong = [key for key, text in RECORDED.items() if not re.fullmatch(text.format(node=node), notes[key])]
    assert not wrong, notes
    wait_until(
        lambda: submitted.see("p")["metadata"].get("labels", {}).get("hami.io/vgpu-node") == node,
        "the pod is labelled",
        10,
    )
    assert "FilteringFailed" not in submitted.told("p")
    assert not submitted.requeued()


def test_a_pod_that_waits_is_told_the_numbers_and_bound_at_once_when_the_holder_goes(
    allocator: HamiAllocator, nodes: HamiNodes, submitted: HamiPods, numbers: Numbers
) -> None:
    (node,) = nodes.boot()
    submitted.create("holder", 30_000)
    submitted.wait_bound("holder")
    submitted.create("next", 20_000)
    submitted.create("too-large", 50_000)
    submitted.wait_told("next", "FilteringFailed")
    said = submitted.told("next")
    assert f"1 of 1 node: memory: asked 20,000 MiB on 1 card; largest free 10,960 MiB ({node})" in said
    assert "ask for less nvidia.com/gpumem or wait until pods end" in said
    assert "no card here has that much" in submitted.wait_told("too-large", "FilteringFailed")
    before = requeues(allocator)
    began = time.monotonic()
    submitted.remove("holder")
    submitted.wait_bound("next", 30)
    took = time.monotonic() - began
    numbers.add("a pod that waits for a slice, from the holder's end to bound", seconds_since(began), "<= 2 s")
    submitted.wait_told("next", f"allocated on node {node}: GPU-{node}-0 (20,000 MiB)")
    time.sleep(3)
    assert "too-large" not in submitted.requeued()
    assert requeues(allocator) - before <= 1
    assert took < 10, "its back-off lasts 10 s at most, and five minutes pass without an event"


def test_a_raised_quota_has_the_scheduler_try_again_though_it_watches_no_quotas(
    allocator: HamiAllocator, nodes: HamiNodes, submitted: HamiPods, numbers: Numbers
) -> None:
    nodes.boot(2)
    for at in range(3):
        submitted.create(f"p{at}", 20_000, schedulingGates=[{"name": "test/wait"}])
    submitted.limit(20_000)
    denied = wait_until(lambda: submitted.denied(30_000), "the server knows the quota", 10)
    assert "exceeding resource quota (limits.nvidia.com/gpumem: asks 30,000, 20,000 left)" in denied
    for at in range(3):
        submitted.ungate(f"p{at}")
    waiting = wait_until(lambda: _unbound(submitted, 2), "one is bound", 60)
    for name in waiting:
        said = submitted.wait_told(name, "the namespace has 0 MiB left")
        assert "raise the namespace's ResourceQuota" in said
    time.sleep(2)
    assert not submitted.requeued()
    before, began = requeues(allocator), time.monotonic()
    submitted.limit(40_000)
    (last,) = wait_until(lambda: _unbound(submitted, 1), "the second is bound", 60, interval=0.02)
    took = time.monotonic() - began
    numbers.add("a pod that waits for its namespace's quota, from the raise to bound", seconds_since(began), "<= 2 s")
    time.sleep(3)
    assert requeues(allocator) - before == 1
    assert [each for each in waiting if each != last] == submitted.requeued()
    (name,) = submitted.requeued()
    assert datetime.fromisoformat(submitted.see(name)["metadata"]["annotations"][REQUEUED]).tzinfo is not None
    assert took < 10


def _unbound(submitted: HamiPods, count: int) -> list[str]:
    """The pods that wait, once they are so many; the plugin has served the others."""
    found = [submitted.see(f"p{at}") for at in range(3)]
    for each in found:
        if each["spec"].get("nodeName") and each["metadata"]["annotations"]["hami.io/bind-phase"] == "allocating":
            submitted.nodes.served(each)
    waiting = [each["metadata"]["name"] for each in found if not each["spec"].get("nodeName")]
    return waiting if len(waiting) == count else []
