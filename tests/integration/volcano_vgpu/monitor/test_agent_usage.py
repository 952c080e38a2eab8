"""The agent and its command on a node: containers' usage compared with the agent's allocation."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from hami_plugins.cli.kit import edge
from hami_plugins.cli.kit.edge import Exit
from hami_plugins.kube import paths
from hami_plugins.wire import usage
from hami_plugins.wire.usage import ReadStatus, UsageDoubt
from tests.integration.volcano_vgpu.machines import NODE, Machine, container, pod
from tests.integration.volcano_vgpu.monitor.trees import OTHER, host, process, put
from tests.shared_regions import GIB, Booked, Made, Slot, uuid
from tests.waiting import PATIENCE, wait_for
from volcano_vgpu.agent.app import Agent
from volcano_vgpu.monitor import monitor as running

A = uuid(1)
USING = Slot(pid=7, hostpid=4007, booked=[Booked(data=GIB, context=GIB, utilization=25)])


def settings(node: Machine, **monitor: Any) -> str:
    """The agent's own directories only: nothing of the machine that the test runs on."""
    return yaml.safe_dump({"monitor": {"directories": [], "proc": str(node.root / "proc"), **monitor}})


def regions(node: Machine) -> Path:
    return node.root / "hook" / "vgpu" / "containers"


def served(node: Machine, agent: Agent, name: str = "one") -> str:
    """A pod with 20 GiB that was started; its UID."""
    node.wait_ready(agent, 10)
    uid = node.create(pod(name, container(memory=20 * 1024, cores=50), ids=f"{A},NVIDIA,{20 * 1024},50:"))
    node.started(uid)
    return uid


def scraped(agent: Agent) -> Mapping[str, float]:
    host, port = agent.address
    with urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=PATIENCE) as answer:
        text = answer.read().decode()
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}


def shown(
    node: Machine,
    capsys: pytest.CaptureFixture[str],
    *arguments: str,
    kubeconfig: Path | None = None,
    config: str | None = None,
) -> int:
    """Runs the command as its users do; how it logs ends with it."""
    path = node.root / "usage.yaml"
    own = {"node": NODE, "cdiDirectory": str(node.kubelet.cdi_directory), "hookPath": str(node.root / "hook")}
    path.write_text(yaml.safe_dump(own | yaml.safe_load(config or settings(node))))
    kube = kubeconfig or node.server.kubeconfig(node.root / "kubeconfig")
    capsys.readouterr()  # what agents have logged until now
    return edge.run(["volcano-vgpu", "usage", "--config", str(path), "--kubeconfig", str(kube), *arguments])


def test_metrics_tell_what_is_used_beside_what_was_allocated(node: Machine) -> None:
    host(node.root / "proc")
    process(node.root / "proc", 4007, 7, cgroup="0::/\n")
    with node.agent(settings(node)) as agent:
        uid = served(node, agent)
        put(regions(node), Made(slots=[USING], uuids=(A,), limits=(20 * GIB,)), whose=f"{uid}_main")
        found = scraped(agent)
    whose = 'container="main",namespace="default",pod="one"'
    card = f'{whose},uuid="{A}"'
    assert found[f"volcano_vgpu_container_memory_allocated_bytes{{{card}}}"] == 20 * GIB
    assert found[f"volcano_vgpu_container_memory_limit_bytes{{{card}}}"] == 20 * GIB
    used = [value for name, value in found.items() if "container_memory_used_bytes" in name and A in name]
    assert sum(used) == 2 * GIB
    assert found[f"volcano_vgpu_container_utilization_ratio{{{card}}}"] == 0.25
    assert found[f'volcano_vgpu_container_processes{{{whose},state="running"}}'] == 1
    assert not [name for name in found if "feedback_active" in name]


def test_a_monitor_that_is_off_reads_nothing(node: Machine) -> None:
    with node.agent(settings(node, enabled=False)) as agent:
        uid = served(node, agent)
        put(regions(node), Made(slots=[USING], uuids=(A,)), whose=f"{uid}_main")
        found = scraped(agent)
    assert not [name for name in found if "container_memory_used" in name or "region_files" in name]


