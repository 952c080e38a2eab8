"""From what people submit to what a plan decides: units of pods that start together, and the objects around them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from hami_plugins.engine import replicas
from hami_plugins.engine.claims.usage import together
from hami_plugins.engine.eligibility import objection
from hami_plugins.inputs.workloads import Submission, Workload
from hami_plugins.inputs.workloads.gangs import Gang
from hami_plugins.inputs.workloads.pods import PodCopy
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.pods import NodeConstraints, Pod, Toleration
from hami_plugins.plan.planner import PlanUnit
from hami_plugins.wire import objects
from hami_plugins.wire.gang_keys import TASK_KEY


def with_objects(snapshot: ClusterSnapshot, submission: Submission) -> ClusterSnapshot:
    """The snapshot with the queues, pod groups, quotas and claims that are submitted along; the submitted ones win."""
    return replace(
        snapshot,
        queues={**snapshot.queues, **submission.queues},
        pod_groups={**snapshot.pod_groups, **submission.pod_groups},
        quotas={**snapshot.quotas, **submission.quotas},
        priorities={**snapshot.priorities, **submission.priorities},
        never_preempting=(snapshot.never_preempting - submission.priorities.keys()) | submission.never_preempting,
        dynamic=together(snapshot.dynamic, submission.dynamic),
    )


def units(submission: Submission, snapshot: ClusterSnapshot) -> tuple[PlanUnit, ...]:
    """What to plan, in the order of the documents; the members of one gang stand where its first member stood."""
    made: dict[str, PlanUnit] = {}
    for workload in submission.workloads:
        listed = tuple(_pods(workload, snapshot))
        pods, counts = tuple(pod for pod, _ in listed), tuple(count for _, count in listed)
        key = f"gang {workload.gang.group}" if workload.gang is not None else f"{workload.kind} {workload.full_name}"
        known = made.get(key)
        if known is not None:
            notes = tuple(dict.fromkeys((*known.notes, *workload.notes)))
            counts = known.numbers + counts
            pods, tasks = known.pods + pods, known.tasks + _tasks(pods)
            made[key] = replace(known, pods=pods, tasks=tasks, notes=notes, counts=_written(counts))
        else:
            made[key] = replace(_unit(workload, pods), counts=_written(counts))
    return tuple(made.values())


def _written(counts: tuple[int, ...]) -> tuple[int, ...]:
    """The numbers of pods, where any is not one."""
    return counts if any(count != 1 for count in counts) else ()


def in_gang(unit: PlanUnit, gang: Gang) -> PlanUnit:
    """The unit, its pods held together."""
    return replace(
        unit,
        gang=True,
        group=gang.group,
        exists=gang.exists,
        queue=gang.queue,
        min_member=gang.min_member,
        tasks=_tasks(unit.pods),
        min_by_task=tuple(sorted(gang.min_by_task.items())),
    )


def _unit(workload: Workload, pods: tuple[Pod, ...]) -> PlanUnit:
    alone = PlanUnit(
        name=f"{workload.kind.lower()}/{workload.full_name}",
        pods=pods,
        queue=workload.queue,
        tasks=_tasks(pods),
        priority_class=workload.priority_class,
        notes=workload.notes,
    )
    if workload.gang is None:
        return alone
    return replace(in_gang(alone, workload.gang), made_late=workload.is_volcano_job)


def _tasks(pods: tuple[Pod, ...]) -> tuple[str, ...]:
    return tuple(pod.annotations.get(TASK_KEY, "") for pod in pods)


def _pods(workload: Workload, snapshot: ClusterSnapshot) -> Iterator[tuple[Pod, int]]:
    """The pods of a workload, the first ``ONE_BY_ONE`` of a run by themselves, the rest as one with their number."""
    for single in workload.pods.single:
        yield _pod(workload, single), 1
    for run in workload.pods.runs:
        if not run.count:
            continue
        first = _pod(workload, run.copy(0))
        if workload.per_node:
            yield from ((pod, 1) for pod in _one_per_node(first, snapshot))
            continue
        for at in range(min(run.count, ONE_BY_ONE)):
            yield (_replica(first, run.copy(at)) if at else first), 1
        if run.count > ONE_BY_ONE:
            yield replicas.later(first, ONE_BY_ONE), run.count - ONE_BY_ONE


def _pod(workload: Workload, copy: PodCopy) -> Pod:
    """A pod with what only its workload tells."""
    pod = objects.pod(copy.raw)
    if workload.gang is not None and workload.gang.annotations:
        pod = replace(pod, of_group=workload.gang.annotations)
    if not workload.is_volcano_job:
        return pod
    return replace(pod, template_requests=objects.pod(copy.raw, default_requests=False).constraints.requests)


def _replica(pod: Pod, copy: PodCopy) -> Pod:
    """Another pod of the same spec: what was read of that need not be read again."""
    metadata = copy.raw["metadata"]
    if not isinstance(metadata, Mapping) or any(pod.neighbours):
        return replace(objects.pod(copy.raw), of_group=pod.of_group, template_requests=pod.template_requests)
    return replace(pod, name=copy.name, labels=metadata["labels"], annotations=metadata["annotations"])


ONE_BY_ONE: Final = 1_000
"""Pods of a run that are listed by themselves whatever becomes of them; of the others those that find a place are."""

_OF_DAEMON_SETS: Final = (
    *(
        Toleration(key=f"node.kubernetes.io/{condition}", operator="Exists", effect="NoExecute")
        for condition in ("not-ready", "unreachable")
    ),
    *(
        Toleration(key=f"node.kubernetes.io/{condition}", operator="Exists", effect="NoSchedule")
        for condition in ("disk-pressure", "memory-pressure", "pid-pressure", "unschedulable")
    ),
)
"""What the DaemonSet controller adds to its pods, so that they also run on cordoned and troubled nodes."""


def _one_per_node(pod: Pod, snapshot: ClusterSnapshot) -> Iterator[Pod]:
    """A DaemonSet's pod for every node that its selectors and tolerations allow, whether it has room or not."""
    tolerant = replace(pod.constraints, tolerations=(*pod.constraints.tolerations, *_OF_DAEMON_SETS))
    pod = replace(pod, constraints=tolerant)
    unlimited = [resource for resource, _ in tolerant.requests]
    for entry in snapshot.nodes:
        if objection(replace(entry, requested={}), tolerant, unlimited) is None:
            pinned: NodeConstraints = replace(pod.constraints, node=entry.name)
            yield replace(pod, name=f"{pod.name}-{entry.name}", constraints=pinned)
