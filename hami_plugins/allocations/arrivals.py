"""New pods that bring both their node and an allocation.

A pod with ``spec.nodeName`` skips every scheduler, so its allocation was written by its author. DaemonSet pods, static
pods and pods that are restored with ``nodeName`` have no allocation, and pass.
"""

from __future__ import annotations

from collections.abc import Collection

from hami_plugins.wire import lenient, pods
from hami_plugins.wire.fields import Json


def objection(raw: Json, keys: Collection[str]) -> str:
    """Why a new pod is refused; empty where it brings no node, or none of these annotations."""
    metadata, node = lenient.inside(raw, "metadata"), pods.node_of(raw)
    annotations = lenient.mapping(metadata.get("annotations"))
    brought = ", ".join(key for key in sorted(keys) if key in annotations)
    if not node or not brought:
        return ""
    name = f"{metadata.get('namespace', '')}/{metadata.get('name') or metadata.get('generateName', '')}"
    return (
        f"pod {name} sets spec.nodeName: {node} and the annotation {brought}, which only a scheduler writes; remove "
        "both, so that a scheduler places the pod"
    )
