"""Replicas share answers: a plan with shared answers is the plan in which every pod is read and decided by itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Any
from unittest import mock

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from hami_plugins.engine import intake, replicas
from hami_plugins.inputs import fleets, manifests, workloads
from hami_plugins.inputs.list_reader import snapshot_of
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.decisions import Placed
from hami_plugins.plan import Plan, Planner, Stage, submission
from hami_plugins.plan.replica_rows import ranged_plans
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
            found = pods[f"{workload.namespace}/{copy.name}"]
            template = objects.pod(copy.raw, default_requests=False).constraints.requests
            assert found.template_requests == (template if workload.is_volcano_job else None)
            assert replace(found, template_requests=None) == objects.pod(copy.raw)


def a_deployment(count: int) -> str:
    spec = {"replicas": count, "template": a_template({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 9000}, "", False)}
    made = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "many"}, "spec": spec}
    return yaml.safe_dump(made)


def names_of(plan: Plan) -> dict[str, tuple[Any, ...]]:
    """By pod, replicas that are counted too: how far it gets, on which node, and why not."""
    found = {}
    for each in plan.pods:
        node = each.decision.node if isinstance(each.decision, Placed) else ""
        prefix, _, number = each.pod.full_name.rpartition("-")
        for at in range(int(number), int(number) + each.count):
            found[f"{prefix}-{at}"] = each.unit, each.stage, node, each.why
    return found


@given(st.lists(deployments(), min_size=1, max_size=4), st.integers(1, 3))
def test_replicas_that_are_counted_get_the_answers_of_each_by_itself(made: list[dict[str, Any]], listed: int) -> None:
    for at, each in enumerate(made):
        each["metadata"]["name"] = f"w{at}"
    text = yaml.safe_dump_all([*QUEUES, QUOTA, *made])
    alone = planned(text)
    with mock.patch.object(submission, "ONE_BY_ONE", listed):
        counted = planned(text)
    assert names_of(counted) == names_of(alone)
    assert counted.size == alone.size == len(alone.pods)
    assert [entry.state for entry in counted.after.nodes] == [entry.state for entry in alone.after.nodes]
    assert {each.full_name for each in counted.standing.pod_groups.values()} == {
        each.full_name for each in alone.standing.pod_groups.values()
    }


def a_gang(least: int, *counts: int, memory: int = 9000) -> str:
    limits = {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": memory}
    tasks = [
        {"name": f"t{at}", "replicas": count, "minAvailable": 0, "template": a_template(limits, "", False)}
        for at, count in enumerate(counts)
    ]
    spec = {"minAvailable": least, "tasks": tasks}
    job = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "j"}, "spec": spec}
    return yaml.safe_dump(job)


@pytest.mark.parametrize(
    ("least", "stages"), [(4, {Stage.PLACED: 4, Stage.NODES: 26}), (5, {Stage.GANG: 4, Stage.NODES: 26})]
)
def test_a_gang_of_counted_replicas_starts_as_a_whole_or_not_at_all(least: int, stages: dict[Stage, int]) -> None:
    with mock.patch.object(submission, "ONE_BY_ONE", 1):
        found = planned(a_gang(least, 30))
    got: Counter[Stage] = Counter()
    for each in found.pods:
        got[each.stage] += each.count
    assert got == stages
    assert found.pods[-1].count == 26
    indexes = [each.pod.annotations["volcano.sh/task-index"] for each in found.pods]
    assert indexes == [each.pod.name.rpartition("-")[2] for each in found.pods]


def test_members_beyond_the_least_of_a_gang_keep_their_numbers() -> None:
    with mock.patch.object(submission, "ONE_BY_ONE", 1):
        found = planned(a_gang(2, 3))
    assert [each.pod.name for each in found.pods] == ["j-t0-0", "j-t0-1", "j-t0-2"]
    assert {each.stage for each in found.pods} == {Stage.PLACED}
    assert {record.group for entry in found.standing.nodes for record in entry.pods} == {"j"}


def test_a_gang_that_lacks_pods_counts_those_of_all_its_members() -> None:
    template = a_template({"nvidia.com/gpu": 1}, "", False)
    template["spec"]["schedulingGroup"] = {"podGroupName": "g"}
    group = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "g"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 9}}},
    }
    made = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "w"}}
    with mock.patch.object(submission, "ONE_BY_ONE", 1):
        found = planned(yaml.safe_dump_all([group, {**made, "spec": {"replicas": 8, "template": template}}]))
    assert {each.why for each in found.pods} == {"its gang waits: 9 have to start together and 8 exist"}
    assert [each.count for each in found.pods] == [1, 7]


def test_of_counted_replicas_those_within_the_quota_are_created() -> None:
    made: dict[str, Any] = yaml.safe_load(a_deployment(30))
    made["metadata"]["namespace"] = "held"
    quota = {**QUOTA, "spec": {"hard": {"pods": "3"}}}
    with mock.patch.object(submission, "ONE_BY_ONE", 1):
        found = planned(yaml.safe_dump_all([quota, made]))
    assert [(each.stage, each.count) for each in found.pods if each.stage is Stage.QUOTA] == [(Stage.QUOTA, 27)]
    assert found.size == 30


def test_victims_are_looked_for_one_replica_after_the_other() -> None:
    low = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9}
    runs = {
        "kind": "Pod",
        "metadata": {
            "name": "old",
            "namespace": "default",
            "annotations": {"hami.io/vgpu-devices-allocated": ""},
        },
        "spec": {
            "nodeName": "hami",
            "containers": [{"name": "c", "resources": {"limits": {"cpu": "3"}, "requests": {"cpu": "3"}}}],
        },
        "status": {"phase": "Running"},
    }
    node = {
        "kind": "Node",
        "metadata": {"name": "hami"},
        "status": {"allocatable": {"cpu": "4", "pods": "110"}},
    }
    spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}], "priorityClassName": "high"}
    made = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "w"}}
    body = {**made, "spec": {"replicas": 9, "template": {"spec": spec}}}
    cluster = snapshot_of([node, runs], builtin())
    submitted = workloads.read(manifests.read(yaml.safe_dump_all([low, body]), source="f"))
    cluster = submission.with_objects(cluster, submitted)
    with mock.patch.object(submission, "ONE_BY_ONE", 1):
        units = submission.units(submitted, cluster)
    found = Planner(builtin()).plan(cluster, units, preemption=True)
    got = [(each.stage, each.by_eviction is not None, each.count) for each in found.pods]
    assert got[0] == (Stage.PLACED, False, 1)
    assert sum(count for _, _, count in got) == 9
    assert sum(evicting for _, evicting, _ in got) >= 1


def test_a_search_for_the_victims_of_very_many_members_is_not_begun() -> None:
    with mock.patch.object(submission, "ONE_BY_ONE", 1):
        text = a_gang(9, 9)
        cluster = snapshot_of(fleets.objects_of(fleets.parse(FLEET, source="fleet")), builtin())
        submitted = workloads.read(manifests.read(text, source="f.yaml"))
        units = submission.units(submitted, cluster)
    found = Planner(builtin()).plan(cluster, units, preemption=True)
    assert found.evictions == ()
    assert found.size == 9


def test_a_thousand_pods_of_a_run_are_listed_by_themselves() -> None:
    found = planned(a_deployment(3000))
    assert (len(found.pods), found.pods[-1].count, found.size) == (1001, 2000, 3000)
    assert found.pods[-1].pod.name == "many-1000"
    assert ranged_plans(found.pods) == ("default/many-[0-2999]",)


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
