"""Merge patches, JSON patches and strategic merge patches, as their specifications have them."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_plugins.sandbox.apiserver.answers import ApiError
from hami_plugins.sandbox.apiserver.patches import MAX_OPERATIONS, json_patch, merge
from hami_plugins.sandbox.apiserver.strategic import strategic_merge

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab/~", max_size=2), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text("ab", max_size=2), JSON, max_size=3)


@pytest.mark.parametrize(
    ("old", "patch", "new"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patches_work_as_in_rfc_7396(old: Any, patch: Any, new: Any) -> None:
    assert merge(old, patch) == new


@given(old=OBJECTS, patch=OBJECTS)
def test_a_merge_patch_applied_twice_changes_nothing_more_and_its_input_never(old: Any, patch: Any) -> None:
    kept = copy.deepcopy((old, patch))
    once = merge(old, patch)
    assert merge(once, patch) == once
    assert (old, patch) == kept


@pytest.mark.parametrize(
    ("old", "operation", "new"),
    [
        ({"foo": "bar"}, {"op": "add", "path": "/baz", "value": "qux"}, {"foo": "bar", "baz": "qux"}),
        ({"foo": ["bar", "baz"]}, {"op": "add", "path": "/foo/1", "value": "qux"}, {"foo": ["bar", "qux", "baz"]}),
        ({"foo": ["bar"]}, {"op": "add", "path": "/foo/-", "value": ["x"]}, {"foo": ["bar", ["x"]]}),
        ({"baz": "qux", "foo": "bar"}, {"op": "remove", "path": "/baz"}, {"foo": "bar"}),
        ({"foo": ["bar", "qux", "baz"]}, {"op": "remove", "path": "/foo/1"}, {"foo": ["bar", "baz"]}),
        ({"baz": "qux"}, {"op": "replace", "path": "/baz", "value": "boo"}, {"baz": "boo"}),
        ({"a": [1, 2]}, {"op": "replace", "path": "/a/0", "value": 3}, {"a": [3, 2]}),
        ({"a": [{"b": 1}]}, {"op": "replace", "path": "/a/0/b", "value": 2}, {"a": [{"b": 2}]}),
        ({"a": [{"b": 1}]}, {"op": "remove", "path": "/a/0/b"}, {"a": [{}]}),
        ({"a": {"x": 1}, "b": {}}, {"op": "move", "from": "/a/x", "path": "/b/y"}, {"a": {}, "b": {"y": 1}}),
        ({"foo": ["a", "b", "c"]}, {"op": "move", "from": "/foo/0", "path": "/foo/2"}, {"foo": ["b", "c", "a"]}),
        ({"a": 1}, {"op": "copy", "from": "/a", "path": "/b"}, {"a": 1, "b": 1}),
        ({"/": 9, "~1": 10}, {"op": "test", "path": "/~01", "value": 10}, {"/": 9, "~1": 10}),
        ({"a": 1}, {"op": "replace", "path": "", "value": {"b": 2}}, {"b": 2}),
        ({"a": 1}, {"op": "remove", "path": ""}, None),
        ({"a": {"b": [True]}}, {"op": "test", "path": "/a", "value": {"b": [True]}}, {"a": {"b": [True]}}),
        ({}, {"op": "test", "path": "/a", "value": None}, {}),
        ({}, {"op": "replace", "path": "/a", "value": 1}, {"a": 1}),
        ({}, {"op": "copy", "from": "/a", "path": "/b"}, {"b": None}),
    ],
)
def test_json_patches_work_as_in_rfc_6902(old: Any, operation: Any, new: Any) -> None:
    kept = copy.deepcopy(old)
    assert json_patch(old, [operation]) == new
    assert old == kept


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/a", "value": True},
        {"op": "test", "path": "/b", "value": [1]},
        {"op": "test", "path": "/b", "value": {"0": 1}},
        {"op": "test", "path": "/no/where", "value": None},
        {"op": "remove", "path": "/nothing"},
        {"op": "add", "path": "/nothing/here", "value": 1},
        {"op": "add", "path": "/b/3", "value": 1},
        {"op": "add", "path": "/b/x", "value": 1},
        {"op": "replace", "path": "/b/-", "value": 1},
        {"op": "add", "path": "/a/x", "value": 1},
        {"op": "move", "path": "/c"},
        {"op": "copy", "from": "/nothing/here", "path": "/c"},
        {"op": "replace", "path": "/b/2", "value": 1},
        {"op": "move", "from": "/nothing", "path": "/c"},
        {"op": "add", "path": "a", "value": 1},
        {"op": "invent", "path": "/a"},
    ],
)
def test_a_json_patch_that_does_not_apply_is_422(operation: Any) -> None:
    with pytest.raises(ApiError) as caught:
        json_patch({"a": 1, "b": [1, 2]}, [operation])
    assert caught.value.code == 422


@pytest.mark.parametrize(
    ("patch", "code"),
    [({"op": "add"}, 400), ([{"op": "add"}], 400), (["add"], 400), ([{}] * (MAX_OPERATIONS + 1), 413)],
)
def test_a_json_patch_that_is_none_is_refused(patch: Any, code: int) -> None:
    with pytest.raises(ApiError) as caught:
        json_patch({}, patch)
    assert caught.value.code == code


@given(document=JSON, value=JSON)
def test_what_a_json_patch_added_it_can_test_and_remove(document: Any, value: Any) -> None:
    whole = {"document": document}
    added = json_patch(whole, [{"op": "add", "path": "/x", "value": value}])
    assert json_patch(added, [{"op": "test", "path": "/x", "value": value}, {"op": "remove", "path": "/x"}]) == whole


@pytest.mark.parametrize(
    ("old", "patch", "new"),
    [
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": None}}, {"a": {"c": 2}}),
        ({"a": {"b": 1}}, {"a": {"$patch": "replace", "c": 2}}, {"a": {"c": 2}}),
        ({"a": {"b": 1}, "c": 1}, {"a": {"$patch": "delete"}}, {"c": 1}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"$retainKeys": ["c"], "c": 3}}, {"a": {"c": 3}}),
        ({"a": 1}, {"a": {"b": 1}}, {"a": {"b": 1}}),
        (
            {"containers": [{"name": "a", "env": [{"name": "X", "value": "1"}]}, {"name": "b"}]},
            {"containers": [{"name": "a", "env": [{"name": "Y", "value": "2"}]}]},
            {
                "containers": [
                    {"name": "a", "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}]},
                    {"name": "b"},
                ]
            },
        ),
        (
            {"conditions": [{"type": "A"}, {"type": "B"}]},
            {"conditions": [{"type": "A", "$patch": "delete"}]},
            {"conditions": [{"type": "B"}]},
        ),
        (
            {"conditions": [{"type": "A"}]},
            {"conditions": [{"$patch": "replace"}, {"type": "B"}]},
            {"conditions": [{"type": "B"}]},
        ),
        (
            {"volumes": [{"name": "a"}, {"name": "b"}]},
            {"$setElementOrder/volumes": [{"name": "c"}, {"name": "b"}, {"name": "a"}], "volumes": [{"name": "c"}]},
            {"volumes": [{"name": "c"}, {"name": "b"}, {"name": "a"}]},
        ),
        (
            {"ports": [{"containerPort": 1, "name": "x"}]},
            {"ports": [{"containerPort": 1, "name": "y"}]},
            {"ports": [{"containerPort": 1, "name": "y"}]},
        ),
        ({"ports": [{"port": 1}]}, {"ports": [{"port": 2}]}, {"ports": [{"port": 1}, {"port": 2}]}),
        ({"finalizers": ["a"]}, {"finalizers": ["b", "a"]}, {"finalizers": ["a", "b"]}),
        ({"finalizers": ["a", "b"]}, {"$deleteFromPrimitiveList/finalizers": ["a"]}, {"finalizers": ["b"]}),
        ({"taints": [{"key": "a"}]}, {"taints": [{"key": "b"}]}, {"taints": [{"key": "b"}]}),
        ({"tolerations": [{"key": "a"}]}, {"tolerations": []}, {"tolerations": []}),
        ({"args": ["a"]}, {"args": ["b"]}, {"args": ["b"]}),
        ({"conditions": ["odd"]}, {"conditions": [{"type": "A"}]}, {"conditions": [{"type": "A"}]}),
    ],
)
def test_strategic_patches_merge_lists_by_their_keys(old: Any, patch: Any, new: Any) -> None:
    kept = copy.deepcopy(old)
    assert strategic_merge(old, patch) == new
    assert old == kept


@pytest.mark.parametrize("patch", [[], {"a": {"$patch": "invent"}}, {"conditions": [{"status": "True"}]}])
def test_a_strategic_patch_that_means_nothing_is_400(patch: Any) -> None:
    with pytest.raises(ApiError) as caught:
        strategic_merge({"a": {"b": 1}}, patch)
    assert caught.value.code == 400
