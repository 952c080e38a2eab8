"""A namespace that HAMi and Volcano schedule, in a cluster that Koordinator knows: its objects as values."""

from __future__ import annotations

from typing import Any

Raw = dict[str, Any]

RECORD = "scheduling.koordinator.sh/device-allocated"
HAMI_RECORD = "hami.io/vgpu-devices-allocated"
HAMI = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "8192", "nvidia.com/gpucores": "40"}
VOLCANO = {"volcano.sh/vgpu-number": "2", "volcano.sh/vgpu-memory": "4096", "volcano.sh/vgpu-cores": "50"}


def a_template(limits: dict[str, str], scheduler: str, **metadata: Any) -> Raw:
    container = {"name": "main", "image": "app:1", "resources": {"limits": limits}}
    labels = {"labels": {"app": "x"}}
    return {"metadata": labels | metadata, "spec": {"schedulerName": scheduler, "containers": [container]}}


def a_workload(name: str, template: Raw, *, kind: str = "Deployment", version: str = "apps/v1") -> Raw:
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "x"}}, "template": template}
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": "ml"}, "spec": spec}


def a_pod(name: str, card: str, *, node: str = "gpu-1") -> Raw:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "serving-1", "uid": "u", "controller": True}
    template = a_template(HAMI, "hami-scheduler")
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "ml",
            "annotations": {HAMI_RECORD: f"{card},NVIDIA,8192,40:;"},
            "ownerReferences": [owner],
        },
        "spec": {**template["spec"], "nodeName": node},
        "status": {"phase": "Running"},
    }


def a_cluster() -> list[Raw]:
    """A namespace that HAMi and Volcano schedule, on a node that Koordinator knows the cards of."""
    resources = {"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory": "24Gi"}
    cards = [{"type": "gpu", "id": f"GPU-{at}", "minor": at, "health": True, "resources": resources} for at in range(2)]
    device = {"metadata": {"name": "gpu-1"}, "spec": {"devices": cards}}
    group = {"metadata": {"name": "team", "namespace": "ml"}, "spec": {"minMember": 2}}
    gang = {"annotations": {"scheduling.k8s.io/group-name": "team"}}
    job = a_workload("once", a_template(HAMI, "hami-scheduler"), kind="Job", version="batch/v1")
    job["spec"] = {"template": job["spec"]["template"]}
    job["spec"]["template"]["spec"]["restartPolicy"] = "Never"
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ml"}},
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "gpu-1"}},
        {"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Device", **device},
        {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", **group},
        a_workload("serving", a_template(HAMI, "hami-scheduler")),
        a_workload("training", a_template(VOLCANO, "volcano", **gang), kind="StatefulSet"),
        a_workload("plain", a_template({"cpu": "1"}, "default-scheduler")),
        job,
        a_pod("serving-1-a", "GPU-1"),
    ]


def a_group(**spec: Any) -> Raw:
    """A PodGroup that a user has created for Koordinator."""
    metadata = {"name": "team", "namespace": "ml", "labels": {"owner": "alice"}}
    return {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "PodGroup", "metadata": metadata, "spec": spec}
