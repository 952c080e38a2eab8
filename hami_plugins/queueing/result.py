"""The cluster after a plan as its scheduler sees it: planned PodGroups count, and planned pods wait or run in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from hami_plugins.model.cluster import ClusterSnapshot, PodGroup
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.pods import Pod
from hami_plugins.queueing.jobs import QueuedJob
from hami_plugins.queueing.queues import INQUEUE, RUNNING
from hami_plugins.wire.gang_keys import GROUP_KEY

_NO_REPLICAS: Final[Mapping[str, str]] = {}


def standing(
    snapshot: ClusterSnapshot,
    jobs: Sequence[QueuedJob],
    waiting: Iterable[tuple[str, Pod]],
    replicas: Mapping[str, str] = _NO_REPLICAS,
) -> ClusterSnapshot:
    """The snapshot that a plan ended with, with the groups of the Volcano jobs that were let in.

    ``waiting`` are the pods that found no place, each with the name of its unit; ``replicas`` are the units of placed
    pods that their units do not list, by the full name of the pod.
    """
    counted = [job for job in jobs if job.volcano and (job.known is not None or job.counts is not None)]
    groups = {job.unit.name: _group(job) for job in counted}
    if not groups:
        return snapshot
    of_pod = {pod.full_name: groups[job.unit.name] for job in counted for pod in job.unit.pods}
    of_pod |= {pod: groups[unit] for pod, unit in replicas.items() if unit in groups}
    nodes = tuple(_with_groups(entry, of_pod) for entry in snapshot.nodes)
    left = [_member(pod, groups.get(unit)) for unit, pod in waiting]
    named = {pod.full_name for pod in left} | of_pod.keys()
    others = (pod for pod in snapshot.pending if pod.full_name not in named)
    return replace(
        snapshot,
        nodes=nodes,
        pending=(*others, *left),
        pod_groups={**snapshot.pod_groups, **{group.full_name: group for group in groups.values()}},
    )


def grouped(
    snapshot: ClusterSnapshot, jobs: Sequence[QueuedJob], replicas: Mapping[str, str] = _NO_REPLICAS
) -> ClusterSnapshot:
    """The snapshot with the PodGroups that Volcano makes for the jobs of a plan, and with its pods in them.

    ``replicas`` as in ``standing``.
    """
    groups = {job.unit.name: _group(job) for job in jobs if job.volcano and job.known is None}
    if not groups:
        return snapshot
    of_pod = {pod.full_name: groups[job.unit.name] for job in jobs if job.unit.name in groups for pod in job.unit.pods}
    of_pod |= {pod: groups[unit] for pod, unit in replicas.items() if unit in groups}
    return replace(
        snapshot,
        nodes=tuple(_with_groups(entry, of_pod) for entry in snapshot.nodes),
        pod_groups={**snapshot.pod_groups, **{group.full_name: group for group in groups.values()}},
    )


def _group(job: QueuedJob) -> PodGroup:
    """The PodGroup of a job as the plan leaves it; a pod that names none has one that is called by the pod."""
    if job.known is not None:
        phase = RUNNING if job.ready else INQUEUE if job.counts is not None else job.known.phase
        return replace(job.known, phase=phase)
    first = job.unit.pods[0] if job.unit.pods else None
    namespace, _, name = (job.unit.group or (first.full_name if first else job.unit.name)).partition("/")
    return PodGroup(
        namespace=namespace,
        name=name if job.unit.group else f"podgroup-{name}",
        min_member=job.need.members,
        min_by_task=dict(job.need.by_task),
        queue=job.queue,
        min_resources=job.counts,
        phase=RUNNING if job.ready else INQUEUE,
        priority_class=job.unit.priority_class,
    )


def _with_groups(entry: NodeEntry, of_pod: dict[str, PodGroup]) -> NodeEntry:
    if not any(not record.group and record.full_name in of_pod for record in entry.pods):
        return entry
    pods = tuple(
        replace(record, group=of_pod[record.full_name].name, queue=of_pod[record.full_name].queue)
        if not record.group and record.full_name in of_pod
        else record
        for record in entry.pods
    )
    return replace(entry, pods=pods)


def _member(pod: Pod, group: PodGroup | None) -> Pod:
    if group is None or pod.annotations.get(GROUP_KEY):
        return pod
    return replace(pod, annotations={**pod.annotations, GROUP_KEY: group.name})
