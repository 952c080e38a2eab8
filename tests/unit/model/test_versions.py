"""How two mappings differ is the same whether one knows that it follows the other or both are compared."""

from __future__ import annotations

import gc
from weakref import ref

from hypothesis import given
from hypothesis import strategies as st

from hami_plugins.model.versions import MappingVersion, changed_names

NAMED = st.dictionaries(st.sampled_from("abcdef"), st.sampled_from([object() for _ in range(3)]))


@given(NAMED, NAMED)
def test_names_that_came_went_or_changed_are_found(before: dict[str, object], after: dict[str, object]) -> None:
    different = {name for name in {*before, *after} if before.get(name) is not after.get(name)}
    assert set(changed_names(before, after)) == different


def test_a_version_answers_for_the_one_before_it_without_a_look() -> None:
    first = MappingVersion({"a": 1}, None, ())
    second = MappingVersion({"a": 1, "b": 2}, first, {"b"})
    third = MappingVersion({"a": 1, "b": 2, "c": 3}, second, {"told"})
    assert changed_names(second, third) == ("told",)
    assert set(changed_names(first, third)) == {"b", "c"}, "another version than the one before is compared"


def test_a_version_does_not_keep_the_one_before_it() -> None:
    first = MappingVersion({"a": 1}, None, ())
    second, alive = MappingVersion({"a": 2}, first, {"a"}), ref(first)
    del first
    gc.collect()
    assert alive() is None
    assert second.changed_since(None) is None
