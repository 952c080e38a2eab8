"""The real Karpenter with its kwok provider: nodes are objects, and instance types come from a file."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from tests.cluster import definitions
from tests.cluster.api import Object
from tests.cluster.etcd import healthy
from tests.cluster.kubernetes import EVERYTHING, ControlPlane
from tests.cluster.peers import KARPENTER
from tests.cluster.ports import free_port
from tests.cluster.processes import Component
from tests.cluster.waiting import wait_until

POOLS: Final = "/apis/karpenter.sh/v1/nodepools"
CLAIMS: Final = "/apis/karpenter.sh/v1/nodeclaims"
OVERLAYS: Final = "/apis/karpenter.sh/v1alpha1/nodeoverlays"
NODES: Final = "/api/v1/nodes"
POOL_LABEL: Final = "karpenter.sh/nodepool"
TYPE_LABEL: Final = "node.kubernetes.io/instance-type"
_CLASSES: Final = "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses"
_CLASS: Final = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}

_ANSWERS: Final = ("Pod should schedule on: nodeclaim/", "Failed to schedule pod, ")

AWS_TYPES: Final[Mapping[str, Mapping[str, str]]] = {
    "trn1.32xlarge": {
        "cpu": "128",
        "memory": "512Gi",
        "aws.amazon.com/neuron": "16",
        "aws.amazon.com/neuroncore": "32",
        "vpc.amazonaws.com/efa": "8",
    },
    "p4d.24xlarge": {"cpu": "96", "memory": "1152Gi", "nvidia.com/gpu": "8", "vpc.amazonaws.com/efa": "4"},
}
"""What Karpenter's provider for AWS knows of instance types: whole devices, and no slices (karpenter-provider-aws
``pkg/providers/instancetype/types.go``)."""


class Karpenter:
    """Not started yet; its definitions and its node class are there. It may do everything."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        definitions.install(plane, definitions.published(KARPENTER.place() / "data"))
        plane.apply(_CLASSES, _kind("KWOKNodeClass", "karpenter.kwok.sh/v1alpha1", "default"))
        types = plane.machine.root / "instance-types.json"
        types.write_text(json.dumps([_instance_type(name, amounts) for name, amounts in AWS_TYPES.items()]))
        health = free_port()
        token = plane.account("karpenter", EVERYTHING)
        arguments = [
            str(plane.programs["karpenter"]),
            f"--instance-types-file-path={types}",
            f"--metrics-port={free_port()}",
            f"--health-probe-port={health}",
            "--disable-leader-election=true",
            "--feature-gates=NodeOverlay=true",
            "--log-level=debug",
        ]
        self.component = Component(
            plane.machine,
            "karpenter",
            arguments,
            ready=lambda: healthy(f"http://127.0.0.1:{health}/readyz"),
            environment={"KUBECONFIG": str(plane.kubeconfig("karpenter", token))},
        )

    @contextmanager
    def pool(self, instance_type: str, **spec: Any) -> Iterator[str]:
        """The name of a NodePool of one type without nodes; keywords as of ``node_pool``. At the end they are gone."""
        name = f"pool-{secrets.token_hex(3)}"
        self.plane.api.create(POOLS, node_pool(name, instance_type, **spec))
        try:
            wait_until(lambda: _is_ready(self.plane.api.get(f"{POOLS}/{name}")), f"NodePool {name} is ready")
            yield name
        finally:
            self.plane.api.delete(f"{POOLS}/{name}")
            wait_until(lambda: not self.claims(name), "its claims are gone", 60, show=self.component.log)
            wait_until(lambda: self._removed(name), "its nodes are gone", 60, show=self.component.log)

    def _removed(self, pool: str) -> bool:
        """Whether no node of a pool is left. The provider makes one also after its claim has gone, and leaves it."""
        for each in self.nodes(pool):
            self.plane.api.delete(f"{NODES}/{each['metadata']['name']}")
        return not self.nodes(pool)

    def claims(self, pool: str) -> list[Object]:
        """The nodes of a pool that Karpenter has decided on."""
        return self.plane.api.items(CLAIMS, labelSelector=f"{POOL_LABEL}={pool}")

    def nodes(self, pool: str) -> list[Object]:
        """Those that are there."""
        return self.plane.api.items(NODES, labelSelector=f"{POOL_LABEL}={pool}")

    def answers(self, namespace: str, names: Sequence[str]) -> dict[str, str]:
        """What Karpenter says of each of these pods, once it has: where it will run, or why it adds no node."""

        def told() -> dict[str, str]:
            found = {name: self._answer(namespace, name) for name in names}
            return found if all(found.values()) else {}

        return wait_until(told, "Karpenter has looked at the pods", 60, interval=0.5, show=self.component.log)

    def _answer(self, namespace: str, name: str) -> str:
        said = self.plane.events(namespace, name)
        return next((each.strip() for each in reversed(said) if any(text in each for text in _ANSWERS)), "")

    def boot(self, pool: str) -> None:
        """What a kubelet and device plugins do: the nodes become ready with all that their type has."""
        for each in self.nodes(pool):
            amounts = {**AWS_TYPES[each["metadata"]["labels"][TYPE_LABEL]], "pods": "110"}
            ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
            status = {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}
            self.plane.api.merge_patch(f"{NODES}/{each['metadata']['name']}/status", {"status": status})


def node_pool(
    name: str,
    instance_type: str,
    *,
    limits: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Object] = (),
) -> Object:
    """A NodePool of on-demand machines that Karpenter does not take away again."""
    requirements = [
        {"key": TYPE_LABEL, "operator": "In", "values": [instance_type]},
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
    ]
    inner = {"nodeClassRef": _CLASS, "requirements": requirements, "taints": list(taints)}
    spec: Object = {
        "template": {"metadata": {"labels": dict(labels or {})}, "spec": inner},
        "disruption": {"consolidateAfter": "Never"},
    }
    if limits:
        spec["limits"] = dict(limits)
    return {**_kind("NodePool", "karpenter.sh/v1", name), "spec": spec}


def _instance_type(name: str, amounts: Mapping[str, str]) -> Object:
    where = (("karpenter.sh/capacity-type", "on-demand"), ("topology.kubernetes.io/zone", "us-east-1a"))
    requirements = [{"key": key, "operator": "In", "values": [value]} for key, value in where]
    offering = {"Price": 20, "Available": True, "Requirements": requirements}
    return {
        "name": name,
        "offerings": [offering],
        "architecture": "amd64",
        "operatingSystems": ["linux"],
        "resources": dict(amounts),
    }


def _kind(kind: str, version: str, name: str) -> Object:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}}


def _is_ready(found: Object) -> bool:
    conditions = found.get("status", {}).get("conditions") or []
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
