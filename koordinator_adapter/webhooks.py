"""The configurations of the adapter's webhooks, as an operator installs them in the API server.

Namespaces and pods are translated that carry a label. Records and isolation labels are guarded in every namespace but
the exempt ones, for Koordinator takes them for true wherever they stand; whoever may write them is not even asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from hami_plugins.granting.webhooks import CREATION, EXEMPT, NAMESPACE_LABEL, Target
from hami_plugins.wire.koordinator import ALLOCATED_KEY
from koordinator_adapter.translation.vocabulary import (
    IGNORE,
    INJECTED,
    ISOLATION,
    OPT_IN,
    RECORDS,
    TRANSLATE,
    VISIBLE,
)

TRANSLATE_PATH: Final = "/webhooks/pods"
RESOLVE_PATH: Final = "/webhooks/records"
VALIDATE_PATH: Final = "/webhooks/pods/validate"

DOMAIN: Final = "koordinator-adapter.hami-plugins.io"
SECONDS: Final = 5
"""How long a pod waits for the server; answers take milliseconds."""

_PODS: Final = {**CREATION, "resources": ["pods"]}
_CHANGED_PODS: Final = {**_PODS, "operations": ["UPDATE"]}
_ALL_PODS: Final = {**_PODS, "operations": ["CREATE", "UPDATE"]}
_GUARDED: Final = (*RECORDS, VISIBLE)


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
        "name": f"records.{DOMAIN}",
        "clientConfig": target.client(RESOLVE_PATH),
        "rules": [_CHANGED_PODS],
        "namespaceSelector": elsewhere,
        "matchConditions": [
            {
                "name": "waits-for-limits",
                "expression": f"has(object.metadata.annotations) && '{INJECTED}' in object.metadata.annotations && "
                f"'{ALLOCATED_KEY}' in object.metadata.annotations",
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
    """The ValidatingWebhookConfiguration. It is asked about pods that carry what it guards, unless somebody trusted
    writes them, and about new pods in Koordinator's words."""
    elsewhere = _elsewhere([*exempt, target.namespace])
    records = {
        "name": f"records.{DOMAIN}",
        "clientConfig": target.client(VALIDATE_PATH),
        "rules": [_ALL_PODS],
        "namespaceSelector": elsewhere,
        "matchConditions": [
            {"name": "carries-what-is-guarded", "expression": f"{_carries('object')} || {_carries('oldObject')}"},
            *_untrusted(users, groups),
        ],
    }
    requests = {
        "name": f"requests.{DOMAIN}",
        "clientConfig": target.client(VALIDATE_PATH),
        "rules": [_PODS],
        "namespaceSelector": {"matchLabels": {OPT_IN: TRANSLATE}, **elsewhere},
    }
    return _configuration("ValidatingWebhookConfiguration", target, (records, requests))


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
        "webhooks": [{**hook, **common} for hook in hooks],
    }


def _carries(what: str) -> str:
    """The condition that an object has an annotation or the label that is guarded. It may be missing altogether."""
    keys = ", ".join(f"'{key}'" for key in _GUARDED)
    annotated = f"has({what}.metadata.annotations) && [{keys}].exists(key, key in {what}.metadata.annotations)"
    labelled = f"has({what}.metadata.labels) && '{ISOLATION}' in {what}.metadata.labels"
    return f"({what} != null && (({annotated}) || ({labelled})))"


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
