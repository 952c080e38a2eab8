"""The real descheduler beside the allocator: what it evicts gets devices again, and nothing is counted twice or lost.

The nodes have no kubelet: one that pretends runs what is bound and ends what is evicted.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest
import yaml

from tests.cluster.api import Object
from tests.cluster.hami import HamiAllocator
from tests.cluster.hami_nodes import COUNT, MEMORY, HamiNodes, HamiPods
from tests.cluster.kubernetes import EVERYTHING, ControlPlane
from tests.cluster.objects import container, pod_spec
from tests.cluster.pretended_kubelet import GRACE, ServingKubelet
from tests.cluster.slices import pods
from tests.cluster.waiting import wait_until

MIB: Final = 1 << 20
OLDER: Final = 3
"""Seconds for which pods run: it compares ages in whole seconds, and evicts those that are older than one."""


class Descheduler:
    """Run once each time; it may do everything."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self._kubeconfig = plane.kubeconfig("descheduler", plane.account("descheduler", EVERYTHING))

    def run(self, namespace: str, **evictor: Any) -> str:
        """Evicts what runs in a namespace for a second or more, as far as ``evictor`` lets it. What it printed."""
        plugins = {
            "PodLifeTime": {"maxPodLifeTimeSeconds": 1, "namespaces": {"include": [namespace]}},
            "DefaultEvictor": evictor,
        }
        profile = {
            "name": "test",
            "pluginConfig": [{"name": name, "args": args} for name, args in plugins.items()],
            "plugins": {"deschedule": {"enabled": ["PodLifeTime"]}},
        }
        body = {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy", "profiles": [profile]}
        policy = self.plane.machine.root / "descheduler.yaml"
        policy.write_text(yaml.safe_dump(body))
        words = [
            str(self.plane.programs["descheduler"]),
            f"--client-connection-kubeconfig={self._kubeconfig}",
            f"--policy-config-file={policy}",
            "--descheduling-interval=0",
            "--disable-metrics=true",
            "--bind-address=127.0.0.1",
            "--secure-port=0",
            "--v=4",
        ]
        done = self.plane.machine.run(words, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stderr + done.stdout


@pytest.fixture(scope="module")
def descheduler(control_plane: ControlPlane) -> Descheduler:
    return Descheduler(control_plane)


@pytest.fixture(scope="module")
def allocator(control_plane: ControlPlane) -> Iterator[HamiAllocator]:
    with HamiAllocator(control_plane) as server:
        yield server


class Site(HamiPods):
    """Two nodes of one card with pods of several kinds that run: of controllers, of one with a budget, and bare."""

    def __init__(self, plane: ControlPlane, nodes: HamiNodes, namespace: str) -> None:
        super().__init__(plane, nodes, namespace)
        nodes.boot(2)
        self._controllers = f"/apis/apps/v1/namespaces/{namespace}/replicasets"

    def fill(self) -> None:
        """Everything runs."""
        self._replicas("moves", 2, 9_000)
        self._replicas("kept", 1, 8_000)
        budget = {"minAvailable": 1, "selector": {"matchLabels": {"app": "kept"}}}
        body = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "kept"}, "spec": budget}
        self.plane.apply(f"/apis/policy/v1/namespaces/{self.namespace}/poddisruptionbudgets", body)
        self.create("bare", 7_000, grace=GRACE)
        wait_until(lambda: len(self.running()) == 4, "all pods run", 60, show=lambda: str(self.running()))
        time.sleep(OLDER)
        budget_path = f"/apis/policy/v1/namespaces/{self.namespace}/poddisruptionbudgets/kept"
        wait_until(
            lambda: self.plane.api.get(budget_path)["status"].get("currentHealthy") == 1, "the budget counts", 60
        )

    def _replicas(self, name: str, count: int, memory: int) -> None:
        limits: Mapping[str, int] = {COUNT: 1, MEMORY: memory}
        spec = pod_spec(container(limits=limits), restart="Always", grace=GRACE, nodeSelector=dict(self.nodes.selector))
        inner = {"metadata": {"labels": {"app": name}}, "spec": spec}
        wanted = {"replicas": count, "selector": {"matchLabels": {"app": name}}, "template": inner}
        body: Object = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name}, "spec": wanted}
        self.plane.api.create(self._controllers, body)

    def running(self) -> dict[str, str]:
        """The names of the pods that run and are to stay, by their UIDs."""
        every = self.plane.api.items(pods(self.namespace))
        return {
            each["metadata"]["uid"]: each["metadata"]["name"]
            for each in every
            if each["status"].get("phase") == "Running" and not each["metadata"].get("deletionTimestamp")
        }

    def remove_controllers(self) -> None:
        """So that nobody creates pods again that are deleted afterwards."""
        self.plane.api.delete(self._controllers)


@pytest.fixture
def site(allocator: HamiAllocator, control_plane: ControlPlane, namespace: str) -> Iterator[Site]:
    assert allocator.replica.ready
    nodes = HamiNodes(control_plane)
    with nodes, ServingKubelet(control_plane, nodes, namespace) as kubelet:
        made = Site(control_plane, nodes, namespace)
        made.fill()
        yield made
        made.remove_controllers()
        assert not kubelet.faults


def test_what_it_evicts_has_devices_again_and_a_budget_and_bare_pods_are_left_alone(
    descheduler: Descheduler, site: Site, allocator: HamiAllocator
) -> None:
    before = site.running()
    said = descheduler.run(site.namespace)

    def again() -> dict[str, str]:
        found = site.running()
        return found if len(found) == 4 and found != before else {}

    after = wait_until(again, "all pods run again", 90, show=lambda: f"{site.running()}\n{said}")
    wait_until(lambda: len(site.plane.api.items(pods(site.namespace))) == 4, "the evicted pods have ended", 60)
    stayed = {name.partition("-")[0] for uid, name in before.items() if uid in after}
    assert stayed == {"kept", "bare"}, said
    assert not site.nodes.faults()
    held = (2 * 9_000 + 8_000 + 7_000) * MIB
    metric = allocator.replica.metric
    wait_until(
        lambda: metric("hami_allocator_allocated_memory_bytes", pod_namespace=site.namespace) == held, "the sums"
    )
    assert metric("hami_allocator_findings") == 0


def test_with_node_fit_it_evicts_no_slice_because_no_node_reports_memory_of_devices(
    descheduler: Descheduler, site: Site
) -> None:
    """Though the other node has room. It compares requests with what nodes report, and asks no extender."""
    before = site.running()
    said = descheduler.run(site.namespace, nodeFit=True)
    assert site.running() == before
    assert f"insufficient {MEMORY}" in said