def test_who_asked_for_20_gib_and_uses_2_is_seen(node: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    with node.agent(settings(node)) as agent:
        uid = served(node, agent)
        put(regions(node), Made(slots=[USING], uuids=(A,), last_kernel=int(time.time())), whose=f"{uid}_main")
    put(regions(node), Made(slots=[USING], uuids=(A,)), whose=f"{OTHER}_lost")
    assert shown(node, capsys) == Exit.FINE
    head, first, second = capsys.readouterr().out.splitlines()
    assert " ".join(head.split()) == "POD CONTAINER CARD ALLOCATED USED SM LAST KERNEL PROCESSES REMARK"
    assert " ".join(first.split()).startswith(f"default/one main {A} 20 GiB 2 GiB 25% ")
    assert "may count killed processes" in first
    assert second.startswith(f"pod {OTHER}")


def test_the_document_can_be_read_again(node: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    with node.agent(settings(node)) as agent:
        uid = served(node, agent)
    assert shown(node, capsys, "-o", "json") == Exit.FINE
    found = usage.decode(json.loads(capsys.readouterr().out))
    assert (found.node, found.containers[0].pod_uid) == (NODE, uid)
    assert found.containers[0].reading is ReadStatus.NO_FILE
    assert found.containers[0].cards[0].allocated == 20 * GIB
    put(regions(node), Made(slots=[USING], uuids=(A,)), whose=f"{uid}_main")
    assert shown(node, capsys, "-o", "yaml") == Exit.FINE
    found = usage.decode(yaml.safe_load(capsys.readouterr().out))
    assert found.containers[0].doubts == {UsageDoubt.STALE}
    assert found.containers[0].cards[0].utilization == 0.25


def test_what_is_wrong_with_a_file_is_a_finding(node: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    put(regions(node), None, whose=f"{OTHER}_main").write_bytes(b"\x01" * 100)
    assert shown(node, capsys, "--no-headers") == Exit.FINDINGS
    captured = capsys.readouterr()
    assert "cannot be read; not a region of HAMi-core: magic 16843009, 100 bytes" in captured.out


def test_without_the_api_server_containers_are_told_by_their_uid(
    node: Machine, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    put(regions(node), Made(slots=[USING], uuids=(A,)), whose=f"{OTHER}_main")
    assert shown(node, capsys, "--no-headers", kubeconfig=tmp_path / "none") == Exit.FINE
    captured = capsys.readouterr()
    assert captured.out.startswith(f"pod {OTHER}   main   {A}   -   2 GiB")
    assert "note: pods are not known" in captured.err


def test_a_pod_that_has_ended_is_not_told(node: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    with node.agent(settings(node)) as agent:
        uid = served(node, agent)
        put(regions(node), Made(slots=[USING], uuids=(A,)), whose=f"{uid}_main")
        wait_for(lambda: node.pod("one")["status"].get("phase") == "Running", "the kubelet has said that it runs")
        node.api.merge_patch(paths.pod_status("default", "one"), {"status": {"phase": "Succeeded"}})
        wait_for(lambda: not [name for name in scraped(agent) if "memory_used_bytes{c" in name], "its metrics end")
        assert shown(node, capsys, "--no-headers") == Exit.FINE
    assert "default/one" not in capsys.readouterr().out


def test_containers_of_the_plugin_before_are_told_with_their_allocation(
    node: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has another directory, and the allocation is known only from the pod."""
    theirs = node.root / "theirs"
    uid = node.create(pod("old", container(), ids=f"{A},NVIDIA,4096,0:"))
    put(theirs, Made(layout="v1.1", slots=[USING], uuids=(A,)), whose=f"{uid}_main", name="0f.cache")
    assert shown(node, capsys, "--no-headers", config=settings(node, directories=[str(theirs)])) == Exit.FINE
    assert capsys.readouterr().out.startswith(f"default/old   main   {A}   4 GiB   2 GiB")


def test_feedback_blocks_the_lower_priority_and_the_end_of_the_agent_lets_it_go(
    node: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "TICK_SECONDS", 0.02)
    theirs = node.root / "theirs"  # where no agent tidies up after pods that it does not know
    low = put(theirs, Made(priority=5, recent=0), whose=f"{OTHER}_low")
    at = len(low.read_bytes()) - 49

    def recent() -> int:
        return int.from_bytes(low.read_bytes()[at : at + 4], "little", signed=True)

    def blocked() -> bool:
        put(theirs, Made(priority=0, recent=3), whose=f"{OTHER}_high")
        return recent() == -1

    with node.agent(settings(node, feedback=True, directories=[str(theirs)])) as agent:
        node.wait_ready(agent, 10)
        wait_for(blocked, "the lower priority is blocked")
        wait_for(lambda: scraped(agent)["volcano_vgpu_feedback_active"] == 1, "it says that it writes")
        assert scraped(agent)["volcano_vgpu_feedback_writes_total"] > 0
    assert recent() == 0
    assert not (node.root / "hook" / "vgpu" / "feedback.lock").exists()


def test_an_agent_without_feedback_lets_go_what_one_with_it_left_blocked(node: Machine) -> None:
    theirs = node.root / "theirs"
    low = put(theirs, Made(recent=-1), whose=f"{OTHER}_low")
    lock = node.root / "hook" / "vgpu" / "feedback.lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    at = len(low.read_bytes()) - 49
    with node.agent(settings(node, directories=[str(theirs)])) as agent:
        node.wait_ready(agent, 10)
        wait_for(lambda: low.read_bytes()[at : at + 4] == bytes(4), "it may compute")
        wait_for(lambda: not lock.exists(), "the lock is gone")
