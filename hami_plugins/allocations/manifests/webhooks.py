"""The configuration of the webhooks of an allocator, as an operator installs it in the API server.

Which expressions work on a Binding, and what it carries, is known from trials (``trials.md`` V15): a missing member has
to be asked for with ``has``, and a condition that fails is a refusal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from hami_plugins.allocations.manifests.volcano_configuration import names_of
from hami_plugins.model.vendor_names import ResourceNames
from hami_plugins.wire import allocator_mark

DOMAIN: Final = "allocator.hami-plugins.io"
"""What the names of the webhooks end with."""

MARKED: Final = f"has(object.metadata.annotations) && '{allocator_mark.KEY}' in object.metadata.annotations"
"""The condition of a Binding that carries the mark."""

POD_PATH: Final = "/webhooks/pods"
JOB_PATH: Final = "/webhooks/jobs"
BINDING_PATH: Final = "/webhooks/bindings"

FAIL_SECONDS: Final = 10
"""How long a Binding that must have an allocation waits for the server: longer than a takeover's list, shorter than the
caller's own patience."""

IGNORE_SECONDS: Final = 2
"""How long everybody else waits while the server is away."""

EXEMPT: Final = ("kube-system",)
NAMESPACE_LABEL: Final = "kubernetes.io/metadata.name"

CREATION: Final = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "scope": "Namespaced"}
BINDINGS: Final = {**CREATION, "resources": ["pods/binding", "bindings"]}


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookTarget:
    """Where the API server reaches the webhooks: a Service, or a ``url`` instead of it. ``ca`` is PEM in base64.

    ``configuration`` is the name of the object that says so.
    """

    configuration: str
    service: str
    namespace: str
    port: int = 443
    url: str = ""
    ca: str = ""

    def client(self, path: str) -> dict[str, Any]:
        """The ``clientConfig`` of a webhook."""
        service = {"name": self.service, "namespace": self.namespace, "port": self.port, "path": path}
        where = {"url": f"{self.url.rstrip('/')}{path}"} if self.url else {"service": service}
        return where | ({"caBundle": self.ca} if self.ca else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """The scope of the webhooks.

    Pods are marked that ask for one of ``resources``. ``keys`` are the annotations of an allocation. Volcano Jobs are
    patched whose containers ask for one of ``jobs``.
    """

    resources: Sequence[ResourceNames]
    keys: Sequence[str]
    jobs: Sequence[str] = ()


def webhooks(
    hooks: Hooks, target: WebhookTarget, *, exempt: Iterable[str] = EXEMPT, marked_only: bool = False
) -> dict[str, Any]:
    """The MutatingWebhookConfiguration.

    A marked pod is not bound without an allocation, so its Binding waits for the server. All other pods, plain ones and
    those older than the webhooks, pass while the server is down; with ``marked_only`` the API server never calls it for
    them. It never calls it for pods in ``exempt`` namespaces, so the cluster's own pods do not wait. New pods in the
    server's namespace are not marked, so that none of them waits for it; they are allocated devices like all others.

    A new pod that brings a node and an allocation is never right, whatever its scheduler and its namespace: it is not
    created while the server is away.
    """
    exempt = tuple(exempt)
    common = {"admissionReviewVersions": ["v1"], "matchPolicy": "Equivalent"}
    pods = {
        "name": f"pods.{DOMAIN}",
        "clientConfig": target.client(POD_PATH),
        "rules": [{**CREATION, "resources": ["pods"]}],
        "matchConditions": _of_pods(hooks),
        "failurePolicy": "Ignore",
        "timeoutSeconds": IGNORE_SECONDS,
        "reinvocationPolicy": "IfNeeded",
        "sideEffects": "None",
        "namespaceSelector": elsewhere([*exempt, target.namespace]),
    }
    marked = _of_bindings(target, "marked", MARKED, waits=True)
    unmarked = _of_bindings(target, "unmarked", f"!({MARKED})", waits=False)
    placed = _of_placed(hooks, target)
    for hook in (placed, marked, unmarked):
        hook["namespaceSelector"] = elsewhere(exempt)
    found = [pods, placed, marked] if marked_only else [pods, placed, marked, unmarked]
    if hooks.jobs:
        found.append(_of_jobs(hooks, target, exempt))
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": target.configuration},
        "webhooks": [{**hook, **common} for hook in found],
    }


