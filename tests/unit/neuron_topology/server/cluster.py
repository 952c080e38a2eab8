"""Books with Trainium nodes in them, and what schedulers and the API server send about them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from hami_plugins.allocator.bindings import Bindings
from hami_plugins.allocator.kube_extender import SchedulerExtender
from hami_plugins.allocator.locked_cache import LockedAllocationCache
from hami_plugins.allocator.metrics import AllocatorMetrics
from hami_plugins.allocator.settings import AllocatorSettings
from hami_plugins.allocator.volcano_extender import Extender
from hami_plugins.errors import KubeError
from hami_plugins.kube.reflector import ObjectChange
from hami_plugins.wire.admission_review import AdmissionRequest
from hami_plugins.wire.fields import Json
from neuron_topology.core.gangs.gangs import Gangs
from neuron_topology.core.hardware.instances import INSTANCE_TYPES
from neuron_topology.core.names import CORES, DEVICES, INSTANCE_LABEL
from neuron_topology.core.nodes import FAMILY_LABEL
from tests import raw_objects
from tests.unit.allocator import products
from tests.unit.allocator.products import MARK

TRN1 = "trn1.32xlarge"
NOW_NS = 1_790_000_000_000_000_000


def a_node(
    name: str = "n1",
    kind: str = TRN1,
    *,
    family: str = "linked",
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """A node as AWS's plugin describes one of its type."""
    known = INSTANCE_TYPES[kind]
    amounts = {DEVICES: str(known.devices), CORES: str(known.devices * known.logical_cores())}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "labels": {INSTANCE_LABEL: kind, FAMILY_LABEL: family, **(labels or {})},
            "annotations": dict(annotations or {}),
        },
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def a_pod(
    name: str = "p",
    devices: int = 4,
    *,
    cores: int = 0,
    node: str = "",
    annotations: Mapping[str, str] | None = None,
    scheduler: str = "volcano",
) -> dict[str, Any]:
    """A pod that asks for whole devices, or for ``cores``; with ``node`` it is bound there."""
    limits = {CORES: str(cores)} if cores else {DEVICES: str(devices)}
    main = raw_objects.container(limits=limits, requests=limits, image="i")
    metadata = {"namespace": "x", "uid": f"uid-{name}", "annotations": dict(annotations or {})}
    return raw_objects.pod(name, main, metadata=metadata, node=node, scheduler=scheduler, phase="Pending")


def task(pod: Json, node: str = "") -> dict[str, Any]:
    """A task as Volcano's session has it."""
    metadata = pod["metadata"]
    names = {"UID": metadata["uid"], "Name": metadata["name"], "Namespace": metadata["namespace"]}
    return {**names, "NodeName": node, "Pod": pod}


