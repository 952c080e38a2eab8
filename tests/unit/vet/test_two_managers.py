"""Two programs that give out the same devices of a node: which pairs are found, by what, and which are healthy."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hami_plugins import vet
from hami_plugins.inputs.list_reader import snapshot_of
from hami_plugins.vendors import builtin
from hami_plugins.vet import VetFinding, cluster_objects
from hami_plugins.vet.cluster_objects import ClusterObjects
from tests.unit.vet import clusters

HAMI = "hami.io/node-nvidia-register"
VOLCANO = "volcano.sh/node-vgpu-register"
VOLCANO_CARDS = "GPU-0,10,24576,NVIDIA-NVIDIA A10,true,hami-core:"
OPERATOR = {"app": "nvidia-device-plugin-daemonset"}


def hami_register(*ids: str, agent: str = "", slots: int = 10) -> str:
    said = {"agent": agent} if agent else {}
    return json.dumps(
        [
            {"id": name, "count": slots, "devmem": 1, "devcore": 100, "type": "NVIDIA-NVIDIA A10", "health": True}
            | said
            for name in ids
        ]
    )


def a_node(
    annotations: dict[str, str], devices: dict[str, str], labels: dict[str, str] | None = None
) -> dict[str, Any]:
    found = clusters.node("n1", annotations, devices)
    found["metadata"]["labels"] |= labels or {}
    return found


def plugin(image: str, container: str = "main", labels: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
    """A pod of a device plugin on the node."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "plugin-x7", "namespace": "ns", "labels": labels or {}, **more},
        "spec": {"nodeName": "n1", "containers": [{"name": container, "image": image}]},
        "status": {"phase": "Running"},
    }


def daemon_set(image: str, container: str, **spec: Any) -> dict[str, Any]:
    containers = [{"name": container, "image": image}]
    template = {"metadata": {"labels": {}}, "spec": {"containers": containers, **spec}}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "plugin", "namespace": "ns"},
        "spec": {"template": template},
    }


def published(*ids: str, vendor: str = "nvidia") -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Device",
        "metadata": {"name": "n1", "labels": {"node.koordinator.sh/gpu-vendor": vendor}},
        "spec": {"devices": [{"type": "gpu", "id": name, "minor": at, "health": True} for at, name in enumerate(ids)]},
    }


def a_slice(driver: str, *ids: str, node: str = "n1") -> dict[str, Any]:
    devices = [{"name": f"d{at}", "attributes": {"uuid": {"string": name}}} for at, name in enumerate(ids)]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "s1"},
        "spec": {"driver": driver, "nodeName": node, "pool": {"name": node}, "devices": devices},
    }


def findings(*objects: dict[str, Any]) -> tuple[VetFinding, ...]:
    documents = tuple(cluster_objects.of({"kind": "List", "items": list(objects)}, "dump.json"))
    found = vet.vet((), builtin(), None, ClusterObjects(snapshot_of(objects, builtin()), documents))
    return tuple(each for each in found if each.rule == "HP738")


NVIDIAS_POD = plugin("nvcr.io/nvidia/k8s-device-plugin:v0.19.0", "nvidia-device-plugin-ctr")
OPERATORS_POD = plugin("nvcr.io/nvidia/k8s-device-plugin:v0.19.0", "nvidia-device-plugin", OPERATOR)
HAMIS_NODE = a_node({HAMI: hami_register("GPU-0", "GPU-1")}, {"nvidia.com/gpu": "20"})
OURS_IN_HAMI = a_node({HAMI: hami_register("GPU-0", agent="hami-plugins")}, {"nvidia.com/gpu": "10"})
VOLCANOS_NODE = a_node({VOLCANO: VOLCANO_CARDS}, {"volcano.sh/vgpu-number": "10"})
OURS_IN_VOLCANO = a_node(
    {VOLCANO: VOLCANO_CARDS, "hami-plugins.io/volcano-vgpu-agents": "vgpu/agent"}, {"volcano.sh/vgpu-number": "10"}
)
BOTH = a_node(
    {HAMI: hami_register("GPU-0"), VOLCANO: VOLCANO_CARDS}, {"nvidia.com/gpu": "10", "volcano.sh/vgpu-number": "10"}
)
PARTITIONED = a_node({HAMI: hami_register("GPU-0")}, {"nvidia.com/gpu": "10", "nvidia.com/mig-1g.10gb": "7"})

