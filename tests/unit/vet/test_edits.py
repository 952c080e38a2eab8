"""Mechanical fixes: they say exactly which characters to replace, and replacing them removes the finding."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from hami_plugins import vet
from hami_plugins.vendors import builtin
from hami_plugins.vet import Replacement, VetFinding, edits
from hami_plugins.vet.findings import RewriteFix

HERE = Path(__file__).parent
FILES = sorted((HERE / "manifests").glob("*.yaml"))


def findings(text: str) -> tuple[VetFinding, ...]:
    sources = vet.read(text, source="f")
    return vet.vet(sources.documents, builtin(), unreadable=sources.unreadable)


def applied(text: str, changes: Iterable[Replacement]) -> str:
    lines = text.split("\n")
    for change in sorted(changes, reverse=True):
        line = lines[change.line - 1]
        assert line[change.column - 1 : change.end_column - 1] == change.old
        lines[change.line - 1] = line[: change.column - 1] + change.new + line[change.end_column - 1 :]
    return "\n".join(lines)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_fix_that_a_program_makes_removes_its_finding(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    before = findings(text)
    for finding in before:
        if finding.replacement is None:
            continue
        after = findings(applied(text, [finding.replacement]))
        assert (finding.rule, finding.path, finding.line) not in {(each.rule, each.path, each.line) for each in after}


def replacement(limits: str) -> Replacement | None:
    head = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n  - name: m\n    resources:\n"
    (found,) = (each for each in findings(f"{head}{limits}") if each.rule in {"HP211", "HP101"})
    return found.replacement


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ("      limits:\n        nvidia.com/gpumem: 16Gi\n        nvidia.com/gpu: 1\n", (9, 28, 32, "16Gi", "16384")),
        ('      limits: {"nvidia.com/gpumem": "16Gi", nvidia.com/gpu: 1}\n', (8, 38, 42, "16Gi", "16384")),
        (
            "      limits:\n        'nvidia.com/gpu-mem' : 3000\n",
            (9, 10, 28, "nvidia.com/gpu-mem", "nvidia.com/gpumem"),
        ),
    ],
)
def test_keys_and_values_are_found_in_any_style(limits: str, expected: tuple[int, int, int, str, str]) -> None:
    assert replacement(limits) == expected


@pytest.mark.parametrize(
    "limits",
    [
        "      limits:\n        nvidia.com/gpu: 1\n        nvidia.com/gpumem:\n          16Gi\n",
        "      limits:\n        nvidia.com/gpu: 1\n        nvidia.com/gpumem: &anchor 16Gi\n",
        "      limits:\n        nvidia.com/gpu: 1\n        ? nvidia.com/gpumem\n        : 16Gi\n",
        '      limits:\n        nvidia.com/gpu: 1\n        "nvidia.com\\u002fgpumem": 16Gi\n',
    ],
)
def test_a_value_that_the_text_does_not_show_plainly_has_no_mechanical_fix(limits: str) -> None:
    assert replacement(limits) is None


def test_what_is_no_member_of_the_document_is_not_replaced() -> None:
    text = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nargs: [one]\n"
    (document,) = vet.read(text, source="f").documents
    assert edits.replacement(document, RewriteFix(("kind",), "Job")) == Replacement(2, 7, 10, "Pod", "Job")
    assert edits.replacement(document, RewriteFix(("args", 0), "two")) is None
    assert edits.replacement(document, RewriteFix(("kind", "kind"), "Job")) is None
