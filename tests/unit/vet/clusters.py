"""A small cluster: two nodes with two NVIDIA cards each, one of them with a Hygon card as well, and one node for
Volcano.
"""

import json
from typing import Any

from hami_plugins.allocations.manifests.webhooks import Hooks, WebhookTarget, webhooks
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.vendors import volcano
from tests import raw_objects


def nvidia(name: str, annotations: dict[str, str]) -> dict[str, Any]:
    """A node with two A10 cards of 16 GiB."""
    cards = [
        {
            "id": f"GPU-{name}-{at}",
            "index": at,
            "count": 10,
            "devmem": 16384,
            "devcore": 100,
            "type": "NVIDIA-NVIDIA A10",
            "mode": "hami-core",
            "health": True,
        }
        for at in range(2)
    ]
    return node(name, {"hami.io/node-nvidia-register": json.dumps(cards), **annotations}, {"nvidia.com/gpu": "20"})


def node(name: str, annotations: dict[str, str], devices: dict[str, str]) -> dict[str, Any]:
    """A node that is ready and has room."""
    capacity = {"cpu": "32", "memory": "128Gi", "pods": "110", **devices}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "annotations": annotations, "labels": {"kubernetes.io/hostname": name}},
        "status": {
            "capacity": capacity,
            "allocatable": capacity,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


DCU = "hami.io/node-dcu-register"
VGPU = "volcano.sh/node-vgpu-register"


def member(name: str, group: str, **spec: Any) -> dict[str, Any]:
    """A pod of a gang, placed or waiting."""
    metadata = {"namespace": "default", "annotations": {"scheduling.k8s.io/group-name": group}}
    return raw_objects.pod(name, raw_objects.container(), metadata=metadata, scheduler="volcano", **spec)


def waiting(name: str, group: str, memory: int) -> dict[str, Any]:
    """A pod that waits for a slice, alone or in a gang."""
    found = member(name, group)
    found["spec"]["containers"] = [{"name": "main", "resources": slices(memory)}]
    if not group:
        found["metadata"]["annotations"] = {}
    return found


def holder(name: str, group: str, annotations: dict[str, str]) -> dict[str, Any]:
    """A pod that holds 3000 MiB of the Volcano node's card."""
    found = waiting(name, group, 3000)
    held = "GPU-three-0,NVIDIA,3000,10:"
    found["metadata"]["annotations"] |= {"volcano.sh/vgpu-ids-new": held, **annotations}
    found["spec"]["nodeName"] = "three"
    found["status"] = {"phase": "Running"}
    return found


def slices(memory: int) -> dict[str, Any]:
    """The resources of a container that asks for a slice."""
    return {"limits": {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": str(memory)}}


def group(name: str, *, phase: str, queue: str = "default") -> dict[str, Any]:
    """A PodGroup as a controller makes it."""
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minMember": 2, "queue": queue, "minResources": {"volcano.sh/vgpu-number": "2", "cpu": "4"}},
        "status": {"phase": phase},
    }


QUEUE = "scheduling.volcano.sh/queue-name"

OBJECTS: list[dict[str, Any]] = [
    member("first-of-four", "four", nodeName="three"),
    member("second-of-four", "four"),
    member("first-of-three", "fine-three", nodeName="three"),
    member("second-of-three", "fine-three"),
    nvidia("one", {}),
    nvidia("two", {DCU: "DCU-1,4,32768,100,DCU-K100,0,true:"}),
    node(
        "three",
        {VGPU: "GPU-three-0,10,24576,NVIDIA-NVIDIA A10,true,hami-core:"},
        {"volcano.sh/vgpu-number": "10", "volcano.sh/vgpu-memory": "24576", "volcano.sh/vgpu-cores": "100"},
    ),
    {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "default"}, "spec": {}},
    {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "team-a"}, "spec": {}},
    {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": "exceeded"},
        "spec": {"capability": {"volcano.sh/vgpu-memory": "4000", "volcano.sh/vgpu-cores": "100"}},
    },
    holder("plain", "exceeded-group", {QUEUE: "default"}),
    holder("direct", "", {QUEUE: "exceeded"}),
    group("exceeded-group", phase="Running", queue="exceeded"),
    group("giants", phase="Inqueue"),
    waiting("giant-0", "giants", 90000),
    waiting("giant-1", "giants", 1000),
    group("lone", phase="Inqueue"),
    waiting("of-lone", "lone", 1000),
    waiting("elsewhere", "", 1000),
    {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": "shut"},
        "spec": {},
        "status": {"state": "Closed"},
    },
    {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "small", "namespace": "small"},
        "spec": {"hard": {"limits.nvidia.com/gpumem": "4000"}},
    },
    {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "there", "namespace": "default"},
        "spec": {"minMember": 1},
    },
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "busy",
            "namespace": "default",
            "annotations": {
                "hami.io/vgpu-node": "one",
                "hami.io/vgpu-devices-allocated": "GPU-one-0,NVIDIA,16384,100:GPU-one-1,NVIDIA,16384,100:;",
            },
        },
        "spec": {"nodeName": "one", "containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "2"}}}]},
        "status": {"phase": "Running"},
    },
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "left-over",
            "namespace": "default",
            "annotations": {"hami.io/vgpu-node": "two", "hami.io/vgpu-devices-allocated": "GPU-gone,NVIDIA,1,1:;"},
        },
        "spec": {"nodeName": "two", "containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]},
        "status": {"phase": "Running"},
    },
]


def the_webhooks(*vendors: VendorSpec) -> dict[str, Any]:
    """The allocator's, as an operator installs them under a name of their own."""
    hooks = Hooks(resources=[spec.resources for spec in vendors], keys=[volcano.SPEC.keys.allocated])
    return webhooks(hooks, WebhookTarget(configuration="cards-abc", service="cards", namespace="cards"))
