"""``settings`` and its page: every setting with its variable, values, default and meaning."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml
from pydantic import BaseModel

from hami_plugins.cli.about import found_settings
from hami_plugins.config import layers, settings
from hami_plugins.config.reference import Setting, SettingsProgram, settings_of
from hami_plugins.errors import ConfigError
from tests.golden.settings_page import PAGE, page
from tests.schema import published
from tests.unit.cli.conftest import Type

pytestmark = pytest.mark.usefixtures("packs_vendors")
OTHERS = {
    "true, false": ["true", "false"],
    "text": ["spread"],
    "absolute path": ["/elsewhere"],
    "mapping": ['{"a": "b"}', '{"nvidia": {"resourceCountName": "volcano.sh/vgpu-number"}}'],
    "integer": ["3"],
    "number": ["70", "9", "1"],
    "list": [
        '["a"]',
        "[7]",
        '["/a"]',
        '[{"name": "a"}]',
        '[{"commonWord": "a"}]',
        '[{"instance_type": "a", "node": {"shape": "t4x1"}}]',
        "[]",
    ],
}
"""Values that differ from most defaults; what does not fit the setting is refused."""


def programs() -> dict[str, tuple[SettingsProgram, tuple[Setting, ...]]]:
    return {program.name: (program, listed) for program, listed in found_settings("")}


def values_for(setting: Setting) -> list[str]:
    kind = re.split(r"[, ]", setting.values)[0]
    known = OTHERS.get(setting.values) or OTHERS.get(kind)
    return [
        *(known or setting.values.split(", ")),
        *(["volcano.sh/other", "1.14.1", "a/b", "9" * 64] if kind == "text" else []),
    ]


def held(model: BaseModel, variable: str, prefix: str) -> Any:
    """The value of a model at the path of a variable."""
    found: Any = model
    for part in variable.removeprefix(prefix).split("__"):
        found = getattr(found, part.lower(), None)
    return found


def made(program: SettingsProgram, env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> BaseModel:
    with monkeypatch.context() as patched:
        if program is settings.PROGRAM:
            for name, value in env.items():
                patched.setenv(name, value)
            return settings.made({})
        needed = {f"{program.prefix}NODE": "n1"} if program.name == "volcano-vgpu-agent" else {}
        return layers.made(program.model, [layers.of_environment(needed | env, program.prefix)])


def accepted(program: SettingsProgram, env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> BaseModel | None:
    """The settings, or nothing where the value is refused."""
    try:
        return made(program, env, monkeypatch)
    except ConfigError:
        return None


@pytest.mark.parametrize("name", ["allocator", "hami-plugins", "koordinator", "volcano-vgpu-agent"])
def test_every_listed_variable_changes_its_setting(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program, listed = programs()[name]
    usual = made(program, {}, monkeypatch)
    without: list[str] = []
    for setting in listed:
        if not setting.variable or setting.key == "version":
            continue
        before = held(usual, setting.variable, program.prefix)
        tried = (accepted(program, {setting.variable: value}, monkeypatch) for value in values_for(setting))
        if not any(each and held(each, setting.variable, program.prefix) != before for each in tried):
            without.append(setting.key)
    assert without == []


@pytest.mark.parametrize("name", ["allocator", "hami-plugins", "koordinator", "volcano-vgpu-agent"])
def test_every_setting_has_a_meaning_that_is_a_sentence(name: str) -> None:
    _, listed = programs()[name]
    assert [each.key for each in listed if not re.fullmatch(r"[A-Z`].*\.", each.meaning)] == []


def test_the_page_has_the_settings_of_the_programs() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "python -m tests.golden.settings_page"


def test_the_examples_of_the_page_work(type_in: Type, monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/reference/settings.md."""
    text = PAGE.read_text(encoding="utf-8")
    (block,) = re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    for line in block.splitlines():
        assert type_in(*line.partition(" #")[0].split()[1:]).code == 0
    (example,) = re.findall(r"^```yaml\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert settings.parse(example).scheduler.name == "my-scheduler"
    name, _, value = re.findall(r"`(HAMI\w+)(=)'([^']*)'`", text)[0]
    program, _ = programs()["volcano-vgpu-agent"]
    assert held(made(program, {name: value}, monkeypatch), name, program.prefix) == {0, 1}


def test_a_setting_is_listed_with_its_variable_values_default_and_meaning(type_in: Type) -> None:
    said = published(type_in("settings", "scheduler.name", "-o", "json").out)
    assert [each["name"] for each in said["programs"]] == ["hami-plugins", "allocator", "volcano-vgpu-agent"]
    assert said["programs"][0]["settings"] == [
        {
            "key": "scheduler.name",
            "variable": "HAMI_PLUGINS__SCHEDULER__NAME",
            "values": "text",
            "default": "hami-scheduler",
            "meaning": "Name of HAMi's scheduler in the cluster.",
        }
    ]


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("volcano.queue", {"volcano.queuePlugin", "volcano.queueHierarchy"}),
        ("VOLCANO.QUEUEP", {"volcano.queuePlugin"}),
        ("HAMI_PLUGINS__NEURON__", {"neuron.allocator"}),
        ("devices.nvidia.defaultG", {"devices.nvidia.defaultGPUNum"}),
        (
            "devices.vnpus.configs[].templates[].ai",
            {f"devices.vnpus.configs[].templates[].ai{of}" for of in ("Core", "CPU")},
        ),
    ],
)
def test_a_name_is_the_beginning_of_a_key_or_of_a_variable(type_in: Type, name: str, keys: set[str]) -> None:
    said = yaml.safe_load(type_in("settings", name, "-o", "yaml").out)
    assert {each["key"] for program in said["programs"] for each in program["settings"]} == keys


