"""Match conditions: what is understood, and what is refused instead of guessed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_plugins.sandbox.apiserver.conditions import NoConditionError, UndecidedError, compiled

POD = {
    "metadata": {"name": "p", "annotations": {"x/y": "1"}},
    "spec": {
        "schedulerName": "volcano",
        "containers": [{"name": "a"}, {"name": "b", "resources": {"limits": {"example.com/gpu": "1"}}}],
    },
}
REQUEST = {"name": "p", "namespace": "team", "operation": "CREATE"}
CARDS = (
    "(object.spec.containers + (has(object.spec.initContainers) ? object.spec.initContainers : []))"
    ".exists(c, has(c.resources) && has(c.resources.limits) && "
    "['other', 'example.com/gpu'].exists(name, name in c.resources.limits))"
)


def holds(expression: str, body: Any = POD) -> bool:
    return compiled(expression).holds({"object": body, "oldObject": None, "request": REQUEST})


@pytest.mark.parametrize(
    "expression",
    [
        "has(object.metadata.annotations) && 'x/y' in object.metadata.annotations",
        "!(has(object.metadata.annotations) && 'z' in object.metadata.annotations)",
        "has(object.spec.schedulerName) && object.spec.schedulerName in ['default', 'volcano']",
        CARDS,
        "request.name == 'p' && request.namespace != \"kube-system\"",
        "!(request.namespace in ['kube-system'])",
        "object.metadata.annotations['x/y'] == '1'",
        "object.spec.containers[1].name == 'b'",
        "oldObject == null || false",
        "1 != 2 ? true : false",
        "true || object.nothing == 1",
        "object.nothing == 1 || true",
        "!(object.nothing == 1 && false)",
        "'a' + 'b' == 'ab'",
        r'''"o'brien \"x\" \\ \u003c" == "o'brien " + '"' + 'x' + '"' + " \\ <"''',
        "!(1 == true)",
    ],
)
def test_what_is_understood_holds(expression: str) -> None:
    assert holds(expression)


@pytest.mark.parametrize(
    ("expression", "body"),
    [
        ("has(object.metadata.annotations) && 'x/y' in object.metadata.annotations", {"metadata": {}}),
        (CARDS, {"spec": {"containers": [{"name": "a", "resources": {}}]}}),
        ("object.target.name == 'n2'", {"target": {"name": "n1"}}),
    ],
)
def test_what_does_not_hold(expression: str, body: Any) -> None:
    assert not holds(expression, body)


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("'x' in object.metadata.labels", "no such key: labels"),
        ("object.metadata.labels.x == 'y' && true", "no such key: labels"),
        ("object.metadata.name", "no such overload"),
        ("object.spec.containers[7].name == 'b'", "index out of bounds: 7"),
        ("oldObject.metadata.name == 'p'", "no such overload"),
        ("'a' in 'abc'", "no such overload"),
        ("'a' + 1 == 'a1'", "no such overload"),
    ],
)
def test_what_cannot_be_decided_says_why(expression: str, why: str) -> None:
    with pytest.raises(UndecidedError) as error:
        holds(expression)
    assert str(error.value) == f"expression '{expression}' resulted in error: {why}"


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "   ",
        "object.?metadata.hasValue()",
        "object.metadata.name.startsWith('a')",
        "object.spec.replicas > 3",
        "authorizer.group('').resource('pods').check('get').allowed()",
        "has(object)",
        "has(nothing.x)",
        "has(object.x",
        "object.all(c, true)",
        "object.exists(object, true)",
        "object.exists(c, c) && c",
        "request.name == 'p' request.name",
        "request.name = 'p'",
        "'unfinished",
        r'request.name == "\x70"',
        "['a' 'b']",
        "true ? false",
        "object.1",
    ],
)
def test_what_is_beyond_it_is_refused(expression: str) -> None:
    with pytest.raises(NoConditionError, match="this server is an emulator and knows only"):
        compiled(expression)


_PARTS = st.sampled_from(
    [
        *("object", ".metadata", "has(", ")", "(", "'x'", " in ", "&&", "||", "!", "[", "]"),
        *("request", ".exists(c,", "c", ".", "1", "?", ":", "==", "+"),
    ]
)


@given(st.lists(_PARTS, max_size=8).map("".join))
def test_no_text_makes_it_fail_otherwise(expression: str) -> None:
    try:
        condition = compiled(expression)
    except NoConditionError:
        return
    for body in (POD, {}, None):
        try:
            condition.holds({"object": body, "oldObject": None, "request": REQUEST})
        except UndecidedError:
            continue
