"""A job by its name: which of its pods are explained, and what holds a job of which there are none yet."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from hami_plugins.engine.intake import Rules
from hami_plugins.errors import ManifestError
from hami_plugins.explain.messages import counted
from hami_plugins.model.cluster import ClusterSnapshot, PodGroup
from hami_plugins.model.pods import Pod
from hami_plugins.queueing import queues, usage
from hami_plugins.queueing.queues import EnqueueAdmission
from hami_plugins.wire.gang_keys import TASK_KEY

JOB_LABELS: Final = ("volcano.sh/job-name", "batch.kubernetes.io/job-name")
"""What the controllers of Volcano and of Kubernetes write on the pods of a job."""


_MADE: Final[Mapping[str, re.Pattern[str]]] = {
    "deployment": re.compile(r"(.+)-[a-z0-9]{1,10}-[a-z0-9]{5}"),
    "replicaset": re.compile(r"(.+)-[a-z0-9]{5}"),
    "daemonset": re.compile(r"(.+)-[a-z0-9]{5}"),
    "statefulset": re.compile(r"(.+)-\d+"),
}
"""How Kubernetes' controllers name the pods of what they control."""

KINDS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("pod", "pods", "po"), "pod"),
    **dict.fromkeys(("job", "jobs", "vcjob", "vcjobs", "vj"), "job"),
    **dict.fromkeys(("deployment", "deployments", "deploy"), "deployment"),
    **dict.fromkeys(("replicaset", "replicasets", "rs"), "replicaset"),
    **dict.fromkeys(("daemonset", "daemonsets", "ds"), "daemonset"),
    **dict.fromkeys(("statefulset", "statefulsets", "sts"), "statefulset"),
}
"""What can be explained, by the names that kubectl takes."""


class JobPods(NamedTuple):
    """The pods of a job or of another workload, and those of them that stand for the others: of each task the first
    that waits, else that runs."""

    name: str
    waiting: int
    running: int
    explained: tuple[str, ...]
    kind: str = "job"

    def __str__(self) -> str:
        which = "; one of each task is explained" if self.kind == "job" else "; one of them is explained"
        some = "" if len(self.explained) == self.waiting + self.running else which
        return (
            f"{self.kind} {self.name}: {counted(self.waiting, 'pod')} without a node, {self.running:,} with one{some}"
        )


def pods_of(snapshot: ClusterSnapshot, name: str, rules: Rules, kind: str = "job") -> JobPods:
    """The pods of a job or of another of the ``KINDS`` (``namespace/name``).

    Raises ``ManifestError`` where there are none, with the reason if Volcano has not let the job in.
    """
    namespace, _, job = name.partition("/")
    waiting = {
        pod.full_name: pod.annotations.get(TASK_KEY, "")
        for pod in snapshot.pending
        if pod.namespace == namespace and _is_of(kind, job, pod.name, pod.labels)
    }
    running = {
        record.full_name: record.task
        for entry in snapshot.nodes
        for record in entry.pods
        if record.namespace == namespace and _is_of(kind, job, record.full_name.partition("/")[2], record.labels)
    }
    if not waiting and not running:
        held = _held(snapshot, name, usage.gate_by(snapshot, rules)) if kind == "job" else ""
        raise ManifestError(f"no pod of a {kind} {name} in this cluster{held}")
    explained = {task: pod for pods in (running, waiting) for pod, task in reversed(pods.items())}
    return JobPods(name, len(waiting), len(running), tuple(explained.values()), kind)


def waiting_pods_of(snapshot: ClusterSnapshot, name: str, rules: Rules, kind: str = "job") -> tuple[Pod, ...]:
    """All pods of a job that wait. Raises ``ManifestError`` where there are none."""
    if not pods_of(snapshot, name, rules, kind).waiting:
        raise ManifestError(f"no pod of the {kind} {name} waits: all of them have a node")
    namespace, _, job = name.partition("/")
    return tuple(
        pod for pod in snapshot.pending if pod.namespace == namespace and _is_of(kind, job, pod.name, pod.labels)
    )


def _is_of(kind: str, job: str, pod: str, labels: Mapping[str, str]) -> bool:
    if kind in _MADE:
        made = _MADE[kind].fullmatch(pod)
        return made is not None and made[1] == job
    return any(labels.get(label) == job for label in JOB_LABELS)


def _held(snapshot: ClusterSnapshot, name: str, gate: EnqueueAdmission | None) -> str:
    """What holds the job's PodGroup, which Volcano's controller calls by the job's name and UID."""
    group = next(_groups(snapshot.pod_groups.values(), name), None)
    if group is None:
        return ""
    said = f"; its PodGroup {group.name} is {group.phase} in queue {group.queue}"
    if gate is None or group.min_resources is None:
        return said
    shortages = gate.objections(group.queue, queues.plain(group.min_resources))
    return (
        "; ".join([f"{said}, not enqueued by Volcano: {shortages[0]}", *map(str, shortages[1:])]) if shortages else said
    )


def _groups(known: Iterable[PodGroup], name: str) -> Iterator[PodGroup]:
    uid = len("-00000000-0000-0000-0000-000000000000")
    for group in known:
        if name in {group.full_name, group.full_name[:-uid]}:
            yield group
