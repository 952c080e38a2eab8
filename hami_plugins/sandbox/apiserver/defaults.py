"""What the server puts into new objects of its own kinds: defaults of the spec and the first status."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from hami_plugins.sandbox.apiserver.kinds import ResourceKind
from hami_plugins.sandbox.apiserver.webhooks import STORAGES, with_webhook_defaults
from hami_plugins.wire.fields import Json

GRACE_SECONDS: Final = 30
"""How long a pod may take to end, unless it says otherwise."""


def with_defaults(kind: ResourceKind, obj: Json, now: str) -> dict[str, Any]:
    """A decoded object as it is stored when it is created at ``now``.

    Kinds with a status subresource start without one; only a node brings its own, which is how kubelets register.
    """
    made = dict(obj)
    if kind.status and kind.storage != ("", "nodes"):
        made.pop("status", None)
    fill = _FILL.get(kind.storage)
    return fill(made, now) if fill else made


def complete(kind: ResourceKind, obj: Json) -> Json:
    """The same for an object that is changed: a pod's spec and a secret's type get what they lack."""
    if kind.storage == ("", "secrets"):
        return _secret(dict(obj), "")
    if kind.storage in STORAGES:
        return with_webhook_defaults(obj)
    return _pod_spec(obj) if kind.storage == ("", "pods") else obj


def _pod(pod: dict[str, Any], now: str) -> dict[str, Any]:
    filled = _pod_spec(pod)
    account = filled["spec"].get("serviceAccountName") or filled["spec"].get("serviceAccount") or "default"
    filled["spec"] |= {"serviceAccountName": account, "serviceAccount": account}
    status: dict[str, Any] = {"phase": "Pending", "qosClass": qos_class(filled["spec"])}
    if filled["spec"].get("schedulingGates"):
        gated = {
            "type": "PodScheduled",
            "status": "False",
            "lastProbeTime": None,
            "lastTransitionTime": now,
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }
        status["conditions"] = [gated]
    return {**filled, "status": status}


def _pod_spec(pod: Json) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "enableServiceLinks": True,
        **(pod.get("spec") or {}),
    }
    for member in ("initContainers", "containers"):
        if isinstance(spec.get(member), list):
            spec[member] = [_container(container) for container in spec[member]]
    return {**pod, "spec": spec}


def _container(container: Mapping[str, Any]) -> dict[str, Any]:
    resources = dict(container.get("resources") or {})
    limits = resources.get("limits") or {}
    requests = {**limits, **(resources.get("requests") or {})}
    if requests:
        resources["requests"] = requests
    image = str(container.get("image") or "")
    tagged = ":" in image.rpartition("/")[2] and not image.endswith(":latest")
    return {
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent" if tagged else "Always",
        **container,
        "resources": resources,
    }


def qos_class(spec: Mapping[str, Any]) -> str:
    """Guaranteed when every container limits what it asks of CPU and memory, BestEffort when none asks."""
    containers = [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]
    asked: set[str] = set()
    guaranteed = bool(containers)
    for container in containers:
        resources = container.get("resources") or {}
        limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
        basic = {name for name in (*limits, *requests) if name in ("cpu", "memory")}
        asked |= basic
        guaranteed &= basic == {"cpu", "memory"} and all(limits.get(name) == requests.get(name) for name in basic)
    if not asked:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _namespace(namespace: dict[str, Any], _: str) -> dict[str, Any]:
    metadata = namespace["metadata"]
    labels = {**(metadata.get("labels") or {}), "kubernetes.io/metadata.name": metadata.get("name", "")}
    return {
        **namespace,
        "metadata": {**metadata, "labels": labels},
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    }


def _secret(secret: dict[str, Any], _: str) -> dict[str, Any]:
    return {"type": "Opaque", **secret}


def _definition(definition: dict[str, Any], now: str) -> dict[str, Any]:
    """The controllers that would accept names and establish the kind have nothing to object to."""
    spec = definition.get("spec") or {}
    names = spec.get("names") or {}
    accepted = {"singular": str(names.get("kind", "")).lower(), "listKind": f"{names.get('kind')}List", **names}
    conditions = [
        {"type": name, "status": "True", "reason": reason, "message": message, "lastTransitionTime": now}
        for name, reason, message in (
            ("NamesAccepted", "NoConflicts", "no conflicts found"),
            ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        )
    ]
    stored = [version["name"] for version in spec.get("versions") or [] if version.get("storage")]
    return {
        **definition,
        "spec": {"conversion": {"strategy": "None"}, **spec, "names": accepted},
        "status": {"conditions": conditions, "acceptedNames": accepted, "storedVersions": stored},
    }


_FILL: Final[Mapping[tuple[str, str], Callable[[dict[str, Any], str], dict[str, Any]]]] = {
    ("", "pods"): _pod,
    ("", "namespaces"): _namespace,
    ("", "secrets"): _secret,
    ("apiextensions.k8s.io", "customresourcedefinitions"): _definition,
    **dict.fromkeys(STORAGES, lambda configuration, _: with_webhook_defaults(configuration)),
}
