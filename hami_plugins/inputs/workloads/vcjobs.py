"""Volcano Jobs (``batch.volcano.sh/v1alpha1``) to pods and gang, with the defaults of Volcano's webhook."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from hami_plugins.inputs.manifests.fields import Field
from hami_plugins.inputs.workloads import gangs
from hami_plugins.inputs.workloads.gangs import Gang
from hami_plugins.inputs.workloads.pod_copies import CopyRun, PodCopies
from hami_plugins.inputs.workloads.pods import MAX_PODS, VOLCANO, template
from hami_plugins.wire.gang_keys import GROUP_KEY, JOB_QUEUE_KEY, TASK_INDEX_KEY, TASK_KEY

_DNS_LABEL: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_HANDED_DOWN: Final = (
    "volcano.sh/preemptable",
    "volcano.sh/cooldown-time",
    "volcano.sh/revocable-zone",
    "volcano.sh/jdb-min-available",
    "volcano.sh/jdb-max-unavailable",
)
"""Annotations of the job that its controller copies onto pods."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Job:
    namespace: str
    name: str
    queue: str
    scheduler: str
    priority_class: str
    group: str
    annotations: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Task:
    field: Field
    name: str
    replicas: int
    min_available: int


def expand(spec: Field, metadata: Field, namespace: str, name: str) -> tuple[PodCopies, Gang, str]:
    """The pods of a Volcano Job, its gang and its priority class, from the ``spec`` and ``metadata`` of the job.

    Raises ``ManifestError`` for what Volcano's webhook refuses: no tasks, names that cannot be a pod's, fewer replicas
    than are needed to start.
    """
    tasks = tuple(_tasks(spec))
    if not tasks:
        raise spec.fault("a job needs tasks")
    total = sum(task.replicas for task in tasks)
    if total > MAX_PODS:
        raise spec.fault(f"{total} pods are more than {MAX_PODS}, the most that is read; split the job", "tasks")
    # The webhook cannot tell 0 from absent.
    min_member = spec.count("minAvailable", 0) or sum(task.min_available for task in tasks)
    if min_member > total:
        raise spec.fault(f"{min_member} is more than the {total} replicas of all tasks", "minAvailable")
    uid = metadata.text("uid")
    job = _Job(
        namespace=namespace,
        name=name,
        queue=spec.text("queue") or gangs.DEFAULT_QUEUE,
        scheduler=spec.text("schedulerName") or VOLCANO,
        priority_class=spec.text("priorityClassName"),
        group=f"{name}-{uid}" if uid else name,
        annotations=metadata.texts("annotations"),
    )
    gang = gangs.gang(
        f"{namespace}/{job.group}",
        min_member=min_member,
        min_by_task={task.name: task.min_available for task in tasks},
        queue=job.queue,
        annotations=job.annotations,
    )
    return PodCopies(tuple(_run(job, task) for task in tasks)), gang, job.priority_class


def _tasks(spec: Field) -> Iterator[_Task]:
    seen: set[str] = set()
    for at, field in enumerate(spec.items("tasks")):
        name = field.text("name") or f"default{at}"
        if _DNS_LABEL.fullmatch(name) is None:
            raise field.fault(f"{name[:80]!r} cannot be part of a pod's name; use a-z, 0-9 and -", "name")
        if name in seen:
            raise field.fault(f"another task is also called {name!r}", "name")
        seen.add(name)
        replicas = field.count("replicas", 1, most=MAX_PODS)
        min_available = field.count("minAvailable", _partitions(field) or replicas)
        if min_available > replicas:
            raise field.fault(f"{min_available} is more than the task's {replicas} replicas", "minAvailable")
        yield _Task(field=field, name=name, replicas=replicas, min_available=min_available)


def _partitions(task: Field) -> int:
    """How many pods the least number of partitions has; 0 for a task that is not partitioned."""
    policy = task.inner("partitionPolicy")
    return policy.count("minPartitions", 0) * policy.count("partitionSize", 0)


def _run(job: _Job, task: _Task) -> CopyRun:
    written = template(task.field.needed("template"), job.namespace)
    spec = dict(written.spec)
    spec["schedulerName"] = written.scheduler or job.scheduler
    if not written.priority_class and job.priority_class:
        spec["priorityClassName"] = job.priority_class
    labels = {
        **written.labels,
        "volcano.sh/job-name": job.name,
        "volcano.sh/job-namespace": job.namespace,
        JOB_QUEUE_KEY: job.queue,
        TASK_KEY: task.name,
    }
    annotations = {**written.annotations, **_stamps(job, task)}
    of = replace(written, spec=spec, labels=labels, annotations=annotations)
    return CopyRun(of, f"{job.name}-{task.name}", task.replicas, index_key=TASK_INDEX_KEY)


def _stamps(job: _Job, task: _Task) -> Mapping[str, str]:
    """What the job controller writes on each pod of a task of a new job."""
    stamps = {
        GROUP_KEY: job.group,
        "volcano.sh/job-name": job.name,
        "volcano.sh/job-version": "0",
        "volcano.sh/job-retry-count": "0",
        JOB_QUEUE_KEY: job.queue,
        TASK_KEY: task.name,
        "volcano.sh/template-uid": f"{job.name}-{task.name}",
    }
    if policy := task.field.text("topologyPolicy"):
        stamps["volcano.sh/numa-topology-policy"] = policy
    return stamps | {key: job.annotations[key] for key in _HANDED_DOWN if key in job.annotations}
