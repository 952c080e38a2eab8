"""Workloads of kinds that Kubernetes and Volcano do not bring: their pods are found by the shape of a pod template."""

from __future__ import annotations

from typing import Any

import pytest

from hami_plugins.errors import ManifestError
from tests.unit.inputs.test_workloads import CONTAINER, TEMPLATE, a_document, names, only, submit

WORKER = {"template": TEMPLATE}


def resources_of(workload: Any) -> Any:
    return workload.pods[0].raw["spec"]["containers"][0]["resources"]


@pytest.mark.parametrize(
    ("kind", "version", "spec", "pods"),
    [
        pytest.param(
            "PyTorchJob",
            "kubeflow.org/v1",
            {"pytorchReplicaSpecs": {"Master": {"replicas": 1, **WORKER}, "Worker": {"replicas": 2, **WORKER}}},
            ["x-master-0", "x-worker-0", "x-worker-1"],
            id="PyTorchJob",
        ),
        pytest.param(
            "TFJob",
            "kubeflow.org/v1",
            {"tfReplicaSpecs": {"PS": WORKER, "Worker": {"replicas": 2, **WORKER}}},
            ["x-ps-0", "x-worker-0", "x-worker-1"],
            id="TFJob",
        ),
        pytest.param(
            "MPIJob",
            "kubeflow.org/v2beta1",
            {"slotsPerWorker": 8, "mpiReplicaSpecs": {"Launcher": WORKER, "Worker": {"replicas": 2, **WORKER}}},
            ["x-launcher-0", "x-worker-0", "x-worker-1"],
            id="MPIJob",
        ),
        pytest.param(
            "RayCluster",
            "ray.io/v1",
            {
                "headGroupSpec": WORKER,
                "workerGroupSpecs": [
                    {"groupName": "gpu", "replicas": 2, "minReplicas": 0, "numOfHosts": 2, **WORKER},
                    {"groupName": "cold", "replicas": 0, **WORKER},
                    {"groupName": "least", "minReplicas": 1, "maxReplicas": 5, **WORKER},
                ],
            },
            ["x-head-0", "x-gpu-0", "x-gpu-1", "x-gpu-2", "x-gpu-3", "x-least-0"],
            id="RayCluster",
        ),
        pytest.param(
            "RayJob",
            "ray.io/v1",
            {"rayClusterSpec": {"headGroupSpec": WORKER, "workerGroupSpecs": [{"replicas": 1, **WORKER}]}},
            ["x-head-0", "x-0"],
            id="RayJob",
        ),
        pytest.param(
            "JobSet",
            "jobset.x-k8s.io/v1alpha2",
            {
                "replicatedJobs": [
                    {"name": "driver", "template": {"spec": WORKER}},
                    {
                        "name": "workers",
                        "replicas": 2,
                        "template": {"spec": {"parallelism": 3, "completions": 2, **WORKER}},
                    },
                ]
            },
            ["x-driver-0", "x-workers-0", "x-workers-1", "x-workers-2", "x-workers-3"],
            id="JobSet",
        ),
        pytest.param(
            "LeaderWorkerSet",
            "leaderworkerset.x-k8s.io/v1",
            {"replicas": 2, "leaderWorkerTemplate": {"size": 3, "workerTemplate": TEMPLATE}},
            ["x-worker-0", "x-worker-1", "x-worker-2", "x-worker-3", "x-worker-4", "x-worker-5"],
            id="LeaderWorkerSet without leader template",
        ),
        pytest.param(
            "LeaderWorkerSet",
            "leaderworkerset.x-k8s.io/v1",
            {
                "replicas": 2,
                "leaderWorkerTemplate": {"size": 3, "leaderTemplate": TEMPLATE, "workerTemplate": TEMPLATE},
            },
            ["x-leader-0", "x-leader-1", "x-worker-0", "x-worker-1", "x-worker-2", "x-worker-3"],
            id="LeaderWorkerSet with leader template",
        ),
        pytest.param(
            "Odd",
            "example.com/v1",
            {"replicas": [{"Master": WORKER}], "parallelism": {"data": 2, "hosts": WORKER}},
            ["x-0", "x-1"],
            id="a count that is not one in a kind that is not known",
        ),
        pytest.param("Rollout", "argoproj.io/v1alpha1", {"replicas": 2, **WORKER}, ["x-0", "x-1"], id="Rollout"),
        pytest.param("CloneSet", "apps.kruise.io/v1alpha1", {"replicas": 2, **WORKER}, ["x-0", "x-1"], id="CloneSet"),
        pytest.param("Service", "serving.knative.dev/v1", WORKER, ["x-0"], id="Knative Service"),
        pytest.param(
            "AppWrapper",
            "workload.codeflare.dev/v1beta2",
            {"components": [{"template": a_document("Deployment", {"replicas": 2, **WORKER})}]},
            ["x-0", "x-1"],
            id="AppWrapper",
        ),
        pytest.param(
            "TrainJob",
            "trainer.kubeflow.org/v1alpha1",
            {
                "runtimeRef": {"name": "torch-distributed"},
                "trainer": {"numNodes": 2, "resourcesPerNode": CONTAINER["resources"]},
            },
            ["x-node-0", "x-node-1"],
            id="TrainJob",
        ),
    ],
)
def test_pods_are_found_in_a_kind_of_another_controller(
    kind: str, version: str, spec: dict[str, Any], pods: list[str]
) -> None:
    found = submit(a_document(kind, spec, version))
    assert found.ignored == ()
    assert [name for workload in found.workloads for name in names(workload)] == pods
    assert {(each.kind, each.full_name) for each in found.workloads} == {(kind, "default/x")}


