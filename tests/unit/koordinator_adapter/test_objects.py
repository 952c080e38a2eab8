"""Groups, queues and Volcano's Jobs in other words."""

from __future__ import annotations

from typing import Any

import pytest

from hami_plugins.errors import WireError
from hami_plugins.model.dialect import Dialect
from hami_plugins.wire.fields import Json
from hami_plugins.wire.koordinator import CORE, MEMORY, SHARED
from koordinator_adapter.core.translation import jobs, objects
from koordinator_adapter.core.translation.model import Fidelity, TranslationOptions
from koordinator_adapter.core.translation.objects import COSCHEDULING_GROUP, KOORDINATOR_GROUP, VOLCANO_GROUP, Turned
from koordinator_adapter.core.translation.vocabulary import GROUP, QUOTA

Raw = dict[str, Any]

QUOTAS = TranslationOptions(quotas=frozenset({"q"}))


def group(version: str, **spec: object) -> Raw:
    """A PodGroup."""
    return {"apiVersion": version, "kind": "PodGroup", "metadata": {"name": "g"}, "spec": spec}


def turned(raw: Json, target: Dialect) -> Turned:
    """The result for an object that is not left alone."""
    found = objects.turned(raw, target, namespace="lab")
    assert found is not None
    return found


def made_of(raw: Json, target: Dialect) -> Json:
    """The object in other words."""
    found = turned(raw, target)
    assert found.raw is not None
    return found.raw


@pytest.mark.parametrize(
    "raw",
    [
        {"apiVersion": "v1", "kind": "ConfigMap"},
        {"apiVersion": "v1", "kind": "PodGroup"},
        {"apiVersion": "v1", "kind": "Queue"},
        {"apiVersion": "v1", "kind": "ElasticQuota"},
        group(KOORDINATOR_GROUP),
    ],
)
def test_other_objects_and_those_of_the_target_stay(raw: Raw) -> None:
    assert objects.turned(raw, Dialect.KOORDINATOR, namespace="lab") is None


def test_a_group_keeps_its_size_and_changes_its_names() -> None:
    raw = group(VOLCANO_GROUP, minMember=4, minResources={"volcano.sh/vgpu-memory": "3000", "cpu": "4"})
    there = made_of(raw, Dialect.KOORDINATOR)
    assert there["apiVersion"] == KOORDINATOR_GROUP
    assert there["spec"] == {"minMember": 4, "minResources": {MEMORY: "3000Mi", "cpu": "4"}}
    assert made_of(there, Dialect.VOLCANO) == {**raw, "spec": {**raw["spec"], "minResources": {
        "volcano.sh/vgpu-memory": "3000", "cpu": "4"}}}  # fmt: skip
    assert made_of(raw, Dialect.HAMI)["apiVersion"] == COSCHEDULING_GROUP


def test_what_only_volcanos_groups_say_is_given_up_with_a_word() -> None:
    raw = group(VOLCANO_GROUP, minMember=4, queue="q", minTaskMember={"a": 1}, priorityClassName="high")
    found = turned(raw, Dialect.KOORDINATOR)
    assert found.raw is not None
    assert found.raw["spec"] == {"minMember": 4}
    assert [each.about for each in found.findings] == [
        "PodGroup minTaskMember",
        "PodGroup priorityClassName",
        "PodGroup queue",
    ]


def test_what_only_koordinators_groups_say_is_given_up_with_a_word() -> None:
    raw = group(KOORDINATOR_GROUP, minMember=4, scheduleTimeoutSeconds=60)
    raw["metadata"]["annotations"] = {"gang.scheduling.koordinator.sh/mode": "NonStrict", "mine": "x"}
    found = turned(raw, Dialect.VOLCANO)
    assert found.raw is not None
    assert found.raw["metadata"]["annotations"] == {"mine": "x"}
    assert found.raw["spec"] == {"minMember": 4}
    assert len(found.findings) == 2
    coscheduling = turned(raw, Dialect.HAMI)
    assert coscheduling.raw is not None
    assert coscheduling.raw["spec"]["scheduleTimeoutSeconds"] == 60


QUOTA_OF: Raw = {"apiVersion": KOORDINATOR_GROUP, "kind": "ElasticQuota", "metadata": {"name": "q"}}
QUEUE: Raw = {
    "apiVersion": VOLCANO_GROUP,
    "kind": "Queue",
    "metadata": {"name": "q"},
    "spec": {
        "weight": 3,
        "parent": "root",
        "reclaimable": True,
        "capability": {"volcano.sh/vgpu-number": 8, "volcano.sh/vgpu-memory": 1024, "volcano.sh/vgpu-cores": 100},
        "guarantee": {"resource": {"volcano.sh/vgpu-number": 2}},
    },
}


