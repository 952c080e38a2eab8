"""A pod with a real grace period makes room on the real kubelet: its place is taken when it has ended, not before."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final

import pytest

from tests.cluster.agents import NodeAgent, Numbers, card
from tests.cluster.api import Object
from tests.cluster.evictions import priority_classes
from tests.cluster.hami import HamiAllocator, allocated_to, hami_gpu
from tests.cluster.kubernetes import ControlPlane
from tests.cluster.node import Node
from tests.cluster.objects import pod
from tests.cluster.slices import pods, said, wanted
from tests.cluster.test_kube_scheduler_preemption import HIGH, LOW, VALUES
from tests.cluster.waiting import wait_until

GRACE: Final = 6
STUBBORN: Final = "trap '' TERM; while true; do sleep 1; done"
"""It ends when the kubelet kills it, at the end of its grace period."""


@pytest.fixture(scope="module")
def hami_agent(node: Node) -> Iterator[NodeAgent]:
    found = NodeAgent(node, "agent-preemption", settings={"dialect": "hami"})
    found.cards(card(1))
    try:
        found.start(10)
        yield found
    finally:
        found.stop()


@pytest.fixture(scope="module")
def allocator(control_plane: ControlPlane, hami_agent: NodeAgent) -> Iterator[HamiAllocator]:
    assert hami_agent.component.running
    told = {"mode": "full", "priorityClasses": [HIGH]}
    with priority_classes(control_plane, VALUES), HamiAllocator(control_plane, preemption=told) as server:
        yield server


def seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


@pytest.mark.usefixtures("allocator")
def test_the_room_of_a_pod_that_takes_its_time_to_end_is_given_when_it_has_ended(
    control_plane: ControlPlane, namespace: str, numbers: Numbers
) -> None:
    low = pod(
        "low",
        hami_gpu(memory=30_000, then=STUBBORN),
        priorityClassName=LOW,
        terminationGracePeriodSeconds=GRACE,
    )
    control_plane.api.create(pods(namespace), low)
    control_plane.wait_for_pod(namespace, "low", "Running")
    control_plane.api.create(pods(namespace), pod("high", hami_gpu(memory=20_000), priorityClassName=HIGH))

    def ending() -> Object:
        found: Object = control_plane.api.get(f"{pods(namespace)}/low")
        return found if found["metadata"].get("deletionTimestamp") else {}

    wait_until(ending, "the low pod is evicted", 30, interval=0.05)
    seen: list[tuple[bool, bool]] = []

    def high_is_bound() -> bool:
        high = control_plane.api.get(f"{pods(namespace)}/high")
        low = control_plane.api.find(f"{pods(namespace)}/low")
        runs = low is not None and low["status"]["phase"] == "Running"
        seen.append((bool(high["spec"].get("nodeName")), runs))
        return seen[-1][0]

    wait_until(high_is_bound, "the high pod is bound", 60, interval=0.05)
    found = control_plane.wait_for_pod(namespace, "high", "Running")
    assert (True, True) not in seen, "it was bound while the low pod still ran"
    assert len([each for each in seen if each[1]]) > 10, "the low pod took its time"
    shares = allocated_to(found)["main"]
    assert [each[1:] for each in shares] == [("20000", "0")]
    printed = said(control_plane, namespace, "high", "main").slice
    assert {key: text for key, text in printed.items() if key != "CUDA_DEVICE_MEMORY_SHARED_CACHE"} == wanted(shares)
    conditions = {each["type"]: each["lastTransitionTime"] for each in found["status"]["conditions"]}
    took = seconds(conditions["PodScheduled"]) - seconds(found["metadata"]["creationTimestamp"])
    numbers.add(f"preemption on the real kubelet, grace period {GRACE} s, to bound", f"{took:.0f} s", "")
    assert "evicts " in "".join(control_plane.events(namespace, "high"))