PAIRS = {
    "HAMi and NVIDIA's plugin, by its pod": (
        (HAMIS_NODE, NVIDIAS_POD),
        "HAMi's device plugin",
        "NVIDIA's device plugin",
    ),
    "HAMi and NVIDIA's plugin, by MIG resources": (
        (PARTITIONED,),
        "HAMi's device plugin",
        "NVIDIA's device plugin",
    ),
    "HAMi and NVIDIA's plugin, by the number of cards": (
        (a_node({HAMI: hami_register("GPU-0", "GPU-1")}, {"nvidia.com/gpu": "2"}),),
        "HAMi's device plugin",
        "NVIDIA's device plugin",
    ),
    "HAMi and the GPU Operator": (
        (HAMIS_NODE, OPERATORS_POD),
        "HAMi's device plugin",
        "the GPU Operator's device plugin",
    ),
    "HAMi and Volcano": ((BOTH,), "HAMi's device plugin", "Volcano's vGPU plugin"),
    "HAMi's pod where our agent has registered": (
        (OURS_IN_HAMI, plugin("docker.io/projecthami/hami:v2.10.0", "device-plugin")),
        "HAMi's device plugin",
        "the agent of volcano-vgpu",
    ),
    "our agent for Volcano and the GPU Operator": (
        (OURS_IN_VOLCANO, OPERATORS_POD),
        "the GPU Operator's device plugin",
        "the agent of volcano-vgpu",
    ),
    "our agent for Volcano and Volcano's plugin": (
        (OURS_IN_VOLCANO, plugin("volcanosh/volcano-vgpu-device-plugin:v1.12.0")),
        "Volcano's vGPU plugin",
        "the agent of volcano-vgpu",
    ),
    "Volcano and NVIDIA's cards": (
        (a_node({VOLCANO: VOLCANO_CARDS}, {"volcano.sh/vgpu-number": "10", "nvidia.com/gpu": "1"}),),
        "NVIDIA's device plugin",
        "Volcano's vGPU plugin",
    ),
    "Volcano and time slices": (
        (a_node({VOLCANO: VOLCANO_CARDS}, {"volcano.sh/vgpu-number": "10", "nvidia.com/gpu.shared": "4"}),),
        "NVIDIA's device plugin",
        "Volcano's vGPU plugin",
    ),
    "HAMi and a DRA driver": (
        (HAMIS_NODE, a_slice("gpu.nvidia.com", "GPU-0")),
        "HAMi's device plugin",
        "the DRA driver gpu.nvidia.com",
    ),
    "NVIDIA's plugin and its DRA driver": (
        (a_node({}, {"nvidia.com/gpu": "1"}), a_slice("gpu.nvidia.com", "GPU-0")),
        "NVIDIA's device plugin",
        "the DRA driver gpu.nvidia.com",
    ),
    "HAMi and Koordinator, by a Device object": (
        (HAMIS_NODE, published("GPU-0")),
        "HAMi's device plugin",
        "Koordinator",
    ),
    "NVIDIA's plugin and Koordinator, by its resources": (
        (a_node({}, {"nvidia.com/gpu": "1", "koordinator.sh/gpu-core": "100"}),),
        "Koordinator",
        "NVIDIA's device plugin",
    ),
    "HAMi and Huawei's plugin": (
        (
            a_node(
                {"hami.io/node-register-Ascend910B3": "[]"},
                {"huawei.com/Ascend910B3": "8", "huawei.com/Ascend910": "8"},
            ),
        ),
        "Huawei's own device plugin",
        "ascend-device-plugin",
    ),
    "HAMi and Koordinator for Ascend": (
        (
            a_node({"hami.io/node-register-Ascend910B3": "[]"}, {"huawei.com/Ascend910B3": "8"}),
            published("npu-0", vendor="huawei"),
        ),
        "Koordinator",
        "ascend-device-plugin",
    ),
    "ROCm's plugin where HAMi's has registered": (
        (
            a_node({"hami.io/node-amd-register": "[]"}, {"amd.com/gpu": "8"}),
            plugin("docker.io/rocm/k8s-device-plugin:1.31", "amdgpu-dp-cntr"),
        ),
        "ROCm's device plugin",
        "amd-device-plugin of Project-HAMi",
    ),
    "Neuron's plugin and its DRA driver": (
        (a_node({}, {"aws.amazon.com/neuron": "16"}), a_slice("neuron.aws.com", "0")),
        "AWS's Neuron device plugin",
        "the DRA driver neuron.aws.com",
    ),
    "a vendor's own plugin and its DRA driver": (
        (a_node({}, {"amd.com/gpu": "8"}), a_slice("gpu.amd.com", "0")),
        "AMD's own device plugin",
        "the DRA driver gpu.amd.com",
    ),
    "a DaemonSet that chooses the node": (
        (HAMIS_NODE, daemon_set("nvcr.io/nvidia/k8s-device-plugin:v0.19.0", "nvidia-device-plugin-ctr")),
        "HAMi's device plugin",
        "NVIDIA's device plugin",
    ),
}


