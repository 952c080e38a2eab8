"""Changes of objects as values."""

import pytest

from hami_plugins.model.edits import AppendEdit, DropEdit, Edit, PutEdit, RenameEdit, below, made

RAW = {"a": {"b": 1, "c": 2}, "list": [{"x": 1}, {"y": 2}]}


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (PutEdit(("a", "b"), 5), {"a": {"b": 5, "c": 2}, "list": [{"x": 1}, {"y": 2}]}),
        (PutEdit(("new", "deep"), 5), {**RAW, "new": {"deep": 5}}),
        (PutEdit(("list", 1), 5), {"a": {"b": 1, "c": 2}, "list": [{"x": 1}, 5]}),
        (PutEdit(("list", 1, "y"), 5), {"a": {"b": 1, "c": 2}, "list": [{"x": 1}, {"y": 5}]}),
        (RenameEdit(("a", "b"), "z", 5), {"a": {"z": 5, "c": 2}, "list": [{"x": 1}, {"y": 2}]}),
        (DropEdit(("a", "b")), {"a": {"c": 2}, "list": [{"x": 1}, {"y": 2}]}),
        (DropEdit(("list", 0)), {"a": {"b": 1, "c": 2}, "list": [{"y": 2}]}),
        (DropEdit(("list", 0, "x")), {"a": {"b": 1, "c": 2}, "list": [{}, {"y": 2}]}),
        (AppendEdit(("list",), 5), {"a": {"b": 1, "c": 2}, "list": [{"x": 1}, {"y": 2}, 5]}),
        (AppendEdit(("a", "d"), 5), {"a": {"b": 1, "c": 2, "d": [5]}, "list": [{"x": 1}, {"y": 2}]}),
    ],
)
def test_an_edit_changes_one_place_of_a_copy(edit: Edit, expected: dict[str, object]) -> None:
    assert made(RAW, [edit]) == expected
    assert RAW == {"a": {"b": 1, "c": 2}, "list": [{"x": 1}, {"y": 2}]}


def test_a_renamed_member_keeps_its_place() -> None:
    assert list(made({"a": 1, "b": 2, "c": 3}, [RenameEdit(("b",), "z", 5)])) == ["a", "z", "c"]


def test_what_is_left_empty_goes_too() -> None:
    assert made({"a": {"b": {"c": 1}}, "d": 1}, [DropEdit(("a", "b", "c"))]) == {"d": 1}
    assert made({"a": [1], "d": 1}, [DropEdit(("a", 0))]) == {"d": 1}
    assert made({"a": 1}, [DropEdit(("a",))]) == {}


def test_paths_that_lead_nowhere_are_errors() -> None:
    with pytest.raises(KeyError):
        made(RAW, [DropEdit(("nobody", "home"))])
    with pytest.raises(IndexError):
        made(RAW, [PutEdit(("list", 7), 1)])


@pytest.mark.parametrize(
    "edit", [PutEdit(("a",), 1), RenameEdit(("a",), "b", 1), DropEdit(("a",)), AppendEdit(("a",), 1)]
)
def test_an_edit_can_be_moved_below_another_place(edit: Edit) -> None:
    inner = made({"a": [0]}, [edit])
    assert made({"x": {"a": [0]}, "y": 1}, [below(("x",), edit)]).get("x", {}) == inner


def test_what_lists_cannot_do_leaves_them_alone() -> None:
    assert made({"a": [1, 2]}, [RenameEdit(("a", 0), "b", 1)]) == {"a": [1, 2]}