def test_a_daemon_set_of_another_controller_is_one_pod_for_every_node() -> None:
    assert only(a_document("DaemonSet", WORKER, "apps.kruise.io/v1alpha1")).per_node


def test_a_train_job_asks_for_what_its_trainer_says_and_goes_where_its_overrides_say() -> None:
    spec = {
        "trainer": {"resourcesPerNode": CONTAINER["resources"]},
        "podTemplateOverrides": [
            {"targetJobs": [{"name": "dataset-initializer"}], "spec": {"nodeSelector": {"disk": "big"}}},
            {"targetJobs": [{"name": "node"}], "spec": {"nodeSelector": {"gpu": "h100"}, "schedulerName": "volcano"}},
        ],
    }
    (workload,) = submit(a_document("TrainJob", spec, "trainer.kubeflow.org/v1alpha1")).workloads
    assert names(workload) == ["x-node-0"]
    assert resources_of(workload) == CONTAINER["resources"]
    assert workload.pods[0].raw["spec"]["nodeSelector"] == {"gpu": "h100"}  # type: ignore[index]
    assert workload.pods[0].raw["spec"]["schedulerName"] == "volcano"  # type: ignore[index]


@pytest.mark.parametrize(
    ("kind", "version", "spec"),
    [
        ("InferenceService", "serving.kserve.io/v1beta1", {"predictor": {"model": CONTAINER}}),
        ("InferenceService", "serving.kserve.io/v1beta1", {"predictor": {"containers": [CONTAINER]}}),
    ],
)
def test_what_runs_pods_that_its_object_does_not_name_is_said_to_run_some(
    kind: str, version: str, spec: dict[str, Any]
) -> None:
    (ignored,) = submit(a_document(kind, spec, version)).ignored
    assert ignored.has_pods
    assert ignored.why == "the pods that its controller creates are not written in it; add them as manifests"


@pytest.mark.parametrize(
    "devices", [{"gpus": [{"deviceName": "nvidia.com/GP102GL"}]}, {"hostDevices": [{"name": "a"}]}]
)
@pytest.mark.parametrize("kind", ["VirtualMachine", "VirtualMachinePool"])
def test_a_virtual_machine_with_devices_is_left_out_and_said_to_get_no_slice(
    kind: str, devices: dict[str, Any]
) -> None:
    group = "pool.kubevirt.io/v1alpha1" if kind.endswith("Pool") else "kubevirt.io/v1"
    machine = {"template": {"spec": {"domain": {"devices": devices}}}}
    (ignored,) = submit(a_document(kind, {"virtualMachineTemplate": {"spec": machine}} | machine, group)).ignored
    assert ignored.has_pods
    assert "a slice of a device is mounted into a container and does not reach it" in ignored.why


def test_a_virtual_machine_without_devices_runs_no_pods_that_a_plan_counts() -> None:
    machine: dict[str, Any] = {"template": {"spec": {"domain": {"devices": {"gpus": []}}}}}
    (ignored,) = submit(a_document("VirtualMachine", machine, "kubevirt.io/v1")).ignored
    assert not ignored.has_pods
    (other,) = submit(a_document("Machine", {"gpus": [1]}, "example.com/v1")).ignored
    assert not other.has_pods


@pytest.mark.parametrize(
    ("kind", "version"),
    [
        ("PodTemplate", "v1"),
        ("TrainingRuntime", "trainer.kubeflow.org/v1alpha1"),
        ("ClusterTrainingRuntime", "trainer.kubeflow.org/v1alpha1"),
        ("JobTemplate", "flow.volcano.sh/v1alpha1"),
        ("PersistentVolumeClaim", "v1"),
    ],
)
def test_a_template_alone_runs_no_pods(kind: str, version: str) -> None:
    claim = {"resources": {"requests": {"storage": "1Gi"}}}
    (ignored,) = submit(a_document(kind, claim if "Claim" in kind else WORKER, version)).ignored
    assert not ignored.has_pods


def test_templates_of_one_name_make_pods_of_different_names() -> None:
    found = submit(a_document("Odd", {"first": WORKER, "second": [WORKER, WORKER]}, "example.com/v1"))
    made = [name for workload in found.workloads for name in names(workload)]
    assert len(made) == len(set(made)) == 3


def test_a_volcano_cron_job_counts_as_one_run_of_its_job() -> None:
    job = {"queue": "research", "tasks": [{"name": "worker", "replicas": 2, "template": TEMPLATE}]}
    workload = only(a_document("CronJob", {"jobTemplate": {"spec": job}}, "batch.volcano.sh/v1alpha1"))
    assert names(workload) == ["x-worker-0", "x-worker-1"]
    assert (workload.queue, workload.is_volcano_job) == ("research", True)


def test_a_wrong_count_is_an_error_with_its_place() -> None:
    with pytest.raises(ManifestError, match=r"spec.replicas: has to be a whole number"):
        submit(a_document("Rollout", {"replicas": "two", **WORKER}, "argoproj.io/v1alpha1"))


def test_more_pods_than_are_read_are_an_error_with_its_place() -> None:
    groups = {"groups": [{"replicas": 10_000, "numOfHosts": 1000, **WORKER}]}
    with pytest.raises(ManifestError, match=r"groups\[0\].*10000000 pods are more than 1000000, .*; split the object"):
        submit(a_document("Odd", groups, "example.com/v1"))
