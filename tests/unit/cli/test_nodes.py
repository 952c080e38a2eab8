"""``nodes``: what is on the cards, who holds what, where is room."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from hami_plugins.cli import nodes, plan
from tests.schema import ADAPTER
from tests.unit.cli.conftest import Type

DUMP = Path(__file__).parents[2] / "golden" / "output" / "nodes-cluster.yaml"
GOOD = Path(__file__).parents[2] / "golden" / "output" / "koordinator-cluster.yaml"


def test_everything_is_fine_where_all_could_be_read(type_in: Type) -> None:
    said = type_in("nodes", "--fleet", "mixed")
    assert said.code == 0
    assert said.out.splitlines()[-1] == "16 nodes, 130 cards"


def test_one_malformed_object_hides_nothing_and_is_a_finding(type_in: Type) -> None:
    said = type_in("nodes", "--snapshot", DUMP)
    assert said.code == 1
    assert "ml/train-0 16 GiB" in said.out
    assert "note: node broken: hami.io/node-nvidia-register[0].count: expected an integer" in said.err


def test_the_document_is_the_one_of_the_schema(type_in: Type) -> None:
    said = json.loads(type_in("nodes", "--snapshot", DUMP, "-o", "json").out)
    ADAPTER.validate_python(said)
    assert said["summary"] == {"nodes": 4, "devices": 9, "withoutDevices": 2}


def test_what_waits_is_told_at_the_end_with_numbers_and_a_change(type_in: Type, tmp_path: Path) -> None:
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "90000"}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "big", "namespace": "ml", "uid": "u", "creationTimestamp": "2026-01-01T10:00:00Z"},
        "spec": {"schedulerName": "hami-scheduler", "containers": [{"name": "c", "resources": {"limits": limits}}]},
        "status": {"phase": "Pending"},
    }
    dump, page = tmp_path / "dump.json", tmp_path / "page.html"
    nodes_of = json.loads(type_in("snapshot", "--fleet", "t4x1", "-o", "json").out)["items"]
    dump.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [*nodes_of, pod]}))
    said = type_in("nodes", "--snapshot", dump, "--html", page)
    assert "1 pod waits for devices:" in said.out
    assert "ml/big since 2026-01-01 10:00 UTC: " in said.out
    assert "-> fits with nvidia.com/gpumem: " in said.out
    document = json.loads(type_in("nodes", "--snapshot", dump, "-o", "json").out)
    ADAPTER.validate_python(document)
    assert [each["names"] for each in document["waiting"]["groups"]] == [["ml/big"]]
    assert "What waits, and why" in page.read_text()


def test_yaml_has_the_same(type_in: Type) -> None:
    assert "kind: NodeDevices\n" in type_in("nodes", "--snapshot", DUMP, "-o", "yaml").out


def test_nodes_vendors_and_free_room_can_be_chosen(type_in: Type) -> None:
    said = type_in("nodes", "--snapshot", DUMP, "m*", "--vendor", "nvidia", "--free", "--no-headers")
    assert " ".join(said.out.splitlines()[0].split()) == "mig 1 NVIDIA A100 40 GiB free 0/40 GiB 0/100 0/7 -"
    assert said.out.splitlines()[-1] == "1 node, 1 card"


def test_nothing_to_show_is_one_line(type_in: Type) -> None:
    assert type_in("nodes", "--snapshot", DUMP, "cpu-only").out == "0 nodes, 0 cards; 1 node without cards\n"


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("cpu-onyl",), "no node is called cpu-onyl; the cluster has 6, such as cpu-only"),
        (("--vendor", "nobody"), "--vendor nobody: unknown vendor; known are NVIDIA, "),
        (("--watch",), "--watch follows a live cluster; leave out --snapshot and --fleet"),
        (("--html", "/nowhere/a.html"), "--html /nowhere/a.html: folder /nowhere does not exist"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(type_in: Type, words: tuple[str, ...], error: str) -> None:
    said = type_in("nodes", "--snapshot", DUMP, *words)
    assert (said.code, said.out) == (2, "")
    assert error in said.err


def test_a_listing_without_pods_is_refused_if_asked(type_in: Type, tmp_path: Path) -> None:
    file = tmp_path / "nodes.json"
    file.write_text(type_in("snapshot", "--fleet", "mixed").out.replace('"complete":true', '"complete":false'))
    assert "note: no pods in this listing: every device counts as unused" in type_in("nodes", "--snapshot", file).out
    said = type_in("nodes", "--snapshot", file, "--strict")
    assert said.code == 2
    assert "every device counts as unused" in said.err


def test_the_page_is_written(type_in: Type, tmp_path: Path) -> None:
    file = tmp_path / "nodes.html"
    said = type_in("nodes", "--snapshot", GOOD, "--html", file)
    assert said.code == 0
    assert f"note: page: {file.as_uri()}" in said.err
    assert "koordinator-cluster.yaml" in file.read_text()


def test_a_redacted_snapshot_shows_the_same_amounts(type_in: Type, tmp_path: Path) -> None:
    file = tmp_path / "s.json"
    type_in("snapshot", "--snapshot", DUMP, "--redact", "--out", file)
    said = type_in("nodes", "--snapshot", file).out
    assert "13.1 GiB stranded: all 2 slots are taken" in said
    assert "train-0" not in said


def test_a_watched_table_is_as_long_as_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LINES", "20")
    assert nodes.most_rows(watched=False, below=2) == plan.MOST_ROWS
    assert nodes.most_rows(watched=True, below=2) == plan.MOST_ROWS
    terminal = io.StringIO()
    terminal.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr("sys.stdout", terminal)
    assert nodes.most_rows(watched=True, below=2) == 12
    assert nodes.most_rows(watched=True, below=90) == 1
