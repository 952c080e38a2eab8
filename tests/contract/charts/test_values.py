"""The values of the charts: what may be set is what the processes take, and all of it is in ``values.yaml``."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from hami_plugins.allocator.settings import AllocatorSettings
from koordinator_adapter.server.settings import AdapterSettings, NodeSettings
from neuron_topology.core.agent.settings import NeuronAgentSettings
from tests.contract.charts import schemas
from volcano_vgpu.core.settings import AgentSettings

UMBRELLA = schemas.CHARTS.parent
CHARTS = tuple(schemas.CHARTS / name for name in schemas.SCHEMAS)
EVERY_CHART = (UMBRELLA, *CHARTS)

every_chart = pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.name)


def schema(chart: Path) -> Any:
    return json.loads((chart / schemas.FILE).read_text())


def values(chart: Path) -> Any:
    return yaml.safe_load((chart / "values.yaml").read_text())


def closed(found: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every object of a schema that names its members, by its path."""
    if found.get("additionalProperties") is False:
        yield path, found["properties"]
        for name, held in found["properties"].items():
            yield from closed(held, f"{path}.{name}".lstrip("."))


@every_chart
def test_the_schema_is_generated_from_the_settings(chart: Path) -> None:
    assert (chart / schemas.FILE).read_text() == schemas.text(schemas.SCHEMAS[chart.name]()), (
        "write it anew: python -m tests.contract.charts.schemas"
    )


def test_the_schema_of_the_umbrella_is_generated_too() -> None:
    assert (UMBRELLA / schemas.FILE).read_text() == schemas.text(schemas.umbrella())


def told(chart: Path, what: str) -> dict[str, str]:
    """What a chart says of words of HAMi's chart: those that are called otherwise, or stand elsewhere."""
    text = (chart / "templates" / "_renamed.tpl").read_text()
    found: dict[str, str] = yaml.safe_load(text.partition(f'.{what}" -}}}}\n')[2].partition("{{- end -}}")[0])
    return found


def is_a_value(chart: Path, path: str) -> bool:
    """Whether a value of that path may be set."""
    whole = schema(chart)
    found = whole
    for word in path.split("."):
        while "$ref" in found or "anyOf" in found:
            found = found["anyOf"][0] if "anyOf" in found else whole["definitions"][found["$ref"].rpartition("/")[2]]
        if word not in found["properties"]:
            return False
        found = found["properties"][word]
    return bool(found != schemas.ELSEWHERE)


def test_words_of_other_charts_are_told_by_the_umbrella_as_by_the_charts_themselves() -> None:
    """One is where the other is, below the name of the chart."""
    whole = told(UMBRELLA, "renamed")
    for chart in (schemas.CHARTS / "volcano-vgpu", schemas.CHARTS / "allocator"):
        for old, words in told(chart, "renamed").items():
            new = words.partition(" (")[0]
            assert f"{chart.name}.{new}" in whole[old] or old == "devices.nvidia.enabled", old
            assert is_a_value(chart, new), new
        mentioned = {old.partition(".")[0] for old in (*told(chart, "renamed"), *told(chart, "elsewhere"))}
        passed = {name for name, kind in schema(chart)["properties"].items() if kind == schemas.ELSEWHERE}
        assert mentioned == passed
    mentioned = {old.partition(".")[0] for old in (*whole, *told(UMBRELLA, "elsewhere"))}
    passed = {name for name, kind in schema(UMBRELLA)["properties"].items() if kind == schemas.ELSEWHERE}
    assert mentioned == passed
    for new in whole.values():
        for one in new.split(" or "):
            name, _, path = one.partition(" (")[0].partition(".")
            assert is_a_value(schemas.CHARTS / name, path), new


@pytest.mark.parametrize(
    ("name", "path", "model", "without"),
    [
        ("volcano-vgpu", ("agent", "settings"), AgentSettings, schemas.OF_THE_AGENT),
        ("allocator", ("settings",), AllocatorSettings, schemas.OF_THE_ALLOCATOR),
        ("allocator", ("neuronAgent", "settings"), NeuronAgentSettings, schemas.OF_THE_NEURON_AGENT),
        ("koordinator-adapter", ("settings",), AdapterSettings, schemas.OF_KOORDINATOR),
        ("koordinator-adapter", ("node", "settings"), NodeSettings, schemas.OF_THE_PART),
    ],
)
def test_every_setting_of_a_process_is_a_value_or_the_charts_own(
    name: str, path: tuple[str, ...], model: Any, without: Any
) -> None:
    found = schema(schemas.CHARTS / name)
    for word in path:
        found = found["properties"][word]
    known = {str(field.alias) for field in model.model_fields.values()}
    assert set(found["properties"]) == known - set(without)
    assert set(without) <= known


@every_chart
def test_every_value_is_written_down_with_its_default(chart: Path) -> None:
    found = values(chart)
    for path, properties in closed(schema(chart)):
        if path.endswith(("settings", "resources")) or path in {"deviceConfig", "nodeConfig"}:
            continue  # their defaults are the product's own
        held = found
        for word in filter(None, path.split(".")):
            held = held[word]
        assert isinstance(held, dict), path
        elsewhere = {name for name, kind in properties.items() if kind == schemas.ELSEWHERE}
        assert set(held) == set(properties) - elsewhere, path


@every_chart
def test_every_part_is_looked_at_before_something_is_taken_from_it(chart: Path) -> None:
    (template,) = (file for file in (chart / "templates").glob("_*.tpl") if ".checked" in file.read_text())
    looked_at = template.read_text().partition('.parts" -}}\n')[2].partition("\n")[0].split()
    whole = schema(chart)
    parts = {path for path, _ in closed(whole) if path and "settings." not in path}
    assert set(looked_at) == parts | {name for name, held in whole["properties"].items() if "properties" in held}
    for file in chart.glob("templates/**/*.yaml"):
        assert file.read_text().startswith(f'{{{{- include "{chart.name}.checked" . }}}}\n'), file


def test_charts_and_program_have_one_version() -> None:
    version = tomllib.loads(Path("pyproject.toml").read_text())["project"]["version"]
    for chart in EVERY_CHART:
        described = yaml.safe_load((chart / "Chart.yaml").read_text())
        assert (described["version"], described["appVersion"]) == (version, version)
        assert all(each["version"] == version for each in described.get("dependencies", []))


def test_nothing_in_a_template_is_random_or_guessed() -> None:
    words = ("rand", "genCA", "genSelfSigned", "genSigned", "genPrivateKey", "Capabilities", "lookup", "now", "uuidv4")
    for template in UMBRELLA.glob("**/templates/**/*"):
        if template.is_file():
            actions = [part.partition("}}")[0] for part in template.read_text().split("{{")[1:]]
            said = {word for action in actions if not action.lstrip("- ").startswith("/*") for word in action.split()}
            assert not {each for each in said for word in words if each.strip("().$").startswith((word, f".{word}"))}, (
                template
            )
