"""Paths of the API server: building those that the product uses, and reading what any of them is about."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple
from urllib.parse import quote

NODES: Final = "/api/v1/nodes"
PODS: Final = "/api/v1/pods"
RESOURCE_QUOTAS: Final = "/api/v1/resourcequotas"
DISRUPTION_BUDGETS: Final = "/apis/policy/v1/poddisruptionbudgets"
NAMESPACES: Final = "/api/v1/namespaces"
DEVICES: Final = "/apis/scheduling.koordinator.sh/v1alpha1/devices"
"""Koordinator's Device objects, one for each node, under its name."""

POD_GROUPS: Final = "/apis/scheduling.sigs.k8s.io/v1alpha1/podgroups"
ELASTIC_QUOTAS: Final = "/apis/scheduling.sigs.k8s.io/v1alpha1/elasticquotas"
"""The groups and quotas that Koordinator's scheduler goes by, of all namespaces."""

_NAMESPACE_PARTS: Final = frozenset({"status", "finalize"})
"""Subresources of a namespace itself; any other word in their place is a resource inside of the namespace."""


def node(name: str) -> str:
    """A node."""
    return f"{NODES}/{quote(name, safe='')}"


def node_status(name: str) -> str:
    """A node's status, which is written apart from the node."""
    return f"{node(name)}/status"


def device(node: str) -> str:
    """Koordinator's Device object of a node."""
    return f"{DEVICES}/{quote(node, safe='')}"


def pods(namespace: str) -> str:
    """The pods of a namespace."""
    return f"{_namespaced('/api/v1', namespace)}/pods"


def pod(namespace: str, name: str) -> str:
    """A pod."""
    return f"{pods(namespace)}/{quote(name, safe='')}"


def pod_status(namespace: str, name: str) -> str:
    """A pod's status, which is written apart from the pod."""
    return f"{pod(namespace, name)}/status"


def pod_binding(namespace: str, name: str) -> str:
    """Where a Binding is posted that puts the pod on a node."""
    return f"{pod(namespace, name)}/binding"


def pod_eviction(namespace: str, name: str) -> str:
    """Where an Eviction is posted that has the pod deleted, if its PodDisruptionBudget allows that."""
    return f"{pod(namespace, name)}/eviction"


def events(namespace: str) -> str:
    """The events (core/v1) of a namespace."""
    return f"{_namespaced('/api/v1', namespace)}/events"


def event(namespace: str, name: str) -> str:
    """An event (core/v1)."""
    return f"{events(namespace)}/{quote(name, safe='')}"


def leases(namespace: str) -> str:
    """The leases of a namespace."""
    return f"{_namespaced('/apis/coordination.k8s.io/v1', namespace)}/leases"


def lease(namespace: str, name: str) -> str:
    """A lease."""
    return f"{leases(namespace)}/{quote(name, safe='')}"


def secrets(namespace: str) -> str:
    """The secrets of a namespace."""
    return f"{_namespaced('/api/v1', namespace)}/secrets"


def secret(namespace: str, name: str) -> str:
    """A secret."""
    return f"{secrets(namespace)}/{quote(name, safe='')}"


def daemon_set(namespace: str, name: str) -> str:
    """A DaemonSet."""
    return f"{_namespaced('/apis/apps/v1', namespace)}/daemonsets/{quote(name, safe='')}"


def deployment(namespace: str, name: str) -> str:
    """A Deployment."""
    return f"{_namespaced('/apis/apps/v1', namespace)}/deployments/{quote(name, safe='')}"


def webhook_configuration(kind: Literal["mutating", "validating"], name: str) -> str:
    """A MutatingWebhookConfiguration or ValidatingWebhookConfiguration."""
    return f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/{quote(name, safe='')}"


class PathTarget(NamedTuple):
    """The resource of a path. A path outside of the API's resources (``/version``) is its own ``resource``."""

    group: str
    resource: str
    subresource: str
    namespace: str
    name: str

    @property
    def rule(self) -> str:
        """The resource as RBAC rules and metrics spell it: ``pods``, ``nodes/status``."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


def target(path: str) -> PathTarget:
    """What ``path`` is about, by the scheme of the API server: group, namespace, resource, name, subresource."""
    match path.partition("?")[0].strip("/").split("/"):
        case ["api", _, *rest]:
            return _target("", rest, path)
        case ["apis", group, _, *rest]:
            return _target(group, rest, path)
        case _:
            return PathTarget("", path, "", "", "")


def _target(group: str, rest: list[str], path: str) -> PathTarget:
    match rest:
        case ["namespaces", namespace, resource, *more] if resource not in _NAMESPACE_PARTS:
            name, subresource = (*more, "", "")[:2]
            return PathTarget(group, resource, subresource, namespace, name)
        case [resource, *more]:
            name, subresource = (*more, "", "")[:2]
            return PathTarget(group, resource, subresource, "", name)
        case _:
            return PathTarget(group, path, "", "", "")


def _namespaced(version: str, namespace: str) -> str:
    return f"{version}/namespaces/{quote(namespace, safe='')}"
