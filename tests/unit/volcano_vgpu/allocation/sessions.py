"""A cluster of cards under Volcano whose pods may be evicted, and the calls that its sessions make."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hami_plugins.allocations.mode import PreemptionMode
from hami_plugins.allocator.preemption_objects import PreemptionObjects
from hami_plugins.allocator.settings import PreemptionSettings
from hami_plugins.allocator.volcano_extender import Extender
from hami_plugins.allocator.volcano_objects import VolcanoObjects
from hami_plugins.allocator.volcano_planner import VolcanoPlanner
from hami_plugins.allocator.volcano_preemption import VolcanoPreemption
from hami_plugins.kube.reflector import ObjectChange
from hami_plugins.model.pods import Pod
from hami_plugins.model.units import NodeName
from hami_plugins.preemption.values import EvictedPod
from hami_plugins.wire.fields import Json
from tests.unit.volcano_vgpu.allocation.cluster import Cluster, a_node, a_pod, task

GROUP = "scheduling.k8s.io/group-name"
PENDING, ALLOCATED, PIPELINED, BOUND, RUNNING, RELEASING = 1, 2, 4, 16, 32, 64


@dataclass
class Evictor:
    """Records the victims, and the pods they make room for."""

    asked: list[tuple[list[str], list[str]]] = field(default_factory=list)
    written: dict[str, str] = field(default_factory=dict)
    most: int = 1000
    why: str = ""
    finishes: bool = False
    dry_runs: list[str] = field(default_factory=list)

    def allows(self, more: int) -> bool:
        return more <= self.most

    def refusal(self, victims: Sequence[EvictedPod]) -> str:
        self.dry_runs += [each.pod.name for each in victims]
        return self.why

    def evict(
        self, waiting: Sequence[tuple[Pod, NodeName]], victims: Sequence[EvictedPod], *, finish: bool = False
    ) -> None:
        self.finishes = finish
        self.written.update((pod.name, node) for pod, node in waiting)
        if victims:
            self.asked.append(([pod.name for pod, _ in waiting], sorted(each.pod.name for each in victims)))

    @property
    def victims(self) -> list[str]:
        return sorted(name for _, names in self.asked for name in names)


def low(
    name: str = "low", card: str = "n1-0", memory: int = 30_000, *, priority: int = 100, group: str = "", **more: str
) -> Json:
    """A pod that runs on a card (``<node>-<number>``)."""
    pod = a_pod(name, node=card.rpartition("-")[0], ids=f"GPU-{card},NVIDIA,{memory},0:")
    return member(pod, group or f"podgroup-{name}", priority, **more)


def high(name: str = "high", memory: int = 20_000, *, group: str = "", priority: int = 1000, **more: Any) -> Json:
    """A pod that waits."""
    return member(a_pod(name, memory=memory), group or f"podgroup-{name}", priority, **more)


def member(pod: Json, group: str, priority: int, **annotations: str) -> Json:
    metadata = {**pod["metadata"], "annotations": {**pod["metadata"]["annotations"], GROUP: group, **annotations}}
    status = {"phase": "Running"} if pod["spec"].get("nodeName") else pod["status"]
    return {**pod, "metadata": metadata, "spec": {**pod["spec"], "priority": priority}, "status": status}


def job_of(pod: Json) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['annotations'][GROUP]}"


class Sessions(Cluster):
    """With a preemption of its own; the watch shows all that is listed."""

    def __init__(
        self, *nodes: Json, mode: PreemptionMode = PreemptionMode.FULL, classes: tuple[str, ...] = ("*",)
    ) -> None:
        super().__init__(*nodes)
        self.evictor = Evictor()
        self.objects, self.budgets = VolcanoObjects(), PreemptionObjects()
        planner = VolcanoPlanner(self.cache, self.budgets, self.objects)
        settings = PreemptionSettings(mode=mode, priority_classes=classes)
        self.preemption = VolcanoPreemption(
            self.cache, planner, settings, evictor=self.evictor, clock=lambda: self.time
        )
        self.extender = Extender(
            self.cache, read=self._read, weight=10.0, metrics=self.metrics, preemption=self.preemption
        )
        for node in nodes or (a_node(),):
            self.objects.node_changed(ObjectChange("added", node, node["metadata"]["uid"]))

    def group(self, name: str, minimum: int, **spec: Any) -> None:
        """A PodGroup of which so many pods start together."""
        body = {"metadata": {"namespace": "x", "name": name, "uid": name}, "spec": {"minMember": minimum, **spec}}
        self.budgets.group_changed(ObjectChange("added", body, name))

    def asks(self, pod: Json, *nodes: str) -> dict[str, int]:
        """The codes of predicate calls."""
        return {node: self._asked(pod, node)["code"] for node in nodes}

    def _asked(self, pod: Json, node: str) -> Any:
        body = {"task": task(pod) | {"Job": job_of(pod), "Status": PENDING}, "node": {"Name": node, "Node": {}}}
        return json.loads(self.extender.predicate(json.dumps(body, separators=(",", ":")).encode()))

    def ranks(self, pod: Json, *nodes: str) -> list[str]:
        """The nodes of a prioritize call, the best first."""
        body = {"task": task(pod) | {"Job": job_of(pod)}, "nodes": [{"Name": node} for node in nodes]}
        scores = json.loads(self.extender.prioritize(json.dumps(body).encode()))["nodeScore"]
        return sorted(nodes, key=lambda node: (-scores.get(node, 0.0), node))

    def may_evict(self, pod: Json, *candidates: Json, verb: str = "preemptable") -> list[str]:
        """The names of the pods that a session may evict on the node of the candidates."""
        names = {each["metadata"]["uid"]: each["metadata"]["name"] for each in candidates}
        evictees = [self._running(each, RUNNING) for each in candidates]
        body = {"evictor": task(pod) | {"Job": job_of(pod), "Status": PENDING}, "evictees": evictees or None}
        answer = getattr(self.extender, verb)(json.dumps(body).encode())
        found = json.loads(answer)
        assert found["status"] == 1
        return sorted(names[each["UID"]] for each in found["victims"])

    def _running(self, pod: Json, status: int) -> dict[str, Any]:
        return task(pod, pod["spec"]["nodeName"]) | {"Job": job_of(pod), "Status": status}

    def gives_up(self, *pods: Json) -> None:
        for pod in pods:
            self._event("deallocate", self._running(pod, RELEASING))

    def spares(self, *pods: Json) -> None:
        for pod in pods:
            self._event("allocate", self._running(pod, RUNNING))

    def pipelines(self, pod: Json, node: str) -> str:
        """The session puts the pod in the place of others; why it may not."""
        return self._event("allocate", task(pod, node) | {"Job": job_of(pod), "Status": PIPELINED})

    def takes_back(self, pod: Json, node: str) -> None:
        last = {"NodeName": node, "EvictionOccurred": True, "Status": PIPELINED}
        call = {"Job": job_of(pod), "Status": PENDING, "LastTransaction": last}
        self._event("deallocate", task(pod, node) | call)

    def closes(self) -> None:
        """The session is over."""
        assert self.extender.closed(b"{}") == b"{}"

    def deletes(self, pod: Json) -> None:
        """The watch shows that a pod is being deleted."""
        metadata = {**pod["metadata"], "deletionTimestamp": "2026-08-21T10:00:00Z"}
        self.shows({**pod, "metadata": metadata})

    def _event(self, verb: str, call: Mapping[str, Any]) -> str:
        return str(json.loads(getattr(self.extender, verb)(json.dumps({"task": call}).encode()))["errorMessage"])
