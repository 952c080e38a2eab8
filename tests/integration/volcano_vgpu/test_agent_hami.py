"""The whole agent in HAMi's dialect on a node of the embedded cluster, and the change of the dialect under pods."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from hami_plugins.cli.kit.edge import Exit
from hami_plugins.cli.kit.options import Form
from hami_plugins.kube import paths
from tests import raw_objects
from tests.integration.volcano_vgpu.machines import CARDS, NODE, Machine
from tests.integration.volcano_vgpu.machines import container as volcano_container
from tests.integration.volcano_vgpu.machines import pod as volcano_pod
from tests.waiting import wait_for
from volcano_vgpu.agent.app import Agent
from volcano_vgpu.commands.agent import AgentInputs, run_clean
from volcano_vgpu.commands.usage import show_usage
from volcano_vgpu.commands.verification import verdict

A, B = "GPU-aaaaaaaa-1", "GPU-bbbbbbbb-2"
GPU = "nvidia.com/gpu"
NUMBER = "volcano.sh/vgpu-number"
HAMI = "dialect: hami"
REGISTER = "hami.io/node-nvidia-register"
VOLCANO_REGISTER = "volcano.sh/node-vgpu-register"


def container(name: str = "main", *, gpus: int = 1, memory: int = 1000, **more: Any) -> dict[str, Any]:
    limits = {GPU: str(gpus), "nvidia.com/gpumem": str(memory), "nvidia.com/gpucores": "30"}
    return {"name": name, "image": "x", "resources": {"limits": limits}, **more}


def pod(name: str, *containers: Mapping[str, Any], ids: str, phase: str = "", **more: Any) -> dict[str, Any]:
    """A pod as HAMi's scheduler binds it, or without a ``phase`` our allocator."""
    annotations = {
        "hami.io/vgpu-devices-allocated": ids,
        "hami.io/vgpu-devices-to-allocate": ids,
        "hami.io/vgpu-node": NODE,
        "hami.io/vgpu-time": "1795246593",
    }
    if phase:
        annotations |= {"hami.io/bind-phase": phase, "hami.io/bind-time": "1795246593"}
    metadata = {"namespace": "default", "annotations": annotations}
    return raw_objects.pod(name, *containers, metadata=metadata, scheduler="hami-scheduler", node=NODE, **more)


def notes(node: Machine) -> Mapping[str, str]:
    found: Mapping[str, str] = node.node()["metadata"].get("annotations", {})
    return found


def wait_ready(node: Machine, agent: Agent, resource: str = GPU) -> None:
    node.wait_ready(agent, 20, resource)


def test_a_container_gets_exactly_what_hamis_annotation_has_for_it(node: Machine) -> None:
    with node.agent(HAMI) as agent:
        wait_ready(node, agent)
        ids = f"{A},NVIDIA,500,10:;{B},NVIDIA,2000,30:;"
        init = container("init", memory=500)
        uid = node.create(pod("one", container(memory=2000), ids=ids, initContainers=[init]))
        first = node.started(uid, "init")
        assert (first["NVIDIA_VISIBLE_DEVICES"], first["CUDA_DEVICE_MEMORY_LIMIT_0"]) == (A, "500m")
        node.kubelet.finish(uid, "init", exit_code=0)
        env = node.started(uid)
        assert env["NVIDIA_VISIBLE_DEVICES"] == B
        assert env["CUDA_DEVICE_MEMORY_LIMIT_0"] == "2000m"
        assert env["CUDA_DEVICE_SM_LIMIT"] == "30"
        assert env["CUDA_DEVICE_MEMORY_SHARED_CACHE"].startswith("/usr/local/vgpu/")


def test_a_node_has_hamis_register_no_sums_and_no_further_write(node: Machine) -> None:
    with node.agent(HAMI) as agent:
        wait_ready(node, agent)
        cards = json.loads(notes(node)[REGISTER])
        assert cards[0] == {
            "id": A,
            "count": 10,
            "devmem": 40960,
            "devcore": 100,
            "type": "NVIDIA A100-SXM4-40GB",
            "mode": "hami-core",
            "health": True,
            "agent": "hami-plugins",
        }
        assert [(card["id"], card.get("index"), card.get("numa")) for card in cards] == [(A, None, None), (B, 1, 1)]
        assert not [name for name in node.node()["status"]["capacity"] if "volcano.sh" in name]
        assert not [key for key in notes(node) if "volcano.sh" in key or "handshake" in key]
        assert agent.publisher.written == 1


