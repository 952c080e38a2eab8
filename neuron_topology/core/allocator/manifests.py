"""What an operator installs in the API server: the configuration of the webhooks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from hami_plugins.allocations.manifests import webhooks as shared
from hami_plugins.allocations.manifests.webhooks import EXEMPT, Hooks, WebhookTarget
from neuron_topology.core.allocator.names import ALLOCATION_KEYS, MARKER_KEY
from neuron_topology.core.vendor import SPEC

HOOKS: Final = Hooks(
    domain="neuron.hami-plugins.io", marker=MARKER_KEY, resources=(SPEC.resources,), keys=ALLOCATION_KEYS
)


def webhooks(
    target: WebhookTarget, *, exempt: Iterable[str] = EXEMPT, marked_only: bool = False, jobs: bool = False
) -> dict[str, Any]:
    """The MutatingWebhookConfiguration; see ``hami_plugins.allocations.manifests.webhooks``. With ``jobs`` Volcano Jobs
    are patched.

    Nobody waits for a patch: a job is made as it is while the server is away.
    """
    found = shared.webhooks(HOOKS, target, exempt=exempt, marked_only=marked_only)
    return {**found, "webhooks": [*found["webhooks"], _of_jobs(target, exempt)]} if jobs else found


def _of_jobs(target: WebhookTarget, exempt: Iterable[str]) -> dict[str, Any]:
    asked = ", ".join(f"'{name}'" for name in SPEC.resources.all())
    asks = (
        "has(object.spec.tasks) && object.spec.tasks.exists(t, has(t.template) && has(t.template.spec) && "
        "t.template.spec.containers.exists(c, has(c.resources) && has(c.resources.limits) && "
        f"[{asked}].exists(name, name in c.resources.limits)))"
    )
    return {
        "name": f"jobs.{HOOKS.domain}",
        "clientConfig": target.client(shared.JOB_PATH),
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
        "timeoutSeconds": shared.IGNORE_SECONDS,
        "reinvocationPolicy": "IfNeeded",
        "sideEffects": "None",
        "namespaceSelector": shared.elsewhere([*exempt, target.namespace]),
        "admissionReviewVersions": ["v1"],
        "matchPolicy": "Equivalent",
    }
