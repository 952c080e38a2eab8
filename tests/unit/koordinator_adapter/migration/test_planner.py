"""The plan of a migration: what comes first, what is made, and what stays as it is."""

from __future__ import annotations

from typing import Any

import pytest

from hami_plugins.model.dialect import Dialect
from koordinator_adapter.core.migration.steps import StepKind
from koordinator_adapter.core.translation.model import TranslationOptions
from tests.unit.koordinator_adapter.migration.cluster import (
    HAMI,
    VOLCANO,
    Raw,
    a_cluster,
    a_group,
    a_pod,
    a_template,
    a_workload,
)
from tests.unit.koordinator_adapter.migration.moving import left, plan, steps

GROUP = "podgroup.scheduling.sigs.k8s.io/ml/team"
TRAINING = "statefulset/ml/training"
KOORDINATORS = {
    "koordinator.sh/gpu.shared": "1",
    "koordinator.sh/gpu-memory": "3000Mi",
    "koordinator.sh/gpu-core": "30",
}


def a_member(name: str, limits: dict[str, str] | None = None, kind: str = "StatefulSet") -> Raw:
    gang = {"annotations": {"scheduling.k8s.io/group-name": "team"}}
    return a_workload(name, a_template(limits or VOLCANO, "volcano", **gang), kind=kind)


def a_lone_pod(limits: dict[str, str], scheduler: str, **metadata: Any) -> Raw:
    template = a_template(limits, scheduler, **metadata)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        **template,
        "metadata": {**template["metadata"], "name": "alone", "namespace": "ml"},
    }


def owned_by(raw: Raw, kind: str, version: str) -> Raw:
    owner = {"apiVersion": version, "kind": kind, "name": "boss", "uid": "u", "controller": True}
    return {**raw, "metadata": {**raw["metadata"], "ownerReferences": [owner]}}


def test_what_running_pods_hold_is_told_before_groups_are_made_and_those_before_workloads_change() -> None:
    found = plan(a_cluster())
    assert [(each.kind, each.name) for each in found.steps] == [
        (StepKind.RECORD, "pod/ml/serving-1-a"),
        (StepKind.GROUP, GROUP),
        (StepKind.WORKLOAD, "deployment/ml/serving"),
        (StepKind.WORKLOAD, TRAINING),
    ]
    assert found.steps[1].made is not None
    assert found.steps[1].made["spec"] == {"minMember": 2}


def test_a_workload_without_cards_stays_as_it_is() -> None:
    found = plan([a_workload("plain", a_template({"cpu": "1"}, "default-scheduler"))])
    assert (found.steps, found.left, found.refused) == ((), (), False)


def test_a_workload_in_the_words_of_the_target_stays_as_it_is() -> None:
    assert steps(plan([a_workload("w", a_template(HAMI, "hami-scheduler"))], Dialect.HAMI)) == []


def test_what_cannot_be_said_in_other_words_is_refused_and_hides_no_other() -> None:
    odd = a_template(HAMI, "hami-scheduler", annotations={"nvidia.com/use-gpuuuid": "GPU-0"})
    found = plan([a_workload("odd", odd), a_workload("w", a_template(HAMI, "hami-scheduler"))])
    assert left(found)["deployment/ml/odd"].startswith("nvidia.com/use-gpuuuid: ")
    assert steps(found) == ["deployment/ml/w"]
    assert found.refused


def test_a_group_of_several_workloads_is_made_once() -> None:
    (group,) = (raw for raw in a_cluster() if raw["kind"] == "PodGroup")
    assert steps(plan([group, a_member("a"), a_member("b")])) == [GROUP, "statefulset/ml/a", "statefulset/ml/b"]


def test_a_group_that_is_there_with_the_same_spec_is_not_made() -> None:
    assert GROUP not in steps(plan([*a_cluster(), a_group(minMember=2)]))
    assert TRAINING in steps(plan([*a_cluster(), a_group(minMember=2)]))


def test_a_group_that_is_there_with_another_spec_is_named_and_its_members_stay() -> None:
    found = plan([*a_cluster(), a_group(minMember=3)])
    assert left(found)[GROUP] == 'PodGroup: there is one with {"minMember":3} already, and {"minMember":2} is wanted'
    assert left(found)[TRAINING] == "gang: is not changed: its gang team would be another one"
    assert steps(found) == ["pod/ml/serving-1-a", "deployment/ml/serving"]


