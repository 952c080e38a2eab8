"""docs/project/seeds.md: every test that it names is there, and every printed example is found by ``vet``."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from hami_plugins.inputs import manifests
from hami_plugins.vendors import builtin
from hami_plugins.vet import VetFinding, vet

TREE = Path(__file__).parents[2]
PAGE = (TREE / "docs" / "project" / "seeds.md").read_text(encoding="utf-8")
PROMISES, EXAMPLES = PAGE.split("## Printed examples")
REGISTRY = builtin()
POD = """
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  containers:
  - name: m
    resources:
      limits:"""
COUNTS = {
    resource: spec.resources.count for spec in REGISTRY for resource in spec.resources.all() if spec.resources.count
}


def rows(text: str) -> list[list[str]]:
    """The cells of each row of the table of a text, without its head."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


ROWS = {cells[0]: cells for cells in rows(PROMISES)}


@cache
def functions(file: Path) -> frozenset[str]:
    return frozenset(
        each.name for each in ast.parse(file.read_text(encoding="utf-8")).body if isinstance(each, ast.FunctionDef)
    )


@pytest.mark.parametrize("row", ROWS)
def test_every_test_that_a_row_names_is_there(row: str) -> None:
    number, promise, kept, tests = ROWS[row]
    assert re.fullmatch(r"S\d+|H#\d+|DRA", number)
    assert promise
    assert kept
    named = re.findall(r"`(tests/\S+\.py)::(\w+)`", tests)
    assert named
    assert re.sub(r"`[^`]+`|, ", "", tests) == ""
    for file, test in named:
        assert test.startswith("test_")
        assert test in functions(TREE / file), f"{file}::{test}"


def test_a_row_is_there_once() -> None:
    assert len(ROWS) == len(rows(PROMISES))


def found(line: str) -> list[VetFinding]:
    """The findings of ``vet`` about a pod with this line among its limits, and a count if the vendor has one."""
    resource = line.partition(":")[0]
    domain = resource.partition("/")[0]
    count = COUNTS.get(resource) or {"amd.com": "amd.com/gpu"}.get(domain, "")
    lines = [line, *([f"{count}: 1"] if count and count != resource else [])]
    limits = "".join(f"\n        {each}" for each in lines)
    return list(vet(manifests.read(POD + limits, source="p.yaml"), REGISTRY))


@pytest.mark.parametrize("cells", rows(EXAMPLES), ids=lambda cells: cells[0].strip("`"))
def test_vet_says_what_is_wrong_with_a_printed_example(cells: list[str]) -> None:
    printed, _, better, rule = (cell.strip("`") for cell in cells)
    said = found(printed)
    assert [each.rule for each in said] == [rule]
    assert better.partition(":")[0].rpartition("/")[2] in said[0].fix or better.rpartition(" ")[2] in said[0].fix


@pytest.mark.parametrize("cells", rows(EXAMPLES), ids=lambda cells: cells[2].strip("`"))
def test_what_the_page_says_to_write_is_fine(cells: list[str]) -> None:
    assert [each.rule for each in found(cells[2].strip("`"))] == []
