"""Kinds that every cluster has and a listing lacks: a plan on it reports them, and ``--strict`` refuses it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from hami_plugins.inputs import fleets
from tests import raw_objects
from tests.schema import published
from tests.unit.cli.conftest import FITS, Type

QUEUE = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "default"}, "spec": {}}
GROUP = {
    "apiVersion": "scheduling.volcano.sh/v1beta1",
    "kind": "PodGroup",
    "metadata": {"name": "g", "namespace": "team"},
    "spec": {"minMember": 1, "queue": "default"},
}
IDLE = "no pods in this listing: planned on an idle cluster"
VOLCANO_POD = yaml.safe_load(FITS.replace("nvidia.com/gpumem", "volcano.sh/vgpu-memory"))
VOLCANO_POD["spec"] = {
    "schedulerName": "volcano",
    "containers": [{"name": "main", "resources": {"limits": {"volcano.sh/vgpu-number": 1}}}],
}


def running(namespace: str, name: str = "r", **annotations: str) -> dict[str, Any]:
    metadata = {"namespace": namespace, "annotations": annotations}
    return raw_objects.pod(name, raw_objects.container(), metadata=metadata, node="t4x1-0", phase="Running")


@pytest.fixture
def dump(tmp_path: Path) -> Any:
    def written(*objects: dict[str, Any]) -> Path:
        nodes = fleets.nodes_of(
            fleets.parse("nodes: [{shape: t4x1, agents: hami}, {shape: t4x1, name: v, agents: volcano}]", source="test")
        )
        file = tmp_path / "dump.json"
        file.write_bytes(orjson.dumps({"apiVersion": "v1", "kind": "List", "items": [*nodes, *objects]}))
        return file

    return written


@pytest.fixture
def volcano_pod(tmp_path: Path) -> Path:
    file = tmp_path / "volcano.yaml"
    file.write_text(yaml.safe_dump(VOLCANO_POD), encoding="utf-8")
    return file


def test_a_plan_on_nodes_alone_says_that_the_cluster_counts_as_idle(type_in: Type, job: Path, dump: Any) -> None:
    said = type_in("plan", "-f", job, "--snapshot", dump())
    assert said.code == 0
    assert f"\nnote: {IDLE}\n  -> list the whole cluster: kubectl get nodes,pods," in said.out
    assert said.out.endswith("\n1 of 1 pod placed\n")


def test_json_and_page_say_it_too(type_in: Type, job: Path, dump: Any, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    answer = published(type_in("plan", "-f", job, "--snapshot", dump(), "--html", page, "-o", "json").out)
    (warning,) = answer["warnings"]
    assert warning["kind"] == "Pod"
    assert warning["message"].startswith(IDLE)
    assert answer["listed"] == {"Node": 2}
    assert IDLE in page.read_text(encoding="utf-8")


def test_patches_alone_keep_it_on_stderr(type_in: Type, job: Path, dump: Any) -> None:
    said = type_in("plan", "-f", job, "--snapshot", dump(), "--annotations", "hami")
    assert IDLE in said.err
    assert IDLE not in said.out


def test_strict_refuses_such_a_listing(type_in: Type, job: Path, dump: Any) -> None:
    said = type_in("plan", "-f", job, "--snapshot", dump(), "--strict")
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith(f"error: dump.json: {IDLE}; ")
    assert said.err.endswith("or leave out --strict\n")


def test_strict_takes_a_listing_with_the_pods_of_every_namespace(type_in: Type, job: Path, dump: Any) -> None:
    for namespaces in (("kube-system", "team"), ("team", "other")):
        whole = dump(*map(running, namespaces))
        said = type_in("plan", "-f", job, "--snapshot", whole, "--strict")
        assert (said.code, said.err) == (0, "")
        assert "note:" not in said.out


@pytest.mark.parametrize("finished", [False, True])
def test_pods_of_one_namespace_are_not_those_of_the_cluster(
    type_in: Type, job: Path, dump: Any, finished: bool
) -> None:
    pods = [running("team"), running("team", "s")]
    if finished:
        pods[0]["status"]["phase"] = "Succeeded"
    said = type_in("plan", "-f", job, "--snapshot", dump(*pods))
    assert "note: this listing has pods of namespace team only: pods of other namespaces count as absent\n" in said.out


def test_a_young_cluster_has_system_pods_alone(type_in: Type, job: Path, dump: Any) -> None:
    assert "note:" not in type_in("plan", "-f", job, "--snapshot", dump(running("kube-system"))).out


def test_a_fleet_is_idle_on_purpose(type_in: Type, job: Path) -> None:
    said = type_in("plan", "-f", job, "--fleet", "t4x1", "--strict")
    assert said.code == 0
    assert "note:" not in said.out


def test_a_snapshot_file_of_a_dump_lacks_what_the_dump_lacks(
    type_in: Type, job: Path, dump: Any, tmp_path: Path
) -> None:
    file = tmp_path / "snapshot.json"
    assert type_in("snapshot", "--snapshot", dump(), "--out", file).code == 0
    assert IDLE in type_in("plan", "-f", job, "--snapshot", file).out


def test_a_snapshot_file_of_a_whole_cluster_is_complete(type_in: Type, job: Path, tmp_path: Path) -> None:
    file = tmp_path / "snapshot.json"
    assert type_in("snapshot", "--fleet", "t4x1", "--out", file).code == 0
    assert type_in("plan", "-f", job, "--snapshot", file, "--strict").code == 0


def test_a_volcano_pod_needs_the_queues(type_in: Type, volcano_pod: Path, dump: Any) -> None:
    pods = running("kube-system"), running("team")
    without = type_in("plan", "-f", volcano_pod, "--snapshot", dump(*pods), "--strict")
    assert without.code == 2
    assert "no queues in this listing: limits of Volcano's queues are not checked; " in without.err
    assert type_in("plan", "-f", volcano_pod, "--snapshot", dump(*pods, QUEUE), "--strict").code == 0


def test_pods_of_other_schedulers_do_not_need_the_queues(type_in: Type, job: Path, dump: Any) -> None:
    found = dump(running("kube-system"), running("team", **{"scheduling.k8s.io/group-name": "g"}))
    assert type_in("plan", "-f", job, "--snapshot", found, "--strict").code == 0


def test_a_volcano_pod_needs_the_pod_groups_that_pods_name(type_in: Type, volcano_pod: Path, dump: Any) -> None:
    pods = running("kube-system"), running("team", **{"scheduling.k8s.io/group-name": "g"})
    said = type_in("plan", "-f", volcano_pod, "--snapshot", dump(*pods, QUEUE), "--strict")
    assert said.code == 2
    assert "no pod groups in this listing, but pods name some: " in said.err
    assert type_in("plan", "-f", volcano_pod, "--snapshot", dump(*pods, QUEUE, GROUP), "--strict").code == 0


def test_explain_says_it_as_well(type_in: Type, dump: Any) -> None:
    waits = running("team")
    waits["spec"] = VOLCANO_POD["spec"]
    waits["status"]["phase"] = "Pending"
    found = dump(waits)
    said = type_in("explain", "pod", "team/r", "--snapshot", found)
    assert "\nnote: this listing has pods of namespace team only: " in said.out
    assert "\nnote: no queues in this listing: " in said.out
    (first, second) = published(type_in("explain", "pod", "team/r", "--snapshot", found, "-o", "json").out)["warnings"]
    assert (first["kind"], second["kind"]) == ("Pod", "Queue")
    strict = type_in("explain", "pod", "team/r", "--snapshot", found, "--strict")
    assert (strict.code, strict.out) == (2, "")


def test_a_running_pod_asks_for_no_queues(type_in: Type, dump: Any) -> None:
    said = type_in("explain", "pod", "team/r", "--snapshot", dump(running("team")), "-o", "json")
    assert [each["kind"] for each in json.loads(said.out)["warnings"]] == ["Pod"]
