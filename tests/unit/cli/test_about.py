"""``vendors`` and ``completion``."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from hami_plugins.vendors import BUILTIN
from tests.unit.cli.conftest import Type


def test_every_vendor_has_a_row_in_both_tables(type_in: Type) -> None:
    requests, matrix = type_in("vendors", "--no-headers").out.split("\n\n")
    for table in (requests, matrix):
        assert [row.split()[0] for row in table.splitlines()] == [spec.name for spec in BUILTIN]


def test_the_matrix_says_what_devices_can_do(type_in: Type) -> None:
    matrix = type_in("vendors").out.split("\n\n")[1].splitlines()
    cells = {row.split()[0]: re.split(r" {3,}", row) for row in matrix}
    assert cells["VENDOR"][1:7] == [
        "MEMORY ISOLATION",
        "CORE ISOLATION",
        "UUID FILTER",
        "MODEL FILTER",
        "NUMA",
        "TOPOLOGY",
    ]
    assert cells["MLU"][1:] == ["yes", "yes", "yes", "no", "no", "no", "no", "370, 590"]
    assert cells["Metax-GPU"][1:] == ["whole", "whole", "no", "no", "no", "yes", "unknown", "MXC500"]


def test_one_vendor_is_told_in_full_with_sources(type_in: Type) -> None:
    rows = {row.split("   ")[0]: row for row in type_in("vendors", "nvidia").out.splitlines()}
    assert "nvidia.com/gpumem-percentage" in rows["memory percentage"]
    assert "hami.io/node-nvidia-register" in rows["node register"]
    assert rows["node label"].split() == [
        "node",
        "label",
        "gpu=on",
        "HAMi",
        "website",
        "docs/installation/prerequisites",
    ]


def test_settings_of_the_environment_count_in_the_list(type_in: Type, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "hygon.com/dcunum" in type_in("vendors").out
    monkeypatch.setenv("HAMI_PLUGINS__DEVICES__HYGON__RESOURCE_COUNT_NAME", "hygon.com/renamed")
    said = type_in("vendors").out
    assert "hygon.com/renamed" in said
    assert "hygon.com/dcunum" not in said


def test_without_settings_the_list_is_that_of_empty_ones(type_in: Type, tmp_path: Path) -> None:
    settings = tmp_path / "settings.yaml"
    settings.write_text("version: 1\n")
    assert type_in("vendors").out == type_in("vendors", "--settings", str(settings)).out


def test_features_are_told_to_programs_with_their_sources(type_in: Type) -> None:
    (item,) = json.loads(type_in("vendors", "hygon", "-o", "json").out)["items"]
    assert item["features"]["runtimeClass"] == {
        "support": "no",
        "words": "the device plugin mounts the devices itself",
        "source": "HAMi website docs/faq/faq",
    }
    assert item["facts"]["nodeLabel"] == {"words": "", "source": ""}


def test_vendors_are_told_to_programs(type_in: Type) -> None:
    said = json.loads(type_in("vendors", "-o", "json").out)
    assert said["kind"] == "VendorList"
    assert len(said["items"]) == len(BUILTIN)
    assert yaml.safe_load(type_in("vendors", "MLU", "-o", "yaml").out)["items"][0]["name"] == "MLU"


def test_an_unknown_vendor_is_refused_with_the_known_ones(type_in: Type) -> None:
    said = type_in("vendors", "nvidea")
    assert said.code == 2
    assert "NVIDIA" in said.err


@pytest.mark.parametrize(
    ("shell", "command"),
    [("bash", "complete -o"), ("zsh", "#compdef hami-plugins"), ("fish", "complete --command"), ("pwsh", "Register-")],
)
def test_there_is_a_completion_script_of_each_shell_whichever_is_used(type_in: Type, shell: str, command: str) -> None:
    said = type_in("completion", shell)
    assert said.code == 0
    assert "_HAMI_PLUGINS_COMPLETE" in said.out
    assert command in said.out


def test_an_unknown_shell_is_refused(type_in: Type) -> None:
    assert type_in("completion", "tcsh").code == 2


@pytest.mark.parametrize("name", ["Kunlun vXPU", "kunlun vxpu", "kunlunxin.com/vxpu", "kunlunxin.com/VXPU-memory"])
def test_a_vendor_is_found_by_what_its_devices_are_called_and_asked_for_with(type_in: Type, name: str) -> None:
    assert "kunlunxin.com/vxpu-memory" in type_in("vendors", name).out


def test_all_vendors_of_a_maker_are_listed(type_in: Type) -> None:
    found = yaml.safe_load(type_in("vendors", "Huawei", "-o", "yaml").out)["items"]
    assert len(found) > 3
    assert type_in("vendors", "Huawei").code == 0


def test_a_misspelt_vendor_is_answered_with_the_right_one(type_in: Type) -> None:
    assert "did you mean NVIDIA" in type_in("vendors", "nvidea").err
    assert "there are NVIDIA" in type_in("vendors", "qqqqqqqq").err


def test_version_and_help_are_commands_as_well(type_in: Type) -> None:
    assert type_in("version").out == type_in("--version").out
    assert type_in("help").out.startswith("Usage: hami-plugins")
    assert type_in("help", "plan").out == type_in("plan", "--help").out
    assert type_in("help", "nothing").code == 2


def test_a_new_vendor_does_not_write_into_a_folder_that_is_there(type_in: Type, tmp_path: Path) -> None:
    said = type_in("new-vendor", "Acme", "--domain", "acme.example", "--directory", str(tmp_path))
    assert said.code == 2
    assert f"{tmp_path}: exists already" in said.err
