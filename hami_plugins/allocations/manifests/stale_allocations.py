"""The admission policy that takes stale allocations of Volcano off Bindings, without a process of ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hami_plugins.allocations.manifests.webhooks import BINDINGS
from hami_plugins.vendors.volcano import SPEC

POLICY: Final = "volcano-vgpu-stale-allocations"

KEYS: Final = tuple(sorted((SPEC.keys.allocated, SPEC.keys.to_allocate, *SPEC.keys.extra)))
"""The six annotations of an allocation. A Binding that carries some of them carries those of an earlier try."""

POLICY_VERSIONS: Final[Mapping[str, str]] = {
    "v1": "Kubernetes from 1.36 on, without any flag",
    "v1beta1": "Kubernetes 1.34 and 1.35, where --feature-gates=MutatingAdmissionPolicy=true and "
    "--runtime-config=admissionregistration.k8s.io/v1beta1=true are set",
    "v1alpha1": "Kubernetes 1.32 and 1.33, where --feature-gates=MutatingAdmissionPolicy=true and "
    "--runtime-config=admissionregistration.k8s.io/v1alpha1=true are set",
}
"""Which servers serve the policy, by its version; before 1.36 it is off by default (``trials.md`` V14)."""


def policy(version: str = "v1beta1") -> tuple[dict[str, Any], dict[str, Any]]:
    """The MutatingAdmissionPolicy that takes allocations off Bindings, and what puts it in force.

    Volcano up to 1.15 writes an allocation on the pod and then sends a Binding with what the pod carried when the
    session began; without those the fresh allocation stays.
    """
    api = f"admissionregistration.k8s.io/{version}"
    keys = ", ".join(f"'{key}'" for key in KEYS)
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
