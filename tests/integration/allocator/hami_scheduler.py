"""A double of HAMi's own scheduler: what it writes in ``filter`` and ``bind``, in its order, and nothing else.

And what HAMi's device plugin writes once a pod has its devices.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hami_plugins.errors import KubeError
from hami_plugins.kube import paths
from hami_plugins.kube.client import KubeClient
from tests.integration.allocator.hami_pods import LOCK, PHASE, notes_of
from tests.integration.allocator.sites import Site


@dataclass(frozen=True, slots=True)
class HamiScheduler:
    """HAMi 2.10.0 ``pkg/scheduler/scheduler.go``, for pods with one container. ``api`` is its account."""

    api: KubeClient
    now: int = 1_790_000_000

    def filter(self, pod: dict[str, Any], node: str, records: str, **more: str) -> dict[str, Any]:
        """Assigns the devices of ``records`` to the pod: one merge patch with annotations and a label."""
        written = {
            "hami.io/vgpu-node": node,
            "hami.io/vgpu-time": str(self.now),
            "hami.io/vgpu-devices-to-allocate": f"{records};",
            "hami.io/vgpu-devices-allocated": f"{records};",
            **more,
        }
        return self._patch(pod, {"annotations": written, "labels": {"hami.io/vgpu-node": node}})

    def lock(self, pod: dict[str, Any], node: str) -> None:
        """Takes the lock of the node."""
        found = self.api.get(paths.node(node))
        name = pod["metadata"]["name"]
        text = f"2026-11-24T00:00:00Z,{pod['metadata']['namespace']},{name}"
        body = {"metadata": {"annotations": {LOCK: text}, "resourceVersion": found["metadata"]["resourceVersion"]}}
        self.api.merge_patch(paths.node(node), body)

    def bind(self, pod: dict[str, Any], node: str) -> str:
        """Writes the phase, then binds; why that was refused."""
        self._patch(pod, {"annotations": {"hami.io/bind-phase": "allocating", "hami.io/bind-time": str(self.now)}})
        metadata = {name: pod["metadata"][name] for name in ("name", "namespace", "uid")}
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
        try:
            self.api.create(paths.pod_binding(metadata["namespace"], metadata["name"]), body)
        except KubeError as error:
            return str(error)
        return ""

    def _patch(self, pod: dict[str, Any], metadata: dict[str, Any]) -> dict[str, Any]:
        path = paths.pod(pod["metadata"]["namespace"], pod["metadata"]["name"])
        return dict(self.api.merge_patch(path, {"metadata": metadata}))


def served(place: Site, name: str, node: str = "n1") -> None:
    """HAMi's device plugin has given a pod its devices, and removes the lock of the node."""
    store = place.server.store
    with store.lock:
        pod = place.server.get("pods", name, "default")
        notes_of(pod)[PHASE] = "success"
        place.server.put(pod)
        raw = place.server.get("nodes", node)
        notes_of(raw).pop(LOCK, None)
        place.server.put(raw)
