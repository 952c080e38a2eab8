"""Groups that others have made, and journals of other migrations."""

from __future__ import annotations

import copy
import io
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hami_plugins.cli import main
from hami_plugins.inputs import manifests
from hami_plugins.kube.client import KubeClient, connect_to
from hami_plugins.sandbox.apiserver import ApiServer
from koordinator_adapter.commands import migrate
from tests.integration.koordinator_adapter.commands.cluster import PATHS, state
from tests.integration.koordinator_adapter.commands.conftest import Type
from tests.unit.koordinator_adapter.migration.cluster import (
    HAMI,
    Raw,
    a_cluster,
    a_group,
    a_pod,
    a_template,
    a_workload,
)


def test_a_group_that_somebody_made_is_neither_planned_nor_taken_back(
    server: ApiServer, before: dict[str, Any], type_in: Type, journal: Path
) -> None:
    server.put(a_group(minMember=2))
    said = type_in("migrate", "-n", "ml", "--apply", "--journal", journal)
    assert "podgroup" not in said.out
    assert state(server)["training"][1]["template"]["spec"]["schedulerName"] == "koord-scheduler"
    assert type_in("migrate", "-n", "ml", "--undo", "--apply", "--journal", journal).code == 0
    assert connect_to(server.url).get(PATHS["group"])["metadata"]["labels"] == {"owner": "alice"}


@pytest.mark.parametrize("at", [1, 2])
def test_a_group_that_somebody_makes_meanwhile_is_not_taken_back(
    server: ApiServer,
    before: dict[str, Any],
    type_in: Type,
    journal: Path,
    *,
    stopped: Callable[..., None],
    at: int,
) -> None:
    stopped("--apply", at=at, late=False)  # before its step, and within it
    server.put(a_group(minMember=2))
    said = type_in("migrate", "-n", "ml", "--apply", "--journal", journal)
    assert said.code == 0
    assert type_in("migrate", "-n", "ml", "--undo", "--apply", "--journal", journal).code == 0
    assert connect_to(server.url).get(PATHS["group"])["metadata"]["labels"] == {"owner": "alice"}


def test_a_second_migration_does_not_take_back_what_the_first_one_made(
    server: ApiServer, before: dict[str, Any], type_in: Type, journal: Path
) -> None:
    type_in("migrate", "-n", "ml", "--apply", "--journal", journal)
    second = journal.with_name("second")
    connect_to(server.url).delete(PATHS["training"])
    server.put(copy.deepcopy(next(raw for raw in a_cluster() if raw["metadata"]["name"] == "training")))
    assert type_in("migrate", "-n", "ml", "--apply", "--journal", second).code == 1  # the Job stays
    assert type_in("migrate", "-n", "ml", "--undo", "--apply", "--journal", second).code == 0
    assert state(server)["group"][1]["minMember"] == 2
    assert type_in("migrate", "-n", "ml", "--undo", "--apply", "--journal", journal).code == 0
    assert state(server)["group"] is None


def test_a_group_with_another_spec_is_told_and_its_pods_stay_and_all_others_move(
    server: ApiServer, before: dict[str, Any], type_in: Type, journal: Path
) -> None:
    server.put(a_group(minMember=3))
    said = type_in("migrate", "-n", "ml", "--apply", "--journal", journal)
    assert said.code == 1
    assert 'there is one with {"minMember":3} already, and {"minMember":2} is wanted' in said.out
    assert "statefulset/ml/training: gang: is not changed" in said.out
    now = state(server)
    assert now["training"] == before["training"]
    assert now["serving"][1]["template"]["spec"]["schedulerName"] == "koord-scheduler"


