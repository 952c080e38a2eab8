"""What an operator installs in the API server: configurations of the webhooks, and the policy that needs no process.

Which expressions work on a Binding, and what it carries, is known from trials (``peers.md`` 7.2): a missing member has
to be asked for with ``has``, and a condition that fails is a refusal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from hami_plugins.model.vendor import ResourceNames
from hami_plugins.vendors.volcano import RESOURCES
from volcano_vgpu.granting.modes import CONFIGURATION, GRANT_KEYS, MARKER_KEY, SCHEDULER

POLICY: Final = "volcano-vgpu-stale-grants"

POD_PATH: Final = "/webhooks/pods"
BINDING_PATH: Final = "/webhooks/bindings"

FAIL_SECONDS: Final = 10
"""How long a Binding that must have a grant waits for the server: longer than a takeover's list, shorter than the
caller's own patience."""

IGNORE_SECONDS: Final = 2
"""How long everybody else waits while the server is away."""

EXEMPT: Final = ("kube-system",)
NAMESPACE_LABEL: Final = "kubernetes.io/metadata.name"

POLICY_VERSIONS: Final[Mapping[str, str]] = {
    "v1beta1": "Kubernetes from 1.34 on, where --feature-gates=MutatingAdmissionPolicy=true and "
    "--runtime-config=admissionregistration.k8s.io/v1beta1=true are set",
    "v1alpha1": "Kubernetes 1.32 and 1.33, where --feature-gates=MutatingAdmissionPolicy=true and "
    "--runtime-config=admissionregistration.k8s.io/v1alpha1=true are set",
}
"""Which servers serve the policy, by its version; in 1.34 it is off unless somebody turns it on (``peers.md`` 7)."""

_CREATION: Final = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "scope": "Namespaced"}
_BINDINGS: Final = {**_CREATION, "resources": ["pods/binding", "bindings"]}
_MARKED: Final = f"has(object.metadata.annotations) && '{MARKER_KEY}' in object.metadata.annotations"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where the API server reaches the webhooks: a Service, or a ``url`` instead of it. ``ca`` is PEM in base64.

    ``configuration`` is the name of the object that says so.
    """

    configuration: str = CONFIGURATION
    service: str = "volcano-vgpu-grants"
    namespace: str = "volcano-system"
    port: int = 443
    url: str = ""
    ca: str = ""

    def client(self, path: str) -> dict[str, Any]:
        """The ``clientConfig`` of a webhook."""
        service = {"name": self.service, "namespace": self.namespace, "port": self.port, "path": path}
        where = {"url": f"{self.url.rstrip('/')}{path}"} if self.url else {"service": service}
        return where | ({"caBundle": self.ca} if self.ca else {})


def webhooks(
    target: Target,
    *,
    schedulers: Sequence[str] = (SCHEDULER,),
    resources: ResourceNames = RESOURCES,
    exempt: Iterable[str] = EXEMPT,
    marked_only: bool = False,
) -> dict[str, Any]:
    """The MutatingWebhookConfiguration.

    A marked pod is not bound without a grant, so its Binding waits for the server. All others, plain pods and pods from
    before the webhooks, pass while it is away; with ``marked_only`` it is never asked about them. Pods of ``exempt``
    namespaces are never marked; their Bindings are asked about, for the scheduler reserves cards for them like for all.
    """
    common = {"admissionReviewVersions": ["v1"], "matchPolicy": "Equivalent"}
    pods = {
        "name": "pods.volcano-vgpu.hami-plugins.io",
        "clientConfig": target.client(POD_PATH),
        "rules": [{**_CREATION, "resources": ["pods"]}],
        "matchConditions": _of_pods(schedulers, resources),
        "failurePolicy": "Ignore",
        "timeoutSeconds": IGNORE_SECONDS,
        "reinvocationPolicy": "IfNeeded",
        "sideEffects": "None",
        "namespaceSelector": _elsewhere([*exempt, target.namespace]),
    }
    marked = _of_bindings(target, "marked", _MARKED, waits=True)
    unmarked = _of_bindings(target, "unmarked", f"!({_MARKED})", waits=False)
    hooks = (pods, marked) if marked_only else (pods, marked, unmarked)
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": target.configuration},
        "webhooks": [{**hook, **common} for hook in hooks],
    }


def policy(version: str = "v1beta1") -> tuple[dict[str, Any], dict[str, Any]]:
    """The MutatingAdmissionPolicy that takes grants off Bindings, and what puts it in force.

    Volcano up to 1.15 writes a grant on the pod and then sends a Binding with what the pod carried when the session
    began; without those the fresh grant stays.
    """
    api = f"admissionregistration.k8s.io/{version}"
    keys = ", ".join(f"'{key}'" for key in GRANT_KEYS)
    strip = (
        f"[{keys}].filter(key, key in object.metadata.annotations)"
        '.map(key, JSONPatch{op: "remove", path: "/metadata/annotations/" + jsonpatch.escapeKey(key)})'
    )
    carries = f"has(object.metadata.annotations) && [{keys}].exists(key, key in object.metadata.annotations)"
    return (
        {
            "apiVersion": api,
            "kind": "MutatingAdmissionPolicy",
            "metadata": {"name": POLICY},
            "spec": {
                "matchConstraints": {"resourceRules": [_BINDINGS]},
                "matchConditions": [{"name": "carries-a-grant", "expression": carries}],
                "failurePolicy": "Fail",
                "reinvocationPolicy": "Never",
                "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": strip}}],
            },
        },
        {
            "apiVersion": api,
            "kind": "MutatingAdmissionPolicyBinding",
            "metadata": {"name": POLICY},
            "spec": {"policyName": POLICY},
        },
    )


def _of_bindings(target: Target, name: str, condition: str, *, waits: bool) -> dict[str, Any]:
    """The webhook for Bindings of some pods; with ``waits`` none is made while nobody answers."""
    return {
        "name": f"{name}.volcano-vgpu.hami-plugins.io",
        "clientConfig": target.client(BINDING_PATH),
        "rules": [_BINDINGS],
        "matchConditions": [{"name": name, "expression": condition}],
        "failurePolicy": "Fail" if waits else "Ignore",
        "timeoutSeconds": FAIL_SECONDS if waits else IGNORE_SECONDS,
        "sideEffects": "NoneOnDryRun",
    }


def _of_pods(schedulers: Sequence[str], resources: ResourceNames) -> list[dict[str, str]]:
    """Pods of these schedulers that ask for cards in any container."""
    names = ", ".join(f"'{name}'" for name in schedulers)
    asked = ", ".join(f"'{name}'" for name in resources.all())
    containers = "(object.spec.containers + (has(object.spec.initContainers) ? object.spec.initContainers : []))"
    asks = (
        f"{containers}.exists(c, has(c.resources) && has(c.resources.limits) && "
        f"[{asked}].exists(name, name in c.resources.limits))"
    )
    return [
        {
            "name": "of-volcano",
            "expression": f"has(object.spec.schedulerName) && object.spec.schedulerName in [{names}]",
        },
        {"name": "asks-for-cards", "expression": asks},
    ]


def _elsewhere(namespaces: Sequence[str]) -> dict[str, Any]:
    wanted = list(dict.fromkeys(namespaces))
    return {"matchExpressions": [{"key": NAMESPACE_LABEL, "operator": "NotIn", "values": wanted}]}
