"""YAML and JSON text to plain values: what Kubernetes would read, or one error with its place."""

import json
from contextlib import suppress
from itertools import pairwise

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from hami_plugins.errors import ManifestError
from hami_plugins.wire import yaml_text

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)
SNIPPETS = (
    "a: 1", "- x",
    "{", "}", "[", "]", "&a ", "*a", "<<: ", "? ", ": ", "\n", "\n  ", "---\n", "...\n", "!!str ", "! ",
    '"', "'", "|\n  text", "#", "\t", "%YAML 1.1\n", "\x00",
    "\ud800", "é", "~", ".inf", "1e999", "0x", "08", ",", "\\u12",
)  # fmt: skip


def values(text: str) -> list[object]:
    return [tree.value for tree in yaml_text.read(text, source="f.yaml")]


def fault(text: str) -> str:
    with pytest.raises(ManifestError) as caught:
        yaml_text.read(text, source="f.yaml")
    return str(caught.value)


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("", None), ("~", None), ("Null", None), ("true", True), ("Off", False), ("YES", True), ("y", "y"),
        ("3", 3), ("+3", 3), ("-3", -3), ("1_000", 1000), ("0x1F", 31), ("0b11", 3), ("0o17", 15), ("017", 15),
        ("08", 8),
        ("1.5", 1.5), ("16.0", 16), (".5", 0.5), ("1e3", 1000), ("1.5E2", 150), ("1e30", 1e30), ("1e999", "1e999"),
        ("18446744073709551615", 2**64 - 1), ("100000000000000000000000", 1e23), ("9" * 350, "9" * 350),
        ("9" * 401, "9" * 401),
        ("2020-01-01", "2020-01-01"), ("1:30", "1:30"), ("16Gi", "16Gi"), ("100m", "100m"), ("=", "="), ("-", ["x"]),
        ("nvidia.com/gpu", "nvidia.com/gpu"), ("'3'", "3"), ('"true"', "true"), ("!!str 3", "3"), ("! 3", "3"),
        ("!!int '3'", 3), ("!!float 3", 3), ("!!bool 'yes'", True), ("!!null ''", None),
        ("!!seq []", []), ("!!map {}", {}),
    ],
)  # fmt: skip
def test_a_word_means_what_kubectl_would_send(word: str, value: object) -> None:
    text = "a:\n- x\n" if word == "-" else f"a: {word}\n"
    assert values(text) == [{"a": value}]
    assert type(values(text)[0]["a"]) is type(value)  # type: ignore[index]


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        ("a: 1\nb: {c: 1, c: 2}\n", 2, 11, "stands twice"),
        ("a: 1\n2: x\n", 2, 1, "the key 2 is not text"),
        ("on: 1\n", 1, 1, "the key true is not text"),
        ("~: 1\n", 1, 1, "the key null is not text"),
        ("a: &x [1]\n*x : 1\n", 2, 1, "is not text"),
        ("? [a]\n: 1\n", 1, 3, "a key has to be text"),
        ("image: {{ .Values.image }}\n", 1, 9, "render it first"),
        ("a: [1\nb: 2\n", 2, 2, "flow sequence"),
        ("a: b: c\n", 1, 5, "mapping values are not allowed"),
        ("a: é\nb: \x07\n", 2, 4, "control characters"),
        ("a: b\nc: '\ud800'\n", 2, 5, "surrogate"),
        ("a: *nobody\n", 1, 4, "&nobody"),
        ("a: &a [*a]\n", 1, 8, "contains itself"),
        ("a: .nan\n", 1, 4, "JSON"),
        ("a: !!binary aGk=\n", 1, 4, "tag"),
        ("a: !!int x\n", 1, 4, "'x' is no int"),
        ("a: !!set {x}\n", 1, 4, "tag"),
        ("<<: 3\n", 1, 5, "takes a mapping"),
        ('{"a": 1,\n "a": 2}', 2, 2, "stands twice"),
        ('{"a": [1, NaN]}', 1, 11, "NaN"),
        ('{"a": 1e999}', 1, 7, "1e999"),
    ],
)
def test_an_error_names_the_place(text: str, line: int, column: int, words: str) -> None:
    message = fault(text)
    assert message.startswith(f"f.yaml: document 1, line {line}, column {column}: ")
    assert words in message


def test_whole_numbers_are_keys_where_they_are_taken_and_text_as_in_json() -> None:
    text = "1: a\ntwo: {3: b}\n"
    (tree,) = yaml_text.read(text, source="f.yaml", number_keys=True)
    assert tree.value == {"1": "a", "two": {"3": "b"}}
    assert "the key 1 is not text" in fault(text)
    with pytest.raises(ManifestError, match=r"the key 1\.5 is not text"):
        yaml_text.read("1.5: a\n", source="f.yaml", number_keys=True)


