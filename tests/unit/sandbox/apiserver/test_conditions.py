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
        "object.metadata.name.startsWith('p') && request.namespace.matches('^t.*m$')",
        "object.spec.containers.all(c, c.name < 'c') && object.metadata.all(key, key != 'p')",
        "[1, 2].filter(n, n >= 2) == [2] && -1 < 0 && 3 % 2 == 1",
        r'request.name == "\x70"',
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
        ("object.spec.replicas > 3", "no such key: replicas"),
        ("1 / 0 == 1", "division by zero in CEL expression"),
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
        "has(object)",
        "has(object.x",
        "request.name == 'p' request.name",
        "request.name = 'p'",
        "'unfinished",
        "(" * 1000 + "true" + ")" * 1000,
        "['a' 'b']",
        "true ? false",
        "object.1",
    ],
)
def test_what_does_not_compile_is_refused(expression: str) -> None:
    with pytest.raises(NoConditionError, match=r"^compilation failed: ERROR: <input>:1:"):
        compiled(expression)


@pytest.mark.parametrize(
    ("expression", "unknown"),
    [
        ("authorizer.group('').resource('pods').allowed()", "allowed, authorizer, group, resource"),
        ("has(nothing.x)", "nothing"),
        ("size(object.metadata.name) == 1", "size"),
        ("quantity(object.cpu).isLessThan(quantity('1'))", "isLessThan, quantity"),
        ("object.spec.containers.exists(c, c == name)", "name"),
    ],
)
def test_what_the_api_server_has_beyond_it_is_refused_by_name(expression: str, unknown: str) -> None:
    with pytest.raises(NoConditionError, match=f"^the embedded API server does not know {unknown};"):
        compiled(expression)


_PARTS = st.sampled_from(
    [
        *("object", ".metadata", "has(", ")", "(", "'x'", " in ", "&&", "||", "!", "[", "]"),
        *("request", ".exists(c,", "c", ".", "1", "?", ":", "==", "+", "-", "/0", ".matches('('", ".filter(c,", "{"),
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
