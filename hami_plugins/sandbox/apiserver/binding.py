"""``pods/binding``: the one write that gives a pod its node (``trials.md`` K9).

The Binding's annotations are laid over the pod's in the same version that sets the node; its labels are not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hami_plugins.sandbox.apiserver.answers import bad_request, conflict, internal, not_found
from hami_plugins.sandbox.apiserver.kinds import BINDINGS, PODS
from hami_plugins.sandbox.apiserver.review import OPEN, AdmissionChain
from hami_plugins.sandbox.apiserver.store import Key, Stored
from hami_plugins.sandbox.apiserver.writer import Preconditions, Writer
from hami_plugins.wire.fields import Json


def bind(writer: Writer, key: Key, binding: Json, *, dry: bool = False, gate: AdmissionChain = OPEN) -> Stored:
    """Assign the pod. Raises ``ApiError`` 404 without it, 409 when it is bound, gated, deleted or another pod."""
    inside = {**binding, "metadata": {**(binding.get("metadata") or {}), "namespace": key.namespace}}
    binding = gate.mutated("CREATE", BINDINGS, key, inside, None)
    metadata = binding.get("metadata") or {}
    if metadata.get("name", "") != key.name:
        raise bad_request("name in URL does not match name in Binding object")
    node = _target(binding)
    gate.validated("CREATE", BINDINGS, key, binding, None)
    stored = writer.store.get(PODS, key)
    if stored is None:
        raise not_found(PODS, key.name)
    Preconditions(uid=metadata.get("uid") or None).check(PODS, stored)
    if why := _objection(stored.raw, key.name):
        raise conflict(PODS, key.name, why, resource="pods/binding")
    return writer.settle(
        PODS, stored, _assigned(stored.raw, node, metadata.get("annotations") or {}, writer.now()), dry=dry
    )


def _target(binding: Json) -> str:
    """The node that is meant. The real server lets these two faults through as internal errors."""
    target = binding.get("target") or {}
    if target.get("kind") not in (None, "", "Node"):
        raise internal(f'target.kind: Unsupported value: "{target["kind"]}": supported values: "Node", "<empty>"')
    if not target.get("name"):
        raise internal("target.name: Required value")
    return str(target["name"])


def _objection(pod: Json, name: str) -> str:
    spec = pod["spec"]
    if pod["metadata"].get("deletionTimestamp"):
        return f"pod {name} is being deleted, cannot be assigned to a host"
    if spec.get("nodeName"):
        return f'pod {name} is already assigned to node "{spec["nodeName"]}"'
    if spec.get("schedulingGates"):
        return f"pod {name} has non-empty .spec.schedulingGates"
    return ""


def _assigned(pod: Json, node: str, annotations: Mapping[str, str], now: str) -> dict[str, Any]:
    metadata = dict(pod["metadata"])
    if annotations:
        metadata["annotations"] = {**(metadata.get("annotations") or {}), **annotations}
    status = pod.get("status") or {}
    others = [each for each in status.get("conditions") or [] if each.get("type") != "PodScheduled"]
    scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
    return {
        **pod,
        "metadata": metadata,
        "spec": {**pod["spec"], "nodeName": node},
        "status": {**status, "conditions": [*others, scheduled]},
    }