def test_an_error_counts_the_documents_before_it() -> None:
    assert fault("a: 1\n---\n---\na: [\n").startswith("f.yaml: document 3, ")
    assert fault('{"a": 1}\n{"b": 1, "b": 2}').startswith("f.yaml: document 2, line 2, column 10: ")


def test_empty_documents_count_and_are_left_out() -> None:
    found = yaml_text.read("---\n# nothing\n---\na: 1\n---\nnull\n---\nb: 2\n", source="f")
    assert [(tree.number, tree.spot.line, tree.value) for tree in found] == [(2, 4, {"a": 1}), (4, 8, {"b": 2})]
    assert yaml_text.read("", source="f") == yaml_text.read("# only a comment\n", source="f") == ()


def test_json_texts_may_follow_one_another() -> None:
    assert values('\ufeff {"a": 1}\n[2]\n {"b": {"c": null, "d": [true, 1.5, 16.0]}}') == [
        {"a": 1},
        [2],
        {"b": {"c": None, "d": [True, 1.5, 16]}},
    ]


def test_what_starts_like_json_may_be_yaml() -> None:
    assert values("{a: 1, b: [x, 'y',],}\n---\nc: 2") == [{"a": 1, "b": ["x", "y"]}, {"c": 2}]


def test_aliases_share_and_merges_add_what_is_missing() -> None:
    bases = "base: &b {x: 1, y: 2}\nmore: &m {y: 3, z: 4}\n"
    text = f"{bases}one: {{<<: *b, y: 5}}\ntwo: {{<<: [*b, *m]}}\nsame: *b\nq: {{'<<': 1}}\n"
    found = values(text)[0]
    assert isinstance(found, dict)
    assert found["one"] == {"y": 5, "x": 1}
    assert found["two"] == {"x": 1, "y": 2, "z": 4}
    assert found["same"] is found["base"]
    assert found["q"] == {"<<": 1}


def test_an_alias_of_text_may_be_a_key() -> None:
    assert values("a: &k name\nb: {*k : 1}\n") == [{"a": "name", "b": {"name": 1}}]


def test_places_follow_merges_and_aliases() -> None:
    text = "a: &a\n  x: 1\n  y: 2\nb:\n  <<: *a\n  y: 3\nc:\n- <<: [*a]\n  z: 4\n- *a\n"
    inside = yaml_text.read(text, source="f", places=True)[0].inside
    assert inside["b"].inside["x"].spot.line == 2
    assert inside["b"].inside["y"].spot.line == 6
    assert inside["c"].inside[0].inside["y"].spot.line == 3
    assert inside["c"].inside[1].spot.line == 10


def test_self_multiplying_documents_are_refused_before_they_grow() -> None:
    names = "abcdefghij"
    doublings = "".join(f"{this}: &{this} [{','.join(9 * [f'*{before}'])}]\n" for before, this in pairwise(names))
    assert "aliases add more than" in fault(f"a: &a [lol, lol]\n{doublings}")


@pytest.mark.parametrize("opening", ["[", "- ", "{a: ", '{"a":', "a: [", '[{"b":'])
@pytest.mark.parametrize("depth", [201, 100_000])
def test_deep_documents_are_refused(opening: str, depth: int) -> None:
    if opening == "- ":
        depth = min(depth, 2000)
    assert "nested deeper than 200 levels" in fault(opening * depth)


def test_deep_json_is_refused_at_the_same_depth() -> None:
    assert values("[" * 200 + "]" * 200)
    assert "nested deeper" in fault("[" * 201 + "]" * 201)


@given(JSON_VALUES)
def test_json_and_yaml_text_of_a_value_read_as_that_value(value: object) -> None:
    assert values(json.dumps({"a": value})) == [{"a": value}]
    assert values(yaml.safe_dump({"a": value}, default_style='"')) == [{"a": value}]


@given(st.dictionaries(st.text(), JSON_VALUES, min_size=1))
def test_asking_for_places_changes_no_value(value: dict[str, object]) -> None:
    for text in (json.dumps(value, indent=1), json.dumps(value, ensure_ascii=False)):
        with suppress(ManifestError):
            (placed,) = yaml_text.read(text, source="f", places=True)
            assert placed.value == value
            assert set(placed.inside) == set(value)


@given(st.one_of(st.text(), st.lists(st.sampled_from(SNIPPETS), max_size=12).map("".join)))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(ManifestError):
        yaml_text.read(text, source="f.yaml")
