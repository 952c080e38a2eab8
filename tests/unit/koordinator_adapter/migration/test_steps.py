"""Steps of a migration: what differs, how an object stands to a step, and the way there and back."""

from __future__ import annotations

from typing import Any

import pytest

from hami_plugins.errors import WireError
from koordinator_adapter.core.migration.steps import (
    MADE_BY,
    FieldChange,
    MigrationStep,
    StepKind,
    StepState,
    changed,
    differences,
    holds,
    merge_patch,
    read,
    signed,
    state_of,
    written,
)
from tests.unit.koordinator_adapter.migration.cluster import Raw, a_group

AMOUNT = ("spec", "containers", 0, "resources", "limits", "nvidia.com/gpumem")


def a_step(*changes: FieldChange, **more: Any) -> MigrationStep:
    told = {"kind": StepKind.WORKLOAD, "name": "deployment/ml/w", "at": "/w", "words": "w"}
    return MigrationStep(**{**told, "changes": changes, **more})


def limits(amount: object) -> Raw:
    return {"spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpumem": amount}}}]}}


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1, "b": 2}, {"a": 3, "c": 4}, [("a",), ("b",), ("c",)]),
        ({"a": {"b": {"c": 1}}}, {"a": {"b": {"c": 2}}}, [("a", "b", "c")]),
        ({"a": [1, 2]}, {"a": [1, 3]}, [("a", 1)]),
        ({"a": [1, 2]}, {"a": [1]}, [("a",)]),
        ({"a": None}, {}, [("a",)]),
        ({}, {"labels": {"x": "1", "y": "2"}}, [("labels", "x"), ("labels", "y")]),
        ({"annotations": {"x": "1"}}, {}, [("annotations", "x")]),
    ],
)
def test_what_differs_is_told_by_its_smallest_places(before: Raw, after: Raw, found: list[Any]) -> None:
    changes = list(differences(before, after))
    assert [each.path for each in changes] == found
    assert list(differences(after, after)) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"a": 1, "b": {"c": 2}}, {"a": 3, "d": {"e": 4}}),
        ({"a": [{"b": 1}, 2]}, {"a": [{"c": 1}, 3]}),
        ({"metadata": {"labels": {"x": "1"}}}, {"metadata": {"annotations": {"y": "2"}}}),
    ],
)
def test_a_step_that_is_taken_and_taken_back_leaves_the_object_as_it_was(before: Raw, after: Raw) -> None:
    step = a_step(*differences(before, after))
    assert state_of(step, before) is StepState.BEFORE
    assert changed(step, before) == after
    assert state_of(step, after) is StepState.AFTER
    assert changed(step, after, back=True) == before


def test_what_is_not_there_or_another_object_of_the_name_has_gone() -> None:
    step = a_step(FieldChange(("a",), (1,), (2,)), uid="u")
    assert state_of(step, None) is StepState.GONE
    assert state_of(step, {"metadata": {"uid": "v"}, "a": 1}) is StepState.GONE
    assert state_of(step, {"metadata": {"uid": "u"}, "a": 1}) is StepState.BEFORE
    assert state_of(step, {"metadata": {"uid": "u"}, "a": 3}) is StepState.OTHER


@pytest.mark.parametrize(
    ("there", "state"),
    [
        ("3000", StepState.AFTER),
        (3000, StepState.AFTER),
        ("3k", StepState.AFTER),
        ("4k", StepState.OTHER),
        ("?", StepState.OTHER),
    ],
)
def test_an_amount_is_the_same_however_it_is_spelled(there: object, state: StepState) -> None:
    step = a_step(FieldChange(AMOUNT, (1,), (3000,)))
    assert state_of(step, limits(there)) is state


def test_only_amounts_may_be_spelled_otherwise() -> None:
    assert state_of(a_step(FieldChange(("a",), (), ("3000",))), {"a": "3k"}) is StepState.OTHER
    whole = a_step(FieldChange(("spec",), (), (limits(3000)["spec"],)))
    assert state_of(whole, limits("3k")) is StepState.AFTER
    assert state_of(whole, limits(None)) is StepState.OTHER
    assert state_of(a_step(FieldChange(("a",), (), ([1, 2],))), {"a": [1, 2, 3]}) is StepState.OTHER


def test_a_place_beyond_the_end_of_a_list_is_empty() -> None:
    assert state_of(a_step(FieldChange(("a", 1), (), (2,))), {"a": [1]}) is StepState.BEFORE


def test_what_was_made_is_known_by_the_name_of_its_migration() -> None:
    step = signed(a_step(made=a_group(minMember=2)), "journal-1")
    assert step.made is not None
    assert step.made["metadata"]["annotations"] == {MADE_BY: "journal-1"}
    assert state_of(step, None) is StepState.BEFORE
    assert state_of(step, {**step.made, "status": {}}) is StepState.AFTER
    assert state_of(step, a_group(minMember=2)) is StepState.FOREIGN
    assert state_of(step, {**step.made, "spec": {"minMember": 3}}) is StepState.OTHER
    plain = a_step()
    assert signed(plain, "journal-1") is plain


def test_what_the_server_adds_does_not_matter_to_what_is_wanted() -> None:
    assert holds({"a": 1, "b": {"c": 2, "d": 3}}, {"b": {"c": 2}})
    assert not holds({"a": 1}, {"a": 1, "b": 2})
    assert not holds(None, {"a": 1})


def test_a_merge_patch_turns_one_object_into_the_other() -> None:
    before = {"same": {"x": 1}, "gone": 1, "changed": 1, "inner": {"y": 1, "z": 2}}
    after = {"same": {"x": 1}, "changed": 2, "inner": {"z": 2}, "new": [1]}
    assert merge_patch(before, after) == {"gone": None, "changed": 2, "inner": {"y": None}, "new": [1]}


@pytest.mark.parametrize(
    "step", [a_step(FieldChange(AMOUNT, (), (1,)), FieldChange(("a",), ("x",), ())), a_step(made=a_group(), uid="u")]
)
def test_a_step_is_read_from_a_journal_as_it_was_written(step: MigrationStep) -> None:
    assert read(written(step), "steps[0]") == step


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"kind": "?"}, "steps[0].kind"),
        ({"changes": [7]}, "steps[0].changes[0]"),
        ({"changes": [[[], []]]}, "steps[0].changes[0]"),
        ({"changes": [[[], [], 7]]}, "steps[0].changes[0]"),
    ],
)
def test_a_step_that_means_nothing_is_refused_with_its_place(change: Raw, key: str) -> None:
    with pytest.raises(WireError) as error:
        read({**written(a_step()), **change}, "steps[0]")
    assert error.value.key == key
