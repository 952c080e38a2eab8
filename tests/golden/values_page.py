"""The page about the charts' values: ``python -m tests.golden.values_page`` writes it anew."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml

TREE = Path(__file__).parents[2]
CHARTS = TREE / "charts" / "hami-plugins" / "charts"
UMBRELLA = CHARTS.parent
README = UMBRELLA / "README.md"
BEGIN = "<!-- Generated from the values: python -m tests.golden.values_page -->\n"
PAGE = TREE / "docs" / "reference" / "chart-values.md"
INTRODUCTION = """\
# Chart values

For operators who write a `values.yaml`: every value of each chart with its default, from the charts' own files. In the
umbrella chart `hami-plugins` they stand under the chart's name. Helm refuses a value that does not exist, has the wrong
type or is out of its range. The settings of the programs (`settings`) are in [settings](settings.md).
"""
TITLE = "| value | default | meaning |\n| --- | --- | --- |\n"


def page() -> str:
    """The page with the values as the charts have them."""
    return INTRODUCTION + "".join(_section(chart.parent) for chart in sorted(CHARTS.glob("*/values.yaml")))


def readme() -> str:
    """The umbrella's README with its own values, and those of the products as the umbrella has them."""
    written, _, _ = README.read_text(encoding="utf-8").partition(BEGIN)
    products = "".join(_rows(chart.parent, f"{chart.parent.name}.") for chart in sorted(CHARTS.glob("*/values.yaml")))
    return f"{written}{BEGIN}\n{TITLE}{_rows(UMBRELLA, '')}{products}"


def unexplained() -> list[str]:
    """Values without a comment."""
    charts = (UMBRELLA, *(file.parent for file in sorted(CHARTS.glob("*/values.yaml"))))
    return [f"{chart.name}: {key}" for chart in charts for key, _, meaning in _read(chart) if not meaning]


def _section(chart: Path) -> str:
    return f"\n## {chart.name}\n\n{TITLE}{_rows(chart, '')}"


def _rows(chart: Path, above: str) -> str:
    return "".join(f"| `{above}{key}` | {default} | {meaning} |\n" for key, default, meaning in _read(chart))


def _read(chart: Path) -> Iterator[tuple[str, str, str]]:
    text = (chart / "values.yaml").read_text(encoding="utf-8")
    root = yaml.compose(text)
    assert isinstance(root, yaml.MappingNode)
    yield from _values(root, "", text.splitlines())


def _values(mapping: yaml.MappingNode, folder: str, lines: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    for key, value in mapping.value:
        path, meaning = f"{folder}{key.value}", _comment(lines, key.start_mark.line)
        if isinstance(value, yaml.MappingNode) and not value.flow_style and value.value:
            if meaning:
                yield f"{path}.*", "", meaning
            yield from _values(value, f"{path}.", lines)
        else:
            yield path, _default(value), meaning


def _default(value: yaml.Node) -> str:
    read = yaml.safe_load(yaml.serialize(value))
    return f"`{json.dumps(read, ensure_ascii=False)}`".replace("|", "\\|")


def _comment(lines: Sequence[str], line: int) -> str:
    """The comment that ends right above a line, as one paragraph."""
    first = line
    while first and lines[first - 1].lstrip().startswith("#"):
        first -= 1
    return " ".join(each.lstrip(" #") for each in lines[first:line]).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    README.write_text(readme(), encoding="utf-8")