@pytest.mark.parametrize("limits", [KOORDINATORS, {"cpu": "1"}], ids=["with cards", "without cards"])
def test_a_gang_that_only_its_pods_describe_is_made_as_an_object(limits: dict[str, str]) -> None:
    metadata = {
        "labels": {"app": "x", "koordinator.sh/gpu-isolation-provider": "HAMi-core"},
        "annotations": {
            "gang.scheduling.koordinator.sh/name": "g",
            "gang.scheduling.koordinator.sh/min-available": "2",
        },
    }
    found = plan([a_workload("w", a_template(limits, "koord-scheduler", **metadata))], Dialect.VOLCANO)
    made = [each for each in found.steps if each.kind is StepKind.GROUP]
    assert [(each.name, each.made and each.made["spec"]) for each in made] == [
        ("podgroup.scheduling.volcano.sh/ml/g", {"minMember": 2})
    ]
    assert ("deployment/ml/w" in steps(found)) is (limits is KOORDINATORS)
    assert "gang.scheduling.koordinator.sh/min-available" not in {each.finding.about for each in found.left}


@pytest.mark.parametrize("told", [False, True])
def test_a_quota_that_the_target_lacks_is_named(*, told: bool) -> None:
    annotations = {"scheduling.volcano.sh/queue-name": "q"}
    quota = {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": "q", "namespace": "default"},
    }
    found = plan([a_workload("w", a_template(VOLCANO, "volcano", annotations=annotations)), *([] if told else [quota])])
    assert ("deployment/ml/w" in left(found)) is told


def test_what_cannot_be_changed_is_told_with_the_command_that_makes_it_anew() -> None:
    job = next(raw for raw in a_cluster() if raw["kind"] == "Job")
    vcjob = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": "ml"},
        "spec": {
            "schedulerName": "volcano",
            "tasks": [
                {"name": "lead", "replicas": 1, "template": a_template({"cpu": "1"}, "volcano")},
                {"name": "work", "replicas": 1, "template": a_template(VOLCANO, "volcano")},
            ],
        },
    }
    settings = TranslationOptions(models=("NVIDIA A100", "T4"), device_labels=True)
    found = plan([job, vcjob, a_lone_pod(HAMI, "hami-scheduler")], settings=settings)
    assert steps(found) == []
    remedies = {each.name: each.finding.remedy for each in found.left if "cannot be changed" in each.finding.words}
    assert remedies["job/ml/once"] == (
        "kubectl -n ml get job once -o yaml | hami-plugins koordinator translate -f - --to koordinator --submission "
        "--accept-loss --model 'NVIDIA A100' --model T4 --device-labels > job-once.yaml && "
        "kubectl -n ml delete job once && kubectl create -f job-once.yaml"
    )
    assert "kubectl -n ml get pod alone" in remedies["pod/ml/alone"]
    assert "kubectl -n ml delete vcjob train" in remedies["job.batch.volcano.sh/ml/train"]


def test_a_member_without_cards_that_cannot_be_changed_is_made_anew_beside_its_group() -> None:
    (group,) = (raw for raw in a_cluster() if raw["kind"] == "PodGroup")
    gang = {"annotations": {"scheduling.k8s.io/group-name": "team"}}
    found = plan([group, a_lone_pod({"cpu": "1"}, "volcano", **gang)])
    (remedy,) = (each.finding.remedy for each in found.left if each.name == "pod/ml/alone")
    assert remedy.startswith("kubectl -n ml get podgroups.scheduling.volcano.sh/team pod/alone -o yaml | ")
    assert remedy.endswith("&& kubectl apply -f pod-alone.yaml")


def test_owners_that_no_migration_changes_are_named_once_where_their_pods_ask_for_cards() -> None:
    pods = [owned_by(a_pod(name, "GPU-1"), "PyTorchJob", "kubeflow.org/v1") for name in ("a", "b")]
    sets = [a_workload(name, a_template(HAMI, "hami-scheduler"), kind="ReplicaSet") for name in ("r", "d")]
    plain = a_workload("p", a_template({"cpu": "1"}, "default-scheduler"), kind="ReplicaSet")
    objects = [
        *pods,
        owned_by(sets[0], "Rollout", "argo.io/v1"),
        owned_by(sets[1], "Deployment", "apps/v1"),
        owned_by(plain, "Cpu", "x.io/v1"),
    ]
    named = [each.name for each in plan(objects, Dialect.VOLCANO).left]
    assert named == ["rollout.argo.io/ml/boss", "pytorchjob.kubeflow.org/ml/boss"]
    assert [each.name for each in plan(objects, Dialect.HAMI).left] == []