@pytest.mark.parametrize(("objects", "one", "other"), PAIRS.values(), ids=PAIRS)
def test_two_managers_of_a_device_are_one_finding_with_both_names(
    objects: tuple[dict[str, Any], ...], one: str, other: str
) -> None:
    (finding,) = findings(*objects)
    assert finding.object == "Node n1"
    assert finding.severity == "error"
    assert f"{one} (" in finding.what
    assert f"{other} (" in finding.what


OTHERS_DAEMON_SET = daemon_set("nvidia/k8s-device-plugin", "nvidia-device-plugin-ctr", nodeSelector={"gpu": "whole"})
HEALTHY = {
    "the GPU Operator without its device plugin": (
        a_node(
            {HAMI: hami_register("GPU-0")},
            {"nvidia.com/gpu": "10"},
            {"nvidia.com/gpu.deploy.device-plugin": "true", "nvidia.com/gpu.deploy.dcgm-exporter": "true"},
        ),
        plugin("nvcr.io/nvidia/k8s-device-plugin:v0.19.0", "gpu-feature-discovery", {"app": "gpu-feature-discovery"}),
        plugin("nvcr.io/nvidia/k8s/dcgm-exporter:4.2", "nvidia-dcgm-exporter"),
    ),
    "the MIG manager": (
        HAMIS_NODE,
        plugin("nvcr.io/nvidia/cloud-native/k8s-mig-manager:v0.12", "nvidia-mig-manager"),
    ),
    "MPS's control daemon from the plugin's image": (
        OURS_IN_VOLCANO,
        plugin("nvcr.io/nvidia/k8s-device-plugin:v0.19.0", "mps-control-daemon-ctr"),
    ),
    "NVIDIA's plugin alone, MIG instances included": (
        a_node({}, {"nvidia.com/gpu": "1", "nvidia.com/mig-1g.10gb": "7"}),
        OPERATORS_POD,
    ),
    "a register that stayed when the plugin went": (
        a_node({HAMI: hami_register("GPU-0"), VOLCANO: VOLCANO_CARDS}, {"volcano.sh/vgpu-number": "10"}),
    ),
    "a register that HAMi's scheduler gave up, and whole cards": (
        a_node(
            {HAMI: hami_register("GPU-0"), "hami.io/node-handshake": "Deleted_2026-11-21 07:39:03"},
            {"nvidia.com/gpu": "1"},
        ),
    ),
    "Device objects that the adapter makes of a register": (
        a_node({HAMI: hami_register("GPU-0")}, {"koordinator.sh/gpu-core": "100"}),
        published("GPU-0"),
    ),
    "a Device object without cards": (
        HAMIS_NODE,
        {**published(), "spec": {"devices": [{"type": "rdma", "id": "mlx5", "minor": 0}]}},
    ),
    "cards divided by UUID": (HAMIS_NODE, a_slice("gpu.nvidia.com", "GPU-8", "GPU-9")),
    "devices of two vendors": (
        a_node({HAMI: hami_register("GPU-0")}, {"nvidia.com/gpu": "10", "huawei.com/Ascend910": "8"}),
    ),
    "ComputeDomains": (HAMIS_NODE, a_slice("compute-domain.nvidia.com", "channel-0")),
    "slices of another node": (HAMIS_NODE, a_slice("gpu.nvidia.com", "GPU-0", node="n2")),
    "a slice without devices": (HAMIS_NODE, a_slice("gpu.nvidia.com")),
    "a plugin that has ended": (HAMIS_NODE, {**NVIDIAS_POD, "status": {"phase": "Failed"}}),
    "a plugin that is leaving": (
        HAMIS_NODE,
        {**NVIDIAS_POD, "metadata": {**NVIDIAS_POD["metadata"], "deletionTimestamp": "2026-11-21T07:39:03Z"}},
    ),
    "a plugin of another node": (HAMIS_NODE, {**NVIDIAS_POD, "spec": {**NVIDIAS_POD["spec"], "nodeName": "n2"}}),
    "a DaemonSet that chooses other nodes": (HAMIS_NODE, OTHERS_DAEMON_SET),
    "a DaemonSet that does not tolerate the node": (
        {**HAMIS_NODE, "spec": {"taints": [{"key": "vgpu", "value": "", "effect": "NoSchedule"}]}},
        daemon_set("nvidia/k8s-device-plugin", "nvidia-device-plugin-ctr"),
    ),
    "a DaemonSet that cannot be read": (
        HAMIS_NODE,
        daemon_set("nvidia/k8s-device-plugin", "nvidia-device-plugin-ctr", tolerations=7),
    ),
    "Koordinator and Huawei's plugin, which does what it says": (
        a_node({}, {"huawei.com/Ascend910": "8"}),
        published("npu-0", vendor="huawei"),
    ),
    "Koordinator and Cambricon's plugin": (
        a_node({}, {"cambricon.com/vmlu": "8"}),
        published("mlu-0", vendor="cambricon"),
    ),
    "one plugin of MetaX for whole cards and slices": (
        a_node({"metax-tech.com/node-gpu-devices": "[]"}, {"metax-tech.com/gpu": "4", "metax-tech.com/sgpu": "16"}),
    ),
    "our agent between two dialects": (
        a_node(
            {
                HAMI: hami_register("GPU-0", agent="hami-plugins"),
                VOLCANO: VOLCANO_CARDS,
                "hami-plugins.io/volcano-vgpu-agents": "vgpu/agent",
            },
            {"nvidia.com/gpu": "10", "volcano.sh/vgpu-number": "10"},
        ),
    ),
    "as many slots as cards": (a_node({HAMI: hami_register("GPU-0", slots=1)}, {"nvidia.com/gpu": "1"}),),
}