def test_a_group_of_two_schedulers_is_made_once_for_a_third(
    server: ApiServer, before: dict[str, Any], type_in: Type, journal: Path
) -> None:
    server.put(a_group(minMember=2))
    said = type_in("migrate", "-n", "ml", "--to", "hami", "--journal", journal)
    assert said.out.count("podgroup.scheduling.x-k8s.io/ml/team: is created") == 1
    connect_to(server.url).merge_patch(PATHS["group"], {"spec": {"minMember": 4}})
    said = type_in("migrate", "-n", "ml", "--to", "hami", "--journal", journal)
    assert "is created" not in said.out
    assert "is wanted" in said.out


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["-n", "other", "--apply"], "and the migration of namespace other to koordinator is wanted"),
        (["-n", "ml", "--to", "volcano", "--apply"], "and the migration of namespace ml to volcano is wanted"),
        (["-n", "ml", "--records", "--apply"], "and the records of namespace ml to koordinator is wanted"),
        (["-n", "other", "--undo", "--apply"], "this is the migration of namespace ml to koordinator"),
    ],
)
def test_a_journal_goes_on_only_with_what_it_was_begun_for(
    server: ApiServer,
    before: dict[str, Any],
    type_in: Type,
    journal: Path,
    *,
    stopped: Callable[..., None],
    words: list[str],
    complaint: str,
) -> None:
    stopped("--apply", at=2, late=False)
    was = state(server)
    said = type_in("migrate", *words, "--journal", journal)
    assert said.code == 2
    assert complaint in said.err
    assert state(server) == was


def test_a_queue_that_does_not_come_along_is_named_until_there_is_a_quota(
    server: ApiServer, before: dict[str, Any], type_in: Type, journal: Path
) -> None:
    path = ("spec", "template", "metadata", "annotations")
    queue = {"scheduling.volcano.sh/queue-name": "q"}
    body: Any = queue
    for step in reversed(path):
        body = {step: body}
    connect_to(server.url).merge_patch(PATHS["training"], body)
    said = type_in("migrate", "-n", "ml", "--journal", journal)
    assert "statefulset/ml/training: ElasticQuota: names the ElasticQuota q" in said.out
    quota = {"metadata": {"name": "q", "namespace": "default"}, "spec": {}}
    server.put({"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota", **quota})
    assert "ElasticQuota" not in type_in("migrate", "-n", "ml", "--journal", journal).out


def owned_by(raw: Raw, kind: str, version: str) -> Raw:
    """The object as one that another one makes."""
    owner = {"apiVersion": version, "kind": kind, "name": "boss", "uid": "u", "controller": True}
    return {**raw, "metadata": {**raw["metadata"], "ownerReferences": [owner]}}


def test_owners_that_no_migration_changes_are_named_once(
    server: ApiServer, before: dict[str, Any], type_in: Type, journal: Path
) -> None:
    for name in ("a", "b"):
        server.put(owned_by(a_pod(name, "GPU-1"), "PyTorchJob", "kubeflow.org/v1"))
    server.put(
        owned_by(a_workload("r", a_template(HAMI, "hami-scheduler"), kind="ReplicaSet"), "Rollout", "argo.io/v1")
    )
    plain = a_template({"cpu": "1"}, "default-scheduler")
    server.put(owned_by(a_workload("p", plain, kind="ReplicaSet"), "Cpu", "x.io/v1"))
    said = type_in("migrate", "-n", "ml", "--journal", journal)
    assert said.out.count("refused: pytorchjob.kubeflow.org/ml/boss: ") == 1
    assert said.out.count("refused: rollout.argo.io/ml/boss: ") == 1
    assert "x.io" not in said.out
    assert said.out.count("a migration does not change a") == 2


def test_cards_of_other_makers_that_koordinator_would_give_out_again_are_told(
    server: ApiServer, before: dict[str, Any], type_in: Type, journal: Path
) -> None:
    held = {"npu": ("gpu-1", "Ascend910B3"), "later": ("gpu-9", "Ascend910B3"), "mlu": ("gpu-1", "Vastai")}
    for name, (node, word) in {**held, "elsewhere": ("gpu-9", "Vastai")}.items():
        raw = a_pod(name, "GPU-1", node=node)
        raw["metadata"]["annotations"] = {f"hami.io/{word}-devices-allocated": f"A-0,{word},1000,0:;"}
        server.put(raw)
    said = type_in("migrate", "--records", "-n", "ml", "--journal", journal)
    assert "refused: pod/ml/npu: hami.io/Ascend910B3-devices-allocated: cards of gpu-1" in said.out
    assert "refused: pod/ml/later: " in said.out  # its workload can come along
    assert "refused: pod/ml/mlu: " in said.out
    assert "pod/ml/elsewhere" not in said.out  # Koordinator knows no cards there, and has no words for them
    assert said.code == 1


