"""Runtimes without CDI: the slice in the answer, if its owner is certain, and a check before the start."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.integration.volcano_vgpu.kubelets import Node
from tests.unit.volcano_vgpu.allocated_pods import container, pod


@pytest.fixture
def node(tmp_path: Path) -> Node:
    found = Node(tmp_path)
    found.restart_agent(cdi=False)
    return found


def test_the_only_pod_under_admission_has_its_slice_in_the_answer(node: Node) -> None:
    raw = node.create(pod(ids="GPU-b,NVIDIA,500,0:"))
    assert node.kubelet.admit(raw) == ""
    response = node.kubelet.entries["uid-p", "main"].response
    assert response.envs["NVIDIA_VISIBLE_DEVICES"] == "GPU-b"
    assert not response.cdi_devices
    assert (node.directory / "hook" / "vgpu" / "containers" / "uid-p_main").is_dir()
    assert node.kubelet.start("uid-p", "main") == ""


def test_other_settings_do_not_hold_a_container_back_that_was_served(node: Node) -> None:
    node.kubelet.admit(node.create(pod()))
    assert node.kubelet.start("uid-p", "main") == ""
    node.settings = replace(node.settings, factor=10)
    node.restart_agent(cdi=False)
    assert node.kubelet.start("uid-p", "main") == ""


def test_where_the_kubelet_did_not_ask_for_a_preference_the_pod_is_rejected_with_the_way_out(node: Node) -> None:
    raw = node.create(pod())
    node.kubelet.offered = node.kubelet.offered[:1]
    assert "enable_cdi = true" in node.kubelet.admit(raw)


def test_a_preference_is_good_for_one_answer_and_for_a_moment(node: Node) -> None:
    raw = node.create(pod(container("one", count=1), init=[container("init", count=1)]))
    assert "Turn CDI on" in node.kubelet.admit(raw), "the second container uses the first one's id unasked"


def test_a_pod_without_an_allocation_is_rejected(node: Node) -> None:
    assert "without allocating a card" in node.kubelet.admit(node.create(pod(ids=None)))


def test_an_answer_that_went_to_another_pod_does_not_start(node: Node) -> None:
    raw = node.create(pod(name="a", ids="GPU-a,NVIDIA,1000,0:"))
    node.kubelet.admit(raw)
    node.create(pod(name="b", ids="GPU-a,NVIDIA,1000,0:"))
    entry = node.kubelet.entries["uid-a", "main"]
    node.kubelet.forget("uid-a")
    node.kubelet._record("uid-b", "main", entry.device_ids, entry.response)  # noqa: SLF001
    assert "asked for while another pod was admitted" in node.kubelet.start("uid-b", "main")
