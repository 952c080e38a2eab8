"""What room is made for, from the words of the command line; and pods as they are written."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hami_plugins.defrag import goals
from hami_plugins.defrag.running_pods import RunningPods
from hami_plugins.engine.intake import PodInfo, Rules
from hami_plugins.errors import ManifestError
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.pods import Pod
from hami_plugins.model.requests import Absolute
from hami_plugins.model.units import MiB
from tests.builders import COUNT, MEMORY, a_pod
from tests.unit.defrag.clusters import REGISTRY, a_cluster

JOB = {"volcano.sh/job-name": "train"}


def a_snapshot(*pending: Pod) -> ClusterSnapshot:
    return replace(a_cluster(a=[{"running": 1000}]).snapshot, pending=pending)


def infos(*words: str, snapshot: ClusterSnapshot | None = None, namespace: str = "default") -> tuple[PodInfo, ...]:
    return goals.infos_of(words, snapshot or a_snapshot(), REGISTRY, Rules(), namespace=namespace)


def names(*words: str, snapshot: ClusterSnapshot | None = None, namespace: str = "default") -> list[str]:
    return [info.pod.full_name for info in infos(*words, snapshot=snapshot, namespace=namespace)]


@pytest.mark.parametrize("words", ["w", "default/w", "pod/default/w", "pods/w", "po/default/w", "Pod/w"])
def test_a_waiting_pod_is_named_as_with_kubectl(words: str) -> None:
    assert names(words, snapshot=a_snapshot(a_pod(name="v"), a_pod(name="w"))) == ["default/w"]


def test_the_namespace_is_that_of_the_option() -> None:
    assert names("w", "pod/w", snapshot=a_snapshot(a_pod(name="w", namespace="ml")), namespace="ml") == ["ml/w"]


def test_a_job_is_all_of_its_waiting_pods() -> None:
    pods = [replace(a_pod(name=f"train-{at}"), labels=JOB) for at in range(3)]
    other = replace(a_pod(name="other"), labels={"volcano.sh/job-name": "else"})
    assert names("job/default/train", snapshot=a_snapshot(*pods, other)) == [f"default/train-{at}" for at in range(3)]


def test_a_job_whose_pods_all_run_needs_no_room() -> None:
    cluster = a_cluster(lambda record: replace(record, labels=JOB), a=[{"train-0": 1000}])
    with pytest.raises(ManifestError, match="no pod of the job default/train waits: all of them have a node"):
        infos("job/train", snapshot=cluster.snapshot)


def test_what_is_named_twice_gets_room_once() -> None:
    assert names("w", "default/w", snapshot=a_snapshot(a_pod(name="w"))) == ["default/w"]


def test_each_request_is_a_pod_of_its_own() -> None:
    words = f"{COUNT}=2,{MEMORY}=2000"
    found = infos(words, words)
    assert [info.pod.full_name for info in found] == ["default/request-1", "default/request-2"]
    (request,) = found[0].demand.devices.containers[0].requests
    assert (request.count, request.memory) == (2, Absolute(MiB(2000)))


def test_a_request_may_ask_for_cpu() -> None:
    (info,) = infos(f"{COUNT}=1, cpu=4")
    assert dict(info.pod.constraints.requests)["cpu"] == 4 * 10**9


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("acme.example/cards=1", "--for acme.example/cards=1: no vendor has a resource acme.example/cards"),
        (f"{COUNT}=many", "containers"),
        (f"{COUNT}=", "containers"),
        ("w", "--for w: no pod default/w waits in this cluster; write"),
        ("running", "--for running: the pod runs on node a already"),
        ("default/running", "the pod runs on node a already"),
        ("", "--for : write"),
        ("a/b/c", "--for a/b/c: write"),
        ("pod/", "--for pod/: write"),
        ("/w", "--for /w: write"),
        ("job/default/none", "no pod of a job default/none"),
    ],
)
def test_words_that_name_nothing_are_refused(words: str, why: str) -> None:
    with pytest.raises(ManifestError) as raised:
        infos(words)
    assert why in str(raised.value)


def a_raw_pod(name: str = "p", *, node: str = "n", phase: str = "Running", **metadata: Any) -> dict[str, Any]:
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "ml", **metadata},
        "spec": {"nodeName": node, "containers": []},
        "status": {"phase": phase},
    }


def owned(kind: object, *, controller: object = True) -> list[dict[str, object]]:
    return [{"kind": "Other", "controller": False}, {"kind": kind, "controller": controller}]


def read(*raws: object) -> RunningPods:
    found = RunningPods()
    for raw in raws:
        found.feed(raw)
    return found


def test_running_pods_are_read_with_the_kind_of_their_controller() -> None:
    found = read(a_raw_pod(ownerReferences=owned("ReplicaSet"))).found
    assert {name: (each.pod.node, each.controller) for name, each in found.items()} == {"ml/p": ("n", "ReplicaSet")}


def test_a_pod_without_a_controlling_owner_has_none() -> None:
    assert read(a_raw_pod(ownerReferences=owned("X", controller=False))).found["ml/p"].controller == ""
    assert read(a_raw_pod()).found["ml/p"].controller == ""


def test_lists_are_taken_apart_and_other_kinds_passed_over() -> None:
    found = read({"kind": "PodList", "items": [{key: each for key, each in a_raw_pod().items() if key != "kind"}]})
    assert list(found.found) == ["ml/p"]
    assert not read({"kind": "Node", "metadata": {"name": "n"}}, "nonsense").found


def test_pods_without_a_node_finished_ones_and_broken_ones_are_left_out() -> None:
    broken = a_raw_pod()
    broken["spec"]["containers"] = [{"name": 1}]
    assert not read(a_raw_pod(node=""), a_raw_pod(phase="Succeeded"), broken).found
