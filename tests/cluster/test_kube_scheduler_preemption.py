"""Pods make room for a pod of higher priority under the real kube-scheduler, and none leaves in vain.

The nodes have no kubelet: one that pretends runs what is bound and ends what is deleted, and holds each moment against
the cards.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from functools import partial
from signal import SIGKILL
from typing import Any, Final

import pytest

from hami_plugins.cli import main
from tests.cluster.agents import Numbers
from tests.cluster.allocator import Replica
from tests.cluster.api import Object
from tests.cluster.eviction_episodes import random_episodes
from tests.cluster.evictions import priority_classes
from tests.cluster.hami import HamiAllocator
from tests.cluster.hami_nodes import HamiNodes, HamiPods
from tests.cluster.kubernetes import ControlPlane
from tests.cluster.pretended_kubelet import GRACE, PretendedKubelet, ServingKubelet
from tests.cluster.slices import pods
from tests.cluster.waiting import wait_until

LOW, MID, HIGH = "devices-low", "devices-mid", "devices-high"
VALUES: Final = {LOW: 100, MID: 500, HIGH: 1_000_000}
ROUNDS: Final = 20
"""Pods of which the slowest counts."""


class Site(HamiPods):
    """One test's pods and nodes."""

    def __init__(
        self,
        plane: ControlPlane,
        nodes: HamiNodes,
        namespace: str,
        kubelet: PretendedKubelet,
        server: Replica,
    ) -> None:
        super().__init__(plane, nodes, namespace)
        self.pool = nodes
        self.kubelet = kubelet
        self.server = server

    def ready(self) -> bool:
        return self.server.ready

    def create(self, name: str, memory: int, **spec: Any) -> Object:
        return super().create(name, memory, grace=GRACE, **spec)

    def submit_low(self, name: str, memory: int) -> None:
        self.create(name, memory, priorityClassName=LOW)

    def submit_high(self, name: str, memory: int) -> None:
        self.create(name, memory, priorityClassName=HIGH)

    def run(self, name: str, memory: int, priority: str = LOW, **spec: Any) -> None:
        """A pod that runs."""
        self.create(name, memory, priorityClassName=priority, **spec)
        wait_until(lambda: self.is_running(name), f"{name} runs", 60, show=lambda: self.told(name))

    def is_running(self, name: str) -> bool:
        return bool(self.see(name)["status"].get("phase") == "Running")

    def story(self) -> str:
        """The node of each pod, and its messages."""
        every = self.plane.api.items(pods(self.namespace))
        names = [each["metadata"]["name"] for each in every]
        told = (f"{name}: {self.see(name)['spec'].get('nodeName')} {self.told(name)}" for name in names)
        return "\n".join([*told, self.server.component.log()[-6000:]])

    def wait_node(self, name: str, timeout: float = 60.0) -> str:
        """The node of a pod that waits for one."""
        node = wait_until(
            lambda: self.see(name)["spec"].get("nodeName"), f"{name} is bound", timeout, interval=0.02, show=self.story
        )
        self.kubelet.wait_bound(name)
        return str(node)

    def wait_ending(self, *names: str) -> None:
        """Until they are deleted; they are there still."""
        wait_until(lambda: self.kubelet.victims == sorted(names), f"{names} end", 30, interval=0.02)
        assert all(self.see(name)["metadata"]["deletionTimestamp"] for name in names)

    def budget(self, app: str) -> None:
        """No pod with this label may leave."""
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}}
        body = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": app}, "spec": spec}
        self.plane.apply(f"/apis/policy/v1/namespaces/{self.namespace}/poddisruptionbudgets", body)

    def label(self, name: str, app: str) -> None:
        self.plane.api.merge_patch(f"{pods(self.namespace)}/{name}", {"metadata": {"labels": {"app": app}}})


@pytest.fixture(scope="module")
def allocator(control_plane: ControlPlane) -> Iterator[HamiAllocator]:
    told = {"mode": "full", "priorityClasses": [HIGH], "perHour": 1_000}
    with priority_classes(control_plane, VALUES), HamiAllocator(control_plane, preemption=told) as server:
        yield server


@pytest.fixture
def site(allocator: HamiAllocator, control_plane: ControlPlane, namespace: str) -> Iterator[Site]:
    assert allocator.replica.ready
    nodes = HamiNodes(control_plane)
    with nodes, ServingKubelet(control_plane, nodes, namespace) as kubelet:
        yield Site(control_plane, nodes, namespace, kubelet, allocator.replica)
        assert not kubelet.faults


