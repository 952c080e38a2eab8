"""``cards`` and ``clean``: what they print, what they remove, and what they leave alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from hami_plugins.cli.kit.edge import Exit
from hami_plugins.cli.kit.options import Form
from hami_plugins.kube import paths
from tests.integration.volcano_vgpu.machines import CARDS, NODE, NUMBER, Machine, container, pod
from tests.schema import published
from tests.waiting import wait_for
from volcano_vgpu.commands.agent import AgentInputs, list_cards, run_clean

A = "GPU-aaaaaaaa-1"
OURS = ("volcano.sh/node-vgpu-register", "volcano.sh/node-vgpu-handshake", "volcano.sh/vgpu-touched")


def cards_file(folder: Path, *cards: object) -> str:
    path = folder / "cards.yaml"
    path.write_text(yaml.safe_dump({"driver": "550.1", "cards": list(cards)}))
    return str(path)


def test_cards_are_listed_with_what_they_would_be_registered_as(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = cards_file(tmp_path, CARDS[0], {**CARDS[1], "problems": ["XID 79: gone"]})
    assert list_cards(AgentInputs(cards_file=file, node_name="n1"), form=Form.TABLE, headers=False) == Exit.FINE
    first, second = capsys.readouterr().out.splitlines()
    assert first.split()[0] == A
    assert first.rstrip().endswith("registered")
    assert "10" in first.split()
    assert "XID 79: gone" in second


def test_cards_are_a_document_for_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = cards_file(tmp_path, CARDS[0])
    assert list_cards(AgentInputs(cards_file=file, node_name="n1"), form=Form.JSON, headers=True) == Exit.FINE
    found = published(capsys.readouterr().out)
    assert found["kind"] == "VolcanoCards"
    assert found["capacity"]["volcano.sh/vgpu-memory"] == "40960"
    assert found["annotations"][OURS[0]].startswith(f"{A},10,40960,NVIDIA-")


def test_the_agent_loads_nothing_that_plans() -> None:
    """It runs on every node, within 100 MiB."""
    loaded = "import sys, volcano_vgpu.commands.agent; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert "volcano_vgpu.agent.app" in done.stdout.split()
    planning = ("hami_plugins.plan", "hami_plugins.explain", "hami_plugins.suggest")
    assert [name for name in done.stdout.split() if name.startswith(planning)] == []


def test_without_cards_it_says_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inputs = AgentInputs(cards_file=str(tmp_path / "none.yaml"), node_name="n1")
    assert list_cards(inputs, form=Form.TABLE, headers=True) == Exit.UNABLE
    assert "none.yaml" in capsys.readouterr().err


def inputs_for(node: Machine, folder: Path) -> AgentInputs:
    config = folder / "clean.yaml"
    config.write_text(
        yaml.safe_dump(
            {
                "kubeletDirectory": str(node.kubelet.plugin_directory),
                "cdiDirectory": str(node.kubelet.cdi_directory),
                "hookPath": str(node.root / "hook"),
                "lockPath": str(node.root / "lock"),
            }
        )
    )
    kubeconfig = node.server.kubeconfig(folder / "kubeconfig")
    return AgentInputs(config=str(config), node_name=NODE, kubeconfig=str(kubeconfig))


def remains(node: Machine) -> list[str]:
    """Everything of ours that is left, on the node and in its object."""
    found = node.node()
    annotations = found["metadata"].get("annotations") or {}
    capacity = found["status"].get("capacity") or {}
    words = [key for key in OURS if key in annotations]
    words += [key for key in ("volcano.sh/vgpu-memory", "volcano.sh/vgpu-cores") if key in capacity]
    words += [NUMBER] if node.allocatable() else []
    folders = (node.kubelet.cdi_directory, node.root / "hook" / "vgpu" / "containers", node.root / "hook")
    return words + [str(path) for folder in folders if folder.exists() for path in folder.iterdir() if path.is_file()]


def test_clean_is_refused_while_the_agent_answers(
    node: Machine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with node.agent() as agent:
        node.wait_ready(agent, 20)
        assert run_clean(inputs_for(node, tmp_path), dry_run=False) == Exit.UNABLE
        assert "volcano-vgpu.sock" in capsys.readouterr().err
        assert node.allocatable() == 20


def test_a_dry_run_names_everything_and_removes_nothing(
    node: Machine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with node.agent() as agent:
        node.wait_ready(agent, 20)
        before = remains(node)
        run_clean(inputs_for(node, tmp_path), dry_run=True)
        said = capsys.readouterr().out
        assert all(key in said for key in OURS)
        assert "libvgpu.so" in said
        assert "would remove" in said
        assert remains(node) == before


def test_clean_leaves_nothing_but_the_zero_that_the_kubelet_goes_on_writing(
    node: Machine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with node.agent() as agent:
        node.wait_ready(agent, 20)
        uid = node.create(pod("one", container(memory=2000), ids=f"{A},NVIDIA,2000,0:"))
        node.started(uid)
        node.api.delete(paths.pod("default", "one"))
        wait_for(lambda: not node.find_pod("one"), "the pod is gone")
    assert run_clean(inputs_for(node, tmp_path), dry_run=False) == Exit.FINE
    assert remains(node) == []
    assert f"the kubelet may write {NUMBER}: 0 again" in capsys.readouterr().err
    assert run_clean(inputs_for(node, tmp_path), dry_run=True) == Exit.FINE
    said = capsys.readouterr().out.splitlines()
    assert said in (
        [f"nothing of the agent is left on node {NODE}"],
        [f"would remove: node {NODE}: capacity {NUMBER}"],
    )


def test_what_a_running_container_uses_is_kept_and_named(
    node: Machine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with node.agent() as agent:
        node.wait_ready(agent, 20)
        uid = node.create(pod("one", container(memory=2000), ids=f"{A},NVIDIA,2000,0:"))
        node.started(uid)
        wait_for(lambda: node.pod("one")["status"].get("phase") == "Running", "the pod runs")
    assert run_clean(inputs_for(node, tmp_path), dry_run=False) == Exit.FINDINGS
    said = capsys.readouterr().out
    assert f"pod {uid} still runs" in said
    assert (node.root / "hook" / "libvgpu.so").exists()
    assert (node.root / "hook" / "vgpu" / "containers" / f"{uid}_main").is_dir()
