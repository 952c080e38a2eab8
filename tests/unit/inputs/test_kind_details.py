"""The finer points of each kind: what multiplies and caps its pods, what is noted, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from hami_plugins.inputs.workloads import Submission
from hami_plugins.plan.replica_rows import ranged
from tests.unit.inputs.test_workloads import TEMPLATE, a_document, a_pod, submit

GPU = {"limits": {"nvidia.com/gpu": 1}}
CPU = {"limits": {"cpu": 1}}
LEAVES = [
    {"name": "gpu", "container": {"image": "a", "resources": GPU}},
    {"name": "cpu", "script": {"image": "a", "source": "", "resources": CPU}},
    {"name": "set", "containerSet": {"containers": [{"name": "a", "resources": GPU}, {"name": "b"}]}},
    {"name": "waits", "suspend": {}},
    {"name": "makes", "resource": {"action": "create", "manifest": ""}},
    {"name": "patched", "podSpecPatch": "{}", "container": {"image": "a"}},
]


def workflow(*templates: dict[str, Any], kind: str = "Workflow", **spec: Any) -> dict[str, Any]:
    body = {"entrypoint": "main", "templates": [*templates, *LEAVES], **spec}
    if kind == "CronWorkflow":
        body = {"schedule": "* * * * *", "workflowSpec": body}
    return a_document(kind, body, "argoproj.io/v1alpha1")


def steps(*groups: Any, **more: Any) -> dict[str, Any]:
    return {"name": "main", "steps": list(groups), **more}


def dag(*tasks: dict[str, Any]) -> dict[str, Any]:
    return {"name": "main", "dag": {"tasks": list(tasks)}}


def call(template: str, **more: Any) -> dict[str, Any]:
    return {"name": template, "template": template, **more}


def pods(found: Submission) -> list[str]:
    return [name for each in found.workloads if len(each.pods) for name in ranged(pod.name for pod in each.pods)]


def notes(found: Submission) -> str:
    return "; ".join(dict.fromkeys(note for each in found.workloads for note in each.notes))


@pytest.mark.parametrize(
    ("made", "expected", "noted"),
    [
        pytest.param(
            workflow(steps([call("gpu", withSequence={"start": "2", "end": 4})])), ["x-gpu-[0-2]"], "", id="range"
        ),
        pytest.param(workflow(steps([call("gpu", withSequence={"end": "3"})])), ["x-gpu-[0-3]"], "", id="from 0"),
        pytest.param(
            workflow(steps([call("gpu", withSequence={"count": "{{inputs.parameters.n}}"})])),
            ["x-gpu-0"],
            "withSequence that an argument fills counts as one",
            id="sequence of an argument",
        ),
        pytest.param(
            workflow(steps([call("gpu", withItems="{{inputs.parameters.n}}")])),
            ["x-gpu-0"],
            "withItems that an argument fills count as one",
            id="items of an argument",
        ),
        pytest.param(
            workflow(steps([call("gpu", withParam="{{steps.a.outputs.result}}")])),
            ["x-gpu-0"],
            "withParam is known only when the workflow runs; counted as one",
            id="items that a step makes",
        ),
        pytest.param(workflow(steps(call("gpu"), [call("gpu")])), ["x-gpu-0"], "", id="a step without its list"),
        pytest.param(workflow(steps([call("set"), call("waits")])), ["x-set-0"], "", id="a set of containers"),
        pytest.param(
            workflow(steps([call("makes"), call("gpu")])),
            ["x-gpu-0"],
            "template makes creates an object of its own, which is not read; add it with -f",
            id="an object that a step creates",
        ),
        pytest.param(workflow(steps([call("patched")])), ["x-patched-0"], "podSpecPatch is not applied", id="a patch"),
        pytest.param(
            workflow(steps([call("gpu", withItems=list(range(9)))], parallelism=2)), ["x-gpu-[0-1]"], "", id="capped"
        ),
        pytest.param(
            workflow(steps([call("gpu", withItems=[1, 2, 3]), call("cpu", withItems=[1, 2, 3])]), parallelism=2),
            ["x-gpu-[0-1]", "x-cpu-[0-1]"],
            "at most 2 of these pods run at once; steps that run later are planned at the same time",
            id="capped as a whole",
        ),
        pytest.param(
            workflow(steps([call("gpu")], [call("cpu")])),
            ["x-gpu-0", "x-cpu-0"],
            "at most 1 of these pods run at once",
            id="one after another",
        ),
        pytest.param(
            workflow(dag(call("gpu"), {"name": "b", "template": "gpu"}, {"name": "c", "inline": LEAVES[0]})),
            ["x-gpu-[0-2]"],
            "",
            id="tasks side by side",
        ),
        pytest.param(
            workflow(dag(*({"name": f"t{at}", "template": "gpu"} for at in range(3))), kind="CronWorkflow"),
            ["x-gpu-[0-2]"],
            "",
            id="CronWorkflow",
        ),
        pytest.param(
            workflow(steps([call("main"), call("gpu")])),
            ["x-gpu-[0-31]"],
            "its templates call each other without end; what they start later is not counted",
            id="without end",
        ),
    ],
)
def test_a_workflow_comes_to_the_pods_that_run_at_once(made: dict[str, Any], expected: list[str], noted: str) -> None:
    found = submit(made)
    if "without end" in noted:
        assert pods(found)[0].startswith("x-gpu-[0-")
    else:
        assert pods(found) == expected
    assert noted in notes(found)
    assert bool(noted) == bool(notes(found))


def test_very_many_moments_count_as_one() -> None:
    groups = [[call("gpu" if at % 2 else "cpu")] for at in range(600)]
    assert sorted(pods(submit(workflow(steps(*groups))))) == ["x-cpu-0", "x-gpu-0"]


@pytest.mark.parametrize(("wide", "kind"), [(False, "WorkflowTemplate"), (True, "ClusterWorkflowTemplate")])
def test_a_step_may_call_a_template_of_another_object(wide: bool, kind: str) -> None:
    reference = {"name": "shared", "template": "gpu", "clusterScope": wide}
    shared = a_document(kind, {"templates": LEAVES}, "argoproj.io/v1alpha1", name="shared")
    assert pods(submit(shared, workflow(steps([{"name": "a", "templateRef": reference}])))) == ["x-gpu-0"]


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (workflow({"name": "main", "steps": "gpu"}), "spec.templates[0].steps: has to be a list of lists of steps"),
        (workflow(steps([call("none")])), "steps[0][0].template: no template 'none' among spec.templates"),
        (
            workflow(dag(call("gpu", dependencies=["none"]))),
            "spec.templates[0].dag.tasks[0].dependencies: no task 'none' in this dag",
        ),
        (
            workflow(steps([call("gpu", withSequence={"count": "many"})])),
            "withSequence.count: has to be a whole number",
        ),
        (workflow(steps([call("gpu", withSequence={"count": 2_000_000})])), "2000000 pods are more than 1000000"),
        (
            a_document(
                "JobFlow", {"flows": [{"name": "t", "dependsOn": {"targets": ["none"]}}]}, "flow.volcano.sh/v1alpha1"
            ),
            "spec.flows[0].dependsOn.targets: no flow 'none' in this JobFlow",
        ),
        (a_document("RayCluster", {"headGroupSpec": {"template": TEMPLATE}, "workerGroupSpecs": [{}]}, "ray.io/v1"),
         "spec.workerGroupSpecs[0]: template is missing"),
    ],
)  # fmt: skip
def test_what_a_kind_cannot_mean_is_an_error_with_its_place(made: dict[str, Any], why: str) -> None:
    template = a_document("JobTemplate", {"tasks": [{"template": TEMPLATE}]}, "flow.volcano.sh/v1alpha1", name="t")
    found = submit(template, made, a_document("Deployment", name="healthy"), skip_faulty=True)
    assert [each.name for each in found.workloads] == ["healthy"]
    assert why in found.skipped[0].why


def ray(kind: str, spec: dict[str, Any], **labels: str) -> Submission:
    return submit(a_document(kind, spec, "ray.io/v1", labels=labels))


def test_ray_jobs_on_a_cluster_that_exists_run_a_submitter_alone() -> None:
    spec = {"clusterSelector": {"ray.io/cluster": "a"}, "submitterPodTemplate": TEMPLATE}
    assert pods(ray("RayJob", spec)) == ["x-submitter-0"]
    assert pods(ray("RayCronJob", {"jobTemplate": spec})) == ["x-submitter-0"]
    assert pods(ray("RayJob", {**spec, "submissionMode": "HTTPMode"})) == []


def test_an_autoscaled_group_without_a_largest_number_counts_with_its_own() -> None:
    group = {"groupName": "g", "replicas": 3, "minReplicas": 1, "template": TEMPLATE}
    spec = {"enableInTreeAutoscaling": True, "headGroupSpec": {"template": TEMPLATE}, "workerGroupSpecs": [group]}
    assert "Ray's autoscaler runs 2 to 4 of its pods; planned with the first 4" in notes(ray("RayCluster", spec))


def test_an_elastic_training_job_is_noted() -> None:
    spec = {"elasticPolicy": {"minReplicas": 1}, "pytorchReplicaSpecs": {"Worker": {"template": TEMPLATE}}}
    found = submit(a_document("PyTorchJob", spec, "kubeflow.org/v1"))
    assert notes(found).startswith("elasticPolicy lets the number of workers change")


def test_a_train_job_without_resources_keeps_those_of_its_runtime() -> None:
    template = {"spec": {"containers": [{"name": "node", "resources": GPU}], "schedulerName": "volcano"}}
    job = {
        "name": "node",
        "template": {
            "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
            "spec": {"template": template},
        },
    }
    runtime = {"podGroupPolicy": {"volcano": {}}, "template": {"spec": {"replicatedJobs": [job]}}}
    train = {
        "runtimeRef": {"name": "r"},
        "trainer": {"numNodes": 2},
        "podSpecOverrides": [
            {"targetJobs": [{"name": "node"}], "nodeSelector": {"gpu": "a"}},
            {"targetJobs": [{"name": "other"}], "nodeSelector": {"gpu": "b"}},
        ],
    }
    version = "trainer.kubeflow.org/v1alpha1"
    found = submit(
        a_document("ClusterTrainingRuntime", runtime, version, name="r"), a_document("TrainJob", train, version)
    )
    (workload,) = found.workloads
    spec: Any = workload.pods[0].raw["spec"]
    assert (spec["containers"][0]["resources"], spec["nodeSelector"]) == (GPU, {"gpu": "a"})
    assert workload.gang is not None
    assert (workload.gang.min_member, workload.queue) == (2, "default")


def spark(kind: str = "SparkApplication", **spec: Any) -> Submission:
    body = {"driver": {}, "executor": {}, **spec}
    return submit(
        a_document(kind, {"template": body} if kind.startswith("Scheduled") else body, "sparkoperator.k8s.io/v1beta2")
    )


def test_spark_runs_its_driver_elsewhere_in_client_mode() -> None:
    assert pods(spark(mode="client")) == ["x-exec-0"]
    assert pods(spark("ScheduledSparkApplication")) == ["x-driver-0", "x-exec-0"]


@pytest.mark.parametrize(
    ("dynamic", "executors", "most"),
    [
        ({"enabled": False, "initialExecutors": 9}, "x-exec-[0-1]", ""),
        ({"enabled": True}, "x-exec-[0-1]", "Spark runs any number of executors as it needs them"),
        ({"enabled": True, "initialExecutors": 3, "maxExecutors": 9}, "x-exec-[0-2]", "Spark runs up to 9 executors"),
        ({"enabled": True, "minExecutors": 4}, "x-exec-[0-3]", "planned with 4"),
    ],
)
def test_spark_starts_with_the_executors_that_it_has_at_first(
    dynamic: dict[str, Any], executors: str, most: str
) -> None:
    found = spark(executor={"instances": 2}, dynamicAllocation=dynamic)
    assert pods(found) == ["x-driver-0", executors]
    assert most in notes(found)


def test_spark_adds_to_what_a_template_has() -> None:
    template = {
        "metadata": {"labels": {"a": "1"}},
        "spec": {
            "containers": [{"name": "side"}, {"name": "spark-kubernetes-driver", "resources": {"limits": {"x/y": 1}}}]
        },
    }
    driver = {
        "template": template,
        "coreLimit": "2",
        "coreRequest": "500m",
        "memory": "1t",
        "labels": {"b": "2"},
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "schedulerName": "other",
        "sidecars": [{"name": "more"}],
    }
    pod = spark(driver=driver, type="Python", memoryOverheadFactor="0.5").workloads[0].pods[0].raw
    spec: Any = pod["spec"]
    main, *others = spec["containers"]
    memory = 2**40 + 2**39
    assert main["resources"] == {
        "limits": {"x/y": 1, "cpu": "2", "memory": memory},
        "requests": {"cpu": "500m", "memory": memory},
    }
    assert [each["name"] for each in others] == ["side", "more"]
    assert (spec["schedulerName"], spec["tolerations"]) == ("other", driver["tolerations"])
    metadata: Any = pod["metadata"]
    assert metadata["labels"] == {"a": "1", "b": "2"}


def test_python_needs_more_beside_the_heap() -> None:
    def asked(language: str) -> Any:
        spec: Any = spark(type=language, driver={"memory": "10g"}).workloads[0].pods[0].raw["spec"]
        return spec["containers"][0]["resources"]["requests"]["memory"] / 2**30

    assert (asked("Python"), asked("R"), asked("Scala")) == (14, 14, 11)


def test_a_hyper_job_that_needs_all_its_jobs_has_nothing_more_to_note() -> None:
    jobs = [{"name": "a", "templateSpec": {"tasks": [{"template": TEMPLATE}]}}]
    found = submit(a_document("HyperJob", {"replicatedJobs": jobs}, "training.volcano.sh/v1alpha1", uid="u"))
    assert notes(found) == "a HyperJob may send its jobs to several clusters; planned on this one alone"
    assert [each.gang.group for each in found.workloads if each.gang] == ["default/x-a-0"]


def test_flows_of_one_shape_that_wait_for_each_other_count_once() -> None:
    templates = [
        a_document("JobTemplate", {"tasks": [{"template": TEMPLATE}]}, "flow.volcano.sh/v1alpha1", name=name)
        for name in "abc"
    ]
    waits = {"targets": ["a"]}
    flows: list[dict[str, Any]] = [{"name": "a"}, {"name": "b", "dependsOn": waits, "patch": {}}]
    found = submit(*templates, a_document("JobFlow", {"flows": flows}, "flow.volcano.sh/v1alpha1"))
    assert pods(found) == ["x-a-default0-0"]
    assert "patches of its flows are not applied" in notes(found)
    probed = [*flows, {"name": "c", "dependsOn": {**waits, "probe": {}}}]
    found = submit(*templates, a_document("JobFlow", {"flows": probed}, "flow.volcano.sh/v1alpha1"))
    assert pods(found) == ["x-a-default0-0", "x-b-default0-0"]


def test_many_tasks_that_wait_for_each_other_are_never_too_few() -> None:
    chain = [{"name": f"c{at}", "template": "gpu", "dependencies": [f"c{at - 1}"] if at else []} for at in range(20)]
    (row,) = pods(submit(workflow(dag(*chain, {"name": "beside", "template": "gpu"}))))
    assert row == "x-gpu-[0-20]"
    (row,) = pods(submit(workflow(dag(*chain[:12], {"name": "beside", "template": "gpu"}))))
    assert row == "x-gpu-[0-1]"


def test_a_clique_by_itself_is_a_gang() -> None:
    spec = {"replicas": 3, "minAvailable": 2, "podSpec": TEMPLATE["spec"]}
    (found,) = submit(a_document("PodClique", spec, "grove.io/v1alpha1")).workloads
    assert found.gang is not None
    assert (found.gang.group, found.gang.min_member, len(found.pods)) == ("default/x", 2, 3)


def test_a_cron_job_whose_runs_wait_for_each_other_has_nothing_to_note() -> None:
    spec = {"concurrencyPolicy": "Forbid", "jobTemplate": {"spec": {"template": TEMPLATE}}}
    assert notes(submit(a_document("CronJob", spec, "batch/v1"))) == ""


def test_kinds_inside_another_one_are_counted_by_their_shape() -> None:
    group = {"groupName": "g", "replicas": 2, "numOfHosts": 2, "template": TEMPLATE}
    cluster = a_document(
        "RayCluster", {"headGroupSpec": {"template": TEMPLATE}, "workerGroupSpecs": [group]}, "ray.io/v1"
    )
    sets = [
        a_document(
            "LeaderWorkerSet",
            {"replicas": 2, "leaderWorkerTemplate": {"size": 3, "workerTemplate": TEMPLATE, **leader}},
            "leaderworkerset.x-k8s.io/v1",
        )
        for leader in ({}, {"leaderTemplate": TEMPLATE})
    ]
    job = a_document("PyTorchJob", {"pytorchReplicaSpecs": {"Master": {"template": TEMPLATE}}}, "kubeflow.org/v1")
    parts = [{"template": each} for each in (cluster, *sets, job)]
    found = submit(a_document("AppWrapper", {"components": parts}, "workload.codeflare.dev/v1beta2"))
    assert sum(len(each.pods) for each in found.workloads) == 1 + 4 + 6 + (2 + 4) + 1


def test_pods_are_a_sequence_that_is_made_as_it_is_read() -> None:
    (found,) = submit(a_document("Deployment", {"replicas": 1_000_000, "template": TEMPLATE})).workloads
    assert [len(found.pods), found.pods[0].name, found.pods[-1].name] == [1_000_000, "x-0", "x-999999"]
    assert [pod.name for pod in found.pods[5:7]] == ["x-5", "x-6"]
    with pytest.raises(IndexError):
        found.pods[1_000_000]
    (single,) = submit(a_pod("p")).workloads
    assert [pod.name for pod in single.pods] == [single.pods[0].name] == ["p"]


@pytest.mark.parametrize(("policy", "least"), [("LeaderReady", 1), ("LeaderCreated", 3)])
def test_workers_that_wait_for_their_leader_are_not_needed_to_start(policy: str, least: int) -> None:
    template = {"spec": {**TEMPLATE["spec"], "schedulerName": "volcano"}}
    spec = {"startupPolicy": policy, "leaderWorkerTemplate": {"size": 3, "workerTemplate": template}}
    (found,) = submit(a_document("LeaderWorkerSet", spec, "leaderworkerset.x-k8s.io/v1")).workloads
    assert found.gang is not None
    assert found.gang.min_member == least