def test_a_bare_member_without_cards_is_made_anew_beside_its_group(
    server: ApiServer,
    before: dict[str, Any],
    type_in: Type,
    journal: Path,
    *,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    template = a_template({"cpu": "1"}, "volcano", annotations={"scheduling.k8s.io/group-name": "team"})
    pod = {"apiVersion": "v1", "kind": "Pod", **template}
    pod["metadata"] |= {"name": "server", "namespace": "ml"}
    pod["spec"] |= {"nodeName": "gpu-1"}
    server.put(pod)
    said = type_in("migrate", "-n", "ml", "--journal", journal)
    (line,) = [line for line in said.out.splitlines() if "pod/ml/server: " in line]
    assert "kubectl -n ml get podgroups.scheduling.volcano.sh/team pod/server -o yaml |" in line
    assert line.endswith("&& kubectl apply -f pod-server.yaml")
    command = line[line.index("hami-plugins koordinator translate") : line.index(" > ")].split()[3:]
    group = next(each for each in a_cluster() if each["kind"] == "PodGroup")
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": [group, pod]}).encode()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert main(["koordinator", "translate", *command]) == 0
    made = {each.raw["kind"]: each.raw for each in manifests.read(capsys.readouterr().out, source="out")}
    assert made["PodGroup"]["apiVersion"] == "scheduling.sigs.k8s.io/v1alpha1"
    assert made["Pod"]["spec"]["schedulerName"] == "koord-scheduler"  # type: ignore[index]
    assert "nodeName" not in made["Pod"]["spec"]  # type: ignore[operator]


class Raced:
    """A cluster in which another client is quicker with the first write of a sort to an object."""

    def __init__(self, cluster: KubeClient, verb: str, path: str, change: Raw) -> None:
        self._cluster, self._verb, self._path, self._change = cluster, verb, path, change

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._cluster, name)
        return partial(self._second, found) if name == self._verb else found

    def _second(self, write: Callable[..., Any], path: str, *args: Any, **kwargs: Any) -> Any:
        if path == self._path:
            self._path = ""
            self._cluster.merge_patch(path, self._change)
        return write(path, *args, **kwargs)


@pytest.mark.parametrize(
    ("words", "verb", "name", "change"),
    [
        ([], "merge_patch", "serving", {"spec": {"template": {"spec": {"schedulerName": "mine"}}}}),
        (["--undo"], "merge_patch", "serving", {"spec": {"template": {"spec": {"schedulerName": "mine"}}}}),
        (["--undo"], "delete", "group", {"spec": {"minMember": 7}}),
    ],
)
def test_whoever_writes_between_a_look_and_a_write_wins(
    server: ApiServer,
    before: dict[str, Any],
    type_in: Type,
    journal: Path,
    *,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    verb: str,
    name: str,
    change: Raw,
) -> None:
    if words:
        type_in("migrate", "-n", "ml", "--apply", "--journal", journal)
    with monkeypatch.context() as patched:
        patched.setattr(migrate, "connect", lambda **_: Raced(connect_to(server.url), verb, PATHS[name], change))
        said = type_in("migrate", "-n", "ml", *words, "--apply", "--journal", journal)
    assert said.code == 1
    assert "has been modified by another client; it is left unchanged" in said.out
    spec = state(server)[name][1]
    assert 7 in spec.values() or spec["template"]["spec"]["schedulerName"] == "mine"


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_holds_nothing(server: ApiServer, type_in: Type, journal: Path, phase: str) -> None:
    for raw in a_cluster():
        if raw["kind"] == "Pod":
            raw["status"]["phase"] = phase
        server.put(raw)
    assert "pod/ml/serving-1-a: holds" not in type_in("migrate", "-n", "ml", "--journal", journal).out
