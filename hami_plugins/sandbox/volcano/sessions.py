"""One session of the scheduler: which waiting pods go where. Values alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from hami_plugins.inputs.workloads import gangs
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.pods import Pod
from hami_plugins.plan import Planner, PodPlan
from hami_plugins.plan.submission import in_gang
from hami_plugins.queueing.stages import PlanUnit
from hami_plugins.wire import objects
from hami_plugins.wire.fields import Json
from hami_plugins.wire.gang_keys import GROUP_KEY, QUEUE_KEY

SCHEDULER: Final = "volcano"


def is_volcanos(pod: Json) -> bool:
    """Whether a pod names Volcano as its scheduler."""
    return (pod.get("spec") or {}).get("schedulerName") == SCHEDULER


def waits(pod: Json) -> bool:
    """Whether a pod waits for a scheduler."""
    spec = pod.get("spec") or {}
    return (
        not spec.get("nodeName")
        and not spec.get("schedulingGates")
        and not pod["metadata"].get("deletionTimestamp")
        and (pod.get("status") or {}).get("phase") in (None, "Pending")
    )


def group_of(pod: Json) -> str:
    """The PodGroup that a pod names; empty for none."""
    return str((pod["metadata"].get("annotations") or {}).get(GROUP_KEY, ""))


def decide(snapshot: ClusterSnapshot, waiting: Iterable[Json], planner: Planner, *, now_ns: int) -> tuple[PodPlan, ...]:
    """What becomes of the waiting pods, oldest first, gang by gang."""
    pods = [objects.pod(raw) for raw in _in_order(waiting)]
    names = {pod.full_name for pod in pods}
    # Quotas were counted when the pods were created.
    before = replace(snapshot, quotas={}, pending=tuple(pod for pod in snapshot.pending if pod.full_name not in names))
    return planner.plan(before, _units(before, pods), now_ns=now_ns).pods


def binding(pod: Json, node: str) -> dict[str, Any]:
    """The Binding that Volcano posts: it carries the pod's older annotations, and not what was just written."""
    metadata = pod["metadata"]
    named = {"name": metadata["name"], "namespace": metadata["namespace"], "uid": metadata["uid"]}
    older = dict(metadata.get("annotations") or {})
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": named | ({"annotations": older} if older else {}),
        "target": {"kind": "Node", "name": node},
    }


def as_placed(pod: Json, written: Mapping[str, str], node: str) -> Json:
    """The pod as it will be seen once the writes have come back."""
    metadata = pod["metadata"]
    annotations = {**(metadata.get("annotations") or {}), **written}
    return {
        **pod,
        "metadata": {**metadata, "annotations": annotations},
        "spec": {**pod["spec"], "nodeName": node},
    }


def unschedulable(message: str, *, reason: str = "Unschedulable") -> dict[str, Any]:
    """The condition that says why a pod has no place."""
    return {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}


def by_group(waiting: Iterable[Json]) -> dict[str, list[Json]]:
    """The pods of each PodGroup (``namespace/name``), oldest first."""
    found: dict[str, list[Json]] = {}
    for raw in _in_order(waiting):
        found.setdefault(f"{raw['metadata']['namespace']}/{group_of(raw)}", []).append(raw)
    return found


def _in_order(waiting: Iterable[Json]) -> list[Json]:
    return sorted(waiting, key=lambda raw: (str(raw["metadata"].get("creationTimestamp")), raw["metadata"]["name"]))


def _units(snapshot: ClusterSnapshot, pods: Iterable[Pod]) -> list[PlanUnit]:
    members: dict[str, list[Pod]] = {}
    for pod in pods:
        group = pod.annotations.get(GROUP_KEY, "")
        members.setdefault(f"{pod.namespace}/{group}" if group else f"pod {pod.full_name}", []).append(pod)
    return [_unit(snapshot, name, tuple(each)) for name, each in members.items()]


def _unit(snapshot: ClusterSnapshot, name: str, pods: tuple[Pod, ...]) -> PlanUnit:
    alone = PlanUnit(name=name, pods=pods, queue=pods[0].annotations.get(QUEUE_KEY, ""))
    if GROUP_KEY not in pods[0].annotations:
        return alone
    groups: Mapping[str, Any] = snapshot.pod_groups
    return in_gang(alone, gangs.of_group(name, groups.get(name)))