def test_a_queue_is_a_quota_and_back() -> None:
    found = turned(QUEUE, Dialect.KOORDINATOR)
    assert found.raw is not None
    assert found.raw["metadata"]["namespace"] == "lab"
    assert found.raw["metadata"]["labels"]["quota.scheduling.koordinator.sh/parent"] == "root"
    assert found.raw["spec"] == {"min": {SHARED: "2"}, "max": {SHARED: "8", MEMORY: "1Gi", CORE: "100"}}
    assert {each.about for each in found.findings} == {"Queue", "Queue weight", "Queue reclaimable"}
    back = made_of(found.raw, Dialect.VOLCANO)
    assert back["metadata"] == {"name": "q"}
    assert back["spec"] == {
        "reclaimable": True,
        "capability": {"volcano.sh/vgpu-number": "8", "volcano.sh/vgpu-memory": "1024", "volcano.sh/vgpu-cores": "100"},
        "guarantee": {"resource": {"volcano.sh/vgpu-number": "2"}},
        "parent": "root",
    }


def test_a_queue_without_anything_is_a_quota_without_bounds() -> None:
    bare = {**QUEUE, "spec": {"deserved": {"volcano.sh/vgpu-number": 1}}}
    assert made_of(bare, Dialect.KOORDINATOR)["spec"] == {"min": {SHARED: "1"}, "max": {}}
    empty = made_of({**QUEUE, "spec": {}}, Dialect.KOORDINATOR)
    assert made_of(empty, Dialect.VOLCANO)["spec"] == {"reclaimable": True}


@pytest.mark.parametrize(
    ("most", "becomes", "told"),
    [
        ({"koordinator.sh/gpu": "800"}, {"volcano.sh/vgpu-number": "8"}, ["koordinator.sh/gpu"]),
        ({"koordinator.sh/gpu": "850"}, {"volcano.sh/vgpu-number": "9"}, ["koordinator.sh/gpu"]),
        ({"nvidia.com/gpu": 4}, {"volcano.sh/vgpu-number": "4"}, ["nvidia.com/gpu"]),
        ({SHARED: 3, "koordinator.sh/gpu": "800"}, {"volcano.sh/vgpu-number": "3"}, ["koordinator.sh/gpu"]),
        ({"koordinator.sh/gpu": "800", SHARED: 3}, {"volcano.sh/vgpu-number": "3"}, ["koordinator.sh/gpu"]),
        ({"kubernetes.io/gpu-core": 50}, {"volcano.sh/vgpu-cores": "50"}, []),
        ({MEMORY: "1500Ki"}, {"volcano.sh/vgpu-memory": "2"}, [MEMORY]),
        ({"koordinator.sh/rdma": 100, "cpu": 4}, {"koordinator.sh/rdma": 100, "cpu": 4}, ["koordinator.sh/rdma"]),
    ],
)
def test_no_limit_of_a_quota_is_off_in_silence(most: Raw, becomes: Raw, told: list[str]) -> None:
    found = turned({**QUOTA_OF, "spec": {"max": most}}, Dialect.VOLCANO)
    assert found.raw is not None
    assert found.raw["spec"]["capability"] == becomes
    assert [each.about for each in found.findings] == ["ElasticQuota", *told]


@pytest.mark.parametrize("raw", [QUEUE, {**QUEUE, "apiVersion": KOORDINATOR_GROUP, "kind": "ElasticQuota"}])
def test_hami_has_neither_queues_nor_quotas(raw: Raw) -> None:
    found = turned(raw, Dialect.HAMI)
    assert found.raw is None
    assert found.findings[0].fidelity is Fidelity.REFUSED


def test_sums_between_hami_and_volcano_keep_their_unit() -> None:
    amounts = {"nvidia.com/gpumem": "3000", "nvidia.com/gpu": 2}
    found = objects.sums(amounts, Dialect.HAMI, Dialect.VOLCANO, "here")
    assert found == {"volcano.sh/vgpu-memory": "3k", "volcano.sh/vgpu-number": "2"}


def test_an_object_that_cannot_be_read_is_refused_with_the_place() -> None:
    found = turned({**QUEUE, "spec": {"capability": {"volcano.sh/vgpu-memory": "lots"}}}, Dialect.KOORDINATOR)
    assert "vgpu-memory" in found.findings[0].about


TEMPLATE: Raw = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [], "restartPolicy": "OnFailure"}}


def job(tasks: list[Raw], **spec: object) -> Raw:
    """A Job of Volcano."""
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "j", "namespace": "lab", "labels": {"x": "y"}, "uid": "1"},
        "spec": {**spec, "tasks": tasks},
    }


