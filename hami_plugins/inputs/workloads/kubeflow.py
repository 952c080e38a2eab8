"""Kubeflow's jobs: those of the training operator and of the MPI operator, and the Trainer's TrainJob."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from hami_plugins.inputs.manifests.fields import Field
from hami_plugins.inputs.workloads import pod_copies, pods
from hami_plugins.inputs.workloads.gangs import DEFAULT_QUEUE, Gang
from hami_plugins.inputs.workloads.pods import MAX_PODS, VOLCANO, PodTemplate
from hami_plugins.inputs.workloads.runs import (
    Expand,
    Run,
    SubmittedObject,
    UnresolvedReferenceError,
    numbered,
    together,
)
from hami_plugins.wire.gang_keys import QUEUE_KEY

OPERATOR_GANG: Final = (
    "its pods start together where the operator runs with gang scheduling (--gang-scheduler-name, or --gang-scheduling "
    "of the MPI operator); planned so"
)
"""A gang that only the command line of an operator makes."""

_ANCESTOR: Final = "trainer.kubeflow.org/trainjob-ancestor-step"
_RUNTIMES: Final = ("ClusterTrainingRuntime", "TrainingRuntime")
_NODE: Final = "node"


def _training_job(it: SubmittedObject) -> Iterator[Run]:
    """The replicas of every role (``kubeflow.org/v1`` ``ReplicaSpec``, ``kubeflow.org/v2beta1`` for MPIJob).

    The gang is ``runPolicy.schedulingPolicy`` (``minAvailable``, else all pods; ``queue``, ``priorityClass``). The
    operators make a PodGroup of the job's name when they run with gang scheduling.
    """
    listed = [key for key in it.spec.members if key.endswith("ReplicaSpecs")]
    if not listed:
        raise it.spec.fault("a job needs replica specs, such as pytorchReplicaSpecs")
    runs = []
    for key in listed:
        roles = it.spec.inner(key)
        for role in roles.members:
            found = roles.inner(role)
            of = pods.template(found.needed("template"), it.namespace)
            runs.append(numbered(it, of, role.lower(), found.count("replicas", 1, most=MAX_PODS)))
    gang, priority_class = _operators_gang(it, runs)
    notes = [OPERATOR_GANG] if gang is not None else []
    if it.spec.has("elasticPolicy"):
        notes.append("elasticPolicy lets the number of workers change while it runs; planned with the given replicas")
    yield from together(runs, gang, *notes, priority_class=priority_class)


def _operators_gang(it: SubmittedObject, runs: list[Run]) -> tuple[Gang | None, str]:
    """The gang of a job and its priority class; none where neither a policy nor Volcano is named."""
    policy = it.spec.inner("runPolicy")
    named = policy.has("schedulingPolicy") or it.spec.has("schedulingPolicy")
    wanted = (policy if policy.has("schedulingPolicy") else it.spec).inner("schedulingPolicy")
    under_volcano = any(pod_copies.scheduler_of(run.pods) == VOLCANO for run in runs)
    if not named and not under_volcano:
        return None, ""
    total = sum(len(run.pods) for run in runs)
    queue = wanted.text("queue") or it.annotations.get(QUEUE_KEY, "") or (DEFAULT_QUEUE if under_volcano else "")
    least = wanted.count("minAvailable", total, most=MAX_PODS)
    return Gang(group=f"{it.namespace}/{it.name}", min_member=least, queue=queue), wanted.text("priorityClass")


def _train_job(it: SubmittedObject) -> Iterator[Run]:
    """A TrainJob (``trainer.kubeflow.org/v1alpha1``) with the runtime that it refers to (``spec.runtimeRef``).

    The runtime holds a JobSet: the trainer's job runs ``numNodes`` pods, with ``resourcesPerNode`` in its container
    ``node``. Where the runtime is not among the manifests, the pods are those resources alone.
    """
    trainer = it.spec.inner("trainer")
    reference = it.spec.inner("runtimeRef")
    kind, name = reference.text("kind") or _RUNTIMES[0], reference.text("name")
    group = reference.text("apiGroup") or it.group
    where = it.namespace if kind == "TrainingRuntime" else ""
    runtime = it.others.find(group, kind, where, name) if name else None
    if runtime is not None:
        yield from _by_runtime(it, trainer, runtime)
        return
    missing = f"{kind} {name} is not among these manifests" if name else "it names no runtime"
    if not trainer.has("resourcesPerNode"):
        why = f"spec.runtimeRef: {missing}, and spec.trainer.resourcesPerNode is not set; add the runtime with -f"
        raise UnresolvedReferenceError(why)
    container = {"name": _NODE, "resources": trainer.inner("resourcesPerNode").members}
    written = Field(it.field.document, trainer.path, {"spec": {**_overrides(it, _NODE), "containers": [container]}})
    of = pods.template(written, it.namespace)
    note = f"{missing}: planned with spec.trainer.resourcesPerNode alone, without its sidecars and gang"
    run = numbered(it, of, _NODE, trainer.count("numNodes", 1, most=MAX_PODS))
    yield run._replace(notes=(*run.notes, note) if name else run.notes)


def _by_runtime(it: SubmittedObject, trainer: Field, runtime: Field) -> Iterator[Run]:
    spec = runtime.needed("spec")
    policy = spec.inner("mlPolicy")
    nodes = trainer.count("numNodes", policy.count("numNodes", 1, most=MAX_PODS), most=MAX_PODS)
    as_node = policy.inner("mpi").flag("runLauncherAsNode")
    runs = []
    for job in spec.inner("template").inner("spec").items("replicatedJobs"):
        role, template = job.text("name"), job.needed("template")
        trains = template.inner("metadata").texts("labels").get(_ANCESTOR) == "trainer"
        of = _patched(it, pods.template(template.needed("spec").needed("template"), it.namespace), role)
        if trains or (policy.has("mpi") and role == _NODE):
            of = _with_resources(of, trainer)
        count = _pods_of(job, template.needed("spec"))
        if policy.has("mpi"):
            count = max(nodes - 1, 1) if as_node and role == _NODE else nodes if role == _NODE else count
        elif trains:
            count = nodes
        runs.append(numbered(it, of, role, count))
    yield from together(runs, _runtimes_gang(it, spec.inner("podGroupPolicy"), runs))


def _runtimes_gang(it: SubmittedObject, policy: Field, runs: list[Run]) -> Gang | None:
    """All pods of the job start together where the runtime has a policy for it (``spec.podGroupPolicy``)."""
    if not policy.has("coscheduling") and not policy.has("volcano"):
        return None
    total = sum(len(run.pods) for run in runs)
    queue = (it.annotations.get(QUEUE_KEY, "") or DEFAULT_QUEUE) if policy.has("volcano") else ""
    return Gang(group=f"{it.namespace}/{it.name}", min_member=total, queue=queue)


def _pods_of(job: Field, spec: Field) -> int:
    """How many pods a replicated job of a JobSet runs at the same time."""
    parallelism = spec.count("parallelism", 1, most=MAX_PODS)
    return job.count("replicas", 1, most=MAX_PODS) * min(parallelism, spec.count("completions", parallelism))


def _with_resources(of: PodTemplate, trainer: Field) -> PodTemplate:
    """The template with the resources of the TrainJob in its container ``node``."""
    if not trainer.has("resourcesPerNode"):
        return of
    trainer.inner("resourcesPerNode").amounts("limits", signed=True)
    trainer.inner("resourcesPerNode").amounts("requests", signed=True)
    resources = trainer.inner("resourcesPerNode").members
    listed = of.spec.get("containers")
    containers = [
        {**each, "resources": resources} if isinstance(each, Mapping) and each.get("name") == _NODE else each
        for each in (listed if isinstance(listed, list) else [])
    ]
    return replace(of, spec={**of.spec, "containers": containers})


def _patched(it: SubmittedObject, of: PodTemplate, role: str) -> PodTemplate:
    """The template with what the TrainJob overrides of where the pods of a role run."""
    changed = {**of.spec, **_overrides(it, role)}
    scheduler = changed.get("schedulerName")
    return replace(of, spec=changed, scheduler=scheduler if isinstance(scheduler, str) else of.scheduler)


def _overrides(it: SubmittedObject, role: str) -> dict[str, object]:
    """What a TrainJob overrides in the pods of a role, containers aside.

    ``podSpecOverrides`` (2.0) have the members next to ``targetJobs``, ``podTemplateOverrides`` (2.1) have a ``spec``,
    ``runtimePatches`` (2.3) hold the path from the runtime on.
    """
    found: dict[str, object] = {}
    for each in it.spec.items("podSpecOverrides"):
        if any(job.text("name") == role for job in each.items("targetJobs")):
            found |= {key: value for key, value in each.members.items() if key not in _NOT_OVERRIDDEN}
    for each in it.spec.items("podTemplateOverrides"):
        if any(job.text("name") == role for job in each.items("targetJobs")):
            found |= {key: value for key, value in each.inner("spec").members.items() if key not in _NOT_OVERRIDDEN}
    for each in it.spec.items("runtimePatches"):
        for job in each.inner("trainingRuntimeSpec").inner("template").inner("spec").items("replicatedJobs"):
            if job.text("name") == role:
                spec = job.inner("template").inner("spec").inner("template").inner("spec")
                found |= {key: value for key, value in spec.members.items() if key not in _NOT_OVERRIDDEN}
    return found


_NOT_OVERRIDDEN: Final = frozenset({"containers", "initContainers", "volumes", "targetJobs", "manager"})
"""Members that are merged by name, or say where an override applies."""

_TRAINING: Final = ("PyTorchJob", "TFJob", "XGBoostJob", "MPIJob", "PaddleJob", "JAXJob", "MXJob")

KINDS: Final[Mapping[tuple[str, str], Expand]] = {
    **{("kubeflow.org", kind): _training_job for kind in _TRAINING},
    ("trainer.kubeflow.org", "TrainJob"): _train_job,
}
