"""Submitted objects, kind by kind: the number of pods, which of them start together, and the notes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from hami_plugins.errors import ManifestError
from hami_plugins.inputs import manifests, workloads
from hami_plugins.inputs.workloads import Submission, kinds
from hami_plugins.plan.replica_rows import ranged
from tests.unit.inputs.test_workloads import TEMPLATE, a_document, submit

KINDS = Path(__file__).parent / "kinds"


class Gang(NamedTuple):
    """A gang as the table writes it: its name, how many pods start together, and the queue."""

    name: str
    least: int
    queue: str = ""


RAY = Gang("nlp/ray-tune-pg", 4, "research")
GROVE = (Gang("nlp/disaggregated-0-0", 5), Gang("nlp/disaggregated-0-1", 4))
TABLE: dict[str, dict[str, Gang | None]] = {
    "pytorchjob": dict.fromkeys(("bert-master-0", "bert-worker-[0-2]"), Gang("nlp/bert", 3, "research")),
    "mpijob": dict.fromkeys(("allreduce-launcher-0", "allreduce-worker-[0-3]"), Gang("nlp/allreduce", 5, "research")),
    "tfjob": dict.fromkeys(("recommender-ps-[0-1]", "recommender-worker-0")),
    "xgboostjob": dict.fromkeys(("trees-master-0", "trees-worker-[0-1]"), Gang("nlp/trees", 3)),
    "trainjob": dict.fromkeys(("llama-dataset-initializer-0", "llama-node-[0-3]"), Gang("nlp/llama", 5)),
    "trainjob-mpi": dict.fromkeys(("gpt-node-[0-1]", "gpt-launcher-0")),
    "raycluster": dict.fromkeys(("tune-head-0", "tune-slices-[0-1]", "tune-tpu-[0-1]", "tune-many-[0-2]"), RAY),
    "rayjob": {
        **dict.fromkeys(("batch-head-0", "batch-gpu-[0-2]"), Gang("nlp/ray-batch-pg", 4)),
        "batch-submitter-0": None,
    },
    "rayservice": dict.fromkeys(("chat-head-0", "chat-gpu-[0-1]")),
    "jobset": dict.fromkeys(("sweep-prepare-0", "sweep-workers-[0-5]")),
    "leaderworkerset": {
        **dict.fromkeys(("vllm-leader-0", "vllm-worker-[0-1]"), Gang("nlp/vllm-0", 3, "serving")),
        **dict.fromkeys(("vllm-leader-1", "vllm-worker-[2-3]"), Gang("nlp/vllm-1", 3, "serving")),
    },
    "leaderworkerset-plain": {"vllm-worker-[0-7]": None},
    "workflow": dict.fromkeys(("etl-0-fetch-0", "etl-0-train-[0-2]")),
    "workflow-dag": {"nightly-gpu-[0-1]": None},
    "sparkapplication": dict.fromkeys(
        ("rapids-driver-0", "rapids-exec-[0-2]"), Gang("nlp/spark-rapids-pg", 1, "research")
    ),
    "hyperjob": {
        "huge-part-0-worker-[0-1]": Gang("nlp/huge-part-0", 2, "research"),
        "huge-part-1-worker-[0-1]": Gang("nlp/huge-part-1", 2, "research"),
    },
    "jobflow": {
        "daily-prepare-cpu-0": Gang("nlp/daily-prepare", 1, "default"),
        "daily-train-gpu-[0-1]": Gang("nlp/daily-train", 2, "research"),
    },
    "cronjob": {"hourly-[0-1]": None},
    "grove": {
        **dict.fromkeys(
            (
                "disaggregated-0-router-[0-1]",
                "disaggregated-0-model-0-prefill-[0-1]",
                "disaggregated-0-model-0-decode-[0-2]",
            ),
            GROVE[0],
        ),
        **dict.fromkeys(("disaggregated-0-model-1-prefill-[0-1]", "disaggregated-0-model-1-decode-[0-2]"), GROVE[1]),
    },
    "gang-1.35": {"workers-[0-39]": Gang("nlp/scheduling.k8s.io/training/workers/a", 40)},
    "gang-1.36": {"workers-[0-39]": Gang("nlp/scheduling.k8s.io/workers", 40)},
    "gang-1.37": {"workers-[0-39]": Gang("nlp/scheduling.k8s.io/workers", 40)},
    "gang-job-1.37": {"train-[0-3]": Gang("nlp/scheduling.k8s.io/train", 4)},
    "volcano-podgroup": {"web-[0-1]": Gang("nlp/g", 2, "research")},
}
"""By file: the pods of each run, and the gang that they are members of."""

NOTES = {
    "pytorchjob": "where the operator runs with gang scheduling",
    "raycluster": "Ray's autoscaler runs 4 to 12 of its pods; planned with the first 8",
    "rayservice": "an upgrade of a RayService runs a second cluster",
    "jobset": "until LocalQueue team-a admits it",
    "leaderworkerset-plain": "exclusive-topology: rack keeps each group in one domain of its own; not looked at",
    "workflow": "steps with a condition (when) count as if they ran",
    "hyperjob": "1 of its 2 jobs are enough",
    "jobflow": "at most 1 of its 2 jobs run at once",
    "cronjob": "it is suspended",
    "grove": "Grove's scheduler starts these pods together",
}


def read(name: str, **options: Any) -> Submission:
    text = (KINDS / f"{name}.yaml").read_text()
    return workloads.read(manifests.read(text, source=f"{name}.yaml"), **options)


def test_every_kind_has_its_row() -> None:
    assert {path.stem for path in KINDS.glob("*.yaml")} == TABLE.keys()


@pytest.mark.parametrize("name", TABLE)
def test_a_kind_comes_to_its_pods_and_gangs(name: str) -> None:
    found = read(name)
    assert all(each.silent for each in found.ignored)
    rows = {}
    for each in found.workloads:
        (pods,) = ranged(pod.name for pod in each.pods)
        gang = each.gang
        rows[pods] = None if gang is None else Gang(gang.group, gang.min_member, gang.queue)
        assert gang is None or each.queue == gang.queue
    assert rows == TABLE[name]


@pytest.mark.parametrize("name", NOTES)
def test_what_has_to_be_known_of_a_kind_is_noted(name: str) -> None:
    assert all(any(NOTES[name] in note for note in each.notes) for each in read(name).workloads)


@pytest.mark.parametrize("name", sorted(TABLE.keys() - NOTES.keys() - {"mpijob", "xgboostjob"}))
def test_of_the_others_there_is_nothing_to_note(name: str) -> None:
    assert all(not each.notes for each in read(name).workloads)


def main_resources(name: str, role: str) -> Any:
    (found,) = {id(each): each for each in read(name).workloads if role in each.pods[0].name}.values()
    spec: Any = found.pods[0].raw["spec"]
    return spec, spec["containers"][0]["resources"]


def test_the_trainer_of_a_train_job_gets_its_resources_and_its_place() -> None:
    spec, resources = main_resources("trainjob", "llama-node")
    assert resources == {"limits": {"nvidia.com/gpu": 8}}
    assert spec["nodeSelector"] == {"gpu": "h100"}
    assert spec["containers"][1]["resources"] == {"limits": {"cpu": "100m"}}
    _, of_initializer = main_resources("trainjob", "initializer")
    assert of_initializer == {"limits": {"cpu": 1}}


def test_spark_asks_in_its_own_words() -> None:
    spec, resources = main_resources("sparkapplication", "exec")
    gib = 2**30
    assert resources == {
        "limits": {"memory": 9 * gib, "nvidia.com/gpu": 2},
        "requests": {"cpu": 4, "memory": 9 * gib},
    }
    assert (spec["nodeSelector"], spec["schedulerName"]) == ({"pool": "gpu"}, "volcano")
    _, driver = main_resources("sparkapplication", "driver")
    assert driver["requests"] == {"cpu": 1, "memory": 2 * gib + 384 * 2**20}


def test_volcano_makes_the_pods_of_its_own_jobs_late() -> None:
    made_late = {name for name in TABLE if any(each.is_volcano_job for each in read(name).workloads)}
    assert made_late == {"hyperjob", "jobflow"}


def test_a_kind_that_is_not_known_is_counted_by_its_templates_and_says_so() -> None:
    (found,) = submit(a_document("Farm", {"replicas": 2, "template": TEMPLATE}, "example.com/v1")).workloads
    assert [pod.name for pod in found.pods] == ["x-0", "x-1"]
    (note,) = found.notes
    assert note.startswith("Farm of example.com is not a kind that is known here")


@pytest.mark.parametrize(
    ("document", "why"),
    [
        (
            a_document("TrainJob", {"runtimeRef": {"name": "torch"}}, "trainer.kubeflow.org/v1alpha1"),
            "spec.runtimeRef: ClusterTrainingRuntime torch is not among these manifests, and "
            "spec.trainer.resourcesPerNode is not set; add the runtime with -f",
        ),
        (
            a_document("JobFlow", {"flows": [{"name": "train"}]}, "flow.volcano.sh/v1alpha1"),
            "spec.flows[0].name: JobTemplate train is not among these manifests; add it with -f",
        ),
        (
            a_document("Workflow", {"workflowTemplateRef": {"name": "etl"}}, "argoproj.io/v1alpha1"),
            "spec.workflowTemplateRef: WorkflowTemplate etl is not among these manifests; add it with -f",
        ),
    ],
)
def test_a_reference_to_nothing_is_named_and_the_object_counts_as_skipped(document: dict[str, Any], why: str) -> None:
    healthy = a_document("Deployment", {"template": TEMPLATE}, name="healthy")
    found = submit(document, healthy)
    assert [each.name for each in found.workloads] == ["healthy"]
    (ignored,) = found.skipped
    assert (ignored.kind, ignored.why) == (document["kind"], why)
    assert found.objects == 2


FAULTY = [
    ("Deployment", "apps/v1", {"replicas": -1, "template": TEMPLATE}, "spec.replicas: -1 is negative"),
    ("Deployment", "apps/v1", {"replicas": "3", "template": TEMPLATE}, "spec.replicas: has to be a whole number"),
    ("Deployment", "apps/v1", {"replicas": 3}, "spec: template is missing"),
    ("Farm", "example.com/v1", {"replicas": -1, "template": TEMPLATE}, "spec.replicas: -1 is negative"),
    ("PyTorchJob", "kubeflow.org/v1", {"runPolicy": {}}, "spec: a job needs replica specs"),
    ("PyTorchJob", "kubeflow.org/v1", {"pytorchReplicaSpecs": {"Worker": {}}}, "Worker: template is missing"),
    (
        "SparkApplication",
        "sparkoperator.k8s.io/v1beta2",
        {"driver": {}, "executor": {"memory": "lots"}},
        "spec.executor.memory: 'lots' has to be an amount of memory such as 512m or 4g",
    ),
    (
        "SparkApplication",
        "sparkoperator.k8s.io/v1beta2",
        {"driver": {"gpu": {"name": "nvidia.com/gpu"}}, "executor": {}},
        "spec.driver.gpu.quantity: has to be at least 1",
    ),
    (
        "SparkApplication",
        "sparkoperator.k8s.io/v1beta2",
        {"driver": {"gpu": {"quantity": 1}}, "executor": {}},
        "spec.driver.gpu.name: name of the resource is missing, such as nvidia.com/gpu",
    ),
    (
        "SparkApplication",
        "sparkoperator.k8s.io/v1beta2",
        {"memoryOverheadFactor": "much", "driver": {}, "executor": {}},
        "spec.memoryOverheadFactor: 'much' has to be a number such as 0.1",
    ),
    ("Workflow", "argoproj.io/v1alpha1", {"templates": []}, "spec: entrypoint is missing"),
    (
        "Workflow",
        "argoproj.io/v1alpha1",
        {"entrypoint": "main", "templates": []},
        "spec.entrypoint: no template 'main' among spec.templates",
    ),
    (
        "JobFlow",
        "flow.volcano.sh/v1alpha1",
        {"flows": [{"name": "a", "dependsOn": {"targets": ["b"]}}]},
        "JobTemplate a is not among",
    ),
    ("PodCliqueSet", "grove.io/v1alpha1", {"template": {}}, "spec.template.cliques: a PodCliqueSet needs cliques"),
    (
        "PodCliqueSet",
        "grove.io/v1alpha1",
        {
            "template": {
                "cliques": [{"name": "a", "spec": {"podSpec": TEMPLATE["spec"]}}],
                "podCliqueScalingGroups": [{"name": "g", "cliqueNames": ["b"]}],
            },
            "replicas": 1,
        },
        "podCliqueScalingGroups[0].cliqueNames: no clique 'b' in this set",
    ),
    (
        "PodClique",
        "grove.io/v1alpha1",
        {"replicas": 1, "minAvailable": 2, "podSpec": TEMPLATE["spec"]},
        "spec.minAvailable: 2 is more than the clique's 1 replicas",
    ),
    ("RayCluster", "ray.io/v1", {}, "spec: headGroupSpec is missing"),
    (
        "LeaderWorkerSet",
        "leaderworkerset.x-k8s.io/v1",
        {
            "replicas": 10_001,
            "leaderWorkerTemplate": {"workerTemplate": {"spec": {**TEMPLATE["spec"], "schedulerName": "volcano"}}},
        },
        "spec: 10001 gangs are more than 10000, the most that is read; split the object",
    ),
    ("LeaderWorkerSet", "leaderworkerset.x-k8s.io/v1", {"replicas": 1}, "spec: leaderWorkerTemplate is missing"),
    (
        "PodGroup",
        "scheduling.k8s.io/v1beta1",
        {"schedulingPolicy": {"gang": {"minCount": 0}}},
        "spec.schedulingPolicy.gang.minCount: has to be a whole number of at least 1",
    ),
]


@pytest.mark.parametrize(("kind", "version", "spec", "why"), FAULTY, ids=[f"{row[0]} {row[3]}" for row in FAULTY])
def test_a_faulty_object_never_hides_a_healthy_one(kind: str, version: str, spec: dict[str, Any], why: str) -> None:
    found = submit(
        a_document(kind, spec, version, name="faulty"), a_document("Deployment", name="healthy"), skip_faulty=True
    )
    assert [each.name for each in found.workloads] == ["healthy"]
    (ignored,) = found.ignored
    assert (ignored.kind, ignored.name) == (kind, "faulty")
    assert why in ignored.why


def test_a_faulty_group_without_pods_is_no_skipped_workload() -> None:
    group = a_document("PodGroup", {"minMember": -1}, "scheduling.volcano.sh/v1beta1", name="g")
    found = submit(group, a_document("Deployment", name="healthy"), skip_faulty=True)
    assert found.skipped == ()
    assert "spec.minMember: -1 is negative" in found.ignored[0].why


def test_an_object_without_a_name_is_skipped_by_its_place() -> None:
    nameless = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"template": TEMPLATE}}
    found = submit(nameless, a_document("Deployment", name="healthy"), skip_faulty=True)
    (ignored,) = found.skipped
    assert (ignored.name, ignored.why, ignored.document.line) == ("?", "metadata.name is missing", 1)


def test_where_no_object_runs_pods_the_first_error_is_raised() -> None:
    with pytest.raises(ManifestError, match=r"document 1.*spec.replicas: -1 is negative"):
        submit(a_document("Deployment", {"replicas": -1, "template": TEMPLATE}), skip_faulty=True)


def test_the_page_about_workloads_has_a_row_for_every_kind() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "workloads.md").read_text(encoding="utf-8")
    words = set(page.replace(",", " ").replace("|", " ").replace("(", " ").split())
    assert {kind for _, kind in kinds.KINDS} - words - {"MXJob"} == set()
