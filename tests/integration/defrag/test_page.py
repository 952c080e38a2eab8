"""The page about moves: its commands run in their order on a live cluster, and its tables have every rule."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml

from hami_plugins.cli import defrag_steps, main
from hami_plugins.defrag.values import StayRule
from hami_plugins.output import defrag
from hami_plugins.preemption.values import Rule
from tests.integration.defrag.cluster import site

TREE = Path(__file__).parents[3]
PAGE = (TREE / "docs" / "tasks" / "defragment.md").read_text(encoding="utf-8")
DUMP = TREE / "tests" / "golden" / "output" / "defrag-cluster.yaml"

NOT_FOR_MOVES = {Rule.PRIORITY, Rule.SCHEDULER, Rule.QUEUE, Rule.SHARE, Rule.YOUNGEST}
"""Rules about victims that do not hold for pods that get another place."""


def command_lines() -> list[list[str]]:
    blocks = re.findall(r"^```console\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    lines = [line for block in blocks for line in block.splitlines() if line.startswith("$ hami-plugins ")]
    return [shlex.split(line.removeprefix("$ hami-plugins "), comments=True) for line in lines]


def test_the_commands_run_as_they_stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(defrag_steps, "PAUSE", 0.02)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cluster.json").write_text(DUMP.read_text())
    with site(tmp_path) as place:
        for name in ("web", "kube-system"):
            place.server.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        for raw in yaml.safe_load_all(DUMP.read_text()):
            if raw["kind"] in {"Node", "Pod"}:
                place.server.put(raw)
        here = ["--kubeconfig", str(place.kubeconfig)]
        codes = [main([*words, *([] if "--snapshot" in words else here)]) for words in command_lines()]
        assert codes == [0] * len(command_lines())
        assert len(command_lines()) == 7
        moved = place.server.get("pods", "chat-1n", "web")
        assert moved["spec"]["nodeName"] == "gpu-b"


def test_the_table_has_every_rule_that_keeps_a_pod() -> None:
    _, rules, *_ = re.split(r"^## ", PAGE, flags=re.MULTILINE)
    listed = {
        word for cell in re.findall(r"^\| (`[^|]*) \|", rules, re.MULTILINE) for word in re.findall("`([^`]+)`", cell)
    }
    assert listed == {rule.value for rule in (*StayRule, *(set(Rule) - NOT_FOR_MOVES))}


def test_the_page_says_what_the_last_column_means() -> None:
    assert f"`{defrag.SURE}`" in PAGE
    assert f"`{defrag.IF_HELD}`" in PAGE
