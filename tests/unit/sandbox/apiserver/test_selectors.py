"""Label and field selectors."""

from __future__ import annotations

from typing import Any

import pytest

from hami_plugins.sandbox.apiserver.answers import ApiError
from hami_plugins.sandbox.apiserver.kinds import BUILTIN, KOORDINATOR, PODS, ResourceKinds
from hami_plugins.sandbox.apiserver.selectors import EVERYTHING, parse

KINDS = ResourceKinds((*BUILTIN, *KOORDINATOR))


def labelled(**labels: str) -> dict[str, Any]:
    return {"metadata": {"name": "a", "labels": labels}}


@pytest.mark.parametrize(
    ("selector", "labels", "matches"),
    [
        ("", {}, True),
        ("a=b", {"a": "b"}, True),
        ("a = b , c==d", {"a": "b", "c": "d"}, True),
        ("a=b", {}, False),
        ("a!=b", {}, True),
        ("a!=b", {"a": "b"}, False),
        ("a=", {"a": ""}, True),
        ("a=", {}, False),
        ("a", {"a": ""}, True),
        ("!a", {"a": ""}, False),
        ("! a", {}, True),
        ("a in (b, c)", {"a": "c"}, True),
        ("a in ()", {"a": ""}, True),
        ("a notin (b,c)", {}, True),
        ("a notin (b,c),d", {"a": "b", "d": ""}, False),
        ("example.com/a=b", {"example.com/a": "b"}, True),
        ("n>3", {"n": "4"}, True),
        ("n<3", {"n": "4"}, False),
        ("n>3", {"n": "many"}, False),
        ("n>3", {}, False),
        ("in=yes,notin=no", {"in": "yes", "notin": "no"}, True),
    ],
)
def test_labels_are_selected(selector: str, labels: dict[str, str], matches: bool) -> None:
    assert parse(PODS, selector, "").matches(labelled(**labels)) is matches


def test_an_object_without_labels_has_none_that_match() -> None:
    assert not parse(PODS, "a", "").matches({"metadata": {"name": "a"}})
    assert EVERYTHING.matches({"metadata": {"name": "a"}})


@pytest.mark.parametrize(
    "text", ["a in (b", "a=b=c", "a b", "!", ",", "a,", "a=(b)", "a in b", "-a=b", "a=b c", "a in (b c)"]
)
def test_a_label_selector_that_is_none_is_400(text: str) -> None:
    with pytest.raises(ApiError) as caught:
        parse(PODS, text, "")
    assert caught.value.code == 400


@pytest.mark.parametrize(
    ("kind", "selector", "obj", "matches"),
    [
        ("pods", "spec.nodeName=n", {"spec": {"nodeName": "n"}}, True),
        ("pods", "spec.nodeName==n", {"spec": {}}, False),
        ("pods", "spec.nodeName!=", {"spec": {"nodeName": "n"}}, True),
        (
            "pods",
            "status.phase=Running,spec.nodeName=n",
            {"status": {"phase": "Running"}, "spec": {"nodeName": "n"}},
            True,
        ),
        ("pods", "metadata.namespace=", {"spec": {}}, True),
        ("pods", "spec.hostNetwork=false", {"spec": {}}, True),
        ("nodes", "spec.unschedulable=true", {"spec": {"unschedulable": True}}, True),
        ("nodes", "spec.unschedulable=false", {}, True),
        ("events", "involvedObject.kind=Pod,reason=R", {"involvedObject": {"kind": "Pod"}, "reason": "R"}, True),
        ("events", "source=kubelet", {"source": {"component": "kubelet"}}, True),
        ("events", "source=me", {"reportingComponent": "me"}, True),
        ("devices.scheduling.koordinator.sh", "metadata.name=a", {}, True),
    ],
)
def test_fields_are_selected(kind: str, selector: str, obj: dict[str, Any], matches: bool) -> None:
    whole = {"metadata": {"name": "a"}, **obj}
    assert parse(KINDS.named(kind), "", selector).matches(whole) is matches


def test_events_are_selected_by_the_names_of_their_version() -> None:
    kind = KINDS.find("events.k8s.io", "v1", "events")
    assert kind is not None
    selector = parse(kind, "", "regarding.kind=Pod")
    assert selector.matches({"metadata": {"name": "a"}, "involvedObject": {"kind": "Pod"}})


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("pods", "spec.nonsense=1"),
        ("pods", "spec.nodeName"),
        ("nodes", "spec.nodeName=n"),
        ("devices.scheduling.koordinator.sh", "spec.x=1"),
    ],
)
def test_a_field_that_is_not_offered_is_400(kind: str, text: str) -> None:
    with pytest.raises(ApiError) as caught:
        parse(KINDS.named(kind), "", text)
    assert caught.value.code == 400


def test_an_equality_pins_a_field_and_an_inequality_does_not() -> None:
    selector = parse(PODS, "", "spec.nodeName=n,metadata.name!=a")
    assert selector.pinned("spec.nodeName") == "n"
    assert selector.pinned("metadata.name") is None
