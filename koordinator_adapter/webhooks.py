"""The configurations of the adapter's webhooks, as an operator installs them in the API server.

Namespaces and pods are translated that carry a label. Records and isolation labels are guarded in every namespace but
the exempt ones, for Koordinator takes them for true wherever they stand; whoever may write them is not even asked.

While nobody answers, what is refused is what asks for the server: pods that are to be translated, and writes of what is
guarded. Every other pod comes in, and every other write is made, such as that of a controller that ends a Job.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from hami_plugins.granting.webhooks import CREATION, EXEMPT, NAMESPACE_LABEL, Target
from hami_plugins.wire.koordinator import ALLOCATED_KEY
from koordinator_adapter.injection import MOST_CARDS
from koordinator_adapter.translation.vocabulary import (
    HAMI_CORE,
    IGNORE,
    INJECTED,
    ISOLATION,
    MEMORY_LIMIT,
    OPT_IN,
    RECORDS,
    TRANSLATE,
    VISIBLE,
)

TRANSLATE_PATH: Final = "/webhooks/pods"
RESOLVE_PATH: Final = "/webhooks/records"
VALIDATE_PATH: Final = "/webhooks/pods/validate"

DOMAIN: Final = "koordinator-adapter.hami-plugins.io"
RECORDS_WEBHOOK: Final = f"records.{DOMAIN}"
"""It writes the limits of a pod when its cards are recorded."""

SECONDS: Final = 5
"""How long a pod waits for the server; answers take milliseconds."""

_PODS: Final = {**CREATION, "resources": ["pods"]}
_CHANGED_PODS: Final = {**_PODS, "operations": ["UPDATE"]}
_ALL_PODS: Final = {**_PODS, "operations": ["CREATE", "UPDATE"]}
_GUARDED: Final = (*RECORDS, VISIBLE, *(f"{MEMORY_LIMIT}{place}" for place in range(MOST_CARDS)))
_NOBODY_WAITS: Final = {"failurePolicy": "Ignore"}


def mutating(target: Target, *, exempt: Iterable[str] = EXEMPT, injects: bool = False) -> dict[str, Any]:
    """The MutatingWebhookConfiguration. With ``injects`` the records of pods that wait for limits are completed.

    A pod that is to be translated waits for the server: without it nobody would place the pod.
    """
    elsewhere = _elsewhere([*exempt, target.namespace])
    by_namespace = {
        "name": f"namespaces.{DOMAIN}",
        "clientConfig": target.client(TRANSLATE_PATH),
        "rules": [_PODS],
        "namespaceSelector": {"matchLabels": {OPT_IN: TRANSLATE}, **elsewhere},
        "objectSelector": {"matchExpressions": [{"key": OPT_IN, "operator": "NotIn", "values": [IGNORE, TRANSLATE]}]},
    }
    by_pod = {
        "name": f"pods.{DOMAIN}",
        "clientConfig": target.client(TRANSLATE_PATH),
        "rules": [_PODS],
        "namespaceSelector": elsewhere,
        "objectSelector": {"matchLabels": {OPT_IN: TRANSLATE}},
    }
    records = {
        "name": RECORDS_WEBHOOK,
        "clientConfig": target.client(RESOLVE_PATH),
        "rules": [_CHANGED_PODS],
        "namespaceSelector": elsewhere,
        "matchConditions": [
            {
                "name": "waits-for-limits",
                "expression": f"{_annotated('object', INJECTED)} && {_annotated('object', ALLOCATED_KEY)} && "
                f"!({_annotated('object', VISIBLE)} && {_same('object', 'oldObject', ALLOCATED_KEY)})",
            }
        ],
    }
    hooks = (by_namespace, by_pod, records) if injects else (by_namespace, by_pod)
    return _configuration("MutatingWebhookConfiguration", target, hooks, reinvocationPolicy="IfNeeded")


def validating(
    target: Target,
    *,
    exempt: Iterable[str] = EXEMPT,
    users: Sequence[str] = (),
    groups: Sequence[str] = (),
) -> dict[str, Any]:
    """The ValidatingWebhookConfiguration: about whoever writes what is guarded, unless he is trusted, and about new
    pods in Koordinator's words that are translated or want limits."""
    elsewhere = _elsewhere([*exempt, target.namespace])
    records = {
        "name": f"records.{DOMAIN}",
        "clientConfig": target.client(VALIDATE_PATH),
        "rules": [_ALL_PODS],
        "namespaceSelector": elsewhere,
        "matchConditions": [
            {"name": "writes-what-is-guarded", "expression": f"{_records_differ()} || {_loses_its_limits()}"},
            *_untrusted(users, groups),
        ],
    }
    return _configuration("ValidatingWebhookConfiguration", target, (records, *_of_new_pods(target, elsewhere)))


