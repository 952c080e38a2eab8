"""The sums over a node's cards, as Koordinator's controller writes them into the node (Koordinator 1.7.0
``pkg/slo-controller/noderesource/plugins/gpudeviceresource/plugin.go``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hami_plugins.errors import WireError
from hami_plugins.model.quantity import NANO
from hami_plugins.wire import fields, quantity
from hami_plugins.wire.fields import Json
from hami_plugins.wire.koordinator import CORE, GPU, MEMORY, NPU_CORE, NPU_CPU, NPU_DVPP, RATIO, SHARED
from hami_plugins.wire.koordinator_devices import MODEL_LABEL, VENDOR_LABEL, DeviceObject

NAMES: Final = (GPU, CORE, NPU_CORE, NPU_CPU, NPU_DVPP, MEMORY, RATIO, SHARED)
"""What the controller writes, and takes away where a node has no healthy card."""

LABELS: Final = (VENDOR_LABEL, MODEL_LABEL)
_WITH_BOTH: Final = frozenset({"", "nvidia"})
_SLICES: Final = 100
"""A healthy card is so many of ``gpu.shared``."""


def sums_of(published: DeviceObject | None) -> Mapping[str, int]:
    """The sums by name; empty where no card is healthy."""
    healthy = [] if published is None else [each for each in published.cards if each.healthy]
    if published is None or not healthy:
        return {}
    found: dict[str, int] = {}
    for device in healthy:
        for name, amount in device.resources.items():
            if name in NAMES:
                found[name] = found.get(name, 0) + amount.ceiling
    if published.vendor in _WITH_BOTH:
        found[GPU] = found.get(CORE, 0)
    return found | {SHARED: _SLICES * len(healthy)}


def change_of(node: Mapping[str, Any], published: DeviceObject | None) -> Json | None:
    """The merge patch of a node's status that brings in the sums; ``None`` where they are there.

    Raises ``WireError`` for a node whose amounts cannot be read.
    """
    wanted = sums_of(published)
    status = fields.member(dict(node), "status", "node ?:")
    parts = {}
    for part in ("capacity", "allocatable"):
        there = quantity.amounts(fields.member(status, part, f"node ?: status.{part}"), key=f"status.{part}")
        changes: dict[str, str | None] = {
            name: quantity.canonical(amount * NANO, binary=name == MEMORY)
            for name, amount in wanted.items()
            if name not in there or there[name].nano != amount * NANO
        }
        changes |= {name: None for name in NAMES if name in there and name not in wanted}
        if changes:
            parts[part] = changes
    if not parts:
        return None
    return {"metadata": {"resourceVersion": _version(node)}, "status": parts}


def labels_of(node: Mapping[str, Any], published: DeviceObject | None) -> Json | None:
    """The merge patch that writes vendor and model onto the node; ``None`` if they are there.

    As with Koordinator's controller, labels that have come once are not taken away.
    """
    wanted = {} if published is None else {key: published.labels[key] for key in LABELS if key in published.labels}
    held = (node.get("metadata") or {}).get("labels") or {}
    changes = {key: value for key, value in wanted.items() if held.get(key) != value}
    return {"metadata": {"resourceVersion": _version(node), "labels": changes}} if changes else None


def _version(node: Mapping[str, Any]) -> str:
    found: object = (node.get("metadata") or {}).get("resourceVersion")
    if not isinstance(found, str):
        raise WireError("node ?: metadata.resourceVersion", str(found), "is missing")
    return found
