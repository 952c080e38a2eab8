"""Documents to workloads: which pods each kind makes, their gangs and queues, and what is refused."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from hami_plugins.errors import ManifestError
from hami_plugins.inputs import manifests, workloads
from hami_plugins.inputs.workloads import Submission, Workload
from hami_plugins.model.cluster import PodGroup
from hami_plugins.model.quantity import NANO
from hami_plugins.wire import objects
from tests import raw_objects
from tests.unit.wire import mutations

GOLDEN = Path(__file__).parents[2] / "golden"
DRY_RUNS = sorted((GOLDEN / "torchx").glob("*.yaml"))
SCENARIOS = sorted((GOLDEN / "scenarios").glob("*/submit.yaml"))

CONTAINER: dict[str, Any] = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": 1, "cpu": "500m"}}}
TEMPLATE: dict[str, Any] = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [CONTAINER]}}


def a_document(
    kind: str, spec: dict[str, Any] | None = None, version: str = "apps/v1", **metadata: Any
) -> dict[str, Any]:
    body = {"template": TEMPLATE} if spec is None else spec
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "x", **metadata}, "spec": body}


def a_pod(name: str = "p", *, spec: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    return raw_objects.pod(name, CONTAINER, metadata=metadata, **(spec or {}))


def a_vcjob(*tasks: dict[str, Any], metadata: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    body = {"tasks": [{"template": TEMPLATE, **task} for task in tasks], **spec}
    return a_document("Job", body, "batch.volcano.sh/v1alpha1", **(metadata or {}))


def a_pod_group(name: str = "g", **spec: Any) -> dict[str, Any]:
    return a_document("PodGroup", spec, "scheduling.volcano.sh/v1beta1", name=name)


def submit(*documents: dict[str, Any], **options: Any) -> Submission:
    text = yaml.safe_dump_all(documents, sort_keys=False)
    return workloads.read(manifests.read(text, source="f.yaml"), **options)


def only(*documents: dict[str, Any], **options: Any) -> Workload:
    (workload,) = submit(*documents, **options).workloads
    return workload


def names(workload: Workload) -> list[str]:
    return [pod.name for pod in workload.pods]


def fault(*documents: dict[str, Any]) -> str:
    with pytest.raises(ManifestError) as caught:
        submit(*documents)
    return str(caught.value)


@pytest.mark.parametrize(
    ("kind", "version", "spec", "pods"),
    [
        ("Deployment", "apps/v1", {"replicas": 2}, ["x-0", "x-1"]),
        ("Deployment", "apps/v1", {}, ["x-0"]),
        ("Deployment", "apps/v1", {"replicas": None}, ["x-0"]),
        ("Deployment", "apps/v1", {"replicas": 0}, []),
        ("ReplicaSet", "apps/v1", {"replicas": 2}, ["x-0", "x-1"]),
        ("StatefulSet", "apps/v1", {"replicas": 2}, ["x-0", "x-1"]),
        ("StatefulSet", "apps/v1", {"replicas": 2, "ordinals": {"start": 5}}, ["x-5", "x-6"]),
        ("ReplicationController", "v1", {"replicas": 2}, ["x-0", "x-1"]),
        ("DaemonSet", "apps/v1", {}, ["x"]),
        ("Job", "batch/v1", {}, ["x-0"]),
        ("Job", "batch/v1", {"parallelism": 3}, ["x-0", "x-1", "x-2"]),
        ("Job", "batch/v1", {"parallelism": 3, "completions": 2}, ["x-0", "x-1"]),
        ("Job", "batch/v1", {"completions": 5}, ["x-0"]),
    ],
)
def test_a_controller_makes_the_pods_that_run_at_once(
    kind: str, version: str, spec: dict[str, Any], pods: list[str]
) -> None:
    workload = only(a_document(kind, {"template": TEMPLATE, **spec}, version))
    assert names(workload) == pods
    assert workload.per_node is (kind == "DaemonSet")
    assert (workload.kind, workload.full_name) == (kind, "default/x")


def test_a_cron_job_counts_as_one_run() -> None:
    spec = {"schedule": "0 3 * * *", "jobTemplate": {"spec": {"parallelism": 2, "template": TEMPLATE}}}
    assert names(only(a_document("CronJob", spec, "batch/v1"))) == ["x-0", "x-1"]


def test_pods_of_a_template_carry_its_metadata_and_spec() -> None:
    template = {
        "metadata": {"labels": {"app": "x"}, "annotations": {"nvidia.com/use-gputype": "A100"}, "name": "ignored"},
        "spec": {"containers": [CONTAINER], "priorityClassName": "high"},
    }
    workload = only(a_document("Deployment", {"template": template}, namespace="team"))
    assert workload.priority_class == "high"
    assert workload.pods[0].raw == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "x-0",
            "namespace": "team",
            "labels": {"app": "x"},
            "annotations": {"nvidia.com/use-gputype": "A100"},
        },
        "spec": template["spec"],
    }


def test_a_pod_is_taken_as_it_would_be_submitted() -> None:
    raw = a_pod(annotations={"a": "b"}, finalizers=["keep"]) | {"status": {"phase": "Running"}}
    (pod,) = only(raw, namespace="team").pods
    assert pod.raw["metadata"] == {"name": "p", "namespace": "team", "annotations": {"a": "b"}, "finalizers": ["keep"]}
    assert "status" not in pod.raw
    assert objects.pod(pod.raw).full_name == "team/p"


QUEUED = {"kueue.x-k8s.io/queue-name": "team"}


def test_a_pod_of_a_local_queue_is_planned_as_if_admitted_and_not_said_to_be_suspended() -> None:
    (note,) = only(a_pod(labels=QUEUED)).notes
    assert note.startswith("Kueue holds it back until LocalQueue team admits it")
    assert note.endswith("planned as if admitted")
    assert "suspend" not in note


def test_a_pod_with_scheduling_gates_is_not_said_to_be_planned_as_if_admitted() -> None:
    gates = {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}
    assert only(a_pod(labels=QUEUED, spec=gates)).notes == ()


def test_generated_names_do_not_collide() -> None:
    pods = [a_pod(name="", generateName="p-"), a_pod(name="", generateName="p-"), a_pod(name="", generateName="q-")]
    assert [workload.name for workload in submit(*pods).workloads] == ["p-0", "p-1", "q-0"]


def test_an_object_that_stands_there_twice_counts_as_written_last() -> None:
    found = submit(a_document("Deployment", {"replicas": 3, "template": TEMPLATE}), a_pod(), a_document("Deployment"))
    assert [(workload.kind, len(workload.pods)) for workload in found.workloads] == [("Pod", 1), ("Deployment", 1)]
    assert [(it.kind, it.name, it.document.number) for it in found.ignored] == [("Deployment", "x", 1)]


def test_kinds_without_pods_are_reported_as_ignored() -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}}
    found = submit(service, a_pod(), a_document("Job", {}, "kubeflow.org/v1"))
    assert [(it.kind, it.name) for it in found.ignored] == [("Service", "web"), ("Job", "x")]
    assert len(found.workloads) == 1


def test_a_volcano_job_is_a_gang_of_all_its_replicas() -> None:
    job = only(a_vcjob({"name": "ps"}, {"name": "worker", "replicas": 2, "minAvailable": 1}, {"replicas": 1}))
    assert names(job) == ["x-ps-0", "x-worker-0", "x-worker-1", "x-default2-0"]
    assert job.gang is not None
    assert (job.gang.group, job.gang.min_member, job.gang.queue) == ("default/x", 3, "default")
    assert job.gang.min_by_task == {"ps": 1, "worker": 1, "default2": 1}


def test_a_volcano_job_that_needs_fewer_pods_than_its_tasks_does_not_hold_the_tasks() -> None:
    gang = only(a_vcjob({"name": "a", "replicas": 4}, minAvailable=2)).gang
    assert gang is not None
    assert (gang.min_member, gang.min_by_task) == (2, {})


def test_a_volcano_job_with_min_available_0_has_the_default() -> None:
    gang = only(a_vcjob({"name": "a", "replicas": 4}, minAvailable=0)).gang
    assert gang is not None
    assert gang.min_member == 4


def test_partitions_of_a_task_give_its_minimum() -> None:
    partitions = {"totalPartitions": 4, "partitionSize": 2, "minPartitions": 3}
    gang = only(a_vcjob({"name": "a", "replicas": 8, "partitionPolicy": partitions})).gang
    assert gang is not None
    assert gang.min_by_task == {"a": 6}


def test_pods_of_a_volcano_job_carry_what_its_controller_stamps() -> None:
    metadata = {"namespace": "ml", "uid": "u-1", "annotations": {"volcano.sh/preemptable": "true", "mine": "stays"}}
    task = {"name": "w", "replicas": 2, "topologyPolicy": "single-numa-node"}
    job = only(a_vcjob(task, queue="gold", priorityClassName="high", metadata=metadata))
    pod = objects.pod(job.pods[1].raw)
    assert (pod.full_name, pod.scheduler) == ("ml/x-w-1", "volcano")
    assert job.pods[1].raw["spec"] == {
        "containers": [CONTAINER],
        "schedulerName": "volcano",
        "priorityClassName": "high",
    }
    assert pod.annotations == {
        "scheduling.k8s.io/group-name": "x-u-1",
        "volcano.sh/job-name": "x",
        "volcano.sh/job-version": "0",
        "volcano.sh/job-retry-count": "0",
        "volcano.sh/queue-name": "gold",
        "volcano.sh/task-spec": "w",
        "volcano.sh/task-index": "1",
        "volcano.sh/template-uid": "x-w",
        "volcano.sh/numa-topology-policy": "single-numa-node",
        "volcano.sh/preemptable": "true",
    }
    assert pod.labels == {
        "app": "x",
        "volcano.sh/job-name": "x",
        "volcano.sh/job-namespace": "ml",
        "volcano.sh/queue-name": "gold",
        "volcano.sh/task-spec": "w",
        "volcano.sh/task-index": "1",
    }
    assert (job.queue, job.priority_class) == ("gold", "high")
    assert job.gang is not None
    assert job.gang.group == "ml/x-u-1"


def test_a_task_template_keeps_its_own_scheduler_and_priority() -> None:
    spec = {"containers": [CONTAINER], "schedulerName": "mine", "priorityClassName": "low"}
    job = only(a_vcjob({"template": {"spec": spec}}, priorityClassName="high"))
    assert job.pods[0].raw["spec"] == spec


@pytest.mark.parametrize(
    "metadata",
    [
        {"annotations": {"scheduling.k8s.io/group-name": "g"}},
        {"labels": {"scheduling.x-k8s.io/pod-group": "g"}},
        {"labels": {"pod-group.scheduling.sigs.k8s.io": "g"}},
        {"labels": {"pod-group.scheduling.sigs.k8s.io/name": "g"}},
        {"annotations": {"gang.scheduling.koordinator.sh/name": "g"}},
    ],
)
def test_pods_belong_to_the_pod_group_that_they_name(metadata: dict[str, Any]) -> None:
    group = a_pod_group(minMember=2, queue="gold", minTaskMember={"w": 1})
    found = submit(group, a_pod("a", **metadata), a_pod("b", **metadata), a_pod("c"))
    gangs = [workload.gang for workload in found.workloads]
    assert [gang and (gang.group, gang.min_member, gang.queue, gang.exists) for gang in gangs] == [
        ("default/g", 2, "gold", True),
        ("default/g", 2, "gold", True),
        None,
    ]
    assert gangs[0] is not None
    assert gangs[0].min_by_task == {"w": 1}
    assert found.pod_groups["default/g"].min_member == 2


def test_a_group_that_the_cluster_has_already_is_known() -> None:
    known = {"default/g": PodGroup(namespace="default", name="g", min_member=3)}
    gang = only(a_pod(annotations={"scheduling.k8s.io/group-name": "g"}), pod_groups=known).gang
    assert gang is not None
    assert (gang.min_member, gang.exists) == (3, True)


def test_a_group_that_nobody_made_is_said_not_to_exist() -> None:
    gang = only(a_pod(annotations={"scheduling.k8s.io/group-name": "g"})).gang
    assert gang is not None
    assert not gang.exists


KOORDINATORS = "gang.scheduling.koordinator.sh"


def test_annotations_alone_make_a_gang_of_koordinators() -> None:
    gang = only(a_pod(annotations={f"{KOORDINATORS}/name": "g", f"{KOORDINATORS}/min-available": "4"})).gang
    assert gang is not None
    assert (gang.group, gang.min_member, gang.exists) == ("default/g", 4, True)


def test_a_pod_group_says_more_than_the_annotations_of_its_pods() -> None:
    annotations = {f"{KOORDINATORS}/name": "g", f"{KOORDINATORS}/min-available": "4"}
    (found,) = submit(a_pod_group(minMember=2), a_pod(annotations=annotations)).workloads
    assert found.gang is not None
    assert found.gang.min_member == 2


def test_a_gang_that_need_not_be_complete_is_none() -> None:
    metadata = {f"{KOORDINATORS}/name": "g", f"{KOORDINATORS}/min-available": "4", f"{KOORDINATORS}/mode": "NonStrict"}
    assert only(a_pod(annotations=metadata)).gang is None


def test_a_gang_of_no_number_is_refused() -> None:
    with pytest.raises(ManifestError, match="min-available of its pods has to be a whole number"):
        only(a_pod(annotations={f"{KOORDINATORS}/name": "g", f"{KOORDINATORS}/min-available": "many"}))


def test_groups_of_koordinators_scheduler_are_read() -> None:
    found = submit(a_document("PodGroup", {"minMember": 2}, "scheduling.sigs.k8s.io/v1alpha1", name="c"))
    assert found.pod_groups["default/c"].min_member == 2


def test_groups_of_both_schedulers_are_read() -> None:
    found = submit(a_document("PodGroup", {"minMember": 2}, "scheduling.x-k8s.io/v1alpha1", name="c"))
    assert found.pod_groups["default/c"].min_member == 2
    assert not found.ignored


def test_volcano_makes_a_gang_of_a_deployment_only_when_annotated() -> None:
    template = {"spec": {"containers": [CONTAINER], "schedulerName": "volcano"}}
    annotations = {"scheduling.volcano.sh/group-min-member": "2", "scheduling.volcano.sh/queue-name": "gold"}
    spec = {"replicas": 3, "template": template}
    gang = only(a_document("Deployment", spec, annotations=annotations)).gang
    assert gang is not None
    assert (gang.group, gang.min_member, gang.queue) == ("default/podgroup-x", 2, "gold")
    assert only(a_document("Deployment", spec)).gang is None
    assert only(a_document("Deployment", spec, annotations={**annotations, next(iter(annotations)): "1"})).gang is None
    assert only(a_document("Deployment", annotations=annotations)).gang is None


def test_the_queue_is_empty_outside_volcano() -> None:
    volcano = {"schedulerName": "volcano"}
    assert only(a_pod()).queue == ""
    assert only(a_pod(spec=volcano)).queue == "default"
    assert only(a_pod(spec=volcano, annotations={"scheduling.volcano.sh/queue-name": "gold"})).queue == "gold"


def test_queues_and_quotas_come_out_as_values() -> None:
    queue = a_document(
        "Queue",
        {"weight": 3, "capability": {"volcano.sh/vgpu-number": 8}, "guarantee": {"resource": {"cpu": "500m"}}},
        "scheduling.volcano.sh/v1beta1",
        name="gold",
    )
    first = a_document("ResourceQuota", {"hard": {"limits.nvidia.com/gpumem": "8k", "pods": 10}}, "v1", name="a")
    second = a_document("ResourceQuota", {"hard": {"limits.nvidia.com/gpumem": 6000}}, "v1", name="b")
    found = submit(queue, first, second)
    assert (found.queues["gold"].weight, found.queues["gold"].open) == (3, True)
    assert found.queues["gold"].capability == {"volcano.sh/vgpu-number": 8 * NANO}
    assert found.queues["gold"].guarantee == {"cpu": NANO // 2}
    assert found.quotas["default"].hard == {"limits.nvidia.com/gpumem": 6000 * NANO, "pods": 10 * NANO}


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (a_document("Deployment", {"replicas": -1, "template": TEMPLATE}), "spec.replicas: -1 is negative"),
        (a_document("Deployment", {"replicas": "3", "template": TEMPLATE}), "spec.replicas: has to be a whole number"),
        (a_document("Deployment", {"replicas": True, "template": TEMPLATE}), "spec.replicas: has to be a whole number"),
        (a_document("Deployment", {"replicas": 2.5, "template": TEMPLATE}), "spec.replicas: has to be a whole number"),
        (a_document("Deployment", {"replicas": 1_000_001, "template": TEMPLATE}), "1000001 is more than 1000000"),
        (a_document("Deployment", {}), "template is missing"),
        (a_document("Deployment", {"template": {"spec": {}}}), "spec.template.spec: a pod needs containers"),
        (a_document("Deployment", {"template": []}), "spec.template: has to be a mapping"),
        (a_document("CronJob", {}, "batch/v1"), "jobTemplate is missing"),
        (a_document("Job", {"completions": -1, "template": TEMPLATE}, "batch/v1"), "spec.completions: -1 is negative"),
        (a_pod(spec={"containers": [1]}), "spec.containers[0]: has to be a mapping"),
        (a_pod(spec={"containers": {}}), "spec.containers: has to be a list"),
        (a_pod(annotations={"a": True}), "metadata.annotations.a: has to be text"),
        (a_pod(spec={"schedulerName": 3}), "spec.schedulerName: has to be text"),
        (a_pod(name=""), "metadata.name is missing"),
        (a_vcjob(), "a job needs tasks"),
        (a_vcjob({"name": "A_b"}), "spec.tasks[0].name: 'A_b' cannot be part of a pod's name"),
        (a_vcjob({"name": "a"}, {"name": "a"}), "spec.tasks[1].name: another task is also called 'a'"),
        (a_vcjob({"replicas": 1, "minAvailable": 2}), "spec.tasks[0].minAvailable: 2 is more than the task's 1"),
        (a_vcjob({"replicas": 2}, minAvailable=3), "spec.minAvailable: 3 is more than the 2 replicas"),
        (a_vcjob({"replicas": 600_000}, {"replicas": 600_000}), "spec.tasks: 1200000 pods are more than 1000000"),
        (a_pod_group(minMember=-1), "spec.minMember: -1 is negative"),
        (a_document("PodGroup", {"minTaskMember": {"a": "x"}}, "scheduling.volcano.sh/v1beta1"), "minTaskMember.a"),
        (
            a_document("Queue", {"capability": {"cpu": "x"}}, "scheduling.volcano.sh/v1beta1"),
            "spec.capability.cpu: not",
        ),
        (a_document("Queue", {"parent": 7}, "scheduling.volcano.sh/v1beta1"), "parent"),
        (a_document("ResourceQuota", {"hard": {"pods": -1}}, "v1"), "spec.hard.pods: -1 is negative"),
    ],
)
def test_what_the_api_server_would_refuse_is_an_error_with_its_place(document: dict[str, Any], words: str) -> None:
    message = fault(a_pod("fine"), document)
    assert message.startswith("f.yaml: document 2, line ")
    assert words in message


@pytest.mark.parametrize("amount", ["x", -1, "-1Gi", True, [1], None])
@pytest.mark.parametrize("key", ["limits", "requests"])
def test_resources_that_are_no_amounts_are_refused(key: str, amount: object) -> None:
    containers = [CONTAINER, {"name": "b", "resources": {key: {"memory": amount}}}]
    assert f"spec.containers[1].resources.{key}.memory: " in fault(a_pod(spec={"containers": containers}))


def test_a_bad_gang_annotation_is_refused() -> None:
    template = {"spec": {"containers": [CONTAINER], "schedulerName": "volcano"}}
    annotations = {"scheduling.volcano.sh/group-min-member": "two"}
    words = 'metadata.annotations["scheduling.volcano.sh/group-min-member"]: has to be a whole number'
    assert words in fault(a_document("Deployment", {"template": template}, annotations=annotations))


def test_all_documents_together_are_bounded() -> None:
    many = {"replicas": 500_001, "template": TEMPLATE}
    message = fault(a_document("Deployment", many, name="a"), a_document("Deployment", many, name="b"))
    assert "document 2" in message
    assert "1000002 pods, more than 1000000; plan them in several runs" in message


def test_amounts_may_be_numbers_or_text() -> None:
    limits = {"a/whole": 3, "b/point": 16.0, "c/text": "1k"}
    pod = objects.pod(only(a_pod(spec={"containers": [{"name": "m", "resources": {"limits": limits}}]})).pods[0].raw)
    assert {name: amount.text for name, amount in pod.containers[0].limits.items()} == {
        "a/whole": "3",
        "b/point": "16",
        "c/text": "1k",
    }


@pytest.mark.parametrize("path", DRY_RUNS, ids=lambda path: path.stem)
def test_torchx_dry_runs_are_read_as_they_are(path: Path) -> None:
    found = workloads.read(manifests.read(path.read_text(), source=path.name))
    (job,) = found.workloads
    body = next(iter(yaml.safe_load_all(path.read_text())))
    assert len(job.pods) == len(body["spec"]["tasks"])
    assert job.queue == body["spec"]["queue"]
    assert job.gang is not None
    assert job.gang.min_member == sum(task.get("minAvailable", 1) for task in body["spec"]["tasks"])
    assert job.gang.min_member == sum(job.gang.min_by_task.values())
    for pod in job.pods:
        limits = objects.pod(pod.raw).containers[0].limits
        assert limits.keys() & {"aws.amazon.com/neuron", "aws.amazon.com/neurondevice"}


def test_there_are_twelve_dry_runs() -> None:
    assert len(DRY_RUNS) == 12


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.parent.name)
def test_the_submission_of_a_scenario_gives_the_pods_that_volcano_saw(path: Path) -> None:
    found = workloads.read(manifests.read(path.read_text(), source=path.name))
    expect = yaml.safe_load((path.parent / "expect.yaml").read_text())
    jobs = {name for name in expect["rejected"] if name.startswith("Job/")}
    rejected = {name.removeprefix("Pod/") for name in expect["rejected"] if name not in jobs}
    seen = {*expect["placed"], *expect["pending"], *rejected}
    taken = [each for each in found.workloads if f"Job/{each.name}" not in jobs]
    made = {objects.pod(pod.raw).full_name for workload in taken for pod in workload.pods}
    assert made == {name if "/" in name else f"default/{name}" for name in seen}
    assert not found.ignored


BASES = (
    a_pod(annotations={"scheduling.k8s.io/group-name": "g"}),
    a_document("Deployment", {"replicas": 2, "template": TEMPLATE}),
    a_document("CronJob", {"jobTemplate": {"spec": {"parallelism": 2, "template": TEMPLATE}}}, "batch/v1"),
    a_vcjob({"name": "w", "replicas": 2, "minAvailable": 1}, queue="q", minAvailable=1),
    a_pod_group(minMember=2, minTaskMember={"w": 1}, minResources={"cpu": 1}),
    a_document("Queue", {"weight": 1, "guarantee": {"resource": {"cpu": 1}}}, "scheduling.volcano.sh/v1beta1"),
    a_document("ResourceQuota", {"hard": {"pods": 1}}, "v1"),
)


@given(st.lists(st.sampled_from(BASES).flatmap(mutations.damaged), min_size=1, max_size=4))
def test_only_manifest_errors_come_out_of_any_documents(documents: list[Any]) -> None:
    text = "\n".join(json.dumps(document) for document in documents)
    with suppress(ManifestError):
        for workload in workloads.read(manifests.read(text, source="f")).workloads:
            assert workload.document.line >= 1
            assert len(workload.pods) <= 1_000_000


def test_a_template_whose_pods_cannot_be_read_is_an_error_with_its_place() -> None:
    template = {"spec": {"containers": [CONTAINER], "tolerations": "all"}}
    with pytest.raises(ManifestError, match=r"spec\.template.*tolerations") as caught:
        submit(a_document("Deployment", {"template": template}))
    assert caught.value.place is not None
