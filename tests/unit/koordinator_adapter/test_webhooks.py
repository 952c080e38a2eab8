"""The configurations of the webhooks: who is asked about what, and who is not."""

from __future__ import annotations

from typing import Any

import pytest

from hami_plugins.emulator.apiserver.conditions import compiled
from hami_plugins.granting.webhooks import Target
from hami_plugins.wire.koordinator import ALLOCATED_KEY
from koordinator_adapter import webhooks
from koordinator_adapter.translation.vocabulary import INJECTED, ISOLATION, MEMORY_LIMIT, VISIBLE

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


def annotated(**annotations: str) -> dict[str, Any]:
    return {"metadata": {"annotations": {"theirs": "x", **annotations}, "labels": {"theirs": "x"}}}


LIMITED = annotated(**{ALLOCATED_KEY: "{}", VISIBLE: "GPU-0", f"{MEMORY_LIMIT}0": "1"})
UNLABELLED = {"metadata": {"labels": {ISOLATION: "none"}}}


@pytest.mark.parametrize(
    ("new", "old", "is_asked"),
    [
        (PLAIN, None, False),
        (RECORDED, None, True),
        (LABELLED, None, False),
        (PLAIN, RECORDED, True),
        (RECORDED, PLAIN, True),
        (annotated(**{ALLOCATED_KEY: "[]"}), RECORDED, True),
        (PLAIN, LABELLED, True),
        (UNLABELLED, LABELLED, True),
        (LABELLED, PLAIN, False),
        (PLAIN, UNLABELLED, False),
        (PLAIN, PLAIN, False),
        (annotated(**{**LIMITED["metadata"]["annotations"], f"{MEMORY_LIMIT}0": "9"}), LIMITED, True),
        (annotated(**{ALLOCATED_KEY: "{}", VISIBLE: "GPU-0"}), LIMITED, True),
    ],
)
def test_the_guard_is_asked_where_something_guarded_is_written(new: Any, old: Any, is_asked: bool) -> None:
    assert asked(new, old) is is_asked


@pytest.mark.parametrize("pod", [RECORDED, LABELLED, LIMITED])
def test_nobody_is_asked_about_other_changes_of_a_pod_that_carries_something_guarded(pod: dict[str, Any]) -> None:
    metadata = {"finalizers": [], "annotations": {"theirs": "y"}, "labels": {}}
    old = {"metadata": {**pod["metadata"], "finalizers": ["batch.kubernetes.io/job-tracking"]}}
    for part in ("annotations", "labels"):
        metadata[part] = {**metadata[part], **pod["metadata"].get(part, {})}  # type: ignore[dict-item]
    assert not asked({"metadata": metadata}, old)


def test_pods_that_nobody_wants_translated_come_in_while_nobody_answers() -> None:
    found = {each["name"].partition(".")[0]: each for each in webhooks.validating(TARGET)["webhooks"]}
    assert [name for name, each in found.items() if each["failurePolicy"] == "Ignore"] == ["limits"]
    assert found["limits"]["rules"][0]["operations"] == ["CREATE"]
    opted = {"matchLabels": {"hami-plugins.io/koordinator": "translate"}}
    assert found["requests-of-pods"]["objectSelector"] == opted
    assert found["requests"]["namespaceSelector"]["matchLabels"] == opted["matchLabels"]
    for name in ("limits", "requests-of-pods"):
        last = found[name]["namespaceSelector"]["matchExpressions"][-1]
        assert (last["operator"], last["values"]) == ("NotIn", ["translate"])


def test_whoever_is_trusted_is_not_even_asked_about() -> None:
    assert not asked(RECORDED, name="scheduler")
    assert not asked(RECORDED, groups=("people", "system:masters"))
    assert asked(RECORDED, groups=())


def test_without_anybody_trusted_everybody_is_asked_about() -> None:
    (condition,) = webhooks.validating(TARGET)["webhooks"][0]["matchConditions"]
    assert condition["name"] == "writes-what-is-guarded"


def test_records_are_completed_only_where_limits_are_given() -> None:
    assert len(webhooks.mutating(TARGET)["webhooks"]) == 2
    records = webhooks.mutating(TARGET, injects=True)["webhooks"][2]
    (condition,) = records["matchConditions"]
    waits = compiled(condition["expression"])
    both = {"metadata": {"annotations": {ALLOCATED_KEY: "{}", INJECTED: "1"}}}
    done = {"metadata": {"annotations": {**both["metadata"]["annotations"], VISIBLE: "GPU-0"}}}
    other = {"metadata": {"annotations": {**done["metadata"]["annotations"], ALLOCATED_KEY: "[]"}}}
    assert all(
        waits.holds({"object": new, "oldObject": old}) for new, old in ((both, PLAIN), (both, both), (other, done))
    )
    for new, old in ((PLAIN, PLAIN), (RECORDED, PLAIN), (LABELLED, PLAIN), (done, done)):
        assert not waits.holds({"object": new, "oldObject": old})
    assert records["rules"][0]["operations"] == ["UPDATE"]


def test_a_pod_is_translated_by_one_of_the_two_webhooks_and_not_by_both() -> None:
    by_namespace, by_pod = webhooks.mutating(TARGET)["webhooks"]
    (excluded,) = by_namespace["objectSelector"]["matchExpressions"]
    assert excluded["values"] == ["ignore", "translate"]
    assert by_pod["objectSelector"]["matchLabels"] == {"hami-plugins.io/koordinator": "translate"}
    assert {each["failurePolicy"] for each in (by_namespace, by_pod)} == {"Fail"}
