"""Every kind that is read by rules of its own, and the rule for all others: their templates, by shape."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from hami_plugins.inputs.workloads import (
    argo,
    builtin_kinds,
    grove,
    kubeflow,
    leader_workers,
    pods,
    ray,
    spark,
    templates,
    volcano_sets,
)
from hami_plugins.inputs.workloads.runs import Expand, Run, SubmittedObject, numbered

_BY_SHAPE: Final = frozenset(
    {
        ("apps.kruise.io", "CloneSet"),
        ("apps.kruise.io", "StatefulSet"),
        ("argoproj.io", "Rollout"),
        ("serving.knative.dev", "Service"),
        ("workload.codeflare.dev", "AppWrapper"),
    }
)
"""Kinds that count as their templates and counts say."""


def any_kind(it: SubmittedObject) -> Iterator[Run]:
    """The pods of every template inside the object, with a note where the kind is not known."""
    note = (
        f"{it.kind} of {it.group or 'v1'} is not a kind that is known here: its pods are counted by its templates, "
        "replicas and the like; check their number"
    )
    for run in _by_templates(it):
        yield run if (it.group, it.kind) in _BY_SHAPE else run._replace(notes=(*run.notes, note))


def _job_set(it: SubmittedObject) -> Iterator[Run]:
    """A JobSet (``jobset.x-k8s.io/v1alpha2``): ``replicas`` of each job, each with its parallelism. It is not a gang.

    Jobs that wait for others to complete never run at the same time as those.
    """
    waits = any(
        each.text("status") == "Complete" for job in it.spec.items("replicatedJobs") for each in job.items("dependsOn")
    )
    note = "jobs that wait for others to complete (dependsOn) are planned at the same time, although they run later"
    for run in _by_templates(it):
        yield run._replace(notes=(*run.notes, note)) if waits else run


def _by_templates(it: SubmittedObject) -> Iterator[Run]:
    """The pods of every template inside an object; those of one role are numbered through."""
    seen: Counter[str] = Counter()
    for found in templates.found_in(it.field):
        of = pods.template(found.field, it.namespace)
        pods.product(found.field, found.pods)
        yield numbered(it, of, found.role, found.pods, first=seen[found.role])
        seen[found.role] += found.pods


KINDS: Final[Mapping[tuple[str, str], Expand]] = {
    **builtin_kinds.KINDS,
    **argo.KINDS,
    **grove.KINDS,
    **kubeflow.KINDS,
    **leader_workers.KINDS,
    **ray.KINDS,
    **spark.KINDS,
    **volcano_sets.KINDS,
    ("jobset.x-k8s.io", "JobSet"): _job_set,
}
