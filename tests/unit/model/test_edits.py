"""Changes of objects as values."""

import pytest

from hami_plugins.model.edits import Append, Drop, Edit, Put, Rename, below, made

RAW = {"a": {"b": 1, "c": 2}, "list": [{"x": 1}, {"y": 2}]}


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (Put(("a", "b"), 5), {"a": {"b": 5, "c": 2}, "list": [{"x": 1}, {"y": 2}]}),
        (Put(("new", "deep"), 5), {**RAW, "new": {"deep": 5}}),
        (Put(("list", 1), 5), {"a": {"b": 1, "c": 2}, "list": [{"x": 1}, 5]}),
        (Put(("list", 1, "y"), 5), {"a": {"b": 1, "c": 2}, "list": [{"x": 1}, {"y": 5}]}),
        (Rename(("a", "b"), "z", 5), {"a": {"z": 5, "c": 2}, "list": [{"x": 1}, {"y": 2}]}),
        (Drop(("a", "b")), {"a": {"c": 2}, "list": [{"x": 1}, {"y": 2}]}),
        (Drop(("list", 0)), {"a": {"b": 1, "c": 2}, "list": [{"y": 2}]}),
        (Drop(("list", 0, "x")), {"a": {"b": 1, "c": 2}, "list": [{}, {"y": 2}]}),
        (Append(("list",), 5), {"a": {"b": 1, "c": 2}, "list": [{"x": 1}, {"y": 2}, 5]}),
        (Append(("a", "d"), 5), {"a": {"b": 1, "c": 2, "d": [5]}, "list": [{"x": 1}, {"y": 2}]}),
    ],
)
def test_an_edit_changes_one_place_of_a_copy(edit: Edit, expected: dict[str, object]) -> None:
    assert made(RAW, [edit]) == expected
    assert RAW == {"a": {"b": 1, "c": 2}, "list": [{"x": 1}, {"y": 2}]}


def test_a_renamed_member_keeps_its_place() -> None:
    assert list(made({"a": 1, "b": 2, "c": 3}, [Rename(("b",), "z", 5)])) == ["a", "z", "c"]


def test_what_is_left_empty_goes_too() -> None:
    assert made({"a": {"b": {"c": 1}}, "d": 1}, [Drop(("a", "b", "c"))]) == {"d": 1}
    assert made({"a": [1], "d": 1}, [Drop(("a", 0))]) == {"d": 1}
    assert made({"a": 1}, [Drop(("a",))]) == {}


def test_paths_that_lead_nowhere_are_errors() -> None:
    with pytest.raises(KeyError):
        made(RAW, [Drop(("nobody", "home"))])
    with pytest.raises(IndexError):
        made(RAW, [Put(("list", 7), 1)])


@pytest.mark.parametrize("edit", [Put(("a",), 1), Rename(("a",), "b", 1), Drop(("a",)), Append(("a",), 1)])
def test_an_edit_can_be_moved_below_another_place(edit: Edit) -> None:
    inner = made({"a": [0]}, [edit])
    assert made({"x": {"a": [0]}, "y": 1}, [below(("x",), edit)]).get("x", {}) == inner


def test_what_lists_cannot_do_leaves_them_alone() -> None:
    assert made({"a": [1, 2]}, [Rename(("a", 0), "b", 1)]) == {"a": [1, 2]}
