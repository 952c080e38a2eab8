"""``explain``: one pod, several, or all that wait."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hami_plugins.inputs import fleets
from tests import raw_objects
from tests.schema import ADAPTER
from tests.unit.cli.conftest import Type
from tests.unit.plan.test_blockers import STUCK, member
from tests.unit.queueing.test_cycle import GPU, a_group

ALLOCATED = "hami.io/vgpu-devices-allocated"


def a_pod(name: str, memory: int, *, namespace: str = "default", **metadata: Any) -> dict[str, Any]:
    """A pod that asks for a part of a GPU."""
    asks = raw_objects.container(limits={"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(memory)})
    return raw_objects.pod(name, asks, metadata={"namespace": namespace, **metadata})


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    """A T4 with a pod on it, a pod on a card that has gone, and pods that wait."""
    (node,) = fleets.nodes_of(fleets.parse("nodes: [{shape: t4x1}]", source="test"))
    register: Any = node["metadata"]["annotations"]["hami.io/node-nvidia-register"]  # type: ignore[index]
    card = json.loads(register)[0]["id"]
    runs = a_pod("runs", 4000, annotations={ALLOCATED: f"{card},NVIDIA,4000,0:;"})
    lost = a_pod("lost", 4000, annotations={ALLOCATED: "GPU-gone,NVIDIA,4000,0:;"})
    for pod in (runs, lost):
        pod["spec"]["nodeName"] = "t4x1-0"
    waiting = [a_pod("small", 1000), a_pod("big", 12_000), a_pod("far", 1, namespace="lab")]
    file = tmp_path / "dump.json"
    file.write_text(json.dumps({"kind": "List", "items": [node, runs, lost, *waiting]}), encoding="utf-8")
    return file


def test_a_running_pod_says_what_it_holds_and_where_it_would_go(type_in: Type, dump: Path) -> None:
    said = type_in("explain", "pod", "default/runs", "--snapshot", dump)
    assert said.code == 0
    head, holds, again = said.out.splitlines()
    assert head == "default/runs: running on t4x1-0"
    assert holds == "  holds Tesla T4 #0: 4000 MiB"
    assert again.startswith("  rescheduled now, it would go to the same node: the cluster's only node")


def test_a_pod_on_a_card_that_has_gone_is_a_finding(type_in: Type, dump: Path) -> None:
    said = type_in("explain", "pod", "lost", "--snapshot", dump)
    assert said.code == 1
    assert "  holds GPU-gone, which node t4x1-0 does not report" in said.out


def test_a_pending_pod_that_fits_by_now_says_so(type_in: Type, dump: Path) -> None:
    said = type_in("explain", "pod", "small", "--snapshot", dump)
    assert said.code == 0
    assert said.out.startswith("default/small: pending, but it fits now\n  t4x1-0: Tesla T4 #0, 1000 MiB\n")


def test_a_pending_pod_says_why_and_what_would_help(type_in: Type, dump: Path) -> None:
    said = type_in("explain", "pod", "big", "--snapshot", dump)
    assert said.code == 1
    assert said.out.startswith("default/big: pending, does not fit\n  1 of 1 node: memory: asked 12,000 MiB on 1 card")
    assert "  -> fits with nvidia.com/gpumem: 11360 instead of 12000 (on t4x1-0)\n" in said.out
    assert said.out.count("CardInsufficientMemory") == said.out.count("  scheduler event: ") == 1


def test_all_that_wait_are_those_of_a_namespace_or_of_all(type_in: Type, dump: Path) -> None:
    def heads(*words: str) -> list[str]:
        lines = type_in("explain", "pods", "--snapshot", dump, *words).out.splitlines()
        return [line.partition(":")[0] for line in lines if line and not line.startswith(" ")]

    assert heads() == ["default/small", "default/big"]
    assert heads("-n", "lab") == ["lab/far"]
    assert heads("-A") == ["default/small", "default/big", "lab/far"]
    assert type_in("explain", "pods", "--snapshot", dump, "-n", "none").out == "no pod waits\n"


@pytest.mark.parametrize("words", [["runs"], ["lost"], ["big"], ["small"], ["runs", "big"], ["-A"], ["-n", "none"]])
def test_explanations_are_as_the_schema_says(type_in: Type, dump: Path, words: list[str]) -> None:
    said = type_in("explain", "pod", *words, "--snapshot", dump, "-o", "json")
    document = json.loads(said.out)
    ADAPTER.validate_python(document, strict=True)
    single = words[0] in {"runs", "lost", "big", "small"} and len(words) == 1
    assert document["kind"] == ("Explanation" if single else "ExplanationList")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        pytest.param(["pod", "rums"], "no pod default/rums .*default/runs", id="no such pod"),
        pytest.param(["node", "n"], "'node' cannot be explained", id="no such kind"),
        pytest.param(["pod", "runs", "-A"], "leave out the names", id="names and all"),
    ],
)
def test_bad_usage_is_refused(type_in: Type, dump: Path, words: list[str], complaint: str) -> None:
    said = type_in("explain", *words, "--snapshot", dump)
    assert said.code == 2
    assert complaint.partition(" .*")[0] in said.err


def test_a_pod_at_volcanos_gate_hears_who_holds_it(type_in: Type, tmp_path: Path) -> None:
    cluster = [*STUCK, a_group("s", 1, minResources={GPU: "2"}), member("small", "s", 2)]
    file = tmp_path / "dump.json"
    file.write_text(json.dumps({"kind": "List", "items": cluster}), encoding="utf-8")
    said = type_in("explain", "pod", "small", "--snapshot", file, "--scheduler", "volcano-1.14")
    assert said.code == 1
    assert f"  PodGroup default/x (Inqueue for 3 h) can never fit and reserves 19 of 20 {GPU}\n" in said.out
    assert "  -> fits without PodGroup default/x, which can never fit (on n1)\n" in said.out
    told = type_in("explain", "pod", "x-0", "--snapshot", file, "--scheduler", "volcano-1.14")
    assert "note: Volcano 1.14.1 has let its PodGroup in and keeps counting it" in told.out


def test_what_the_server_of_allocations_puts_right_is_not_said_of_volcano(type_in: Type, tmp_path: Path) -> None:
    waiting = member("lists", "x", 1)
    waiting["metadata"]["annotations"]["volcano.sh/vgpu-use-gpuuuid"] = "GPU-n1-0"
    file = tmp_path / "dump.json"
    file.write_text(json.dumps({"kind": "List", "items": [*STUCK, waiting]}), encoding="utf-8")
    asked = ("explain", "pod", "lists", "--snapshot", file, "--scheduler", "volcano-1.14")
    sentence = "Volcano 1.14.1 does not look at lists of card ids"
    assert [sentence in type_in(*asked, *more).out for more in ((), ("--assigner", "webhook"))] == [True, False]


def of_job(name: str, memory: int, task: str, *, node: str = "", **metadata: Any) -> dict[str, Any]:
    labels = {"volcano.sh/job-name": "train"}
    pod = a_pod(name, memory, labels=labels, annotations={"volcano.sh/task-spec": task}, **metadata)
    pod["spec"] |= {"nodeName": node} if node else {}
    return pod


def with_job(dump: Path, *objects: dict[str, Any]) -> Path:
    listing = json.loads(dump.read_text(encoding="utf-8"))
    listing["items"] += objects
    dump.write_text(json.dumps(listing), encoding="utf-8")
    return dump


def test_of_a_job_one_pod_of_each_task_is_explained_first_of_all_one_that_waits(type_in: Type, dump: Path) -> None:
    runs = of_job("train-ps-0", 0, "ps", node="t4x1-0")
    waiting = [of_job("train-ps-1", 12_000, "ps"), *(of_job(f"train-w-{at}", 12_000, "w") for at in range(3))]
    others = [a_pod("train-w-9", 1), of_job("train-w-7", 1, "w", namespace="lab")]
    cluster = with_job(dump, runs, *waiting, *others)
    said = type_in("explain", "job", "default/train", "--snapshot", cluster)
    assert said.code == 1
    head, *rest = said.out.splitlines()
    assert head == "job default/train: 4 pods without a node, 1 with one; one of each task is explained"
    told = [line.partition(":")[0] for line in rest if line and not line.startswith(" ")]
    assert told == ["default/train-ps-1", "default/train-w-0"]
    listed = json.loads(type_in("explain", "vcjob", "train", "--snapshot", cluster, "-o", "json").out)
    assert [item["pod"] for item in listed["items"]] == told


def test_the_pods_of_a_job_of_kubernetes_are_known_by_its_label(type_in: Type, dump: Path) -> None:
    labels = {"batch.kubernetes.io/job-name": "once"}
    said = type_in("explain", "job", "once", "--snapshot", with_job(dump, a_pod("once-x", 1000, labels=labels)))
    assert said.out.splitlines()[0] == "job default/once: 1 pod without a node, 0 with one"


UID = "4d6f9c2e-1111-4222-8333-444455556666"


@pytest.mark.parametrize(
    ("least", "queue", "words"),
    [
        (None, True, "; its PodGroup train-{uid} is Pending in queue small"),
        ("1", True, "; its PodGroup train-{uid} is Pending in queue small"),
        ("8", True, ", not enqueued by Volcano: cpu: asks 8, queue small has 2 of 2 left"),
        ("8", False, "; its PodGroup train-{uid} is Pending in queue small"),
    ],
)
def test_a_job_of_which_volcano_has_made_no_pods_says_what_holds_it(
    type_in: Type, dump: Path, least: str | None, queue: bool, words: str
) -> None:
    spec = {"minMember": 1, "queue": "small"} | ({"minResources": {"cpu": least}} if least else {})
    group = {"kind": "PodGroup", "metadata": {"name": f"train-{UID}", "namespace": "default"}, "spec": spec}
    queues = [{"kind": "Queue", "metadata": {"name": "small"}, "spec": {"capability": {"cpu": "2"}}}] if queue else []
    other = {**group, "metadata": {"name": f"other-{UID}", "namespace": "default"}}
    said = type_in("explain", "job", "train", "--snapshot", with_job(dump, other, group, *queues))
    assert (said.code, said.out) == (2, "")
    assert "no pod of a job default/train in this cluster" in said.err
    assert said.err.rstrip().endswith(words.format(uid=UID))


def test_a_job_that_nobody_knows_and_none_at_all_are_told(type_in: Type, dump: Path) -> None:
    said = type_in("explain", "job", "lab/far", "--snapshot", dump)
    assert said.code == 2
    assert said.err.rstrip().endswith("no pod of a job lab/far in this cluster")
    said = type_in("explain", "job", "--snapshot", dump)
    assert said.code == 2
    assert "name the job to explain" in said.err


@pytest.mark.parametrize(
    "words",
    [["pod/runs"], ["pods/runs"], ["po/runs", "-n", "default"], ["pod/default/runs"], ["Pod/runs"], ["pod", "runs"]],
)
def test_a_kind_may_stand_before_the_name_as_for_kubectl(type_in: Type, dump: Path, words: list[str]) -> None:
    said = type_in("explain", *words, "--snapshot", dump)
    assert said.code == 0
    assert said.out.startswith("default/runs: running on t4x1-0")


def test_several_names_may_each_have_their_kind(type_in: Type, dump: Path) -> None:
    said = type_in("explain", "pod/runs", "pod/small", "--snapshot", dump)
    assert [line.partition(":")[0] for line in said.out.splitlines() if line[:1].strip()] == [
        "default/runs",
        "default/small",
    ]


@pytest.mark.parametrize(
    ("kind", "pods", "explained"),
    [
        (
            "deploy/web",
            ["web-6d4cf56db6-abcde", "web-6d4cf56db6-fghij", "website-6d4cf56db6-abcde"],
            "web-6d4cf56db6-abcde",
        ),
        ("statefulset/web", ["web-0", "web-1", "web-0-1"], "web-0"),
        ("ds/web", ["web-abcde", "web-x-abcde"], "web-abcde"),
        ("rs/web-6d4cf56db6", ["web-6d4cf56db6-abcde"], "web-6d4cf56db6-abcde"),
        ("deployments.apps/web", ["web-6d4cf56db6-abcde"], "web-6d4cf56db6-abcde"),
    ],
)
def test_a_workload_is_explained_by_one_of_its_pods(
    type_in: Type, tmp_path: Path, kind: str, pods: list[str], explained: str
) -> None:
    (node,) = fleets.nodes_of(fleets.parse("nodes: [{shape: t4x1}]", source="test"))
    file = tmp_path / "dump.json"
    items = [node, *(a_pod(name, 1000) for name in pods)]
    file.write_text(json.dumps({"kind": "List", "items": items}), encoding="utf-8")
    first, second, *_ = type_in("explain", kind, "--snapshot", file).out.splitlines()
    assert f"default/{kind.partition('/')[2]}: " in first
    assert second.startswith(f"default/{explained}: ")


def test_a_workload_without_pods_is_said_to_have_none(type_in: Type, dump: Path) -> None:
    said = type_in("explain", "deploy/web", "--snapshot", dump)
    assert said.code == 2
    assert "no pod of a deployment default/web" in said.err
    assert "name the statefulset" in type_in("explain", "sts", "--snapshot", dump).err
