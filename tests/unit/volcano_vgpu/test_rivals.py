"""Who else owns the cards of the node."""

from __future__ import annotations

from typing import Any

import pytest

from tests import raw_objects
from tests.unit.volcano_vgpu.cards import uuid
from volcano_vgpu.agent import competing_plugins
from volcano_vgpu.agent.competing_plugins import CompetingPlugin, NodeEnvironment

COUNT, DIRECTORY = "volcano.sh/vgpu-number", "/var/lib/kubelet/device-plugins"


def node(**allocatable: str) -> dict[str, Any]:
    return {"status": {"allocatable": {name.replace("_", "/"): amount for name, amount in allocatable.items()}}}


def pod(name: str, image: str, *, path: str = DIRECTORY, uid: str = "u", **facts: Any) -> dict[str, Any]:
    metadata = {"namespace": "kube-system", "uid": uid, **facts.get("metadata", {})}
    volumes = [{"hostPath": {"path": path}}, {"emptyDir": {}}]
    phase = facts.get("phase", "Running")
    return raw_objects.pod(name, {"image": image}, metadata=metadata, phase=phase, volumes=volumes)


def of_operator(name: str, image: str, path: str) -> dict[str, Any]:
    return pod(name, image, path=path, metadata={"namespace": "gpu-operator"})


EXISTING = pod("volcano-device-plugin-x7k2p", "projecthami/volcano-vgpu-device-plugin:v1.12.0")


def found(**facts: Any) -> tuple[CompetingPlugin, ...]:
    facts = {"sockets": (), "node": node(), **facts}
    return competing_plugins.rivals(NodeEnvironment(**facts), resource=COUNT, directory=DIRECTORY)


def test_a_node_of_ones_own_has_no_rivals() -> None:
    others = (
        pod("rdma-plugin", "mellanox/rdma:v1"),
        pod("vgpu-monitor", "projecthami/vgpu-monitor:v1", path="/tmp"),  # noqa: S108
        pod("nvidia-exporter", "dcgm-exporter:3", path="/"),
    )
    assert found(sockets=("rdma.sock", "sriov.sock"), pods=others) == ()


def test_of_the_gpu_operator_only_the_device_plugin_is_a_rival() -> None:
    images = "nvcr.io/nvidia/k8s"
    others = (
        of_operator("nvidia-driver-daemonset-a", "nvcr.io/nvidia/driver:580", "/run/nvidia"),
        of_operator("nvidia-container-toolkit-daemonset-a", f"{images}/container-toolkit:v1.18", "/run"),
        of_operator("nvidia-dcgm-exporter-a", f"{images}/dcgm-exporter:4", "/var/lib/kubelet/pod-resources"),
        of_operator("gpu-feature-discovery-a", f"{images}-device-plugin:v0.18", "/etc/kubernetes"),
    )
    assert found(pods=others) == ()
    plugin = of_operator("nvidia-device-plugin-daemonset-a", f"{images}-device-plugin:v0.18", DIRECTORY)
    (rival,) = found(node=node(**{"nvidia.com/gpu": "8"}), pods=(*others, plugin))
    assert "another plugin allocates the same cards" in rival.sentence
    assert "gpu-operator/nvidia-device-plugin-daemonset-a" in rival.sentence
    assert "feature-discovery" not in rival.sentence


@pytest.mark.parametrize(
    "name",
    [
        "nvidia-gpu.sock",
        "nvidia-gpu-memory.sock",
        "nvidia-gpu-cores.sock",
        "nvidia-vgpu-number.sock",
        "nvidia-vgpu-memory.sock",
        "nvidia.sock",
        "volcano.sock",
    ],
)
def test_a_plugin_that_answers_on_its_socket_is_a_rival(name: str) -> None:
    (rival,) = found(sockets=(name,), pods=(EXISTING,))
    assert name in rival.sentence
    assert "kube-system/volcano-device-plugin-x7k2p" in rival.sentence
    assert "volcano-vgpu-device-plugin:v1.12.0" in rival.sentence
    assert "remove it" in str(rival)


def test_another_agent_is_a_rival() -> None:
    (rival,) = found(sockets=("volcano-vgpu.sock",))
    assert "one agent serves a node" in rival.remedy


def test_whole_cards_on_offer_are_a_rivals() -> None:
    (rival,) = found(node=node(**{"nvidia.com_gpu": "8"}))
    assert "8 nvidia.com/gpu" in rival.sentence


def test_whole_cards_that_are_gone_are_nobodys() -> None:
    assert found(node=node(**{"nvidia.com_gpu": "0"})) == ()


@pytest.mark.parametrize("remembered", [(), (f"{uuid(0)}-0",), ("vgpu-5bb1e1d8-f13067-0", f"{uuid(0)}-0")])
def test_slots_that_are_not_the_agents_are_a_rivals(remembered: tuple[str, ...]) -> None:
    (rival,) = found(node=node(**{"volcano.sh_vgpu-number": "10"}), remembered={COUNT: remembered})
    assert "10 volcano.sh/vgpu-number" in rival.sentence


def test_slots_that_an_agent_left_behind_are_its_own() -> None:
    assert found(node=node(**{"volcano.sh_vgpu-number": "10"}), remembered={COUNT: ("vgpu-5bb1e1d8-f13067-0",)}) == ()


@pytest.mark.parametrize("path", [DIRECTORY, f"{DIRECTORY}/", "/var/lib/kubelet", "/var/lib"])
def test_a_pod_that_looks_like_another_plugin_is_a_rival_by_itself(path: str) -> None:
    (rival,) = found(
        pods=(pod("nvidia-device-plugin-daemonset-1", "nvcr.io/nvidia/k8s-device-plugin:v0.17", path=path),)
    )
    assert "kube-system/nvidia-device-plugin-daemonset-1 with image nvcr.io/nvidia/k8s-device-plugin" in rival.sentence
    assert "exclusive: ignore" in rival.remedy


@pytest.mark.parametrize(
    "facts", [{"phase": "Failed"}, {"phase": "Succeeded"}, {"metadata": {"deletionTimestamp": "now"}}]
)
def test_a_pod_that_is_ending_is_none(facts: dict[str, Any]) -> None:
    assert found(pods=(pod("hami-device-plugin-1", "projecthami/hami:v2", **facts),)) == ()


def test_the_agents_own_pod_is_none() -> None:
    own = pod("volcano-vgpu-1", "hami-plugins:v0.1", uid="mine")
    assert found(pods=(own,), own_pod="mine") == ()
    assert found(pods=(own,), own_pod=own["metadata"]["name"]) == ()
    assert len(found(pods=(own,), own_pod="other")) == 1


def test_pods_that_say_nothing_are_none() -> None:
    assert found(pods=({}, {"spec": {"volumes": None, "containers": None}})) == ()
