"""New pods that bring both their node and an allocation.

A pod with ``spec.nodeName`` skips every scheduler, so its allocation was written by its author. DaemonSet pods, static
pods and pods that are restored with ``nodeName`` have no allocation, and pass.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any


def objection(raw: Mapping[str, Any], keys: Collection[str]) -> str:
    """Why a new pod is refused; empty where it brings no node, or none of these annotations."""
    metadata = raw.get("metadata")
    spec = raw.get("spec")
    if not isinstance(metadata, Mapping) or not isinstance(spec, Mapping):
        return ""
    node, annotations = spec.get("nodeName"), metadata.get("annotations")
    if not isinstance(node, str) or not node or not isinstance(annotations, Mapping):
        return ""
    brought = ", ".join(key for key in sorted(keys) if key in annotations)
    if not brought:
        return ""
    name = f"{metadata.get('namespace', '')}/{metadata.get('name') or metadata.get('generateName', '')}"
    return (
        f"pod {name} sets spec.nodeName: {node} and the annotation {brought}, which only a scheduler writes; remove "
        "both, so that a scheduler places the pod"
    )