def _of_placed(hooks: Hooks, target: WebhookTarget) -> dict[str, Any]:
    """The webhook for new pods that bring a node and an allocation; see ``arrivals``."""
    keys = ", ".join(f"'{key}'" for key in sorted(hooks.keys))
    carries = f"has(object.metadata.annotations) && [{keys}].exists(key, key in object.metadata.annotations)"
    return {
        "name": f"placed.{DOMAIN}",
        "clientConfig": target.client(POD_PATH),
        "rules": [{**CREATION, "resources": ["pods"]}],
        "matchConditions": [
            {"name": "brings-a-node", "expression": "has(object.spec.nodeName) && object.spec.nodeName != ''"},
            {"name": "brings-an-allocation", "expression": carries},
        ],
        "failurePolicy": "Fail",
        "timeoutSeconds": FAIL_SECONDS,
        "sideEffects": "None",
    }


def _of_bindings(target: WebhookTarget, name: str, condition: str, *, waits: bool) -> dict[str, Any]:
    """The webhook for Bindings of some pods; with ``waits`` none is made while no server answers."""
    return {
        "name": f"{name}.{DOMAIN}",
        "clientConfig": target.client(BINDING_PATH),
        "rules": [BINDINGS],
        "matchConditions": [{"name": name, "expression": condition}],
        "failurePolicy": "Fail" if waits else "Ignore",
        "timeoutSeconds": FAIL_SECONDS if waits else IGNORE_SECONDS,
        "sideEffects": "NoneOnDryRun",
    }


def _of_pods(hooks: Hooks) -> list[dict[str, str]]:
    """Pods that ask for devices in any container."""
    asked = ", ".join(f"'{name}'" for name in names_of(hooks.resources))
    containers = "(object.spec.containers + (has(object.spec.initContainers) ? object.spec.initContainers : []))"
    asks = (
        f"{containers}.exists(c, has(c.resources) && has(c.resources.limits) && "
        f"[{asked}].exists(name, name in c.resources.limits))"
    )
    return [{"name": "asks-for-cards", "expression": asks}]


def _of_jobs(hooks: Hooks, target: WebhookTarget, exempt: Iterable[str]) -> dict[str, Any]:
    """The webhook for new Volcano Jobs, which are created as they are while the server is away."""
    asked = ", ".join(f"'{name}'" for name in hooks.jobs)
    asks = (
        "has(object.spec.tasks) && object.spec.tasks.exists(t, has(t.template) && has(t.template.spec) && "
        "t.template.spec.containers.exists(c, has(c.resources) && has(c.resources.limits) && "
        f"[{asked}].exists(name, name in c.resources.limits)))"
    )
    return {
        "name": f"jobs.{DOMAIN}",
        "clientConfig": target.client(JOB_PATH),
        "rules": [
            {
                "apiGroups": ["batch.volcano.sh"],
                "apiVersions": ["v1alpha1"],
                "operations": ["CREATE"],
                "resources": ["jobs"],
                "scope": "Namespaced",
            }
        ],
        "matchConditions": [{"name": "asks-for-neuron", "expression": asks}],
        "failurePolicy": "Ignore",
        "timeoutSeconds": IGNORE_SECONDS,
        "reinvocationPolicy": "IfNeeded",
        "sideEffects": "None",
        "namespaceSelector": elsewhere([*exempt, target.namespace]),
    }


def elsewhere(exempt: Iterable[str]) -> dict[str, Any]:
    """The selector of all namespaces but these."""
    wanted = list(dict.fromkeys(exempt))
    if not wanted:
        return {}
    return {"matchExpressions": [{"key": NAMESPACE_LABEL, "operator": "NotIn", "values": wanted}]}
