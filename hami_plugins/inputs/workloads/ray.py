"""KubeRay's objects (``ray.io/v1``): a head and groups of workers, in a RayCluster or in what makes one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from hami_plugins.inputs.manifests.fields import Field
from hami_plugins.inputs.workloads import pod_copies, pods
from hami_plugins.inputs.workloads.gangs import DEFAULT_QUEUE, Gang
from hami_plugins.inputs.workloads.pods import MAX_PODS, VOLCANO, PodTemplate
from hami_plugins.inputs.workloads.runs import Expand, Run, SubmittedObject, numbered, together
from hami_plugins.wire.gang_keys import JOB_QUEUE_KEY

_SCHEDULER_LABEL: Final = "ray.io/scheduler-name"
_GANG_LABEL: Final = "ray.io/gang-scheduling-enabled"
_PRIORITY_LABEL: Final = "ray.io/priority-class-name"


def _cluster(it: SubmittedObject) -> Iterator[Run]:
    yield from _of_cluster(it, it.spec)


def _service(it: SubmittedObject) -> Iterator[Run]:
    """A RayService (``spec.rayClusterConfig``); an upgrade runs a second cluster in parallel."""
    note = "an upgrade of a RayService runs a second cluster at the same time; planned as one"
    yield from (run._replace(notes=(*run.notes, note)) for run in _of_cluster(it, it.spec.needed("rayClusterConfig")))


def _job(it: SubmittedObject) -> Iterator[Run]:
    yield from _of_job(it, it.spec)


def _cron_job(it: SubmittedObject) -> Iterator[Run]:
    yield from _of_job(it, it.spec.needed("jobTemplate"))


def _of_job(it: SubmittedObject, spec: Field) -> Iterator[Run]:
    """A RayJob: its cluster, and the pod that submits the job where a template describes that.

    With ``clusterSelector`` it runs on a cluster that exists. The submitter is not a member of the gang: it waits for
    the cluster (KubeRay ``volcano_scheduler.go``). The default one asks for a CPU alone.
    """
    if spec.has("rayClusterSpec"):
        yield from _of_cluster(it, spec.inner("rayClusterSpec"))
    if spec.has("submitterPodTemplate") and spec.text("submissionMode", "K8sJobMode") == "K8sJobMode":
        of = pods.template(spec.inner("submitterPodTemplate"), it.namespace)
        yield numbered(it, of, "submitter", 1)


def _of_cluster(it: SubmittedObject, spec: Field) -> Iterator[Run]:
    """The head and the workers of a cluster.

    A group has ``replicas`` workers, kept between ``minReplicas`` and ``maxReplicas``, each of ``numOfHosts`` pods; a
    suspended group has none (KubeRay ``GetWorkerGroupDesiredReplicas``).
    """
    head = spec.needed("headGroupSpec")
    runs = [numbered(it, _template(it, head), "head", 1)]
    least, most, seen = 1, 1, dict[str, int]()
    for group in spec.items("workerGroupSpecs"):
        hosts = group.count("numOfHosts", 1, most=MAX_PODS)
        fewest = group.count("minReplicas", 0, most=MAX_PODS)
        limit = group.count("maxReplicas", MAX_PODS)
        wanted = min(max(group.count("replicas", 0, most=MAX_PODS), fewest), max(limit, fewest))
        of = _template(it, group)
        if group.flag("suspend"):
            continue
        role, count = group.text("groupName"), pods.product(group, wanted, hosts)
        runs.append(numbered(it, of, role, count, first=seen.get(role, 0)))
        seen[role] = seen.get(role, 0) + count
        least += fewest * hosts
        most += max(limit, fewest) * hosts if group.has("maxReplicas") else count
    scales, total = spec.flag("enableInTreeAutoscaling"), sum(len(run.pods) for run in runs)
    notes = []
    if scales:
        notes.append(f"Ray's autoscaler runs {least:,} to {most:,} of its pods; planned with the first {total:,}")
    gang = _gang(it, runs, least if scales else total)
    yield from together(runs, gang, *notes, priority_class=it.labels.get(_PRIORITY_LABEL, ""))


def _template(it: SubmittedObject, group: Field) -> PodTemplate:
    """The template of a head or of workers; KubeRay names Volcano in it where the object's labels do."""
    of = pods.template(group.needed("template"), it.namespace)
    if is_for_volcano(it.labels):
        return replace(of, scheduler=VOLCANO, spec={**of.spec, "schedulerName": VOLCANO})
    return of


def is_for_volcano(labels: Mapping[str, str]) -> bool:
    """Whether the labels of an object have KubeRay's operator hand its pods to Volcano."""
    return labels.get(_SCHEDULER_LABEL) == VOLCANO or JOB_QUEUE_KEY in labels


def _gang(it: SubmittedObject, runs: list[Run], least: int) -> Gang | None:
    """The gang that KubeRay makes for its batch scheduler: all pods, with autoscaling the fewest.

    It is called ``ray-NAME-pg`` under Volcano. Other batch schedulers need ``ray.io/gang-scheduling-enabled``.
    """
    under_volcano = any(pod_copies.scheduler_of(run.pods) == VOLCANO for run in runs)
    if not under_volcano and it.labels.get(_GANG_LABEL, "").lower() != "true":
        return None
    queue = it.labels.get(JOB_QUEUE_KEY, "") or (DEFAULT_QUEUE if under_volcano else "")
    return Gang(group=f"{it.namespace}/ray-{it.name}-pg", min_member=least, queue=queue)


KINDS: Final[Mapping[tuple[str, str], Expand]] = {
    ("ray.io", "RayCluster"): _cluster,
    ("ray.io", "RayJob"): _job,
    ("ray.io", "RayCronJob"): _cron_job,
    ("ray.io", "RayService"): _service,
}