def test_one_pod_leaves_where_the_sums_suffice_and_no_card_has_room(
    site: Site, numbers: Numbers, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two cards with 10,960 MiB left each; twenty times, and the slowest counts."""
    site.nodes.boot(cards=2)
    site.run("low", 30_000)
    site.run("mid", 30_000, MID)
    slowest = 0.0
    for at in range(ROUNDS):
        began = time.monotonic()
        site.create(f"high-{at}", 20_000, priorityClassName=HIGH)
        site.wait_node(f"high-{at}")
        slowest = max(slowest, time.monotonic() - began)
        if not at:
            assert site.kubelet.victims == ["low"]
            assert "(priority 1000000, this pod 100)" in site.wait_told("low", "evicted for pod")
            assert "(priority 100, node" in site.wait_told("high-0", "evicts ")
            evicted = f"{site.namespace}/low"
            main(["explain", "pod", evicted, "--kubeconfig", str(site.plane.admin_kubeconfig)])
            assert f"its place goes to {site.namespace}/high-0" in "".join(capsys.readouterr())
        site.remove(f"high-{at}")
        site.run(f"low-{at}", 30_000)
    assert "mid" not in site.kubelet.victims
    lows = ["low", *(f"low-{at}" for at in range(ROUNDS - 1))]
    assert [each for each in site.kubelet.victims if each.startswith("low")] == sorted(lows)
    numbers.add(f"preemption by our own evictions, slowest of {ROUNDS}, to bound", f"{slowest:.2f} s", "<= 2 s")


def test_the_scheduler_evicts_the_pods_of_the_card_that_the_pod_gets(site: Site) -> None:
    """All ten slots of a card are taken: kube-scheduler would evict one pod, and five are needed."""
    site.nodes.boot()
    for at in range(10):
        site.run(f"low-{at}", 4_000)
    site.create("high", 20_000, priorityClassName=HIGH)
    site.wait_node("high")
    assert len(site.kubelet.victims) == 5


def test_nobody_gets_the_room_while_the_victim_ends_also_when_the_server_is_killed(
    site: Site, allocator: HamiAllocator
) -> None:
    site.nodes.boot()
    site.run("low", 30_000)
    site.kubelet.ends = 12.0
    site.create("high", 20_000, priorityClassName=HIGH)
    site.wait_ending("low")
    component = allocator.replica.component
    component.restart(SIGKILL)
    wait_until(lambda: allocator.replica.ready, "the server answers again", 60, show=component.log)
    for at in range(4):
        site.create(f"mid-{at}", 5_000, priorityClassName=MID)
    site.wait_node("high")
    ended = site.kubelet.gone["low"]
    early = [name for name, at in site.kubelet.bound.items() if name.startswith("mid") and at < ended]
    assert len(early) <= 2, "10,960 MiB were free next to the victim"
    assert site.kubelet.victims == ["low"]
    late = site.kubelet.bound["high"] - site.kubelet.gone["low"]
    assert late < 60, "it is tried again after kube-scheduler's back-off of at most 10 s, not after its five minutes"


def test_a_budget_keeps_its_pod_and_the_other_leaves(site: Site) -> None:
    site.nodes.boot(2)
    app = f"app-{secrets.token_hex(3)}"
    site.run("kept", 30_000)
    site.run("free", 30_000)
    site.label("kept", app)
    site.budget(app)
    site.create("high", 20_000, priorityClassName=HIGH)
    site.wait_node("high")
    assert site.kubelet.victims == ["free"]
    site.create("second", 30_000, priorityClassName=HIGH)
    said = site.wait_told("second", "no pods can be evicted for this pod")
    assert f"its PodDisruptionBudget {app} allows 0 more" in said
    assert site.kubelet.victims == ["free"]


def test_a_pod_that_is_deleted_meanwhile_leaves_the_room_to_others(site: Site, allocator: HamiAllocator) -> None:
    site.nodes.boot()
    site.run("low", 30_000)
    site.kubelet.ends = 300.0
    site.create("high", 20_000, priorityClassName=HIGH)
    site.wait_ending("low")
    site.create("mid", 40_000, priorityClassName=MID)
    site.remove("high")
    site.remove("low")
    site.wait_node("mid")
    assert site.kubelet.victims == ["low"]
    assert allocator.replica.metric("hami_allocator_assumptions", state="nominated") == 0


def test_pods_of_equal_priority_wait(site: Site) -> None:
    site.nodes.boot()
    site.run("high-1", 30_000, HIGH)
    site.create("high-2", 20_000, priorityClassName=HIGH)
    assert "its priority 1000000 is not below 1000000" in site.wait_told("high-2", "no pods can be evicted")
    assert site.kubelet.victims == []


def test_nobody_leaves_in_vain_and_no_more_than_needed_whoever_is_killed(
    site: Site, allocator: HamiAllocator, numbers: Numbers
) -> None:
    site.nodes.boot(2, cards=2)
    killed = [partial(each.restart, SIGKILL) for each in (allocator.replica.component, allocator.scheduler)]
    random_episodes(site, numbers, "kube-scheduler", killed)