def _of_new_pods(target: Target, elsewhere: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
    """Who is asked about new pods: about those that are translated, and about others with the label of limits."""
    new: dict[str, Any] = {"clientConfig": target.client(VALIDATE_PATH), "rules": [_PODS]}
    unopted = {"key": OPT_IN, "operator": "NotIn", "values": [TRANSLATE]}
    others = {"matchExpressions": [*elsewhere["matchExpressions"], unopted]}
    by_namespace = {
        "name": f"requests.{DOMAIN}",
        **new,
        "namespaceSelector": {"matchLabels": {OPT_IN: TRANSLATE}, **elsewhere},
    }
    by_pod = {
        "name": f"requests-of-pods.{DOMAIN}",
        **new,
        "namespaceSelector": others,
        "objectSelector": {"matchLabels": {OPT_IN: TRANSLATE}},
    }
    limits = {
        "name": f"limits.{DOMAIN}",
        **new,
        "namespaceSelector": others,
        "objectSelector": {"matchExpressions": [{"key": ISOLATION, "operator": "Exists"}, unopted]},
        **_NOBODY_WAITS,
    }
    return by_namespace, by_pod, limits


def _configuration(kind: str, target: Target, hooks: Sequence[dict[str, Any]], **more: object) -> dict[str, Any]:
    common = {
        "admissionReviewVersions": ["v1"],
        "matchPolicy": "Equivalent",
        "failurePolicy": "Fail",
        "timeoutSeconds": SECONDS,
        "sideEffects": "None",
        **more,
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": target.configuration},
        "webhooks": [{**common, **hook} for hook in hooks],
    }


def _annotated(what: str, key: str) -> str:
    return f"(has({what}.metadata.annotations) && '{key}' in {what}.metadata.annotations)"


def _same(one: str, other: str, key: str) -> str:
    """The condition that two objects have an annotation with the same text."""
    values = f"{one}.metadata.annotations['{key}'] == {other}.metadata.annotations['{key}']"
    return f"({_annotated(one, key)} && {_annotated(other, key)} && {values})"


def _records_differ() -> str:
    """The condition that a guarded annotation comes, goes or changes; a new pod has no old object."""
    keys = ", ".join(f"'{key}'" for key in _GUARDED)
    after = "(has(object.metadata.annotations) && key in object.metadata.annotations)"
    before = "(oldObject != null && has(oldObject.metadata.annotations) && key in oldObject.metadata.annotations)"
    values = "object.metadata.annotations[key] != oldObject.metadata.annotations[key]"
    return f"[{keys}].exists(key, {after} != {before} || ({after} && {before} && {values}))"


def _loses_its_limits() -> str:
    """The condition that a pod loses the label by which its limits are enforced."""

    def labelled(what: str) -> str:
        held = f"has({what}.metadata.labels) && '{ISOLATION}' in {what}.metadata.labels"
        return f"({held} && {what}.metadata.labels['{ISOLATION}'] == '{HAMI_CORE}')"

    return f"(oldObject != null && {labelled('oldObject')} && !{labelled('object')})"


def _untrusted(users: Sequence[str], groups: Sequence[str]) -> list[dict[str, str]]:
    """Nobody trusted writes the pod; whoever is bound to be right costs the server nothing."""
    trusted = [
        f"request.userInfo.username in [{_listed(users)}]" if users else "",
        f"has(request.userInfo.groups) && [{_listed(groups)}].exists(group, group in request.userInfo.groups)"
        if groups
        else "",
    ]
    said = [f"({each})" for each in trusted if each]
    return [{"name": "by-nobody-trusted", "expression": f"!({' || '.join(said)})"}] if said else []


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"'{each}'" for each in names)


def _elsewhere(namespaces: Sequence[str]) -> dict[str, Any]:
    wanted = list(dict.fromkeys(namespaces))
    return {"matchExpressions": [{"key": NAMESPACE_LABEL, "operator": "NotIn", "values": wanted}]}
