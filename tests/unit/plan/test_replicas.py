"""Replicas share answers: a plan with shared answers is the plan in which every pod is read and decided by itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import Any
from unittest import mock

import yaml
from hypothesis import given
from hypothesis import strategies as st

from hami_plugins.engine import intake, replicas
from hami_plugins.inputs import fleets, manifests, workloads
from hami_plugins.inputs.list_reader import snapshot_of
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.plan import Plan, Planner, Stage, submission
from hami_plugins.queueing import evaluator
from hami_plugins.vendors import builtin
from hami_plugins.vendors.volcano_releases import TRIED
from hami_plugins.wire import objects

FLEET = """
name: small
nodes:
- {devices: 2, model: Tesla T4, memoryMiB: 15360, slots: 3, name: hami}
- {devices: 2, model: Tesla T4, memoryMiB: 15360, slots: 3, name: vgpu, agents: volcano, count: 2}
"""
APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "kubernetes.io/hostname"}
        ]
    }
}
QUEUES = [
    {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"weight": 1, **spec},
    }
    for name, spec in (("default", {}), ("tight", {"capability": {"volcano.sh/vgpu-number": 2}}))
]
QUOTA = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "q", "namespace": "held"},
    "spec": {"hard": {"limits.nvidia.com/gpumem": "16000", "pods": "4"}},
}

WEIGHTS = st.sampled_from(["", "slot=1,core=1,memory=1", "no weights"])
hami = st.sampled_from([4000, 9000, 20_000, "16Gi"]).map(lambda mib: {"nvidia.com/gpu": 1, "nvidia.com/gpumem": mib})
volcano = st.sampled_from([4000, 9000, 20_000]).map(
    lambda mib: {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": mib}
)


def a_template(limits: dict[str, Any], scheduler: str, apart: bool, weights: str = "") -> dict[str, Any]:
    spec: dict[str, Any] = {"containers": [{"name": "main", "resources": {"limits": limits}}]}
    if scheduler:
        spec["schedulerName"] = scheduler
    if apart:
        spec["affinity"] = APART
    annotations = {"hami.io/device-scoring-weights": weights} if weights else {}
    return {"metadata": {"labels": {"app": "x"}, "annotations": annotations}, "spec": spec}


@st.composite
def deployments(draw: st.DrawFn) -> dict[str, Any]:
    limits, scheduler = draw(st.one_of(st.tuples(hami, st.just("")), st.tuples(volcano, st.just("volcano"))))
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"namespace": draw(st.sampled_from(["free", "held"]))},
        "spec": {
            "replicas": draw(st.integers(0, 8)),
            "template": a_template(limits, scheduler, draw(st.booleans()), draw(WEIGHTS)),
        },
    }


@st.composite
def volcano_jobs(draw: st.DrawFn) -> dict[str, Any]:
    tasks: list[dict[str, Any]] = [
        {"name": f"t{at}", "replicas": count, "template": a_template(draw(volcano), "", draw(st.booleans()))}
        for at, count in enumerate(draw(st.lists(st.integers(1, 5), min_size=1, max_size=2)))
    ]
    total: int = sum(task["replicas"] for task in tasks)
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"namespace": draw(st.sampled_from(["free", "held"]))},
        "spec": {
            "queue": draw(st.sampled_from(["default", "tight"])),
            "minAvailable": draw(st.integers(1, total)),
            "tasks": tasks,
        },
    }


@st.composite
def submissions(draw: st.DrawFn) -> str:
    made = draw(st.lists(st.one_of(deployments(), volcano_jobs()), min_size=1, max_size=4))
    for at, each in enumerate(made):
        each["metadata"]["name"] = f"w{at}"
    return yaml.safe_dump_all([*QUEUES, QUOTA, *made])


@contextmanager
def every_pod_by_itself() -> Iterator[None]:
    """Nothing is shared: no two pods are replicas."""
    with mock.patch.object(replicas, "key_of", side_effect=lambda _pod: object()):
        yield


def planned(text: str) -> Plan:
    cluster: ClusterSnapshot = snapshot_of(fleets.objects_of(fleets.parse(FLEET, source="fleet")), builtin())
    submitted = workloads.read(manifests.read(text, source="f.yaml"))
    cluster = submission.with_objects(cluster, submitted)
    return Planner(builtin(), release=TRIED).plan(cluster, submission.units(submitted, cluster))


def answers(plan: Plan) -> list[list[Any]]:
    return [[getattr(each, of.name) for of in fields(each) if of.name != "before"] for each in plan.pods]


@given(submissions())
def test_shared_answers_are_those_of_every_pod_by_itself(text: str) -> None:
    shared = planned(text)
    with every_pod_by_itself():
        alone = planned(text)
    assert answers(shared) == answers(alone)
    assert [entry.state for entry in shared.after.nodes] == [entry.state for entry in alone.after.nodes]


@given(submissions())
def test_replicas_are_read_as_each_would_be(text: str) -> None:
    submitted = workloads.read(manifests.read(text, source="f.yaml"))
    pods = {pod.full_name: pod for unit in submission.units(submitted, ClusterSnapshot()) for pod in unit.pods}
    for workload in submitted.workloads:
        for copy in workload.pods:
            assert pods[f"{workload.namespace}/{copy.name}"] == objects.pod(copy.raw)


def a_deployment(count: int) -> str:
    spec = {"replicas": count, "template": a_template({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 9000}, "", False)}
    made = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "many"}, "spec": spec}
    return yaml.safe_dump(made)


def test_a_thousand_replicas_are_admitted_once_and_those_that_do_not_fit_are_decided_once() -> None:
    with (
        mock.patch.object(evaluator, "take_in", side_effect=intake.take_in) as admitted,
        mock.patch.object(
            evaluator.PodEvaluator, "decided", autospec=True, side_effect=evaluator.PodEvaluator.decided
        ) as decided,
    ):
        found = planned(a_deployment(1000))
    assert [each.stage for each in found.pods].count(Stage.PLACED) == 2
    assert admitted.call_count == 1
    assert decided.call_count == 3


def test_a_gang_that_does_not_fit_decides_its_replicas_once() -> None:
    limits = {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 9000}
    task = {"name": "t", "replicas": 500, "template": a_template(limits, "", False)}
    job = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "gang"},
        "spec": {"minAvailable": 500, "tasks": [task]},
    }
    with mock.patch.object(
        evaluator.PodEvaluator, "decided", autospec=True, side_effect=evaluator.PodEvaluator.decided
    ) as decided:
        found = planned(yaml.safe_dump(job))
    assert {each.stage for each in found.pods} == {Stage.GANG, Stage.NODES}
    assert len(found.pods) == 500
    assert decided.call_count == 5


def test_a_refusal_that_names_its_pod_names_the_right_one() -> None:
    template = a_template({"nvidia.com/gpu": 1}, "", False, "no weights")
    made = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "w"}}
    found = planned(yaml.safe_dump({**made, "spec": {"replicas": 2, "template": template}}))
    assert [each.words.split()[-1] for each in found.pods] == ["w-0", "w-1"]


def test_rules_about_neighbours_are_read_with_the_labels_of_each_replica() -> None:
    template = a_template({"volcano.sh/vgpu-number": 1}, "", False)
    term = {"matchLabelKeys": ["volcano.sh/task-index"], "topologyKey": "kubernetes.io/hostname", "labelSelector": {}}
    rules = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    template["spec"]["affinity"] = rules
    made = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "w"}}
    text = yaml.safe_dump({**made, "spec": {"tasks": [{"name": "t", "replicas": 2, "template": template}]}})
    submitted = workloads.read(manifests.read(text, source="f.yaml"))
    (unit,) = submission.units(submitted, ClusterSnapshot())
    assert [pod.neighbours for pod in unit.pods] == [
        objects.pod(each.raw).neighbours for each in submitted.workloads[0].pods
    ]
    assert unit.pods[0].neighbours != unit.pods[1].neighbours
