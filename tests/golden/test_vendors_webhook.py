"""The admission webhook's result for one container, every vendor."""

from typing import Any

from hami_plugins.engine.mutate import PodAdmission, WebhookSettings, admit
from hami_plugins.engine.registry import Registry
from hami_plugins.model.vendor import VendorSpec
from tests.golden import cases, notation

_PART_OF_NOTHING = "memory or cores without a card mean nothing: HAMi lets the pod start without accounting, we deny it"
_HIDDEN = "each of HAMi's chips hides the cards of the others; we hide them from containers that ask for no chip at all"

DEVIATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    **dict.fromkeys(
        ("webhook-022", "webhook-024", "webhook-052", "webhook-144", "webhook-184", "webhook-185"),
        (_PART_OF_NOTHING, {"error": True, "error_contains": "is missing; add"}),
    ),
    **dict.fromkeys(
        (
            "webhook-075",
            "webhook-079",
            "webhook-084",
            "webhook-089",
            "webhook-094",
            "webhook-099",
            "webhook-104",
        ),
        (_HIDDEN, {"env": {"ASCEND_VISIBLE_DEVICES": None}}),
    ),
    "webhook-069": (
        "ambiguous: the text's chip has 32768 MiB; a 910B3 without templates is a whole card of 65536",
        {"limits": {"huawei.com/Ascend910B3-memory": "65536"}},
    ),
}
"""What differs on purpose: why, and the members of the expectation that we answer instead."""


@cases.each("hami-vendors/webhook.yaml")
def test_webhook_answers_as_its_vector_says(case: cases.Case) -> None:
    spec = notation.vendor(case.given["backend"], case.given.get("config"))
    _, instead = DEVIATIONS.get(case.id, ("", {}))
    assert problems(spec, case, {**case.expect, **instead}) == []


def problems(spec: VendorSpec, case: cases.Case, expect: dict[str, Any]) -> list[str]:
    """The members of the expectation that the answer does not meet."""
    given = case.given
    name, env = given.get("container_name", "main"), given.get("env") or {}
    pod = notation.pod(
        notation.container(given, name=name, env=env),
        annotations=given.get("annotations"),
        runtime_class=(given.get("pod") or {}).get("runtimeClassName"),
    )
    found = admit(pod, Registry([spec]), WebhookSettings())
    if expect["error"]:
        met = not found.allowed and expect.get("error_contains", "") in found.message
        return [] if met else [f"allowed: {found.allowed}, {found.message!r}"]
    if not found.allowed:
        return [f"denied: {found.message}"]
    after = {
        "result": spec.name in found.claimed,
        "limits": {key: str(amount.nano // 10**9) for key, amount in found.pod.containers[0].limits.items()},
        "requests": {key: str(amount.nano // 10**9) for key, amount in found.pod.containers[0].requests.items()},
        "env": {**env, **_env(found)},
        "annotations": dict(found.pod.annotations),
        "runtimeClassName": found.pod.runtime_class,
    }
    return [
        f"{member}: {after[member]}" for member in after if member in expect and not _met(after[member], expect[member])
    ]


def _env(found: PodAdmission) -> dict[str, str]:
    return {change.key: change.value for _, change in found.changes if change.kind == "env"}


def _met(found: Any, expected: Any) -> bool:
    """Stated members only; ``null`` says that a member is not there."""
    if not isinstance(expected, dict):
        return bool(found == expected)
    if not expected:
        return True
    return all(found.get(key) == (None if value is None else str(value)) for key, value in expected.items())