def test_a_scheduler_that_asks_whether_the_node_is_alive_is_left_without_an_answer(node: Machine) -> None:
    with node.agent(HAMI) as agent:
        wait_ready(node, agent)
        asked = {"metadata": {"annotations": {"hami.io/node-handshake": "Requesting_2026-08-14 09:31:07"}}}
        node.api.merge_patch(paths.node(NODE), asked)
        node.write_cards(CARDS[0], {**CARDS[1], "problems": ["XID 79: gone"]})
        wait_for(lambda: "health" not in json.loads(notes(node)[REGISTER])[1], "the card is registered as unhealthy")
        wait_for(lambda: node.allocatable(GPU) == 10, "its slots are gone")
        assert notes(node)["hami.io/node-handshake"] == "Requesting_2026-08-14 09:31:07"


def test_an_older_scheduler_is_answered_where_that_is_set(node: Machine) -> None:
    with node.agent("dialect: hami\nscheduler: {handshake: always}") as agent:
        wait_ready(node, agent)
        asked = {"metadata": {"annotations": {"hami.io/node-handshake": "Requesting_2026-08-14 09:31:07"}}}
        node.api.merge_patch(paths.node(NODE), asked)
        wait_for(lambda: notes(node)["hami.io/node-handshake"].startswith("Reported"), "the question is answered")


def test_nothing_is_written_on_a_pod_whose_scheduler_waits_for_nothing(node: Machine) -> None:
    with node.agent(HAMI) as agent:
        wait_ready(node, agent)
        uid = node.create(pod("one", container(), ids=f"{A},NVIDIA,1000,30:;"))
        before = node.pod("one")["metadata"]["annotations"]
        node.started(uid)
        assert node.pod("one")["metadata"]["annotations"] == before


def test_hamis_own_scheduler_sees_its_pod_served_and_its_lock_released(node: Machine) -> None:
    with node.agent(HAMI) as agent:
        wait_ready(node, agent)
        lock = {"hami.io/mutex.lock": "2026-08-14T09:31:07Z,default,one"}
        node.api.merge_patch(paths.node(NODE), {"metadata": {"annotations": lock}})
        uid = node.create(pod("one", container(), ids=f"{A},NVIDIA,1000,30:;", phase="allocating"))
        node.started(uid)
        wait_for(lambda: "hami.io/mutex.lock" not in notes(node), "the lock is released")

        def served() -> dict[str, str]:
            found: dict[str, str] = node.pod("one")["metadata"]["annotations"]
            return found if found["hami.io/bind-phase"] == "success" else {}

        annotations = wait_for(served, "the pod is served; the lock does not wait for that")
        assert annotations["hami.io/vgpu-devices-to-allocate"].strip(";") == ""
        assert annotations["hami.io/vgpu-devices-allocated"] == f"{A},NVIDIA,1000,30:;"


def test_a_lock_does_not_last_until_a_pod_can_start(node: Machine) -> None:
    """The agent needs none, and the next pod of the node has to wait for it."""
    with node.agent(HAMI) as agent:
        wait_ready(node, agent)
        lock = {"hami.io/mutex.lock": "2026-08-14T09:31:07Z,default,one"}
        node.api.merge_patch(paths.node(NODE), {"metadata": {"annotations": lock}})
        node.create(pod("one", container(), ids="GPU-to-come,NVIDIA,1000,30:;", phase="allocating"))
        wait_for(lambda: "hami.io/mutex.lock" not in notes(node), "the lock is released")
        assert node.pod("one")["metadata"]["annotations"]["hami.io/bind-phase"] == "allocating"


def test_a_lock_of_another_pod_stays(node: Machine) -> None:
    with node.agent(HAMI) as agent:
        wait_ready(node, agent)
        lock = {"hami.io/mutex.lock": "2026-08-14T09:31:07Z,default,other"}
        node.api.merge_patch(paths.node(NODE), {"metadata": {"annotations": lock}})
        uid = node.create(pod("one", container(), ids=f"{A},NVIDIA,1000,30:;", phase="allocating"))
        node.started(uid)
        wait_for(lambda: node.pod("one")["metadata"]["annotations"]["hami.io/bind-phase"] == "success", "served")
        node.write_cards(CARDS[0], {**CARDS[1], "problems": ["hot"]})
        wait_for(lambda: "health" not in json.loads(notes(node)[REGISTER])[1], "the node is written again")
        assert notes(node)["hami.io/mutex.lock"] == lock["hami.io/mutex.lock"]


