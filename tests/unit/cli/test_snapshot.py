"""``snapshot``: one file that can be planned on elsewhere."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from tests import pool_objects
from tests.unit.cli.conftest import Type


@pytest.mark.parametrize("name", ["s.json", "s.json.gz"])
def test_a_plan_on_the_file_is_the_plan_on_the_cluster(type_in: Type, job: Path, tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    said = type_in("snapshot", "--fleet", "mixed", "--out", file)
    assert (said.code, said.out) == (0, "")
    assert "16 Nodes" in said.err
    there = type_in("plan", "-f", job, "--snapshot", file).out
    assert there == type_in("plan", "-f", job, "--fleet", "mixed").out


def test_a_redacted_file_names_nobody(type_in: Type) -> None:
    said = json.loads(type_in("snapshot", "--fleet", "mixed", "--redact").out)
    assert said["metadata"]["redacted"]
    assert {item["metadata"]["name"] for item in said["items"]} == {f"node-{at:02}" for at in range(16)}


def test_the_words_that_stay_are_printed(type_in: Type) -> None:
    said = type_in("snapshot", "--kept-words")
    assert said.code == 0
    assert "Names of resources:\n" in said.out
    assert "  volcano.sh/vgpu-number\n" in said.out


def test_the_commands_of_the_page_work(type_in: Type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = Path(__file__).parents[3] / "docs/reference/redaction.md"
    (block,) = re.findall(r"^```sh\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    for line in block.splitlines():
        words = line.partition(" #")[0].split()[1:]
        assert type_in(*words, *(() if "--kept-words" in words else ("--fleet", "mixed"))).code == 0
    assert [file.name for file in tmp_path.iterdir()] == ["cluster.snapshot.gz"]


def test_a_snapshot_of_a_dump_can_be_yaml(type_in: Type) -> None:
    dump = '{"kind": "Node", "metadata": {"name": "n"}}'
    said = yaml.safe_load(type_in("snapshot", "--snapshot", "-", "-o", "yaml", stdin=dump).out)
    assert said["kind"] == "ClusterSnapshot"
    assert said["items"][0]["metadata"]["name"] == "n"


def test_there_is_no_snapshot_of_nothing(type_in: Type) -> None:
    assert type_in("snapshot", "--snapshot", "-", stdin='{"kind": "List", "items": []}').code == 2


def test_a_node_pool_without_nodes_is_a_cluster(type_in: Type) -> None:
    dump = json.dumps({"kind": "List", "items": [pool_objects.a_node_pool()]})
    said = json.loads(type_in("snapshot", "--snapshot", "-", stdin=dump).out)
    assert [each["kind"] for each in said["items"]] == ["NodePool"]
