"""Books with a cluster in them, and what schedulers and the API server send about it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from hami_plugins.allocations.mode import AllocatorMode
from hami_plugins.allocator.bindings import Bindings
from hami_plugins.allocator.locked_cache import LockedAllocationCache
from hami_plugins.allocator.metrics import AllocatorMetrics
from hami_plugins.allocator.volcano_extender import Extender
from hami_plugins.errors import KubeError
from hami_plugins.kube.reflector import ObjectChange
from hami_plugins.model.units import NodeName
from hami_plugins.wire.admission_review import AdmissionRequest
from hami_plugins.wire.fields import Json
from tests import raw_objects
from tests.unit.allocator.products import product, settings

NUMBER, MEMORY, CORES = "volcano.sh/vgpu-number", "volcano.sh/vgpu-memory", "volcano.sh/vgpu-cores"
IDS, NODE = "volcano.sh/vgpu-ids-new", "volcano.sh/vgpu-node"


def a_node(name: str = "n1", *, cards: int = 1, memory: int = 40_960, healthy: str = "true") -> dict[str, Any]:
    """A node with cards called ``GPU-<node>-<number>``."""
    register = "".join(f"GPU-{name}-{at},10,{memory},NVIDIA-A100,{healthy},hami-core:" for at in range(cards))
    annotations = {"volcano.sh/node-vgpu-register": register} if cards else {}
    return {"metadata": {"name": name, "uid": f"uid-{name}", "annotations": annotations}, "status": {}}


def a_pod(
    name: str = "p", *, memory: int = 10_000, node: str = "", ids: str = "", limits: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """A pod that asks for a slice of one card; with ``node`` it is bound, with ``ids`` it has an allocation there.

    A pod with ``ids`` asks for that, unless it has ``limits``.
    """
    first = re.search(r",NVIDIA,(\d+),(\d+):", ids)
    amounts = dict(zip((MEMORY, CORES), first.groups(), strict=True)) if first else {MEMORY: str(memory)}
    asks = raw_objects.container(limits=dict(limits or {NUMBER: "1", **amounts}))
    metadata = {"namespace": "x", "uid": f"uid-{name}", "annotations": {IDS: ids, NODE: node} if ids else {}}
    return raw_objects.pod(name, asks, metadata=metadata, node=node, scheduler="volcano", phase="Pending")


class Cluster:
    """Books, and who asks them. ``server`` is what the API server has, where that is ahead of the watch."""

    def __init__(
        self, *nodes: Json, mode: AllocatorMode = AllocatorMode.EXTENDER, policy: str = "binpack", weight: float = 10.0
    ) -> None:
        self.time = 0.0
        self.metrics = AllocatorMetrics()
        self.server: dict[tuple[str, str], Json | KubeError] = {}
        self.reads = 0
        self.touched: list[str] = []
        volcano = {"mode": mode, "schedulePolicy": policy}
        found = product(found=settings(volcano=volcano))
        self.cache = LockedAllocationCache(found, keep=90.0, clock=lambda: self.time)
        self.extender = Extender(self.cache, read=self._read, weight=weight, metrics=self.metrics)
        self.bindings = Bindings(
            cache=self.cache,
            metrics=self.metrics,
            read=self._read,
            now_ns=lambda: 1_790_000_000_000_000_000,
            touch=self.touched.append,
        )
        for node in nodes or (a_node(),):
            self.cache.node_changed(ObjectChange("added", node, node["metadata"]["uid"]))

    def shows(self, pod: Json, kind: Any = "modified") -> None:
        """The watch shows a pod."""
        self.cache.pod_changed(ObjectChange(kind, pod, pod["metadata"]["uid"]))

    def bind(self, pod: Json, node: str = "n1", *, dry: bool = False, **metadata: Any) -> Any:
        """The answer to the Binding that Volcano sends for a pod."""
        told = {name: pod["metadata"][name] for name in ("name", "namespace", "uid")} | metadata
        binding = {"metadata": told, "target": {"kind": "Node", "name": node}}
        return self.bindings(request(binding, name=pod["metadata"]["name"], dry=dry))

    def predicate(self, pod: Json, node: str = "n1") -> Any:
        """The reply to a predicate call."""
        body = {"task": task(pod), "node": {"Name": node, "Node": {}}}
        return json.loads(self.extender.predicate(json.dumps(body, separators=(",", ":")).encode()))

    def event(self, verb: str, pod: Json, node: str = "n1", *, job: str = "") -> str:
        """The error in the reply to ``allocate`` or ``deallocate`` for a pod that the API server has."""
        metadata = pod["metadata"]
        self.server.setdefault((metadata["namespace"], metadata["name"]), pod)
        return self.sent(verb, pod, node, job=job)

    def sent(self, verb: str, pod: Json, node: str = "n1", *, job: str = "") -> str:
        """The same for a pod that need not be anywhere."""
        body = json.dumps({"task": task(pod, node) | {"Job": job}}).encode()
        answer = self.extender.allocate if verb == "allocate" else self.extender.deallocate
        return str(json.loads(answer(body))["errorMessage"])

    def prioritize(self, pod: Json, *nodes: str) -> Any:
        """The reply to a prioritize call."""
        body = {"task": task(pod), "nodes": [{"Name": node} for node in nodes]}
        return json.loads(self.extender.prioritize(json.dumps(body).encode()))

    def counted(self, kind: str, outcome: str) -> float:
        """How many answers of a kind had an outcome."""
        return self.metrics.metrics.value("answers_total", kind=kind, outcome=outcome) or 0.0

    def _read(self, namespace: str, name: str) -> Json | None:
        self.reads += 1
        found = self.server.get((namespace, name))
        if isinstance(found, KubeError):
            raise found
        return found


def request(binding: Json | None, *, name: str = "p", dry: bool = False) -> AdmissionRequest:
    """A Binding as the API server shows it to a webhook."""
    return AdmissionRequest(
        uid="r1",
        operation="CREATE",
        group="",
        version="v1",
        resource="pods",
        subresource="binding",
        namespace="x",
        name=name,
        dry_run=dry,
        object=None if binding is None else dict(binding),
    )


def task(pod: Json, node: str = "") -> dict[str, Any]:
    """A pod as a session of Volcano has it."""
    metadata = pod["metadata"]
    return {
        "UID": metadata["uid"],
        "Name": metadata["name"],
        "Namespace": metadata["namespace"],
        "NodeName": NodeName(node),
        "Pod": pod,
    }


def written(answer: Any) -> dict[str, str]:
    """The annotations that an answer puts on a Binding."""
    found: dict[str, str] = {}
    for step in answer.operations:
        if step["path"] == "/metadata/annotations":
            found |= step["value"]
        else:
            found[step["path"].removeprefix("/metadata/annotations/").replace("~1", "/")] = step["value"]
    return found