def test_a_name_is_that_of_a_program(type_in: Type) -> None:
    said = json.loads(type_in("settings", "allocator", "-o", "json").out)
    assert [each["name"] for each in said["programs"]] == ["allocator"]
    assert {"listen.port", "scheduler.binds", "lease.duration"} < {
        each["key"] for each in said["programs"][0]["settings"]
    }


def test_the_table_says_which_file_and_which_variables(type_in: Type) -> None:
    lines = type_in("settings", "neuron").out.splitlines()
    assert "YAML" in lines[0]
    assert lines[2].startswith("hami-plugins: --settings FILE of plan, ")
    assert lines[3].split() == ["KEY", "VALUES", "DEFAULT", "MEANING", "VARIABLE"]
    assert lines[4].split()[0] == "neuron.allocator"
    assert type_in("settings", "neuron.allocator", "--no-headers").out.splitlines()[0] == lines[4]


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("schedulr.name", "did you mean scheduler.name"),
        ("allocater", "did you mean allocator"),
        ("zzz", "without"),
    ],
)
def test_an_unknown_name_is_answered_with_near_ones(type_in: Type, name: str, near: str) -> None:
    said = type_in("settings", name)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith(f"error: no setting '{name}'; {near}")


class Inner(BaseModel):
    some: float = 0.5


class Odd(BaseModel):
    """Types that the programs' own settings have in other combinations."""

    needed: str
    several: tuple[Inner, ...] | None = None
    limited: int | str = 3


def test_defaults_and_lists_are_spelled_as_in_files() -> None:
    found = settings_of(SettingsProgram(name="odd", model=Odd, prefix="ODD__", option="", commands=""))
    assert [(each.key, each.variable, each.values, each.default) for each in found] == [
        ("needed", "ODD__NEEDED", "text", "required"),
        ("several", "ODD__SEVERAL", "list of mapping", "not set"),
        ("several[].some", "", "number", "0.5"),
        ("limited", "ODD__LIMITED", "integer or text", "3"),
    ]
