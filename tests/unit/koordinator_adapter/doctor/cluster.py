"""A cluster of Koordinator's in which nothing is wrong, as the objects that a listing holds."""

from __future__ import annotations

import copy
from typing import Any

from koordinator_adapter.commands.doctor_evidence import Reader
from koordinator_adapter.core.doctor.diagnosis import Diagnosis, diagnosed
from tests import raw_objects

Raw = dict[str, Any]

ISOLATION = "koordinator.sh/gpu-isolation-provider"
VENDOR = "node.koordinator.sh/gpu-vendor"
RECORD = "scheduling.koordinator.sh/device-allocated"
SHARE = {"koordinator.sh/gpu.shared": "1", "koordinator.sh/gpu-core": "50", "koordinator.sh/gpu-memory-ratio": "50"}
OFFERED = {
    "koordinator.sh/gpu": "200",
    "koordinator.sh/gpu-core": "200",
    "koordinator.sh/gpu-memory": "48Gi",
    "koordinator.sh/gpu-memory-ratio": "200",
    "koordinator.sh/gpu.shared": "200",
    "cpu": "64",
}
PROFILE = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: koord-scheduler
  plugins:
    preFilter: {enabled: [{name: DeviceShare}]}
    filter: {enabled: [{name: DeviceShare}]}
    reserve: {enabled: [{name: DeviceShare}]}
    preBind: {enabled: [{name: DeviceShare}]}
"""


def a_card(minor: int) -> Raw:
    resources = {
        "koordinator.sh/gpu-core": "100",
        "koordinator.sh/gpu-memory": "24Gi",
        "koordinator.sh/gpu-memory-ratio": "100",
    }
    place = {"socketID": -1, "nodeID": 0, "pcieID": "p0"}
    return {
        "type": "gpu",
        "id": f"GPU-{minor}",
        "minor": minor,
        "health": True,
        "resources": resources,
        "topology": place,
    }


def a_program(kind: str, name: str, *args: str, image: str = "") -> Raw:
    part = {"name": name, "image": image or f"koordinator-sh/{name}:v1.7.0", "args": list(args)}
    return {
        "kind": kind,
        "metadata": {"name": name, "namespace": "koordinator-system"},
        "spec": {"template": {"spec": {"containers": [part], "serviceAccountName": name}}},
    }


def a_pod(name: str = "half", *, node: str | None = "gpu-1", **changes: Any) -> Raw:
    record = '{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-memory":"12Gi"},"id":"GPU-0"}]}'
    metadata = {
        "namespace": "ml",
        "uid": f"uid-{name}",
        "labels": {ISOLATION: "HAMi-core", "pod-template-hash": "6d4b9"},
        "annotations": {RECORD: record} if node else {},
        "ownerReferences": [{"kind": "ReplicaSet", "name": "serving-6d4b9"}],
    }
    main = raw_objects.container("c", limits=SHARE, requests=SHARE, image="app")
    usual = {"schedulerName": "koord-scheduler", "nodeSelector": {ISOLATION: "HAMi-core"}}
    phase = "Running" if node else "Pending"
    return raw_objects.pod(name, main, metadata=metadata, node=node or "", phase=phase, **{**usual, **changes})


def healthy() -> dict[str, Raw]:
    """The objects by a name for each."""
    version = {VENDOR: "nvidia", "node.koordinator.sh/gpu-driver-version": "580.65.06"}
    return copy.deepcopy(
        {
            "node": {
                "kind": "Node",
                "metadata": {"name": "gpu-1", "labels": {ISOLATION: "HAMi-core", VENDOR: "nvidia"}},
                "status": {
                    "capacity": OFFERED,
                    "allocatable": OFFERED,
                    "nodeInfo": {"containerRuntimeVersion": "containerd://2.1.4"},
                },
            },
            "device": {
                "apiVersion": "scheduling.koordinator.sh/v1alpha1",
                "kind": "Device",
                "metadata": {"name": "gpu-1", "labels": version},
                "spec": {"devices": [a_card(0), a_card(1)]},
            },
            "manager": a_program("Deployment", "koord-manager", "--feature-gates=EnableSyncGPUSharedResource=true"),
            "koordlet": a_program(
                "DaemonSet", "koordlet", "-v=4", "-feature-gates=Accelerators=true,GPUEnvInject=true"
            ),
            "library": a_program(
                "DaemonSet",
                "hami-daemon",
                "cp /lib/libvgpu.so.v2.6.1 /vgpu/libvgpu.so.new && mv -f /vgpu/libvgpu.so.new /vgpu/libvgpu.so",
                image="projecthami/hami:v2.6.1",
            ),
            "settings": {
                "kind": "ConfigMap",
                "metadata": {"name": "slo-controller-config", "namespace": "koordinator-system"},
                "data": {"colocation-config": '{"enable":true}'},
            },
            "profile": {
                "kind": "ConfigMap",
                "metadata": {"name": "koord-scheduler-config", "namespace": "koordinator-system"},
                "data": {"koord-scheduler-config": PROFILE},
            },
            "namespace": {"kind": "Namespace", "metadata": {"name": "ml"}},
            "webhook": {
                "kind": "MutatingWebhookConfiguration",
                "metadata": {"name": "koordinator-mutating-webhook-configuration"},
                "webhooks": [{"name": "mpod-create.koordinator.sh", "failurePolicy": "Ignore"}],
            },
            "scheduler": a_program("Deployment", "koord-scheduler", "--port=10251"),
            "policy": {
                "kind": "ValidatingAdmissionPolicy",
                "metadata": {"name": "koordinator-adapter-allocations"},
                "spec": {
                    "matchConditions": [
                        {"name": "changes-an-allocation", "expression": f'["{RECORD}"].exists(key, true)'},
                        {
                            "name": "by-an-unlisted-account",
                            "expression": '!(request.userInfo.username in ["'
                            'system:serviceaccount:koordinator-system:koord-scheduler"])',
                        },
                    ]
                },
            },
            "pod": a_pod(),
        }
    )


def diagnosis(objects: dict[str, Raw]) -> Diagnosis:
    reader = Reader()
    for raw in objects.values():
        reader.feed(raw)
    return diagnosed(reader.finish())
