"""Readers that take what can be read, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType

import pytest

from hami_plugins.wire import lenient


@pytest.mark.parametrize(
    ("read", "value", "found"),
    [
        (lenient.mapping, {"a": 1}, {"a": 1}),
        (lenient.mapping, MappingProxyType({"a": 1}), {"a": 1}),
        (lenient.mapping, ["a"], {}),
        (lenient.mapping, None, {}),
        (lenient.items, [1], [1]),
        (lenient.items, {"a": 1}, []),
        (lenient.items, "ab", []),
        (lenient.mappings, [{"a": 1}, 2], [{"a": 1}]),
        (lenient.mappings, {"a": 1}, []),
        (lenient.mappings, [MappingProxyType({"a": 1})], [{"a": 1}]),
        (lenient.uid, {"metadata": {"uid": "u"}}, "u"),
        (lenient.uid, {"metadata": "u"}, ""),
        (lenient.text, "a", "a"),
        (lenient.text, 1, ""),
        (lenient.texts, {"a": "x", "b": 1, "c": None}, {"a": "x"}),
        (lenient.texts, "a", {}),
        (lenient.whole, 3, 3),
        (lenient.whole, True, None),
        (lenient.whole, 3.0, None),
        (lenient.whole, "3", None),
    ],
)
def test_what_is_of_another_type_is_not_there(read: Callable[[object], object], value: object, found: object) -> None:
    assert read(value) == found


def test_a_path_ends_where_a_member_is_no_mapping() -> None:
    raw = {"spec": {"template": {"a": 1}}}
    assert lenient.inside(raw, "spec", "template") == {"a": 1}
    assert lenient.inside(raw) == raw
    assert lenient.inside(raw, "spec", "template", "a", "b") == {}
