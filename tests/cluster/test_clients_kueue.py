"""The real Kueue before the allocator: it admits pods by quota, which then get devices; what it evicts gives them back.

The nodes have no kubelet: one that pretends runs what is bound and ends what is evicted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import pytest

from hami_plugins.cli import main
from tests.cluster.api import Object
from tests.cluster.hami import HamiAllocator
from tests.cluster.hami_nodes import COUNT, MEMORY, HamiNodes
from tests.cluster.kubernetes import ControlPlane
from tests.cluster.kueue import PRIORITY, QUEUE, TOTAL_MEMORY, Kueue, workloads
from tests.cluster.objects import container, pod
from tests.cluster.pretended_kubelet import GRACE, ServingKubelet
from tests.cluster.slices import pods
from tests.cluster.waiting import wait_until

MIB: Final = 1 << 20
CORES: Final = "nvidia.com/gpucores"
TEAM: Final = "team"


@pytest.fixture(scope="module")
def allocator(control_plane: ControlPlane) -> Iterator[HamiAllocator]:
    with HamiAllocator(control_plane) as server:
        yield server


@pytest.fixture(scope="module")
def kueue(control_plane: ControlPlane) -> Iterator[Kueue]:
    with Kueue(control_plane) as manager:
        yield manager


class Site:
    """A queue of 16,000 MiB, and a node of two cards on which they fit many times."""

    def __init__(self, kueue: Kueue, allocator: HamiAllocator, nodes: HamiNodes, namespace: str) -> None:
        self.plane, self.nodes, self.namespace = kueue.plane, nodes, namespace
        self._kueue, self._allocator = kueue, allocator
        nodes.boot(cards=2)
        self.cover({COUNT: 4, TOTAL_MEMORY: 16_000})

    def create(self, name: str, memory: int, *, cards: int = 1, containers: int = 1, priority: str = "") -> None:
        """A pod of the queue, of equal containers; without memory it asks for whole cards."""
        limits = {COUNT: cards, **({MEMORY: memory} if memory else {})}
        equal = [container(f"main-{at}", limits=limits) for at in range(containers)]
        body = pod(name, *equal, nodeSelector=dict(self.nodes.selector), grace=GRACE)
        body["metadata"]["labels"] = {QUEUE: TEAM, **({PRIORITY: priority} if priority else {})}
        self.plane.api.create(pods(self.namespace), body)

    def see(self, name: str) -> Object | None:
        return self.plane.api.find(f"{pods(self.namespace)}/{name}")

    def wait_running(self, name: str) -> None:
        def running() -> bool:
            return ((self.see(name) or {}).get("status") or {}).get("phase") == "Running"

        wait_until(running, f"{name} runs", 60, show=lambda: f"{self.see(name)}\n{self._kueue.log()}")

    def cover(self, quota: Mapping[str, int]) -> None:
        """Give the queue this quota."""
        self._kueue.queue(self.namespace, TEAM, quota)

    def workload(self, name: str) -> Object:
        """Kueue's object for a pod."""
        uid = (self.see(name) or {})["metadata"]["uid"]
        found = self.plane.api.items(workloads(self.namespace), labelSelector=f"kueue.x-k8s.io/job-uid={uid}")
        assert len(found) == 1
        return found[0]

    def charged(self, name: str) -> Mapping[str, str]:
        """What Kueue counts of a pod that it has admitted."""
        (assigned,) = self.workload(name)["status"]["admission"]["podSetAssignments"]
        usage: Mapping[str, str] = assigned["resourceUsage"]
        return usage

    def wait_held(self, memory: int) -> None:
        """The allocator counts so many MiB for the namespace, and finds nothing wrong."""
        metric = self._allocator.replica.metric
        wait_until(
            lambda: metric("hami_allocator_allocated_memory_bytes", pod_namespace=self.namespace) == memory * MIB,
            f"{memory} MiB are held",
            30,
        )
        assert metric("hami_allocator_findings") == 0
        assert not self.nodes.faults()


@pytest.fixture
def site(kueue: Kueue, allocator: HamiAllocator, control_plane: ControlPlane, namespace: str) -> Iterator[Site]:
    nodes = HamiNodes(control_plane)
    with nodes, ServingKubelet(control_plane, nodes, namespace) as kubelet:
        yield Site(kueue, allocator, nodes, namespace)
        assert not kubelet.faults


def test_a_pod_waits_for_quota_with_the_reason_and_has_its_devices_once_it_is_admitted(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    """The quota counts memory times cards, as the queue's settings say."""
    site.create("two-cards", 6_000, cards=2)
    site.wait_running("two-cards")
    site.wait_held(12_000)
    site.create("waits", 5_000)
    waiting = site.see("waits")
    assert waiting is not None
    assert {"name": "kueue.x-k8s.io/admission"} in waiting["spec"]["schedulingGates"]
    main(["explain", "pod", f"{site.namespace}/waits", "--kubeconfig", str(site.plane.admin_kubeconfig)])
    said = " ".join("".join(capsys.readouterr()).split())
    assert f"kueue.x-k8s.io/admission: Kueue removes it when LocalQueue {TEAM} admits the pod" in said
    site.plane.api.delete(f"{pods(site.namespace)}/two-cards")
    site.wait_running("waits")
    site.wait_held(5_000)


def test_a_pod_that_kueue_evicts_gives_its_devices_to_the_one_of_higher_priority(site: Site, kueue: Kueue) -> None:
    kueue.priority("high", 1_000)
    kueue.priority("low", 10)
    site.create("low", 9_000, priority="low")
    site.wait_running("low")
    site.create("high", 12_000, priority="high")
    site.wait_running("high")
    wait_until(lambda: site.see("low") is None, "the evicted pod is gone", 60, show=kueue.log)
    site.wait_held(12_000)


def test_quota_counts_containers_before_it_multiplies(site: Site) -> None:
    """Unlike the allocator; an operator has to know it to choose quotas."""
    site.create("two-containers", 1_000, containers=2)
    site.wait_running("two-containers")
    site.wait_held(2_000)
    assert site.charged("two-containers") == {COUNT: "2", TOTAL_MEMORY: "4k"}


def test_a_whole_card_waits_for_a_quota_of_the_cores_that_the_webhook_adds_and_counts_no_memory(site: Site) -> None:
    site.create("whole-card", 0)
    wait_until(
        lambda: f"resource {CORES} unavailable in ClusterQueue" in str(site.workload("whole-card")),
        "Kueue says what is not covered",
        60,
        show=lambda: str(site.workload("whole-card")),
    )
    site.cover({COUNT: 4, TOTAL_MEMORY: 16_000, CORES: 400})
    site.wait_running("whole-card")
    assert site.charged("whole-card") == {COUNT: "1", CORES: "100"}
