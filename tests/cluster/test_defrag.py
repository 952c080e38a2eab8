"""``defrag --apply`` on the real API server.

Real controllers create moved pods again, and the real kube-scheduler places them. The nodes have no kubelet; one that
pretends runs what is bound and ends what is evicted.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from tests.cluster.api import Object
from tests.cluster.hami import HamiAllocator
from tests.cluster.hami_nodes import COUNT, MEMORY, HamiNodes, HamiPods
from tests.cluster.kubernetes import ControlPlane
from tests.cluster.objects import container, pod_spec
from tests.cluster.pretended_kubelet import GRACE, ServingKubelet
from tests.cluster.slices import pods
from tests.cluster.waiting import wait_until

LONGEST: Final = 240.0
"""Seconds that all moves may take on a busy machine."""


class Site(HamiPods):
    """Two nodes with one card of 40,960 MiB each, two workloads of one pod, and a pod that waits.

    ``one`` and ``two`` have to leave the first node, so that ``high`` fits there; the second has room for both next to
    ``stays``, which no controller would create again.
    """

    def __init__(self, plane: ControlPlane, nodes: HamiNodes, namespace: str, folder: Path) -> None:
        super().__init__(plane, nodes, namespace)
        self.journal = folder / "moves.jsonl"
        self.source, self.target = nodes.boot(2)
        self._workloads: list[str] = []

    def fill(self) -> None:
        """Everything runs but ``high``. While ``filler`` is there, both workloads have to go to the first node."""
        for name, memory in (("stays", 23_000), ("filler", 17_960)):
            self.create(name, memory, grace=GRACE, affinity=_on(self.target))
            self.wait_bound(name)
        self._run("one", 9_000, "ReplicaSet")
        self._run("two", 8_000, "StatefulSet")
        self.remove("filler")
        self.create("high", 38_000, grace=GRACE)
        wait_until(lambda: "Unschedulable" in json.dumps(self.see("high")["status"]), "high waits", 60)

    def _run(self, name: str, memory: int, kind: str) -> None:
        """A workload of one pod."""
        labels = {"app": name}
        limits: Mapping[str, int] = {COUNT: 1, MEMORY: memory}
        spec = pod_spec(container(limits=limits), restart="Always", grace=GRACE, nodeSelector=dict(self.nodes.selector))
        body: Object = {
            "apiVersion": "apps/v1",
            "kind": kind,
            "metadata": {"name": name},
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": spec},
                **({"serviceName": name} if kind == "StatefulSet" else {}),
            },
        }
        path = f"/apis/apps/v1/namespaces/{self.namespace}/{kind.lower()}s"
        self.plane.api.create(path, body)
        self._workloads.append(f"{path}/{name}")
        wait_until(lambda: self.where(name) == [self.source], f"{name} runs on {self.source}", 90, show=self.story)

    def remove_workloads(self) -> None:
        """So that no controller creates pods again that are deleted afterwards."""
        for each in self._workloads:
            self.plane.api.delete(each)

    def where(self, app: str) -> list[str]:
        """The nodes of the running pods of a workload."""
        found = self.plane.api.items(pods(self.namespace), labelSelector=f"app={app}")
        return [each["spec"]["nodeName"] for each in found if each["status"].get("phase") == "Running"]

    def story(self) -> str:
        every = self.plane.api.items(pods(self.namespace))
        return "\n".join(
            f"{each['metadata']['name']}: {each['spec'].get('nodeName')} {each['status']}" for each in every
        )

    def defrag(self, *words: str) -> subprocess.Popen[str]:
        """The command, running."""
        told = ["--kubeconfig", str(self.plane.admin_kubeconfig), "--journal", str(self.journal), "--wait", "120"]
        goal = () if "--resume" in words else ("--for", f"{self.namespace}/high")
        return subprocess.Popen(
            [sys.executable, "-m", "hami_plugins.cli", "defrag", *goal, *told, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def ended(self, running: subprocess.Popen[str]) -> tuple[int, str]:
        """Exit code and output of the command."""
        said, _ = running.communicate(timeout=LONGEST)
        return running.returncode, said

    def marks(self) -> list[tuple[int, str]]:
        """What the journal says of the moves, in its order."""
        lines = self.journal.read_text().splitlines() if self.journal.exists() else []
        told: list[dict[str, Any]] = [json.loads(line) for line in lines if line.endswith("}")]
        return [(each["step"], each["mark"]) for each in told if "mark" in each]


def _on(node: str) -> Object:
    """The affinity of a pod that may only go to this node."""
    terms = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


@pytest.fixture(scope="module")
def allocator(control_plane: ControlPlane) -> Iterator[HamiAllocator]:
    with HamiAllocator(control_plane) as server:
        yield server


@pytest.fixture
def kubelet(allocator: HamiAllocator, control_plane: ControlPlane, namespace: str) -> Iterator[ServingKubelet]:
    assert allocator.replica.ready
    nodes = HamiNodes(control_plane)
    running = ServingKubelet(control_plane, nodes, namespace)
    with nodes, running:
        yield running
        assert not running.faults


@pytest.fixture
def site(kubelet: ServingKubelet, control_plane: ControlPlane, namespace: str, tmp_path: Path) -> Iterator[Site]:
    assert isinstance(kubelet.pool, HamiNodes)
    made = Site(control_plane, kubelet.pool, namespace, tmp_path)
    try:
        made.fill()
        yield made
    finally:
        made.remove_workloads()


def evicted(kubelet: ServingKubelet) -> list[str]:
    """The workloads whose pods were evicted."""
    return [name.partition("-")[0] for name in kubelet.victims if name != "filler"]


def test_two_pods_move_and_the_waiting_pod_runs(site: Site, kubelet: ServingKubelet) -> None:
    code, said = site.ended(site.defrag("--apply"))
    assert code == 0, said
    assert "/one-" in said
    assert f"/two-0: evicted from {site.source}, runs as two-0 on {site.target}" in said
    assert sorted(site.marks()) == [(0, "begun"), (0, "landed"), (1, "begun"), (1, "landed")]
    assert site.where("one") == site.where("two") == [site.target]
    assert evicted(kubelet) == ["one", "two"]
    assert site.wait_bound("high")["spec"]["nodeName"] == site.source


def test_a_command_that_is_killed_between_two_moves_is_resumed(site: Site, kubelet: ServingKubelet) -> None:
    running = site.defrag("--apply")
    wait_until(lambda: (0, "landed") in site.marks(), "the first move has ended", LONGEST, interval=0.005)
    running.kill()
    running.communicate()
    assert (1, "landed") not in site.marks()
    code, said = site.ended(site.defrag("--resume"))
    assert code == 0, said
    assert "  2  " in said
    assert "  1  " not in said, "the first move is not made again"
    assert (1, "landed") in site.marks()
    assert site.where("one") == site.where("two") == [site.target]
    assert evicted(kubelet) == ["one", "two"]
    assert site.wait_bound("high")["spec"]["nodeName"] == site.source


def test_a_budget_that_forbids_the_second_eviction_stops_it_and_nothing_is_lost(
    site: Site, kubelet: ServingKubelet
) -> None:
    """The budget is made after the plan, so that the real API server refuses the eviction."""
    running = site.defrag("--apply")
    wait_until(site.marks, "the first move has begun", LONGEST, interval=0.005)
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "two"}}}
    body = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "two"}, "spec": spec}
    path = f"/apis/policy/v1/namespaces/{site.namespace}/poddisruptionbudgets"
    site.plane.api.create(path, body)
    code, said = site.ended(running)
    assert code == 1, said
    assert evicted(kubelet) == ["one"]
    assert site.where("two") == [site.source]
    site.plane.api.delete(f"{path}/two")
    code, said = site.ended(site.defrag("--resume"))
    assert code == 0, said
    assert evicted(kubelet) == ["one", "two"]