def test_the_dialect_changes_to_hami_under_a_pod_that_runs_on_and_may_start_again(node: Machine) -> None:
    with node.agent() as agent:
        wait_ready(node, agent, NUMBER)
        ids = f"{A},NVIDIA,30000,0:"
        uid = node.create(volcano_pod("old", volcano_container(memory=30000), ids=ids))
        before = node.started(uid)
    with node.agent(HAMI) as agent:
        wait_ready(node, agent)
        wait_for(lambda: not [key for key in notes(node) if key.startswith("volcano.sh/")], "Volcano's words are gone")
        wait_for(lambda: "volcano.sh/vgpu-memory" not in node.node()["status"]["capacity"], "and its sums")
        assert node.allocatable(NUMBER) == 0
        node.kubelet.finish(uid, "main", exit_code=1)
        wait_for(lambda: len(node.kubelet.containers(uid, "main")) == 2, "the container starts again")
        assert node.started(uid) == before
        node.create(pod("new", container(memory=20000), ids=f"{A},NVIDIA,20000,30:;"))
        told = wait_for(lambda: node.waits("new"), "what the old pod holds is not given again")
        assert "default/old" in told
        fits = node.create(pod("fits", container(memory=10000), ids=f"{A},NVIDIA,10000,30:;"))
        assert node.started(fits)["CUDA_DEVICE_MEMORY_LIMIT_0"] == "10000m"


def test_the_dialect_changes_to_volcano_under_a_pod_that_runs_on_and_may_start_again(node: Machine) -> None:
    with node.agent(HAMI) as agent:
        wait_ready(node, agent)
        uid = node.create(pod("old", container(memory=30000), ids=f"{A},NVIDIA,30000,30:;"))
        before = node.started(uid)
    with node.agent() as agent:
        wait_ready(node, agent, NUMBER)
        wait_for(lambda: not [key for key in notes(node) if key.startswith("hami.io/")], "HAMi's words are gone")
        assert node.allocatable(GPU) == 0
        node.kubelet.finish(uid, "main", exit_code=1)
        wait_for(lambda: len(node.kubelet.containers(uid, "main")) == 2, "the container starts again")
        assert node.started(uid) == before
        node.create(volcano_pod("new", volcano_container(memory=20000), ids=f"{A},NVIDIA,20000,0:"))
        told = wait_for(lambda: node.waits("new"), "what the old pod holds is not given again")
        assert "default/old" in told


def test_the_agent_does_not_start_beside_hamis_own_plugin(node: Machine) -> None:
    wait_for(lambda: NODE in [each["metadata"]["name"] for each in node.api.get("/api/v1/nodes")["items"]], "the node")
    node.api.merge_patch(paths.node_status(NODE), {"status": {"capacity": {GPU: "10"}, "allocatable": {GPU: "10"}}})
    with node.agent(HAMI) as agent:
        told = wait_for(lambda: agent.trouble if GPU in agent.trouble else "", "the agent waits")
        assert "another plugin allocates the same cards" in told
        assert REGISTER not in notes(node)


def inputs_for(node: Machine, folder: Path) -> AgentInputs:
    settings = {
        "dialect": "hami",
        "kubeletDirectory": str(node.kubelet.plugin_directory),
        "cdiDirectory": str(node.kubelet.cdi_directory),
        "hookPath": str(node.root / "hook"),
        "lockPath": str(node.root / "lock"),
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(settings))
    kubeconfig = node.server.kubeconfig(folder / "kubeconfig")
    return AgentInputs(config=str(folder / "config.yaml"), node_name=NODE, kubeconfig=str(kubeconfig))


def test_the_commands_know_a_node_of_hami(node: Machine, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with node.agent(HAMI) as agent:
        wait_ready(node, agent)
        uid = node.create(pod("one", container(memory=2000), ids=f"{A},NVIDIA,2000,30:;"))
        node.started(uid)
        inputs = inputs_for(node, tmp_path)
        found = verdict(node.api, inputs.settings(), allocator="", nodes=True)
        assert (found.fine, [(each.cards, each.slots, each.memory) for each in found.nodes]) == (True, [(2, 20, 81920)])
        assert show_usage(inputs, form=Form.JSON, headers=True) == Exit.FINE
        assert str(2000 << 20) in capsys.readouterr().out
        node.api.delete(paths.pod("default", "one"))
        wait_for(lambda: not node.find_pod("one"), "the pod is gone")
    assert run_clean(inputs, dry_run=False) == Exit.FINE
    assert f"the kubelet may write {GPU}: 0 again" in capsys.readouterr().err
    assert not [key for key in notes(node) if "hami" in key or "volcano" in key]
    assert not list(node.kubelet.cdi_directory.iterdir())


def test_a_register_that_cannot_be_read_is_a_finding(node: Machine) -> None:
    with node.agent(HAMI) as agent:
        wait_ready(node, agent)
    broken = notes(node)[REGISTER].replace('"count":10', '"count":"ten"')
    node.api.merge_patch(paths.node(NODE), {"metadata": {"annotations": {REGISTER: broken}}})
    settings = AgentInputs(node_name=NODE).settings()
    (found,) = verdict(node.api, settings, allocator="", nodes=True).nodes
    assert "count" in found.complaint
