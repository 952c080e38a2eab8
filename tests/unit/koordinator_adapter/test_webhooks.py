"""The configurations of the webhooks: who is asked about what, and who is not."""

from __future__ import annotations

from typing import Any

import pytest

from hami_plugins.emulator.apiserver.conditions import compiled
from hami_plugins.granting.webhooks import Target
from hami_plugins.wire.koordinator import ALLOCATED_KEY
from koordinator_adapter import webhooks
from koordinator_adapter.translation.vocabulary import INJECTED, ISOLATION

TARGET = Target(configuration="koordinator-adapter", service="s", namespace="ns")
PLAIN: dict[str, Any] = {"metadata": {"name": "p"}}
RECORDED: dict[str, Any] = {"metadata": {"annotations": {ALLOCATED_KEY: "{}"}}}
LABELLED: dict[str, Any] = {"metadata": {"labels": {ISOLATION: "HAMi-core"}}}


def asked(new: Any, old: Any = None, *, name: str = "jane", groups: tuple[str, ...] = ("people",)) -> bool:
    """Whether the guard is asked about a change."""
    body = webhooks.validating(TARGET, users=["scheduler"], groups=["system:masters"])
    conditions = body["webhooks"][0]["matchConditions"]
    request = {"userInfo": {"username": name, **({"groups": list(groups)} if groups else {})}}
    variables = {"object": new, "oldObject": old, "request": request}
    return all(compiled(each["expression"]).holds(variables) for each in conditions)


@pytest.mark.parametrize(
    ("new", "old", "is_asked"),
    [
        (PLAIN, None, False),
        (RECORDED, None, True),
        (LABELLED, None, True),
        (PLAIN, RECORDED, True),
        (PLAIN, LABELLED, True),
        (PLAIN, PLAIN, False),
    ],
)
def test_the_guard_is_asked_about_what_carries_or_carried_something_guarded(new: Any, old: Any, is_asked: bool) -> None:
    assert asked(new, old) is is_asked


def test_whoever_is_trusted_is_not_even_asked_about() -> None:
    assert not asked(RECORDED, name="scheduler")
    assert not asked(RECORDED, groups=("people", "system:masters"))
    assert asked(RECORDED, groups=())


def test_without_anybody_trusted_everybody_is_asked_about() -> None:
    (condition,) = webhooks.validating(TARGET)["webhooks"][0]["matchConditions"]
    assert condition["name"] == "carries-what-is-guarded"


def test_records_are_completed_only_where_limits_are_given() -> None:
    assert len(webhooks.mutating(TARGET)["webhooks"]) == 2
    records = webhooks.mutating(TARGET, injects=True)["webhooks"][2]
    (condition,) = records["matchConditions"]
    waits = compiled(condition["expression"])
    both = {"metadata": {"annotations": {ALLOCATED_KEY: "{}", INJECTED: "1"}}}
    assert waits.holds({"object": both})
    assert not any(waits.holds({"object": each}) for each in (PLAIN, RECORDED, LABELLED))
    assert records["rules"][0]["operations"] == ["UPDATE"]


def test_a_pod_is_translated_by_one_of_the_two_webhooks_and_not_by_both() -> None:
    by_namespace, by_pod = webhooks.mutating(TARGET)["webhooks"]
    (excluded,) = by_namespace["objectSelector"]["matchExpressions"]
    assert excluded["values"] == ["ignore", "translate"]
    assert by_pod["objectSelector"]["matchLabels"] == {"hami-plugins.io/koordinator": "translate"}
    assert {each["failurePolicy"] for each in (by_namespace, by_pod)} == {"Fail"}
