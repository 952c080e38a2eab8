"""Nodes that HAMi's plugin has registered, and pods in HAMi's words.

The nodes have no kubelet and no device plugin: ``HamiNodes.served`` does what the plugin does for one pod.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from tests import raw_objects
from tests.cluster.api import ApiError, Object
from tests.cluster.card_nodes import NODES, Card, Pool
from tests.cluster.kubernetes import ControlPlane
from tests.cluster.objects import container, pod
from tests.cluster.slices import pods
from tests.cluster.waiting import wait_until

COUNT, MEMORY = "nvidia.com/gpu", "nvidia.com/gpumem"
REGISTER, LOCK, PHASE = "hami.io/node-nvidia-register", "hami.io/mutex.lock", "hami.io/bind-phase"
REQUEUED: Final = "hami-plugins.io/requeued-at"


@dataclass(slots=True)
class HamiNodes(Pool):
    """Nodes that HAMi's NVIDIA plugin has registered."""

    ids: str = "hami.io/vgpu-devices-allocated"
    node: str = "hami.io/vgpu-node"

    def boot(self, count: int = 1, *, cards: int = 1) -> list[str]:
        """More nodes of equal cards; their names."""
        names = [f"{self.name}-{len(self.cards) + at}" for at in range(count)]
        for name in names:
            listed = [Card(f"GPU-{name}-{at}") for at in range(cards)]
            notes = {REGISTER: json.dumps(raw_objects.registered_cards(*(each.uuid for each in listed)))}
            amounts = {"cpu": "96", "memory": "1024Gi", "pods": "500", COUNT: str(sum(each.slots for each in listed))}
            metadata = {"name": name, "labels": {"kubernetes.io/hostname": name, **self.selector}, "annotations": notes}
            ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
            status = {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}
            self.plane.api.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status})
            self.cards[name] = tuple(listed)
        self._wait_taking_pods()
        return names

    def served(self, found: Object) -> None:
        """The plugin has given a bound pod its devices, and lets go of the node's lock."""
        place = f"{pods(found['metadata']['namespace'])}/{found['metadata']['name']}"
        self.plane.api.merge_patch(place, {"metadata": {"annotations": {PHASE: "success"}}})
        self.plane.api.merge_patch(f"{NODES}/{found['spec']['nodeName']}", {"metadata": {"annotations": {LOCK: None}}})


class HamiPods:
    """One test's pods in HAMi's words."""

    def __init__(self, plane: ControlPlane, nodes: HamiNodes, namespace: str) -> None:
        self.plane, self.nodes, self.namespace = plane, nodes, namespace

    def create(self, name: str, memory: int, **spec: Any) -> Object:
        """A pod for so much of one card; nothing in it names a scheduler."""
        body = pod(name, container(limits={COUNT: 1, MEMORY: memory}), nodeSelector=dict(self.nodes.selector), **spec)
        made: Object = self.plane.api.create(pods(self.namespace), body)
        return made

    def denied(self, memory: int) -> str:
        """Why a pod for so much of one card is not created; empty where it would be. Nothing is made."""
        body = pod("denied", container(limits={COUNT: 1, MEMORY: memory}))
        try:
            self.plane.api.request("POST", pods(self.namespace), body, query={"dryRun": "All"})
        except ApiError as error:
            return str(error)
        return ""

    def see(self, name: str) -> Object:
        found: Object = self.plane.api.get(f"{pods(self.namespace)}/{name}")
        return found

    def wait_bound(self, name: str, timeout: float = 60.0) -> Object:
        """The pod once it is bound; the plugin has served it then."""

        def bound() -> Object:
            found = self.see(name)
            return found if found["spec"].get("nodeName") else {}

        found = wait_until(bound, f"{name} is bound", timeout, interval=0.02, show=lambda: self.told(name))
        self.nodes.served(found)
        return found

    def wait_told(self, name: str, text: str, timeout: float = 60.0) -> str:
        """The events of a pod once one has this text."""

        def found() -> str:
            said = self.told(name)
            return said if text in said else ""

        return wait_until(found, f"{name} is told {text!r}", timeout, show=lambda: self.told(name))

    def told(self, name: str) -> str:
        return "".join(self.plane.events(self.namespace, name))

    def requeued(self) -> list[str]:
        """The pods that the server wrote so that they are tried again."""
        every = self.plane.api.items(pods(self.namespace))
        return [each["metadata"]["name"] for each in every if REQUEUED in each["metadata"].get("annotations", {})]

    def remove(self, name: str) -> None:
        self.plane.api.delete(f"{pods(self.namespace)}/{name}", grace=0)

    def ungate(self, name: str) -> None:
        """A pod that was created gated may be scheduled."""
        self.plane.api.merge_patch(f"{pods(self.namespace)}/{name}", {"spec": {"schedulingGates": None}})

    def limit(self, memory: int) -> None:
        """What the namespace's pods may hold together."""
        quota = {"metadata": {"name": "devices"}, "spec": {"hard": {f"limits.{MEMORY}": str(memory)}}}
        body = {"apiVersion": "v1", "kind": "ResourceQuota", **quota}
        self.plane.apply(f"/api/v1/namespaces/{self.namespace}/resourcequotas", body)
