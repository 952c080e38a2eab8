"""Changes that go into a person's file, which otherwise stays as it was written."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from hami_plugins.report import manifests
from neuron_topology.jobs import patching, texts
from tests.unit.neuron_topology.jobs.submitted import DRY_RUNS

MINE = """\
# a job of mine
apiVersion: v1
kind: X
metadata: {name: a}   # flow
spec:
  # why four
  count: 4  # was 3
  old: 1
  list:
  - a

  - b # last
  none:
---
apiVersion: v1
kind: Y
metadata:
  name: b
"""


def rewritten(text: str, **changes: Any) -> str | None:
    documents = manifests.read(text, source="f")
    first, *rest = documents
    spec = first.raw["spec"]
    assert isinstance(spec, dict)
    after = {**first.raw, "spec": {name: held for name, held in {**spec, **changes}.items() if held != "gone"}}
    return texts.rewritten(first.file.text, [(first, after), *((each, dict(each.raw)) for each in rest)])


def lines_between(before: str, after: str) -> list[str]:
    return [line for line in difflib.ndiff(before.splitlines(), after.splitlines()) if line[0] in "+-"]


@pytest.mark.parametrize("path", DRY_RUNS, ids=lambda path: path.stem)
def test_the_comments_of_a_dry_run_stay(path: Path) -> None:
    text = path.read_text()
    (document,) = manifests.read(text, source="f")
    job = patching.patch(dict(document.raw)).job
    after = texts.rewritten(text, [(document, job)])
    assert after is not None
    assert after.splitlines()[:4] == text.splitlines()[:4]
    assert yaml.safe_load(after) == job


def test_nothing_changes_where_nothing_changed() -> None:
    assert rewritten(MINE) == MINE


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"count": 5}, ["-   count: 4  # was 3", "+   count: 5  # was 3"]),
        ({"old": "gone"}, ["-   old: 1"]),
        ({"new": {"x": [1, {"y": "z"}]}}, ["+   new:", "+     x:", "+     - 1", "+     - y: z"]),
        ({"list": ["a", "b", {"c": 1}]}, ["+   - c: 1"]),
        ({"none": {"a": "1"}}, ["-   none:", "+   none: {a: '1'}"]),
    ],
)
def test_a_change_touches_its_own_lines_alone(change: dict[str, Any], expected: list[str]) -> None:
    after = rewritten(MINE, **change)
    assert after is not None
    changed = [line for line in lines_between(MINE, after) if not line.startswith("?")]
    assert changed == expected


@pytest.mark.parametrize(
    "text",
    [
        MINE.replace("old: 1", "old: &anchor {x: 1}").replace("none:", "none: *anchor"),
        MINE.replace("  - a\n", "  - {a: &b 1}\n").replace("none:", "none: *b"),
    ],
)
def test_what_stands_in_two_places_at_once_is_written_anew(text: str) -> None:
    first = manifests.read(text, source="f")[0].raw["spec"]
    assert isinstance(first, dict)
    change = {"old": {"x": 2}} if "&anchor" in text else {"list": [{"a": 2}, "b"]}
    assert rewritten(text, **change) is None


@pytest.mark.parametrize("change", [{"list": ["a"]}, {"list": []}, {"list": {"a": "b"}}])
def test_a_list_that_shrinks_or_ends_is_written_anew(change: dict[str, Any]) -> None:
    assert rewritten(MINE, **change) is None


def test_members_of_a_list_of_objects_are_found() -> None:
    text = "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: X\n  spec:\n    count: 4 # four\n"
    assert rewritten(text, count=5) == text.replace("count: 4", "count: 5")


def test_a_file_without_a_last_line_break_gets_one_where_it_is_needed() -> None:
    text = "apiVersion: v1\nkind: X\nspec:\n  a: 1"
    assert rewritten(text, b=2) == "apiVersion: v1\nkind: X\nspec:\n  a: 1\n  b: 2\n"


def test_json_on_one_line_stays_there() -> None:
    text = '{"apiVersion": "v1", "kind": "X", "spec": {"a": 1}}'
    after = rewritten(text, a=2)
    assert after is not None
    assert yaml.safe_load(after)["spec"] == {"a": 2}


VALUES = st.recursive(
    st.none() | st.integers(-9, 9) | st.text("ab: #'\n-{", max_size=5) | st.booleans(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", min_size=1, max_size=2), inner, max_size=3)
    ),
    max_leaves=8,
)
SPECS = st.dictionaries(st.text("abc", min_size=1, max_size=2), VALUES, min_size=1, max_size=4)


@given(before=SPECS, after=SPECS, flow=st.booleans())
def test_what_is_written_says_what_it_should_or_is_not_written(
    before: dict[str, Any], after: dict[str, Any], flow: bool
) -> None:
    raw = {"apiVersion": "v1", "kind": "X", "spec": before}
    text = yaml.safe_dump(raw, sort_keys=False, default_flow_style=flow)
    (document,) = manifests.read(text, source="f")
    wanted = {**raw, "spec": after}
    found = texts.rewritten(text, [(document, wanted)])
    if found is not None:
        assert [each.raw for each in manifests.read(found, source="f")] == [wanted]
