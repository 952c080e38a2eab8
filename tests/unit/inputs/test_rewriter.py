"""Changed objects back into their text."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from hami_plugins.inputs.manifests.renderer import block
from hami_plugins.inputs.manifests.rewriter import Rewritten, rewritten
from hami_plugins.wire import yaml_text

TEXT = """\
# a pod
apiVersion: v1
kind: Pod  # of course
metadata:
  name: p
spec:
  containers:
  # the first
  - name: c   # its name
    resources:
      limits:
        nvidia.com/gpu: 1       # cards
        # and of each
        nvidia.com/gpumem: 3000
      requests: {cpu: 1, memory: 1Gi}   # inline
    args: ["a", 'b']
    command: |
      run
      this
    env:
    - {name: A, value: b}
    - name: B  # second
      value: c
  empty:
# the end
"""


def read(text: str) -> Any:
    """The first document of a text."""
    return yaml_text.read(text, source="test")[0].value


def changed(text: str, after: object) -> Rewritten:
    """The text with another object; what comes out is read again."""
    found = rewritten(text, {1: [after]})  # type: ignore[list-item]
    assert read(found.text) == after
    return found


def with_spec(**container: object) -> Any:
    """The object of the text with members of its container changed."""
    found = read(TEXT)
    found["spec"]["containers"][0] |= container
    return found


def test_nothing_changed_is_nothing_changed() -> None:
    assert rewritten(TEXT, {}).text == TEXT
    assert changed(TEXT, read(TEXT)).text == TEXT


def test_a_name_and_a_value_change_in_place_with_their_comment() -> None:
    found = changed(TEXT, with_spec(resources={
        "limits": {"koordinator.sh/gpu.shared": 1, "koordinator.sh/gpu-memory": "3000Mi", "x": "y"},
        "requests": {"cpu": 2, "memory": "1Gi"},
    }))  # fmt: skip
    assert not found.anew
    assert "        koordinator.sh/gpu.shared: 1       # cards\n        # and of each\n" in found.text
    assert "        koordinator.sh/gpu-memory: 3000Mi\n        x: y\n" in found.text
    assert "requests: {cpu: 2, memory: 1Gi}   # inline\n" in found.text


def test_new_members_of_braces_make_the_braces_anew() -> None:
    after = with_spec()
    after["spec"]["containers"][0]["resources"]["requests"] = {"cpu": 1, "memory": "1Gi", "x": True}
    assert "requests: {cpu: 1, memory: 1Gi, x: true}   # inline\n" in changed(TEXT, after).text


def test_empty_braces_and_brackets_are_filled_where_they_stand() -> None:
    text = "requests: {}  # none\nargs: []\n"
    filled = rewritten(text, {1: [{"requests": {"a/b": "1"}, "args": ["x"]}]})
    assert filled == Rewritten('requests: {a/b: "1"}  # none\nargs: [x]\n')


def test_names_and_values_inside_braces_change_in_place() -> None:
    assert changed("a: {x: 1,  y: 2} # both\n", {"a": {"z": 1, "y": 3}}).text == "a: {z: 1,  y: 3} # both\n"


def test_a_member_that_goes_takes_its_line() -> None:
    after = read(TEXT)
    del after["spec"]["containers"][0]["args"]
    del after["metadata"]
    found = changed(TEXT, after)
    assert found.text == TEXT.replace("    args: [\"a\", 'b']\n", "").replace("metadata:\n  name: p\n", "")


def test_the_first_member_of_an_item_leaves_it_its_dash() -> None:
    after = read(TEXT)
    del after["spec"]["containers"][0]["name"]
    assert "  - resources:\n" in changed(TEXT, after).text


def test_members_of_a_merge_stay_where_they_are() -> None:
    text = "base: &x {n: 1}\na:\n  <<: *x\n  m: 1  # one\n"
    assert changed(text, {"base": {"n": 1}, "a": {"m": 2, "n": 1}}).text == text.replace("m: 1", "m: 2")


def test_a_member_comes_behind_a_text_of_several_lines() -> None:
    found = changed("a: |\n  one\n  two\nb: 1\n", {"a": "one\ntwo\n", "c": 2, "b": 1})
    assert found.text == "a: |\n  one\n  two\nc: 2\nb: 1\n"


def test_items_come_and_go_with_their_lines() -> None:
    after = with_spec(env=[{"name": "A", "value": "b"}, {"name": "B", "value": "c"}, {"name": "C", "value": "1"}])
    assert '      value: c\n    - name: C\n      value: "1"\n' in changed(TEXT, after).text
    after = with_spec(env=[{"name": "B", "value": "c"}])
    assert "    env:\n    - name: B  # second\n" in changed(TEXT, after).text
    after = with_spec(env=[{"name": "A", "value": "z"}, {"name": "B", "value": "c"}])
    assert "    - {name: A, value: z}\n" in changed(TEXT, after).text


def test_what_has_parts_is_written_in_its_place() -> None:
    after = with_spec(args={"x": [1, {"y": []}]})
    after["spec"]["empty"] = {"a": 1}
    found = changed(TEXT, after)
    assert "    args:\n      x:\n      - 1\n      - y: []\n" in found.text
    assert "  empty:\n    a: 1\n# the end\n" in found.text


def test_a_value_without_parts_takes_the_place_of_one_with_parts() -> None:
    after = with_spec(resources=None, env="none")
    found = changed(TEXT, after)
    assert not found.anew
    assert "    resources: null   # inline\n" in found.text


def test_a_member_in_front_of_all_pushes_the_others_down() -> None:
    assert changed("a: 1 # x\n", {"z": [], "a": 1}).text == "z: []\na: 1 # x\n"


def test_another_object_takes_the_place_of_all_members() -> None:
    assert changed("# top\na: 1\nb: 2\n# end\n", {"x": {"y": 1}}).text == "# top\nx:\n  y: 1\n# end\n"


def test_line_ends_of_windows_stay() -> None:
    found = changed("a:\r\n  b: 1 # x\r\n  c: 2\r\nd: 3\r\n", {"a": {"b": 5, "e": 6}, "d": 3})
    assert found.text == "a:\r\n  b: 5 # x\r\n  e: 6\r\nd: 3\r\n"
    more = changed("a: 1\r\n", {"a": 1, "b": {"c": [2, 3]}})
    assert more.text == "a: 1\r\nb:\r\n  c:\r\n  - 2\r\n  - 3\r\n"
    beside = rewritten("a: 1\r\n", {}, [{"b": 2, "c": 3}])
    assert beside.text == "a: 1\r\n---\r\nb: 2\r\nc: 3\r\n"


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("a: &x {n: 1}\nb: *x\n", {"a": {"n": 1}, "b": {"n": 2}}),
        ("a: &x\n  n: 1\nb: *x\n", {"a": {"n": 2}, "b": {"n": 1}}),
        ("base: &x {n: 1}\na:\n  <<: *x\n  m: 1\n", {"base": {"n": 1}, "a": {"m": 1}}),
        ("base: &x {n: 1}\na:\n- m: 1\n  <<: *x\n", {"base": {"n": 1}, "a": [{"n": 1}]}),
        ("? a\n: 1\n? b\n: 2\n", {"a": 1}),
        ("a: [1, 2]\n", {"a": [1]}),
        ("a:\n- - 1\n  - 2\n", {"a": [[2]]}),
        ("a: {\n  x: 1, # one\n  y: 2}\n", {"a": {"x": 1}}),
        ("a:\n- b: 1\n", {"a": [{"c": [1]}]}),
        ("a:\n- b: 1\n  c: 2\n# end\n", {"a": [{"b": 1}, 3]}),
    ],
)
def test_what_cannot_change_in_place_is_written_anew(text: str, after: object) -> None:
    changed(text, after)


def test_an_anchor_that_says_the_same_everywhere_changes_once() -> None:
    found = changed("a: &x {n: 1}\nb: *x\n", {"a": {"n": 2}, "b": {"n": 2}})
    assert found == Rewritten("a: &x {n: 2}\nb: *x\n")


def test_a_document_that_is_written_anew_is_told() -> None:
    found = rewritten("# one\na: 1\n---\n# two\na: &x {n: 1}\nb: *x # c\n", {2: [{"a": 1, "b": {"n": 2}}]})
    assert (found.anew, found.commented) == ((2,), ())
    assert found.text == "# one\na: 1\n---\n# two\na: 1\nb:\n  n: 2 # c\n"


def test_a_document_that_is_written_anew_may_lose_comments() -> None:
    found = rewritten("a: &x {n: 1}  # gone\nb: *x\n", {1: [{"a": 1, "b": {"n": 2}}]})
    assert (found.anew, found.commented) == ((1,), (1,))
    assert "gone" not in found.text


def test_only_the_document_that_is_meant_changes() -> None:
    found = rewritten("a: 1\n---\n---\na: 2 # x\n---\na: 3\n", {3: [{"a": 5}]})
    assert found.text == "a: 1\n---\n---\na: 5 # x\n---\na: 3\n"


def test_several_objects_and_further_ones_are_documents_of_their_own() -> None:
    found = rewritten("a: 1\n", {1: [{"a": 2}, {"b": 3}]}, [{"c": 4}])
    assert [tree.value for tree in yaml_text.read(found.text, source="test")] == [{"a": 2}, {"b": 3}, {"c": 4}]
    assert rewritten("", {}, [{"c": 4}]).text == "c: 4\n"


def test_json_stays_json() -> None:
    found = rewritten('{"a": 1,\n "b": {"c": 2}}', {1: [{"a": 1, "b": {"d": 3}}]})
    assert orjson.loads(found.text) == {"a": 1, "b": {"d": 3}}
    lines = rewritten('{"a": 1}\n{"b": 2}\n', {2: [{"b": 3}]}, [{"c": 4}])
    assert [tree.value for tree in yaml_text.read(lines.text, source="test")] == [{"a": 1}, {"b": 3}, {"c": 4}]


def test_a_byte_order_mark_is_no_part_of_the_text() -> None:
    assert rewritten("\ufeffa: 1\n", {1: [{"a": 2}]}).text == "a: 2\n"


words = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-9, 99),
    st.text("ab1e:#-, '\"{}[]&*!|>%@~\n", max_size=6),
    st.just("1e3"),
    st.just("on"),
    st.just(".inf"),
)
keys = st.sampled_from(["a", "b", "c", "x.y/z", "on", "1", "-"])
values = st.recursive(
    words,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=4)),
    max_leaves=12,
)
objects = st.dictionaries(keys, values, min_size=1, max_size=4)


@given(objects, objects, st.booleans())
def test_whatever_changes_reads_back_as_it_should(before: Any, after: Any, ours: bool) -> None:
    text = block(before) if ours else yaml.safe_dump(before, sort_keys=False, default_flow_style=None)
    if [tree.value for tree in yaml_text.read(text, source="test")] != [before]:
        return  # PyYAML writes for PyYAML, which reads some words otherwise
    commented = f"# top\n{text}# end\n"
    found = rewritten(commented, {1: [after]}, [{"more": 1}])
    assert [tree.value for tree in yaml_text.read(found.text, source="test")] == [after, {"more": 1}]
    assert found.text.startswith("# top\n")
    assert "# end\n" in found.text


@given(objects)
def test_what_is_rendered_reads_back(value: Any) -> None:
    assert read(block(value)) == value


@pytest.mark.parametrize("text", [".inf", "-.INF", ".nan", "1e999", "true", "017", "~", "a: b", "# no", ""])
def test_a_text_that_would_mean_something_else_is_quoted(text: str) -> None:
    assert read(block({"a": [text]}, 0)) == {"a": [text]}
