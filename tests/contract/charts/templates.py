"""Templates of the charts as YAML, without Helm: every branch is taken, and an action is a word made of its text.

``{{- if x }}`` and its kind vanish, so an object is read with all that any values can put into it; named templates that
give YAML are filled in. A key that two branches write is an error, because a test would see only one of the two.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Hashable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from tests.contract.charts.schemas import CHARTS, LIBRARY_CHART

GOLDEN: Final = Path("tests/golden/charts")

_COMMENT: Final = re.compile(r"\{\{-?\s*/\*.*?\*/\s*-?\}\}", re.DOTALL)
_ACTION: Final = re.compile(r"\{\{-?\s*(.*?)\s*-?\}\}", re.DOTALL)
_CONTROL: Final = re.compile(r"(if|else|end|range|with|define)\b|\$\w+ :?= ")
_INCLUDED: Final = re.compile(r'\{\{- include "([^"]+)" [^|}]*\| nindent (\d+) \}\}')
_WHOLE: Final = re.compile(r'^\{\{-? include "(library\.[^"]+)" .*\}\}$', re.MULTILINE)
"""Objects that a template of the library makes, on a line of their own."""
_DEFINED: Final = re.compile(r'\{\{-? define "([^"]+)" -?\}\}\n?')
_BLOCK: Final = re.compile(r"\{\{-?\s*(if|range|with|define|end)\b")

_USUAL: Final = re.compile(
    r'\{\{- include "library\.securityContext" \(dict (?:[^|}]* "base" \(include "([^"]+)")?[^|}]*\|'
)
"""What values may be laid over; the usual one is under another name."""

Object = dict[str, Any]


class _Loader(yaml.SafeLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys = [self.construct_object(key) for key, _ in node.value]
        if twice := {key for key in keys if keys.count(key) > 1}:
            raise ValueError(f"{node.start_mark}: two branches write {sorted(twice)}")
        return super().construct_mapping(node, deep)


def objects(chart: str, template: str) -> list[Object]:
    """The objects of one template. Raises ``ValueError`` where two branches write one key."""
    text, _ = _parted(_COMMENT.sub("", (CHARTS / chart / "templates" / template).read_text()))
    whole = _plain(_filled(text, _definitions(chart)))
    return [each for each in yaml.load_all(whole, Loader=_Loader) if isinstance(each, dict)]


def rendered(chart: str, name: str) -> list[Object]:
    """What Helm makes of a set of values (``tests/cluster/test_charts_rendered.py`` holds the file to it)."""
    return list(yaml.safe_load_all((GOLDEN / f"{chart}-{name}.yaml").read_text()))


def every_object(chart: str) -> Iterator[Object]:
    """Those of all templates."""
    folder = CHARTS / chart / "templates"
    for file in sorted(folder.glob("**/*.yaml")):
        yield from objects(chart, str(file.relative_to(folder)))


def _definitions(chart: str) -> dict[str, str]:
    """The named templates of a chart, and those of the library."""
    files = [file for name in (LIBRARY_CHART, chart) for file in sorted((CHARTS / name / "templates").glob("**/*"))]
    texts = (_COMMENT.sub("", file.read_text()) for file in files if file.suffix in {".tpl", ".yaml"})
    return {name: body for text in texts for name, body in _parted(text)[1].items()}


def _parted(text: str) -> tuple[str, dict[str, str]]:
    """What a file prints, and the named templates in it."""
    named = {}
    while found := _DEFINED.search(text):
        depth = 0
        for block in _BLOCK.finditer(text, found.start()):
            depth += -1 if block[1] == "end" else 1
            if not depth:
                break
        named[found[1]] = text[found.end() : block.start()]
        text = text[: found.start()] + text[text.index("}}", block.start()) + 2 :]
    return text, named


def _filled(text: str, definitions: Mapping[str, str]) -> str:
    def body(action: re.Match[str]) -> str:
        return "\n" + textwrap.indent(_filled(definitions[action[1]], definitions).strip("\n"), " " * int(action[2]))

    def objects_of(action: re.Match[str]) -> str:
        held = _filled(definitions[action[1]], definitions).strip("\n")
        return f"---\n{held}" if "apiVersion: " in held else held

    usual = _USUAL.sub(lambda found: f'{{{{- include "{found[1] or "library.restrictedContainer"}" . |', text)
    return _INCLUDED.sub(body, _WHOLE.sub(objects_of, usual))


def _plain(text: str) -> str:
    lines = (_ACTION.sub(_word, line) for line in text.splitlines() if not _is_action_alone(line))
    return "\n".join(lines) + "\n"


def _is_action_alone(line: str) -> bool:
    return "{{" in line and not _ACTION.sub("", line).strip()


def _word(action: re.Match[str]) -> str:
    """Nothing for what steers; else the action in letters that mean nothing to YAML."""
    if _CONTROL.match(action[1]):
        return ""
    return "_" + re.sub(r"[^A-Za-z0-9.-]+", "_", action[1]).strip("_.") + "_"
