"""What kube-scheduler does with claims, on many small clusters at a time: the recorded answers are still its answers.

``HAMI_PLUGINS_RECORD_CLAIMS=1`` writes those of the release anew.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import pytest
import yaml

from tests.cluster.api import Object
from tests.cluster.kubernetes import CLAIM_GATES, ControlPlane
from tests.cluster.processes import Component
from tests.cluster.waiting import NotInTimeError, wait_until
from tests.golden.claim_clusters import ANSWERS, CLUSTERS, ClaimCluster, answers, apart, recorded

SCHEDULER: Final = "claims-scheduler"
LABEL: Final = "test/claims"
NOT_QUEUED: Final = 5.0
"""Seconds of a quiet machine after which a pod that the scheduler says nothing of counts as held back."""

ADMIN: Final = {"resource.k8s.io/admin-access": "true", "resource.kubernetes.io/admin-access": "true"}
RESOURCES: Final = "/apis/resource.k8s.io/v1"
COLLECTIONS: Final = {
    "Node": "/api/v1/nodes",
    "DeviceClass": f"{RESOURCES}/deviceclasses",
    "ResourceSlice": f"{RESOURCES}/resourceslices",
    "ResourceClaim": f"{RESOURCES}/namespaces/{{}}/resourceclaims",
    "ResourceClaimTemplate": f"{RESOURCES}/namespaces/{{}}/resourceclaimtemplates",
    "Pod": "/api/v1/namespaces/{}/pods",
}


@pytest.fixture(scope="module")
def scheduler(control_plane: ControlPlane) -> Iterator[Component]:
    """A second kube-scheduler, with all gates of claims."""
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(control_plane.admin_kubeconfig), "qps": 500, "burst": 500},
        "profiles": [{"schedulerName": SCHEDULER}],
    }
    path = control_plane.machine.root / f"{SCHEDULER}.yaml"
    path.write_text(yaml.safe_dump(config))
    found = control_plane.scheduler(SCHEDULER, f"--config={path}", f"--feature-gates={CLAIM_GATES}")
    found.start()
    yield found
    found.stop()


class Site:
    """One cluster among the others."""

    def __init__(self, plane: ControlPlane, number: int, cluster: ClaimCluster) -> None:
        self.plane, self.number, self.cluster = plane, number, cluster
        self.objects = cluster.accepted(plane.release)
        self.namespace = f"claims-{number}"
        self.placed: dict[str, bool] = {}
        self.told: dict[str, str] = {}

    def create_all_but_pods(self) -> None:
        body = {"metadata": {"name": self.namespace, "labels": ADMIN}}
        self.plane.api.create("/api/v1/namespaces", body)
        account = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/default"
        wait_until(lambda: self.plane.api.find(account), f"{account} is there", 60)
        for each in self.objects:
            if each["kind"] != "Pod":
                self._create(each)

    def submit(self, at: int) -> None:
        """The pod of that number, and what the scheduler does with it."""
        if at >= len(self.cluster.pods):
            return
        pod = self.cluster.pods[at]
        name = pod["metadata"]["name"]
        self._create(pod)
        try:
            answer = wait_until(lambda: self._answer(name), f"{name} is decided on", NOT_QUEUED)
        except NotInTimeError:  # the scheduler says nothing of a pod that it does not queue, as of a lost claim
            answer = ""
        self.placed[name] = answer == "placed"
        self.told[name] = answer

    def remove(self) -> None:
        for each in reversed(self.objects):
            if each["kind"] in {"Pod", "Node", "DeviceClass", "ResourceSlice"}:
                made = self._named(each)
                path = f"{COLLECTIONS[each['kind']].format(self.namespace)}/{made['metadata']['name']}"
                self.plane.api.delete(path, **({"grace": 0} if each["kind"] == "Pod" else {}))
        self.plane.api.delete(f"/api/v1/namespaces/{self.namespace}")

    def _see(self, name: str) -> Object:
        return self.plane.api.get(f"/api/v1/namespaces/{self.namespace}/pods/{name}")

    def _answer(self, name: str) -> str:
        """``placed``, the pod's message instead, or nothing yet."""
        pod = self._see(name)
        if pod["spec"].get("nodeName"):
            return "placed"
        conditions: list[Object] = pod["status"].get("conditions", [])
        told = [each.get("message", "") for each in conditions if each.get("type") == "PodScheduled"]
        early = any("not created yet" in each or "waiting for" in each for each in told)
        return "" if early or not any(told) else f"told: {told[0]}"

    def _create(self, raw: Object) -> None:
        self.plane.api.create(COLLECTIONS[raw["kind"]].format(self.namespace), self._named(raw))

    def _named(self, raw: Object) -> Object:
        made: dict[str, Any] = apart(self.number, raw)
        metadata, spec = made["metadata"], made.get("spec", {})
        if raw["kind"] in {"Node", "DeviceClass", "ResourceSlice"}:
            metadata["name"] = f"c{self.number}-{metadata['name']}"
        else:
            metadata["namespace"] = self.namespace
        if raw["kind"] == "Node":
            metadata["labels"] |= {LABEL: str(self.number), "kubernetes.io/hostname": metadata["name"]}
            made["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
            made["status"]["capacity"] = made["status"]["allocatable"]
        if raw["kind"] == "Pod":
            spec["schedulerName"] = SCHEDULER
            spec["nodeSelector"] = spec.get("nodeSelector", {}) | {LABEL: str(self.number)}
            spec["tolerations"] = [{"operator": "Exists"}]
        return made


def test_the_scheduler_decides_as_recorded(control_plane: ControlPlane, scheduler: Component) -> None:
    """All clusters at a time, pod by pod: the same pods are placed, and the same ones are held back."""
    sites = [Site(control_plane, at, cluster) for at, cluster in enumerate(CLUSTERS)]
    try:
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(Site.create_all_but_pods, sites))
            for at in range(max(len(each.cluster.pods) for each in sites)):
                list(threads.map(lambda site, at=at: site.submit(at), sites))
    finally:
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(Site.remove, sites))
    found = {site.cluster.name: site.placed for site in sites}
    if os.environ.get("HAMI_PLUGINS_RECORD_CLAIMS"):
        every = {**answers(), control_plane.release: found}
        ANSWERS.write_text(json.dumps(dict(sorted(every.items())), indent=1) + "\n", encoding="utf-8")
    assert found == recorded(control_plane.release), "\n".join(f"{site.cluster.name}: {site.told}" for site in sites)
