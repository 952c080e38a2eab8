"""What an operator installs in the API server: configurations of the webhooks, and the policy that needs no process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from hami_plugins.allocations.manifests import webhooks as shared
from hami_plugins.allocations.manifests.webhooks import BINDINGS, EXEMPT, Hooks
from hami_plugins.model.vendor_names import ResourceNames
from hami_plugins.vendors.volcano import RESOURCES
from volcano_vgpu.core.allocator.names import ALLOCATION_KEYS, MARKER_KEY, NAME, SCHEDULER, VOLCANO_KEYS

POLICY: Final = "volcano-vgpu-stale-allocations"

POLICY_VERSIONS: Final[Mapping[str, str]] = {
    "v1beta1": "Kubernetes from 1.34 on, where --feature-gates=MutatingAdmissionPolicy=true and "
    "--runtime-config=admissionregistration.k8s.io/v1beta1=true are set",
    "v1alpha1": "Kubernetes 1.32 and 1.33, where --feature-gates=MutatingAdmissionPolicy=true and "
    "--runtime-config=admissionregistration.k8s.io/v1alpha1=true are set",
}
"""Which servers serve the policy, by its version; in 1.34 it is off by default (``trials.md`` V14)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VgpuWebhookTarget(shared.WebhookTarget):
    """See ``hami_plugins.allocations.manifests.webhooks``."""

    configuration: str = NAME
    service: str = NAME
    namespace: str = "volcano-system"


def webhooks(
    target: shared.WebhookTarget,
    *,
    schedulers: Sequence[str] = (SCHEDULER,),
    resources: ResourceNames = RESOURCES,
    exempt: Iterable[str] = EXEMPT,
    marked_only: bool = False,
) -> dict[str, Any]:
    """The MutatingWebhookConfiguration; see ``hami_plugins.allocations.manifests.webhooks``."""
    hooks = Hooks(
        domain="volcano-vgpu.hami-plugins.io",
        marker=MARKER_KEY,
        resources=resources,
        schedulers=schedulers,
        keys=ALLOCATION_KEYS,
    )
    return shared.webhooks(hooks, target, exempt=exempt, marked_only=marked_only)


def policy(version: str = "v1beta1") -> tuple[dict[str, Any], dict[str, Any]]:
    """The MutatingAdmissionPolicy that takes allocations off Bindings, and what puts it in force.

    Volcano up to 1.15 writes an allocation on the pod and then sends a Binding with what the pod carried when the
    session began; without those the fresh allocation stays.
    """
    api = f"admissionregistration.k8s.io/{version}"
    keys = ", ".join(f"'{key}'" for key in VOLCANO_KEYS)
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
                "matchConstraints": {"resourceRules": [BINDINGS]},
                "matchConditions": [{"name": "carries-an-allocation", "expression": carries}],
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
