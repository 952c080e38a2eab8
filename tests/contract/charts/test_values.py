"""The values of the charts: what may be set is what the processes take, and all of it is in ``values.yaml``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from hami_plugins.allocator.settings import AllocatorSettings
from koordinator_adapter.server.settings import AdapterSettings, NodeSettings
from neuron_topology.core.agent.settings import NeuronAgentSettings
from tests.contract.charts import schemas
from tests.golden import values_page
from volcano_vgpu.core.settings import AgentSettings

UMBRELLA = schemas.CHARTS.parent
CHARTS = tuple(schemas.CHARTS / name for name in schemas.SCHEMAS)
EVERY_CHART = (UMBRELLA, *CHARTS, schemas.CHARTS / schemas.LIBRARY_CHART)

FREE = ("settings", "resources", "ecurityContext", "Probe", "Selector")
"""Parts that values lay over what a chart or a program has."""

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


def hami_values() -> dict[str, str]:
    """The library's table of HAMi's values."""
    text = (schemas.CHARTS / schemas.LIBRARY_CHART / "templates" / "_hami.tpl").read_text()
    body = text.partition('"library.hamiValues" -}}\n')[2].partition("{{- end -}}")[0]
    found: dict[str, str] = yaml.safe_load(body)
    assert len(found) == len([line for line in body.splitlines() if line]), "a key stands there twice"
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


def test_every_place_of_a_value_of_hamis_is_a_value_of_that_chart() -> None:
    for old, place in hami_values().items():
        reason = place.startswith("no: ")
        named = re.findall(r"\b(?:volcano-vgpu|allocator|koordinator-adapter|global)\.[\w.]+\w", place)
        assert named or reason, old
        for each in [*named, *(() if reason else (one.partition(" (")[0] for one in place.split(" or ")))]:
            name, _, path = each.partition(".")
            assert is_a_value(
                UMBRELLA if name == "global" else schemas.CHARTS / name, each if name == "global" else path
            ), each


@every_chart
def test_the_schema_lets_hamis_words_pass_to_the_template_that_explains_them(chart: Path) -> None:
    for word in {old.partition(".")[0] for old in hami_values()}:
        assert word in schema(chart)["properties"]
        assert schema(UMBRELLA)["properties"][word] == schemas.ELSEWHERE


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
        if path.endswith(FREE) or path in {"deviceConfig", "nodeConfig", schemas.LIBRARY_CHART}:
            continue  # their defaults are the product's own
        held = found
        for word in filter(None, path.split(".")):
            held = held[word]
        assert isinstance(held, dict), path
        not_set = {
            name
            for name, kind in properties.items()
            if kind in (schemas.ELSEWHERE, schemas.OF_THE_LIBRARY, schemas.TAGS)
        }
        assert set(held) == set(properties) - not_set, path


@every_chart
def test_every_part_is_looked_at_before_something_is_taken_from_it(chart: Path) -> None:
    template = chart / "templates" / "_checked.tpl"
    looked_at = template.read_text().partition('.parts" -}}\n')[2].partition("\n")[0].split()
    whole = schema(chart)
    parts = {path for path, _ in closed(whole) if path and "settings." not in path}
    parts |= {name for name, held in whole["properties"].items() if "properties" in held}
    assert set(looked_at) == parts - {schemas.LIBRARY_CHART}
    for file in chart.glob("templates/**/*.yaml"):
        assert file.read_text().startswith(f'{{{{- include "{chart.name}.checked" . }}}}\n'), file


def test_the_readme_of_the_umbrella_has_all_values_and_each_has_a_comment() -> None:
    assert values_page.README.read_text() == values_page.readme(), "write it anew: python -m tests.golden.values_page"
    assert not values_page.unexplained()


@pytest.mark.parametrize("chart", EVERY_CHART, ids=lambda chart: chart.name)
def test_a_chart_names_who_maintains_it_and_leaves_out_what_is_no_part_of_it(chart: Path) -> None:
    described = yaml.safe_load((chart / "Chart.yaml").read_text())
    assert described["maintainers"] == [{"name": "hami-plugins"}], "the project; no person stands for it"
    assert described["annotations"]["artifacthub.io/license"] == "Apache-2.0"
    assert described["home"] == "https://github.com/Project-HAMi/HAMi"
    assert described["sources"] == [described["home"], "https://github.com/Project-HAMi/HAMi-core"]
    if described["type"] == "application":
        assert described["icon"].startswith("data:image/svg+xml;base64,"), "no host has to be asked for it"
    assert (chart / ".helmignore").read_text() == (UMBRELLA / ".helmignore").read_text()


LOOKS_UP = {UMBRELLA / "charts/allocator/templates/_names.tpl": {"lookup"}}
"""Whether Neuron agents that an upgrade turns off are there: a Job for releases that never had any could fail to get
its image, and with it the upgrade."""


def test_nothing_in_a_template_is_random_or_guessed() -> None:
    words = ("rand", "genCA", "genSelfSigned", "genSigned", "genPrivateKey", "Capabilities", "lookup", "now", "uuidv4")
    for template in UMBRELLA.glob("**/templates/**/*"):
        if template.is_file():
            actions = [part.partition("}}")[0] for part in template.read_text().split("{{")[1:]]
            said = {word for action in actions if not action.lstrip("- ").startswith("/*") for word in action.split()}
            found = {word for each in said for word in words if each.strip("().$").startswith((word, f".{word}"))}
            assert found == LOOKS_UP.get(template, set()), template


@every_chart
def test_no_chart_has_a_copy_of_what_the_library_has(chart: Path) -> None:
    """A link in the tree; `helm package` puts the library's files into the archive."""
    library = schemas.CHARTS / schemas.LIBRARY_CHART
    linked = chart / "charts" / schemas.LIBRARY_CHART
    assert linked.is_symlink()
    assert linked.resolve() == library.resolve()
    described = yaml.safe_load((chart / "Chart.yaml").read_text())["dependencies"]
    assert [each["name"] for each in described] == [schemas.LIBRARY_CHART]
    shared = {name for file in library.glob("templates/*") for name in _lines(file)}
    for file in chart.glob("templates/**/*.tpl"):
        assert not _lines(file) & shared, file


def _lines(file: Path) -> set[str]:
    """Its long lines, which two files do not have in common by chance."""
    return {line for line in file.read_text().splitlines() if len(line) > 60}
