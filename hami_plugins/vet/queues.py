"""Which queue a pod is in, and what is known of queues: those of the cluster, and those that the manifests bring."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from hami_plugins.errors import WireError
from hami_plugins.inputs.manifests import Path
from hami_plugins.inputs.workloads.gangs import DEFAULT_QUEUE
from hami_plugins.model.cluster import ClusterSnapshot, Queue
from hami_plugins.queueing.queues import INQUEUE
from hami_plugins.vet.resources import PodView, Subject
from hami_plugins.wire import objects
from hami_plugins.wire.gang_keys import COSCHEDULING_LABEL, GROUP_KEY, QUEUE_KEY
from hami_plugins.wire.lenient import text, whole

if TYPE_CHECKING:
    from hami_plugins.vet.context import Context

JOB: Final = ("batch.volcano.sh", "Job")
GROUP: Final = ("scheduling.volcano.sh", "PodGroup")
GROUPS: Final = frozenset({GROUP, ("scheduling.x-k8s.io", "PodGroup")})
QUEUE: Final = ("scheduling.volcano.sh", "Queue")
BEFORE_THE_GATE: Final = frozenset({"", "Pending", INQUEUE})
"""Phases of PodGroups whose pods hold nothing yet."""


def queues(subjects: Iterable[Subject], snapshot: ClusterSnapshot | None) -> Mapping[str, Queue]:
    """The queues by name; a manifest wins over what the cluster has."""
    found = {} if snapshot is None else dict(snapshot.queues)
    for subject in subjects:
        if (subject.group, subject.kind) == QUEUE:
            try:
                found[subject.name] = objects.queue(subject.document.raw)
            except WireError:
                continue
    return found


def named(subject: Subject, context: Context) -> Iterator[tuple[Path, str]]:
    """The queues that an object names, and where."""
    if (subject.group, subject.kind) == JOB or (subject.group, subject.kind) in GROUPS:
        yield ("spec", "queue"), text(subject.inside("spec").get("queue"))
        return
    for pod in subject.pods:
        if pod.scheduler not in context.settings.volcano:
            continue
        own = pod.annotations.get(QUEUE_KEY)
        if own is not None:
            yield pod.annotation(QUEUE_KEY), own
        elif QUEUE_KEY in subject.annotations:
            yield ("metadata", "annotations", QUEUE_KEY), subject.annotations[QUEUE_KEY]


def queue_of(subject: Subject, pod: PodView, context: Context) -> str:
    """The queue whose limits a pod is held to: its job's or its PodGroup's, else the one that it names."""
    if (subject.group, subject.kind) == JOB:
        return text(subject.inside("spec").get("queue")) or DEFAULT_QUEUE
    group = f"{subject.namespace}/{group_named(pod)[1]}"
    for each in context.subjects:
        if (each.group, each.kind) == GROUP and each.full_name == group:
            return text(each.inside("spec").get("queue")) or DEFAULT_QUEUE
    known = None if context.snapshot is None else context.snapshot.pod_groups.get(group)
    if known is not None:
        return known.queue
    return pod.annotations.get(QUEUE_KEY) or subject.annotations.get(QUEUE_KEY) or DEFAULT_QUEUE


def group_named(pod: PodView) -> tuple[Path, str]:
    """The PodGroup that a pod names, and where; empty for none."""
    if pod.annotations.get(GROUP_KEY):
        return pod.annotation(GROUP_KEY), pod.annotations[GROUP_KEY]
    return pod.of("metadata", "labels", COSCHEDULING_LABEL), pod.labels.get(COSCHEDULING_LABEL, "")


def replicas(subject: Subject) -> int | None:
    """How many pods an object makes, ``None`` where that is not known."""
    spec = subject.inside("spec")
    match subject.kind:
        case "Pod":
            return 1
        case "Deployment" | "ReplicaSet" | "StatefulSet" | "ReplicationController":
            return count(spec.get("replicas"))
        case "Job" if subject.group == "batch":
            return count(spec.get("parallelism"))
        case _:
            return None


def count(value: object) -> int:
    """A number of copies as the API server takes it: one unless said otherwise."""
    found = whole(value)
    return 1 if found is None else max(found, 0)
