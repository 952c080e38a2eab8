"""The kinds of Kubernetes and of Volcano's own jobs: which pods each makes that run at the same time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from hami_plugins.inputs.manifests.fields import Field
from hami_plugins.inputs.workloads import pod_copies, pods, vcjobs
from hami_plugins.inputs.workloads.gangs import Gang
from hami_plugins.inputs.workloads.pod_copies import CopyRun, PodCopies
from hami_plugins.inputs.workloads.pods import MAX_PODS, PodCopy
from hami_plugins.inputs.workloads.runs import Expand, Run, SubmittedObject, controlled
from hami_plugins.wire import kubernetes_gangs


def _pod(it: SubmittedObject) -> Iterator[Run]:
    of = pods.template(it.field, it.namespace)
    given = it.field.inner("metadata").members
    texts = {key: words for key, words in (("labels", of.labels), ("annotations", of.annotations)) if key in given}
    metadata = {**given, **texts, "name": it.name, "namespace": it.namespace}
    raw = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": of.spec}
    yield controlled(it, of, PodCopies(single=(pods.checked(PodCopy(it.name, raw), it.field),)))


def _replicated(it: SubmittedObject) -> Iterator[Run]:
    of = pods.template(it.spec.needed("template"), it.namespace)
    yield controlled(it, of, pod_copies.copies(of, it.name, it.spec.count("replicas", 1, most=MAX_PODS)))


def _stateful_set(it: SubmittedObject) -> Iterator[Run]:
    of = pods.template(it.spec.needed("template"), it.namespace)
    first = it.spec.inner("ordinals").count("start", 0)
    yield controlled(it, of, pod_copies.copies(of, it.name, it.spec.count("replicas", 1, most=MAX_PODS), first=first))


def daemon_set(it: SubmittedObject) -> Iterator[Run]:
    """One pod for every eligible node."""
    of = pods.template(it.spec.needed("template"), it.namespace)
    yield controlled(it, of, PodCopies((CopyRun(of, it.name, 1, numbered=False),)))._replace(per_node=True)


def _job(it: SubmittedObject) -> Iterator[Run]:
    yield _runs_of(it, it.spec)


def _cron_job(it: SubmittedObject) -> Iterator[Run]:
    run = _runs_of(it, it.spec.needed("jobTemplate").needed("spec"))
    if it.spec.text("concurrencyPolicy", "Allow") != "Allow":
        yield run
        return
    note = "a CronJob counts as one run of its job; with concurrencyPolicy Allow the next run may overlap with it"
    yield run._replace(notes=(*run.notes, note))


def _runs_of(it: SubmittedObject, spec: Field) -> Run:
    """The pods of a Job that run at the same time."""
    of = pods.template(spec.needed("template"), it.namespace)
    parallelism = spec.count("parallelism", 1, most=MAX_PODS)
    at_once = min(parallelism, spec.count("completions", parallelism))
    gang = _native_gang(it, spec, parallelism)
    if gang is None:
        return controlled(it, of, pod_copies.copies(of, it.name, at_once))
    group = {"schedulingGroup": {"podGroupName": it.name}}
    of = replace(of, spec={**of.spec, **group}, native_group=kubernetes_gangs.PREFIX + it.name)
    return controlled(it, of, pod_copies.copies(of, it.name, at_once))._replace(gang=gang)


def _native_gang(it: SubmittedObject, spec: Field, parallelism: int) -> Gang | None:
    """The gang that Kubernetes' Job controller makes of the pods (``batch/v1`` ``JobSpec.scheduling``, 1.37, alpha).

    ``minCount`` is the parallelism where it is not given.
    """
    policy = spec.inner("scheduling").inner("schedulingPolicy")
    if not policy.has("gang"):
        return None
    least = policy.inner("gang").count("minCount", parallelism)
    return Gang(group=f"{it.namespace}/{kubernetes_gangs.PREFIX}{it.name}", min_member=least, queue="")


def _volcano_job(it: SubmittedObject) -> Iterator[Run]:
    yield volcano_run(it.spec, it.field.inner("metadata"), it.namespace, it.name)


def _volcano_cron_job(it: SubmittedObject) -> Iterator[Run]:
    job = it.spec.needed("jobTemplate")
    yield volcano_run(job.needed("spec"), job.inner("metadata"), it.namespace, it.name)


def volcano_run(spec: Field, metadata: Field, namespace: str, name: str) -> Run:
    """The pods of one Volcano Job, which its controller makes when the gang has been let in."""
    made, gang, priority_class = vcjobs.expand(spec, metadata, namespace, name)
    return Run(made, gang, gang.queue, priority_class, made_late=True)


KINDS: Final[Mapping[tuple[str, str], Expand]] = {
    ("", "Pod"): _pod,
    ("", "ReplicationController"): _replicated,
    ("apps", "Deployment"): _replicated,
    ("apps", "ReplicaSet"): _replicated,
    ("apps", "StatefulSet"): _stateful_set,
    ("apps", "DaemonSet"): daemon_set,
    ("batch", "Job"): _job,
    ("batch", "CronJob"): _cron_job,
    ("batch.volcano.sh", "Job"): _volcano_job,
    ("batch.volcano.sh", "CronJob"): _volcano_cron_job,
    ("apps.kruise.io", "DaemonSet"): daemon_set,
}