class Cluster:
    """Books, and who asks them. ``server`` is what the API server has, where that is ahead of the watch."""

    def __init__(self, *nodes: Json, settings: AllocatorSettings | None = None) -> None:
        self.time = 0.0
        self.metrics = AllocatorMetrics()
        self.server: dict[tuple[str, str], Json | KubeError] = {}
        self.settings = settings or products.settings()
        self.now = 1_800_000_000.0
        known = products.product(found=self.settings)
        product = replace(known, planner=lambda: Gangs(now=lambda: self.now))
        self.cache = LockedAllocationCache(product, keep=90.0, hold=15.0, clock=lambda: self.time)
        self.extender = Extender(self.cache, read=self._read, weight=self.settings.weight, metrics=self.metrics)
        self.bindings = Bindings(
            cache=self.cache,
            metrics=self.metrics,
            read=self._read,
            now_ns=lambda: NOW_NS,
            touch=lambda _node: None,
        )
        self.posted: list[tuple[str, Json]] = []
        self.fails: KubeError | None = None
        self.meanwhile: Callable[[], None] = lambda: None
        self.scheduler = SchedulerExtender(
            cache=self.cache,
            read=self._read,
            create=self._create,
            marker={MARK: "extender"},
            metrics=self.metrics,
            now_ns=lambda: NOW_NS,
        )
        for node in nodes or (a_node(),):
            self.shows_node(node)

    def shows_node(self, node: Json, kind: Any = "modified") -> None:
        """The watch shows a node."""
        self.cache.node_changed(ObjectChange(kind, node, node["metadata"]["uid"]))

    def shows(self, pod: Json, kind: Any = "modified") -> None:
        """The watch shows a pod."""
        self.cache.pod_changed(ObjectChange(kind, pod, pod["metadata"]["uid"]))

    def bind(self, pod: Json, node: str = "n1", *, dry: bool = False, **metadata: Any) -> Any:
        """The answer to the Binding that a scheduler sends for a pod."""
        told = {name: pod["metadata"][name] for name in ("name", "namespace", "uid")} | metadata
        binding = {"metadata": told, "target": {"kind": "Node", "name": node}}
        request = AdmissionRequest(
            uid="r",
            operation="CREATE",
            group="",
            version="v1",
            resource="pods",
            subresource="binding",
            namespace="x",
            name=pod["metadata"]["name"],
            object=binding,
            dry_run=dry,
        )
        return self.bindings(request)

    def bound(self, pod: Json, node: str = "n1") -> Json:
        """The pod after its Binding, as the watch shows it then; ``AssertionError`` where the Binding is refused."""
        written = said(self.bind(pod, node))
        assert written, f"{pod['metadata']['name']} was bound without an allocation"
        metadata = {**pod["metadata"], "annotations": {**pod["metadata"]["annotations"], **written}}
        shown = {**pod, "metadata": metadata, "spec": {**pod["spec"], "nodeName": node}}
        self.shows(shown)
        return shown

    def predicate(self, pod: Json, node: str = "n1") -> str:
        """Why a node does not take a pod."""
        body = {"task": task(pod), "node": {"Name": node, "Node": {}}}
        reply = self.extender.predicate(json.dumps(body, separators=(",", ":")).encode())
        return str(json.loads(reply)["status"])

    def prioritize(self, pod: Json, *nodes: str) -> dict[str, float]:
        """The scores of nodes."""
        body = {"task": task(pod), "nodes": [{"Name": node} for node in nodes]}
        reply = json.loads(self.extender.prioritize(json.dumps(body).encode()))
        assert not reply["errorMessage"]
        return dict(reply["nodeScore"])

    def allocate(self, pod: Json, node: str = "n1") -> str:
        """Why a node's devices cannot be reserved for a pod that the watch shows."""
        return str(json.loads(self.extender.allocate(json.dumps({"task": task(pod, node)}).encode()))["errorMessage"])

    def deallocate(self, pod: Json, node: str = "n1") -> None:
        """A session gives the pod up."""
        self.extender.deallocate(json.dumps({"task": task(pod, node)}).encode())

    def filter(self, pod: Json, *nodes: str) -> tuple[list[str], dict[str, str]]:
        """The nodes that take a pod according to kube-scheduler's extender, and why the others do not."""
        body = json.dumps({"Pod": pod, "Nodes": None, "NodeNames": nodes}).encode()
        reply = json.loads(self.scheduler.filter(body))
        assert not reply["Error"]
        return reply["NodeNames"], (reply["FailedNodes"] or {}) | (reply["FailedAndUnresolvableNodes"] or {})

    def rank(self, pod: Json, *nodes: str) -> dict[str, int]:
        """The scores of kube-scheduler's extender."""
        body = json.dumps({"Pod": pod, "Nodes": None, "NodeNames": nodes}).encode()
        return {each["Host"]: each["Score"] for each in json.loads(self.scheduler.prioritize(body))}

    def bind_by_extender(self, pod: Json, node: str = "n1") -> str:
        """Why kube-scheduler's extender does not bind a pod."""
        metadata = pod["metadata"]
        names = {"PodName": metadata["name"], "PodNamespace": metadata["namespace"], "PodUID": metadata["uid"]}
        return str(json.loads(self.scheduler.bind(json.dumps({**names, "Node": node}).encode()))["Error"])

    def _create(self, path: str, body: Json) -> None:
        self.posted.append((path, body))
        self.meanwhile()
        if self.fails is not None:
            raise self.fails

    def _read(self, namespace: str, name: str) -> Json | None:
        found = self.server.get((namespace, name))
        if isinstance(found, KubeError):
            raise found
        return found


def said(answer: Any) -> dict[str, str]:
    """The annotations that an answer adds to a Binding; nothing where it is left alone."""
    found: dict[str, str] = {}
    for operation in getattr(answer, "operations", ()):
        *above, last = operation["path"].split("/")
        if "labels" in (*above, last):
            continue
        if last == "annotations":
            found |= operation["value"]
        elif last == "metadata":
            found |= operation["value"]["annotations"]
        elif operation["op"] != "remove":
            found[last.replace("~1", "/").replace("~0", "~")] = operation["value"]
    return found