def test_a_job_of_volcano_becomes_jobs_and_a_gang() -> None:
    raw = job([{"name": "a", "replicas": 3}, {}], queue="q", priorityClassName="high", ttlSecondsAfterFinished=5)
    assert jobs.is_volcano_job(raw)
    (gang, first, second), findings = jobs.taken_apart(raw, [TEMPLATE, {"spec": {}}], Dialect.KOORDINATOR, QUOTAS)
    assert (gang["apiVersion"], gang["metadata"]["name"], gang["spec"]) == (KOORDINATOR_GROUP, "j", {"minMember": 4})
    assert first["metadata"] == {"name": "j-a", "namespace": "lab", "labels": {"x": "y"}}
    assert first["spec"]["completions"] == first["spec"]["parallelism"] == 3
    assert first["spec"]["ttlSecondsAfterFinished"] == 5
    pod = first["spec"]["template"]
    assert pod["metadata"]["labels"] == {"a": "b", GROUP: "j", QUOTA: "q"}
    assert pod["spec"] == {
        "containers": [],
        "restartPolicy": "OnFailure",
        "priorityClassName": "high",
        "schedulerName": "koord-scheduler",
    }
    assert second["metadata"]["name"] == "j-default1"
    assert second["spec"]["template"]["spec"]["restartPolicy"] == "Never"
    assert [each.about for each in findings] == ["Job"]


@pytest.mark.parametrize(("named", "becomes"), [("volcano", "koord-scheduler"), ("", "koord-scheduler"), ("x", "x")])
def test_a_task_without_cards_is_given_to_whoever_starts_the_gang(named: str, becomes: str) -> None:
    template = {"spec": {"schedulerName": named, "restartPolicy": "Always"}}
    (_, only), findings = jobs.taken_apart(job([{"name": "ps"}]), [template], Dialect.KOORDINATOR, QUOTAS)
    assert only["spec"]["template"]["spec"] == {"schedulerName": becomes, "restartPolicy": "Never"}
    assert [each.about for each in findings] == ["Job", "restartPolicy"]


def test_a_job_without_a_queue_needs_no_quota_and_hami_has_none() -> None:
    (gang, only), _ = jobs.taken_apart(
        job([{"name": "a"}], minAvailable=1, queue="q"), [TEMPLATE], Dialect.HAMI, QUOTAS
    )
    assert gang["spec"] == {"minMember": 1}
    assert only["spec"]["template"]["metadata"]["labels"] == {"a": "b", "scheduling.x-k8s.io/pod-group": "j"}
    (_, bare), _ = jobs.taken_apart(job([{"name": "a"}]), [TEMPLATE], Dialect.KOORDINATOR, QUOTAS)
    assert QUOTA not in bare["spec"]["template"]["metadata"]["labels"]


def test_what_only_volcanos_controller_does_is_refused_or_told() -> None:
    raw = job([{"name": "a", "dependsOn": {"name": ["b"]}, "maxRetry": 3}], plugins={"svc": []}, maxRetry=2)
    parts, findings = jobs.taken_apart(raw, [TEMPLATE], Dialect.KOORDINATOR, QUOTAS)
    assert not parts
    assert {each.about for each in findings} == {"Job plugins", "task dependsOn"}
    raw = job([{"name": "a", "maxRetry": 3}], policies=[{}])
    _, findings = jobs.taken_apart(raw, [TEMPLATE], Dialect.KOORDINATOR, QUOTAS)
    assert {each.about for each in findings} == {"Job", "Job policies", "task maxRetry"}


def test_the_queue_of_a_job_is_told_where_its_quota_is_not_there() -> None:
    raw = job([{"name": "a"}], queue="q")
    for target, about in ((Dialect.KOORDINATOR, "ElasticQuota"), (Dialect.HAMI, "Job queue")):
        _, findings = jobs.taken_apart(raw, [TEMPLATE], target, TranslationOptions())
        assert [each.about for each in findings] == ["Job", about]


def test_a_job_that_cannot_be_read_is_an_error() -> None:
    with pytest.raises(WireError):
        jobs.taken_apart({**job([]), "spec": {"tasks": 7}}, [], Dialect.KOORDINATOR, QUOTAS)
    assert not jobs.is_volcano_job({"apiVersion": "batch/v1", "kind": "Job"})


def test_a_quota_of_another_api_group_stays() -> None:
    for raw in (
        {"apiVersion": "example.com/v1", "kind": "ElasticQuota"},
        {"apiVersion": KOORDINATOR_GROUP, "kind": "X"},
    ):
        assert objects.turned(raw, Dialect.VOLCANO, namespace="lab") is None


def test_whole_mebibytes_of_a_quota_are_not_reported_as_rounded() -> None:
    assert list(objects.unsaid({MEMORY: "3Gi"}, "max")) == []
    assert [each.about for each in objects.unsaid({MEMORY: "3000"}, "max")] == [MEMORY]


def test_one_template_that_restarts_its_pods_is_reported() -> None:
    templates: list[Raw] = [{"spec": {"restartPolicy": "Always"}}, {"spec": {}}]
    _, findings = jobs.taken_apart(job([{"name": "a"}, {"name": "b"}]), templates, Dialect.KOORDINATOR, QUOTAS)
    assert "restartPolicy" in [each.about for each in findings]