@pytest.mark.parametrize("objects", HEALTHY.values(), ids=HEALTHY)
def test_healthy_combinations_are_no_finding(objects: tuple[dict[str, Any], ...]) -> None:
    assert findings(*objects) == ()


def test_evidence_and_remedy_are_named() -> None:
    (finding,) = findings(HAMIS_NODE, OPERATORS_POD, a_node_like_a_card_count())
    assert finding.what == (
        "HAMi's device plugin (annotation hami.io/node-nvidia-register, 20 nvidia.com/gpu) and the GPU Operator's "
        "device plugin (pod ns/plugin-x7) both give out the NVIDIA devices of the node, and neither counts what the "
        "other gives away"
    )
    assert "devicePlugin.enabled=false" in finding.fix
    assert "devicePlugin.nvidiaNodeSelector" in finding.fix


def a_node_like_a_card_count() -> dict[str, Any]:
    """Another object of the node's name that is not a node."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "n1", "namespace": "ns"}}


def test_resources_of_nvidias_plugin_are_the_operators_where_its_pod_runs() -> None:
    (finding,) = findings(PARTITIONED, OPERATORS_POD)
    assert "the GPU Operator's device plugin (pod ns/plugin-x7; 7 nvidia.com/mig-1g.10gb)" in finding.what


def test_both_of_nvidias_plugins_are_a_pair() -> None:
    (finding,) = findings(
        a_node({}, {}), NVIDIAS_POD, {**OPERATORS_POD, "metadata": {"name": "op", "labels": OPERATOR}}
    )
    assert "NVIDIA's device plugin (pod ns/plugin-x7)" in finding.what


def test_three_managers_are_three_pairs() -> None:
    found = findings(BOTH, NVIDIAS_POD)
    assert len(found) == 3
    assert len({each.what for each in found}) == 3


def test_a_node_that_is_cordoned_or_not_ready_still_has_its_daemon_sets() -> None:
    taint = {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}
    node = {**HAMIS_NODE, "spec": {"unschedulable": True, "taints": [taint]}}
    assert len(findings(node, daemon_set("nvidia/k8s-device-plugin", "nvidia-device-plugin-ctr"))) == 1


def test_much_evidence_is_counted() -> None:
    resources = {f"nvidia.com/mig-{n}g.10gb": "1" for n in range(1, 6)}
    (finding,) = findings(a_node({HAMI: hami_register("GPU-0")}, {"nvidia.com/gpu": "10", **resources}))
    assert "; 2 more)" in finding.what


@pytest.mark.parametrize("register", ["nonsense", '[{"id": 7, "agent": "x"}]'])
def test_a_register_that_cannot_be_read_still_tells_of_its_plugin(register: str) -> None:
    (finding,) = findings(a_node({HAMI: register}, {"nvidia.com/gpu": "10"}), NVIDIAS_POD)
    assert "HAMi's device plugin (annotation" in finding.what


def test_a_slice_whose_devices_have_nodes_of_their_own_counts_on_each() -> None:
    spread = a_slice("gpu.nvidia.com", "GPU-0")
    del spread["spec"]["nodeName"]
    spread["spec"]["perDeviceNodeSelection"] = True
    for node, found in (("n1", 1), ("n2", 0)):
        spread["spec"]["devices"][0]["nodeName"] = node
        assert len(findings(HAMIS_NODE, spread)) == found


def test_a_slice_that_cannot_be_read_hides_no_other() -> None:
    broken = {**a_slice("gpu.nvidia.com", "GPU-0"), "spec": 7}
    assert findings(HAMIS_NODE, broken) == ()
    assert len(findings(HAMIS_NODE, broken, a_slice("gpu.nvidia.com", "GPU-0"))) == 1


def test_slices_of_the_older_version_tell_their_devices() -> None:
    old = {**a_slice("gpu.nvidia.com"), "apiVersion": "resource.k8s.io/v1beta1"}
    attributes = {"uuid": {"string": "GPU-9"}}
    old["spec"]["devices"] = [{"name": "d0", "basic": {"attributes": attributes}}]
    assert findings(HAMIS_NODE, old) == ()
    attributes["uuid"]["string"] = "GPU-0"
    assert len(findings(HAMIS_NODE, old)) == 1


def test_a_broken_node_hides_no_other() -> None:
    broken: dict[str, Any] = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "b"}, "status": {"capacity": 7}}
    assert len(findings(broken, BOTH)) == 1
