"""The configurations of the webhooks: who is asked about what, and who is not."""

from __future__ import annotations

from typing import Any

from hami_plugins.allocations.manifests.webhooks import WebhookTarget
from hami_plugins.sandbox.apiserver.conditions import compiled
from hami_plugins.wire.koordinator import ALLOCATED_KEY
from koordinator_adapter.core import webhooks
from koordinator_adapter.core.translation.vocabulary import INJECTED, ISOLATION, VISIBLE

TARGET = WebhookTarget(configuration="koordinator-adapter", service="s", namespace="ns")
PLAIN: dict[str, Any] = {"metadata": {"name": "p"}}
RECORDED: dict[str, Any] = {"metadata": {"annotations": {ALLOCATED_KEY: "{}"}}}
LABELLED: dict[str, Any] = {"metadata": {"labels": {ISOLATION: "HAMi-core"}}}


def test_pods_that_nobody_wants_translated_come_in_while_nobody_answers() -> None:
    found = {each["name"].partition(".")[0]: each for each in webhooks.validating(TARGET)["webhooks"]}
    ignoring = [name for name, each in found.items() if each["failurePolicy"] == "Ignore"]
    assert ignoring == ["limits", "limits-of-ignored"]
    assert found["limits"]["rules"][0]["operations"] == ["CREATE"]
    opted = {"matchLabels": {"hami-plugins.io/koordinator": "translate"}}
    assert found["requests-of-pods"]["objectSelector"] == opted
    assert found["requests"]["namespaceSelector"]["matchLabels"] == opted["matchLabels"]
    for name in ("limits", "requests-of-pods"):
        last = found[name]["namespaceSelector"]["matchExpressions"][-1]
        assert (last["operator"], last["values"]) == ("NotIn", ["translate"])


def test_an_ignored_pod_waits_for_nobody_and_is_asked_about_for_its_limits_alone() -> None:
    found = {each["name"].partition(".")[0]: each for each in webhooks.validating(TARGET)["webhooks"]}
    (unless,) = found["requests"]["objectSelector"]["matchExpressions"]
    assert (unless["key"], unless["operator"], unless["values"]) == (
        "hami-plugins.io/koordinator",
        "NotIn",
        ["ignore"],
    )
    ignored = found["limits-of-ignored"]["objectSelector"]
    assert ignored["matchLabels"] == {"hami-plugins.io/koordinator": "ignore"}
    assert [each["key"] for each in ignored["matchExpressions"]] == [ISOLATION]
    assert found["limits-of-ignored"]["namespaceSelector"] == found["requests"]["namespaceSelector"]


def test_the_server_is_asked_about_new_pods_alone() -> None:
    """The admission policy judges the writers of records, without a server."""
    for hook in webhooks.validating(TARGET)["webhooks"]:
        assert hook["rules"][0]["operations"] == ["CREATE"], hook["name"]


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
