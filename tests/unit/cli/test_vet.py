"""``vet``: what goes in, what comes out, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import orjson
import pytest
import yaml

from hami_plugins.report import fleets
from hami_plugins.report.vet import RULES
from tests.unit.cli.conftest import FITS, TOO_BIG, Type

WRONG = FITS.replace("4000", "16Gi")
NOTED = FITS.replace(", nvidia.com/gpumem: 4000", "")


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    file = tmp_path / "wrong.yaml"
    file.write_text(WRONG, encoding="utf-8")
    return file


def test_manifests_without_mistakes_end_with_zero(type_in: Type, job: Path) -> None:
    said = type_in("vet", "-f", job)
    assert (said.code, said.out, said.err) == (0, "no findings in 1 file\n", "")


def test_mistakes_are_lines_to_jump_from_and_end_with_one(type_in: Type, wrong: Path) -> None:
    said = type_in("vet", "-f", wrong)
    assert said.code == 1
    first, last = said.out.splitlines()
    assert first.startswith(f"{wrong}:8:45: HP211 error: Pod default/small: container main: nvidia.com/gpumem=16Gi")
    assert last == "1 error in 1 file"


def test_notes_do_not_fail(type_in: Type) -> None:
    said = type_in("vet", "-f", "-", stdin=NOTED)
    assert said.code == 0
    assert said.out.startswith("stdin:8:45: HP216 note: ")


def test_a_folder_is_read_by_name_and_a_broken_file_does_not_hide_the_others(type_in: Type, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("a: }\n", encoding="utf-8")
    (tmp_path / "b.yaml").write_text(WRONG, encoding="utf-8")
    said = type_in("vet", "-f", tmp_path)
    assert said.code == 1
    assert [line.split(": ")[1] for line in said.out.splitlines()[:2]] == ["HP001 error", "HP211 error"]


def test_a_file_that_is_no_text_does_not_hide_the_others(type_in: Type, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "b.yaml").write_text(WRONG, encoding="utf-8")
    said = type_in("vet", "-f", tmp_path)
    assert said.code == 1
    assert [line.split(": ")[1] for line in said.out.splitlines()[:2]] == ["HP001 error", "HP211 error"]


def test_a_cluster_shows_what_fits_nowhere(type_in: Type, too_big: Path) -> None:
    assert "HP803" not in type_in("vet", "-f", too_big).out
    text = TOO_BIG.replace("400000", "100000")
    said = type_in("vet", "-f", "-", "--fleet", "t4x1", stdin=text)
    assert said.code == 1
    assert "HP803 error: Pod default/big" in said.out


def test_a_cluster_alone_is_looked_at(type_in: Type, tmp_path: Path) -> None:
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1"},
        "status": {"allocatable": {"volcano.sh/vgpu-number": "10"}},
    }
    said = type_in("vet", "--snapshot", "-", stdin=json.dumps({"kind": "List", "items": [node]}))
    assert said.code == 1
    assert said.out.startswith("stdin:1:1: HP731 error: Node n1: the node offers 10 volcano.sh/vgpu-number")
    assert type_in("vet", "--fleet", "mixed").code == 0
    granted = tmp_path / "settings.yaml"
    granted.write_text("version: 1\nvolcano: {grants: ledger, release: 1.14.1}\n", encoding="utf-8")
    assert type_in("vet", "--snapshot", "-", "--settings", granted, stdin=json.dumps(node)).code == 0


IDS = """\
apiVersion: v1
kind: Pod
metadata: {name: ids, annotations: {volcano.sh/vgpu-use-gpuuuid: GPU-0}}
spec:
  schedulerName: volcano
  containers: [{name: c, resources: {limits: {volcano.sh/vgpu-number: 1}}}]
"""


@pytest.mark.parametrize(("scheduler", "code"), [("volcano-1.14", 1), ("volcano-1.16", 0)])
def test_the_release_of_volcano_is_an_option(type_in: Type, scheduler: str, code: int) -> None:
    assert type_in("vet", "-f", "-", "--scheduler", scheduler, stdin=IDS).code == code


@pytest.mark.parametrize(("grants", "code"), [("volcano", 1), ("ledger", 0)])
def test_who_grants_cards_is_an_option(type_in: Type, grants: str, code: int) -> None:
    assert type_in("vet", "-f", "-", "--scheduler", "volcano-1.14", "--grants", grants, stdin=IDS).code == code


def test_rules_are_left_out_by_id_and_name(type_in: Type, wrong: Path) -> None:
    assert type_in("vet", "-f", wrong, "--ignore", "HP211,unusable-request").code == 0
    said = type_in("vet", "-f", wrong, "--ignore", "HP1")
    assert (said.code, said.err) == (2, "error: --ignore HP1: there is no such rule; --list-rules shows them\n")


def test_json_and_yaml_say_the_same(type_in: Type, wrong: Path) -> None:
    as_json = json.loads(type_in("vet", "-f", wrong, "-o", "json").out)
    assert as_json == yaml.safe_load(type_in("vet", "-f", wrong, "-o", "yaml").out)
    assert as_json["summary"] == {"errors": 1, "warnings": 0, "notes": 0}
    assert as_json["findings"][0]["fix"]["replacement"]["new"] == "16384"


def test_sarif_is_one_run_with_all_rules(type_in: Type, wrong: Path) -> None:
    said = type_in("vet", "-f", wrong, "-o", "sarif")
    assert said.code == 1
    (run,) = json.loads(said.out)["runs"]
    assert len(run["tool"]["driver"]["rules"]) == len(RULES)
    assert [result["ruleId"] for result in run["results"]] == ["HP211"]


@pytest.mark.parametrize("form", ["text", "json", "yaml", "sarif"])
def test_the_rules_are_listed_in_every_form(type_in: Type, form: str) -> None:
    said = type_in("vet", "--list-rules", "-o", form)
    assert said.code == 0
    assert all(rule.id in said.out for rule in RULES)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (
            (),
            "error: nothing to look at; give manifests with -f FILE, a folder, or - for stdin, or a cluster with "
            "--snapshot\n",
        ),
        (("-f", "-", "--snapshot", "-"), "error: stdin can be read once: only one of -f and --snapshot may be -\n"),
        (("-f", "no-such-file.yaml"), "error: no-such-file.yaml: No such file or directory\n"),
    ],
)
def test_what_cannot_be_done_ends_with_two(type_in: Type, words: tuple[str, ...], error: str) -> None:
    said = type_in("vet", *words)
    assert (said.code, said.err) == (2, error)


def test_a_cluster_is_counted_as_one_and_not_as_a_file(type_in: Type, tmp_path: Path, job: Path) -> None:
    files = [tmp_path / f"{kind}.json" for kind in ("nodes", "pods")]
    nodes = fleets.nodes_of(fleets.parse("nodes: [{shape: t4x1}]", source="test"))
    for file, items in zip(files, (nodes, []), strict=True):
        file.write_bytes(orjson.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    said = type_in("vet", "-f", job, "--snapshot", files[0], "--snapshot", files[1])
    assert said.out.splitlines()[-1].endswith(" in 1 file and 1 cluster")
    assert type_in("vet", "-f", job, "--fleet", "t4x1").out.splitlines()[-1].endswith(" in 1 file and 1 cluster")
    assert type_in("vet", "--snapshot", files[0]).out.splitlines()[-1].endswith(" in 1 cluster")
