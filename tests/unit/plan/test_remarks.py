"""What is noted of a planned pod besides its place."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.queueing.test_cycle import GPU, a_node, a_pod, planned


def tainted(labels: dict[str, str]) -> dict[str, Any]:
    """A node that keeps away the pods that ask for none of its cards."""
    return {**a_node("n1", 1, **labels), "spec": {"taints": [{"key": GPU, "value": "present", "effect": "NoSchedule"}]}}


def test_a_toleration_that_the_api_server_adds_is_noted_where_the_manifest_has_none() -> None:
    node = tainted({"eks.amazonaws.com/nodegroup": "cards"})
    (plan,) = planned([node], a_pod("p", 100))
    (note,) = plan.notes
    assert note.startswith(f"the pod has no toleration of the taint {GPU} on n1: EKS and GKE add it")
    (plan,) = planned([node], a_pod("p", 100, tolerations=[{"key": GPU, "operator": "Exists"}]))
    assert plan.notes == ()


@pytest.mark.parametrize("name", ["kata", "kata-qemu-nvidia-gpu", "Kata-clh", "my.kata"])
def test_a_pod_with_devices_in_a_virtual_machine_is_noted(name: str) -> None:
    (plan,) = planned([a_node("n1", 1)], a_pod("p", 100, runtimeClassName=name))
    (note,) = plan.notes
    assert note.startswith(f"runtimeClassName {name} runs containers in a virtual machine, which devices")


@pytest.mark.parametrize("name", ["nvidia", "katana", "runc"])
def test_a_pod_on_the_kernel_of_its_node_is_not(name: str) -> None:
    (plan,) = planned([a_node("n1", 1)], a_pod("p", 100, runtimeClassName=name))
    assert plan.notes == ()
