"""The configurations of the adapter's webhooks, as an operator installs them in the API server.

Namespaces and pods are translated that carry a label. Who writes the records of Koordinator's scheduler is not asked of
the server: the API server decides that itself (``hami_plugins.allocations.manifests.allocation_policy``).

While no server answers, the API server refuses only pods that are to be translated. It admits every other pod and
write, such as that of a controller that ends a Job.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from hami_plugins.allocations.manifests.webhooks import CREATION, EXEMPT, NAMESPACE_LABEL, WebhookTarget
from hami_plugins.wire.koordinator import ALLOCATED_KEY
from koordinator_adapter.core.translation.vocabulary import (
    IGNORE,
    INJECTED,
    ISOLATION,
    OPT_IN,
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
_NOBODY_WAITS: Final = {"failurePolicy": "Ignore"}


def mutating(target: WebhookTarget, *, exempt: Iterable[str] = EXEMPT, injects: bool = False) -> dict[str, Any]:
    """The MutatingWebhookConfiguration. With ``injects`` the records of pods that wait for limits are completed.

    A pod that is to be translated waits for the server: without it no scheduler would place the pod.
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


def validating(target: WebhookTarget, *, exempt: Iterable[str] = EXEMPT) -> dict[str, Any]:
    """The ValidatingWebhookConfiguration: new pods in Koordinator's words that are translated or want limits."""
    elsewhere = _elsewhere([*exempt, target.namespace])
    return _configuration("ValidatingWebhookConfiguration", target, _of_new_pods(target, elsewhere))


def _of_new_pods(target: WebhookTarget, elsewhere: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
    """Which new pods the server is asked about: those that are translated, and others with the label of limits."""
    new: dict[str, Any] = {"clientConfig": target.client(VALIDATE_PATH), "rules": [_PODS]}
    unopted = {"key": OPT_IN, "operator": "NotIn", "values": [TRANSLATE]}
    others = {"matchExpressions": [*elsewhere["matchExpressions"], unopted]}
    opted = {"matchLabels": {OPT_IN: TRANSLATE}, **elsewhere}
    labelled = {"key": ISOLATION, "operator": "Exists"}
    by_namespace = {
        "name": f"requests.{DOMAIN}",
        **new,
        "namespaceSelector": opted,
        "objectSelector": {"matchExpressions": [{"key": OPT_IN, "operator": "NotIn", "values": [IGNORE]}]},
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
        "objectSelector": {"matchExpressions": [labelled, unopted]},
        **_NOBODY_WAITS,
    }
    of_ignored = {
        "name": f"limits-of-ignored.{DOMAIN}",
        **new,
        "namespaceSelector": opted,
        "objectSelector": {"matchLabels": {OPT_IN: IGNORE}, "matchExpressions": [labelled]},
        **_NOBODY_WAITS,
    }
    return by_namespace, by_pod, limits, of_ignored


def _configuration(kind: str, target: WebhookTarget, hooks: Sequence[dict[str, Any]], **more: object) -> dict[str, Any]:
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


def _elsewhere(namespaces: Sequence[str]) -> dict[str, Any]:
    wanted = list(dict.fromkeys(namespaces))
    return {"matchExpressions": [{"key": NAMESPACE_LABEL, "operator": "NotIn", "values": wanted}]}
