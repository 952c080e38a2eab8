"""The whole agent on a node of the embedded cluster, over real sockets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.integration.volcano_vgpu.machines import CARDS, Machine, container, pod
from tests.waiting import wait_for
from volcano_vgpu.agent.containers import device_files

A, B = "GPU-aaaaaaaa-1", "GPU-bbbbbbbb-2"


def test_a_container_gets_exactly_what_volcano_allocated(node: Machine) -> None:
    with node.agent() as agent:
        node.wait_ready(agent, 20)
        uid = node.create(pod("one", container(memory=2000, cores=30), ids=f"{B},NVIDIA,2000,30:"))
        env = node.started(uid)
        assert env["NVIDIA_VISIBLE_DEVICES"] == B
        assert env["CUDA_DEVICE_MEMORY_LIMIT_0"] == "2000m"
        assert env["CUDA_DEVICE_SM_LIMIT"] == "30"
        wait_for(
            lambda: node.pod("one")["metadata"]["annotations"]["volcano.sh/bind-phase"] == "success",
            "Volcano is told that the pod is served",
        )
        annotations = node.pod("one")["metadata"]["annotations"]
        assert annotations["volcano.sh/devices-to-allocate"].strip(";") == ""
        assert annotations["volcano.sh/vgpu-ids-new"] == f"{B},NVIDIA,2000,30:"


def test_a_node_says_its_cards_once_and_then_nothing(node: Machine) -> None:
    with node.agent() as agent:
        node.wait_ready(agent, 20)
        found = node.node()
        assert found["metadata"]["annotations"]["volcano.sh/node-vgpu-register"] == (
            f"{A},10,40960,NVIDIA-NVIDIA A100-SXM4-40GB,true,hami-core:"
            f"{B},10,40960,NVIDIA-NVIDIA A100-SXM4-40GB,true,hami-core:"
        )
        assert found["status"]["capacity"]["volcano.sh/vgpu-memory"] == "81920"
        assert found["status"]["capacity"]["volcano.sh/vgpu-cores"] == "200"
        assert agent.publisher.written == 2


def test_a_pod_without_an_allocation_waits_and_says_why(node: Machine) -> None:
    with node.agent() as agent:
        node.wait_ready(agent, 20)
        node.create(pod("bare", container(), ids=None))
        text = wait_for(lambda: node.waits("bare"), "the container waits")
        assert "volcano.sh/vgpu-ids-new" in text
        events = wait_for(
            lambda: [
                each
                for each in node.api.get("/api/v1/namespaces/default/events")["items"]
                if each["reason"] == "VgpuRefused"
            ],
            "the pod has an event",
        )
        assert events[0]["involvedObject"]["name"] == "bare"


def test_an_unhealthy_card_is_not_offered_until_it_is_well_again(node: Machine) -> None:
    with node.agent() as agent:
        node.wait_ready(agent, 20)
        node.write_cards(CARDS[0], {**CARDS[1], "problems": ["XID 79: gone"]})
        wait_for(lambda: node.allocatable() == 10, "the slots of the card are gone")
        wait_for(
            lambda: B not in node.node()["metadata"]["annotations"]["volcano.sh/node-vgpu-register"],
            "the card has left the register",
        )
        node.write_cards(*CARDS)
        wait_for(lambda: node.allocatable() == 20, "the slots of the card are back")
        wait_for(
            lambda: B in node.node()["metadata"]["annotations"]["volcano.sh/node-vgpu-register"],
            "the card is back in the register",
        )


def test_a_restarted_agent_changes_nothing_and_goes_on(node: Machine) -> None:
    with node.agent() as agent:
        node.wait_ready(agent, 20)
        uid = node.create(pod("one", container(memory=2000), ids=f"{A},NVIDIA,2000,0:"))
        before = node.started(uid)
        wait_for(
            lambda: node.pod("one")["metadata"]["annotations"]["volcano.sh/bind-phase"] == "success", "it is served"
        )
    with node.agent() as agent:
        wait_for(lambda: not agent.trouble, f"the agent is ready: {agent.trouble}")
        node.kubelet.finish(uid, "main", exit_code=1)
        wait_for(lambda: len(node.kubelet.containers(uid, "main")) == 2, "the container starts again")
        assert node.started(uid) == before
        assert agent.publisher.written == 0


def test_device_files_are_handed_over_where_that_is_set(node: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("volcano_vgpu.agent.serving.device_files", lambda: ("/dev/nvidiactl",))
    with node.agent("container: {passDeviceSpecs: true}") as agent:
        node.wait_ready(agent, 20)
        uid = node.create(pod("one", container(memory=2000), ids=f"{B},NVIDIA,2000,0:"))
        node.started(uid)
        (text,) = (path.read_text() for path in node.kubelet.cdi_directory.glob("*.json"))
        (device,) = json.loads(text)["devices"]
        paths = [each["path"] for each in device["containerEdits"]["deviceNodes"]]
        assert paths == ["/dev/nvidiactl", "/dev/nvidia1"]


def test_device_files_are_those_that_the_driver_has_made(tmp_path: Path) -> None:
    (tmp_path / "nvidia-uvm").touch()
    (tmp_path / "nvidiactl").touch()
    assert device_files(tmp_path) == (str(tmp_path / "nvidiactl"), str(tmp_path / "nvidia-uvm"))
