"""``fleets``: what is shipped, and the page that says how a fleet file is written."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
import yaml

from hami_plugins import examples
from hami_plugins.inputs import fleets
from hami_plugins.inputs.fleets import declared, described
from tests.schema import published
from tests.unit.cli.conftest import FITS, Type

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "fleet-files.md"


def blocks(language: str) -> list[str]:
    return [part.partition("\n```")[0] for part in PAGE.read_text(encoding="utf-8").split(f"```{language}\n")[1:]]


def test_every_shipped_fleet_and_every_shape_is_listed(type_in: Type) -> None:
    said = type_in("fleets")
    assert said.code == 0
    first = [line.split()[0] for line in said.out.splitlines() if line]
    assert {*examples.fleet_names(), *fleets.shape_names()} <= set(first)
    assert "\nmixed            16      130\n" in said.out
    assert "h100x8-mig       8         NVIDIA H100 80GB HBM3   79.6 GiB" in said.out


def test_the_list_is_a_document_as_well(type_in: Type) -> None:
    answer = published(type_in("fleets", "-o", "json").out)
    (mixed,) = (each for each in answer["fleets"] if each["name"] == "mixed")
    assert (mixed["nodes"], mixed["devices"]) == (16, 130)
    (t4,) = (each for each in answer["shapes"] if each["name"] == "t4x1")
    assert t4 == {
        "name": "t4x1",
        "instanceType": "g4dn.2xlarge",
        "devices": 1,
        "vendor": "NVIDIA",
        "model": "Tesla T4",
        "memoryMiB": 15_360,
    }


def test_a_shipped_fleet_is_printed_as_a_file_to_start_from(type_in: Type) -> None:
    said = type_in("fleets", "koordinator")
    assert (said.code, said.out) == (0, examples.fleet_text("koordinator"))


def test_an_unknown_fleet_says_where_they_are_listed(type_in: Type, job: Path) -> None:
    assert "known are 310px4" in type_in("fleets", "mixde").err
    said = type_in("plan", "-f", job, "--fleet", "mixde")
    assert said.code == 2
    assert "hami-plugins fleets lists them" in said.err


def test_the_page_has_every_member_with_its_meaning() -> None:
    text = PAGE.read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    wanted = {"shape": "", **declared.COMMON, **described.FIELDS}
    for name, meaning in (*declared.COMMON.items(), *described.FIELDS.items()):
        assert f"| `{name}` | {meaning} |" in rows
    assert {row.split("`")[1] for row in rows} == {"name", "description", "nodes", *wanted}


@pytest.mark.parametrize("text", blocks("yaml"))
def test_the_fleets_of_the_page_can_be_planned_on(type_in: Type, job: Path, tmp_path: Path, text: str) -> None:
    file = tmp_path / "fleet.yaml"
    file.write_text(text, encoding="utf-8")
    answer = published(type_in("plan", "-f", job, "--fleet", file, "-o", "json").out)
    assert answer["problems"] == []
    declared_nodes = yaml.safe_load(text)["nodes"]
    assert answer["summary"]["nodes"] == sum(group.get("count", 1) for group in declared_nodes)


def test_the_commands_of_the_page_are_typed(type_in: Type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.yaml").write_text(FITS, encoding="utf-8")
    (tmp_path / "fleet.yaml").write_text(blocks("yaml")[0], encoding="utf-8")
    lines = [line for block in blocks("sh") for line in block.splitlines()]
    assert lines
    for line in lines:
        program, *words = shlex.split(line, comments=True)
        assert program == "hami-plugins"
        said = type_in(*words)
        assert said.code == 0, said.err
