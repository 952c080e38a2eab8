"""Volcano's Job, for clusters without Volcano: a Job of Kubernetes for each task, and the gang that they form."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from hami_plugins.model.dialect import Dialect
from hami_plugins.wire import fields
from hami_plugins.wire.fields import Json
from hami_plugins.wire.gang_keys import COSCHEDULING_LABEL
from koordinator_adapter.core.translation.groups import missing_quota
from koordinator_adapter.core.translation.model import Fidelity, TranslationFinding, TranslationOptions, lost, refused
from koordinator_adapter.core.translation.objects import GROUPS
from koordinator_adapter.core.translation.vocabulary import GROUP, QUOTA

_REFUSED: Final = {
    "plugins": "Volcano's controller puts names, keys or variables of the other pods into each pod",
    "volumes": "Volcano's controller mounts them into every pod",
}
_REFUSED_OF_TASKS: Final = {
    "dependsOn": "Volcano's controller starts one task after another",
    "partitionPolicy": "Volcano's controller forms groups within the task",
}
_LOST: Final = {
    "policies": "what happens to the rest when a pod fails or ends is decided pod by pod",
    "maxRetry": "each Job counts its own failures",
    "minSuccess": "each Job ends when all its pods have",
    "networkTopology": "the network topology is not kept",
}
_LOST_OF_TASKS: Final = {
    "policies": _LOST["policies"],
    "minAvailable": "the gang counts pods of all tasks alike",
    "topologyPolicy": "the policy of NUMA nodes is not kept",
    "maxRetry": _LOST["maxRetry"],
}


def is_volcano_job(raw: Json) -> bool:
    """Whether the object is a Job of Volcano."""
    return str(raw.get("apiVersion", "")).startswith("batch.volcano.sh/") and raw.get("kind") == "Job"


def taken_apart(
    raw: Json, templates: Sequence[Json], target: Dialect, settings: TranslationOptions
) -> tuple[tuple[Json, ...], tuple[TranslationFinding, ...]]:
    """The Jobs and the gang of a Volcano Job; ``templates`` are those of its tasks in the words of ``target``.

    No objects where something that only Volcano's controller does is asked for. Raises ``WireError``.
    """
    place = "job ?:"
    spec, metadata = fields.member(raw, "spec", place), fields.member(raw, "metadata", place)
    tasks = fields.items(spec, "tasks", f"{place} spec")
    findings = (
        *_findings(spec, tasks),
        *_of_templates(templates),
        *_of_queue(fields.text(spec, "queue", f"{place} spec"), target, settings),
    )
    if any(each.fidelity is Fidelity.REFUSED for each in findings):
        return (), tuple(each for each in findings if each.fidelity is Fidelity.REFUSED)
    name = fields.text(metadata, "name", f"{place} metadata")
    jobs = [
        _job(name, raw, (fields.text(task, "name", "task") or f"default{at}", task, template), (target, settings))
        for at, (task, template) in enumerate(zip(tasks, templates, strict=True))
    ]
    wanted = fields.number(spec, "minAvailable", f"{place} spec")
    total = sum(job["spec"]["parallelism"] for job in jobs)
    group = {
        "apiVersion": GROUPS[target],
        "kind": "PodGroup",
        "metadata": _metadata(name, metadata),
        "spec": {"minMember": wanted or total},
    }
    number = "a Job" if len(jobs) == 1 else f"{len(jobs)} Jobs"
    note = lost("Job", f"becomes {number} of Kubernetes and a PodGroup; Volcano's controller is not involved")
    return (group, *jobs), (note, *findings)


def _findings(spec: Json, tasks: Sequence[Json]) -> Iterator[TranslationFinding]:
    for name in _REFUSED:
        if spec.get(name):
            yield refused(
                f"Job {name}", f"{_REFUSED[name]}; no other controller does", f"leave {name} out, or stay with Volcano"
            )
    for name in _LOST:
        if spec.get(name):
            yield lost(f"Job {name}", _LOST[name])
    for task in tasks:
        for name in _REFUSED_OF_TASKS:
            if task.get(name):
                yield refused(f"task {name}", _REFUSED_OF_TASKS[name], f"leave {name} out, or stay with Volcano")
        for name in _LOST_OF_TASKS:
            if task.get(name):
                yield lost(f"task {name}", _LOST_OF_TASKS[name])


def _of_templates(templates: Sequence[Json]) -> Iterator[TranslationFinding]:
    specs = (fields.member(each, "spec", "task") for each in templates)
    if any(spec.get("restartPolicy") == "Always" for spec in specs):
        yield lost("restartPolicy", "Always becomes Never: pods of a Job of Kubernetes have to end")


def _of_queue(name: str, target: Dialect, settings: TranslationOptions) -> Iterator[TranslationFinding]:
    if name and target is Dialect.HAMI:
        yield lost("Job queue", f"HAMi has no queues; {name} no longer limits the pods")
    elif name:
        yield from missing_quota(name, target, settings, ("spec", "queue"))


def _job(name: str, raw: Json, part: tuple[str, Json, Json], whither: tuple[Dialect, TranslationOptions]) -> Json:
    (task_name, task, template), (target, settings) = part, whither
    metadata, spec = raw["metadata"], raw["spec"]
    pod, about = dict(fields.member(template, "spec", "task")), dict(fields.member(template, "metadata", "task"))
    if pod.get("restartPolicy") not in {"Never", "OnFailure"}:
        pod["restartPolicy"] = "Never"
    if pod.get("schedulerName") in {None, "", settings.schedulers[Dialect.VOLCANO]}:
        # A task without cards is also a member of the gang, and goes to the scheduler that starts it.
        pod["schedulerName"] = settings.schedulers[target]
    if spec.get("priorityClassName"):
        pod.setdefault("priorityClassName", spec["priorityClassName"])
    labels = {**fields.text_map(about, "labels", "task"), _group_label(target): name}
    if spec.get("queue") and target is Dialect.KOORDINATOR:
        labels[QUOTA] = spec["queue"]
    replicas = fields.number(task, "replicas", "task", default=1)
    body: dict[str, Any] = {
        "completionMode": "Indexed",
        "completions": replicas,
        "parallelism": replicas,
        "template": {"metadata": {**about, "labels": labels}, "spec": pod},
    }
    if "ttlSecondsAfterFinished" in spec:
        body["ttlSecondsAfterFinished"] = spec["ttlSecondsAfterFinished"]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _metadata(f"{name}-{task_name}", metadata),
        "spec": body,
    }


def _metadata(name: str, given: Json) -> Json:
    kept = {key: given[key] for key in ("namespace", "labels", "annotations") if given.get(key)}
    return {"name": name, **kept}


def _group_label(target: Dialect) -> str:
    return GROUP if target is Dialect.KOORDINATOR else COSCHEDULING_LABEL
