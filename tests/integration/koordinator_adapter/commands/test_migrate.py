"""``koordinator migrate`` against an API server: plan, apply, interruption at every write, undo."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hami_plugins.cli import main
from hami_plugins.errors import KubeError
from hami_plugins.inputs import manifests
from hami_plugins.kube.client import KubeClient, connect_to
from hami_plugins.sandbox.apiserver import ApiServer
from hami_plugins.wire.koordinator import CORE, MEMORY, SHARED
from koordinator_adapter.commands import doctor_evidence, migrate
from tests.integration.koordinator_adapter.commands.cluster import PATHS, state
from tests.integration.koordinator_adapter.commands.conftest import Type
from tests.unit.koordinator_adapter.migration.cluster import (
    HAMI,
    HAMI_RECORD,
    RECORD,
    a_cluster,
    a_pod,
    a_template,
    a_workload,
)


def test_a_plan_writes_nothing(server: ApiServer, before: dict[str, Any], type_in: Type, journal: Path) -> None:
    said = type_in("migrate", "-n", "ml", "--journal", journal)
    steps = [line.split(":")[0].split()[-1] for line in said.out.splitlines() if line[:4].strip().isdigit()]
    assert steps == [
        "pod/ml/serving-1-a",
        "podgroup.scheduling.sigs.k8s.io/ml/team",
        "deployment/ml/serving",
        "statefulset/ml/training",
    ]
    assert "job/ml/once" in said.out
    assert said.code == 1
    assert state(server) == before
    assert not journal.exists()


def test_every_step_is_taken_and_taken_back(
    server: ApiServer, before: dict[str, Any], type_in: Type, journal: Path
) -> None:
    assert type_in("migrate", "-n", "ml", "--apply", "--journal", journal).code == 1  # the Job stays
    after = state(server)
    assert json.loads(after["pod"][0]["annotations"][RECORD]) == {
        "gpu": [
            {
                "minor": 1,
                "resources": {
                    "koordinator.sh/gpu-core": "40",
                    "koordinator.sh/gpu-memory": "8Gi",
                    "koordinator.sh/gpu-memory-ratio": "33",
                },
                "id": "GPU-1",
            }
        ]
    }
    assert after["serving"][1]["template"]["spec"]["schedulerName"] == "koord-scheduler"
    limits = after["training"][1]["template"]["spec"]["containers"][0]["resources"]["limits"]
    assert {name: str(amount) for name, amount in limits.items()} == {
        "koordinator.sh/gpu.shared": "2",
        "koordinator.sh/gpu-memory": "8Gi",
        "koordinator.sh/gpu-core": "100",
    }
    assert after["group"][1]["minMember"] == 2
    assert (after["plain"], after["job"]) == (before["plain"], before["job"])
    shown = type_in("migrate", "-n", "ml", "--undo", "--journal", journal)
    assert (shown.code, state(server)) == (0, after)
    assert type_in("migrate", "-n", "ml", "--undo", "--apply", "--journal", journal).code == 0
    assert state(server) == before


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("at", [1, 2, 3, 4])
def test_a_migration_goes_on_after_an_interruption_at_any_write(
    server: ApiServer,
    before: dict[str, Any],
    type_in: Type,
    journal: Path,
    *,
    stopped: Callable[..., None],
    at: int,
    late: bool,
) -> None:
    stopped("--apply", at=at, late=late)
    with journal.open("ab") as file:
        file.write(b'{"step": 3, "ma')  # a line that was torn
    assert type_in("migrate", "-n", "ml", "--apply", "--journal", journal).code == 0
    after = state(server)
    assert all(after[name] != before[name] for name in ("pod", "serving", "training", "group"))
    stopped("--undo", "--apply", at=at, late=late)
    assert type_in("migrate", "-n", "ml", "--undo", "--apply", "--journal", journal).code == 0
    assert state(server) == before


def test_an_error_of_the_server_says_how_to_go_on(
    server: ApiServer, before: dict[str, Any], type_in: Type, journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*_: Any, **__: Any) -> Any:
        raise KubeError("patch serving: 403 forbidden", status=403)

    with monkeypatch.context() as patched:
        patched.setattr(KubeClient, "merge_patch", forbidden)
        said = type_in("migrate", "-n", "ml", "--apply", "--journal", journal)
    assert said.code == 2
    assert "403 forbidden" in said.err
    assert f"{journal} records the executed steps; --apply resumes from there" in said.err
    assert state(server) == before
    assert type_in("migrate", "-n", "ml", "--apply", "--journal", journal).code == 0


def test_what_somebody_has_changed_since_is_left(
    server: ApiServer, before: dict[str, Any], type_in: Type, journal: Path
) -> None:
    type_in("migrate", "-n", "ml", "--apply", "--journal", journal)
    connect_to(server.url).merge_patch(
        PATHS["serving"], {"spec": {"template": {"spec": {"schedulerName": "somebody-elses"}}}}
    )
    said = type_in("migrate", "-n", "ml", "--undo", "--apply", "--journal", journal)
    assert said.code == 1
    assert "has been modified by another client; it is left unchanged" in said.out
    now = state(server)
    assert now["serving"][1]["template"]["spec"]["schedulerName"] == "somebody-elses"
    assert {name: now[name] for name in now if name != "serving"} == {
        name: before[name] for name in before if name != "serving"
    }


def test_other_changes_of_the_same_object_are_no_hindrance(
    server: ApiServer, before: dict[str, Any], type_in: Type, journal: Path
) -> None:
    type_in("migrate", "-n", "ml", "--apply", "--journal", journal)
    connect_to(server.url).merge_patch(PATHS["serving"], {"spec": {"replicas": 7}})
    assert type_in("migrate", "-n", "ml", "--undo", "--apply", "--journal", journal).code == 0
    now = state(server)
    assert now["serving"][1]["replicas"] == 7
    assert now["serving"][1]["template"] == before["serving"][1]["template"]


def test_amounts_that_the_server_spells_its_own_way_are_nobodys_change(
    server: ApiServer, type_in: Type, journal: Path, stopped: Callable[..., None]
) -> None:
    limits = {SHARED: "1", MEMORY: "3000Mi", CORE: "30"}
    labels = {"labels": {"app": "x", "koordinator.sh/gpu-isolation-provider": "HAMi-core"}}
    server.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ml"}})
    server.put(a_workload("serving", a_template(limits, "koord-scheduler", **labels)))
    before = state(server)
    stopped("--to", "hami", "--apply", at=1, late=True)
    containers = state(server)["serving"][1]["template"]["spec"]["containers"]
    assert containers[0]["resources"]["limits"]["nvidia.com/gpumem"] == "3k"
    assert type_in("migrate", "-n", "ml", "--to", "hami", "--apply", "--journal", journal).code == 0
    assert type_in("migrate", "-n", "ml", "--undo", "--apply", "--journal", journal).code == 0
    assert state(server) == before


def test_what_others_write_beside_new_labels_and_annotations_is_no_hindrance(
    server: ApiServer, before: dict[str, Any], type_in: Type, journal: Path
) -> None:
    type_in("migrate", "-n", "ml", "--apply", "--journal", journal)
    restarted = {"kubectl.kubernetes.io/restartedAt": "now"}
    template = {"metadata": {"annotations": restarted}, "spec": {"nodeSelector": {"zone": "a"}}}
    connect_to(server.url).merge_patch(PATHS["serving"], {"spec": {"template": template}})
    assert type_in("migrate", "-n", "ml", "--undo", "--apply", "--journal", journal).code == 0
    now = state(server)["serving"][1]["template"]
    assert now["metadata"]["annotations"] == restarted
    assert now["spec"]["nodeSelector"] == {"zone": "a"}
    assert now["spec"]["containers"] == before["serving"][1]["template"]["spec"]["containers"]


def test_a_plan_that_is_overtaken_ends_at_that_step(
    server: ApiServer,
    before: dict[str, Any],
    type_in: Type,
    journal: Path,
    stopped: Callable[..., None],
) -> None:
    stopped("--apply", at=1, late=True)
    connect_to(server.url).delete(PATHS["serving"])
    said = type_in("migrate", "-n", "ml", "--apply", "--journal", journal)
    assert said.code == 1
    assert "has gone" in said.out
    assert state(server)["training"] == before["training"]


@pytest.mark.parametrize("again", [False, True])
def test_a_pod_that_is_no_more_holds_nothing_and_neither_does_another_of_its_name(
    server: ApiServer,
    before: dict[str, Any],
    type_in: Type,
    journal: Path,
    *,
    stopped: Callable[..., None],
    again: bool,
) -> None:
    stopped("--apply", at=1, late=False)
    now_at_once = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
    connect_to(server.url).delete(PATHS["pod"], body=now_at_once)
    if again:
        server.put(a_pod("serving-1-a", "GPU-0"))
    said = type_in("migrate", "-n", "ml", "--apply", "--journal", journal)
    assert said.code == 0
    assert "pod/ml/serving-1-a: has gone" in said.out
    now = state(server)
    assert RECORD not in (now["pod"][0]["annotations"] if again else {})
    assert now["serving"][1]["template"]["spec"]["schedulerName"] == "koord-scheduler"


def test_only_records_are_written_where_only_they_are_wanted(
    server: ApiServer, before: dict[str, Any], type_in: Type, journal: Path
) -> None:
    said = type_in("migrate", "--records", "-n", "ml", "--apply", "--journal", journal)
    assert said.code == 0
    now = state(server)
    assert RECORD in now["pod"][0]["annotations"]
    assert {name: now[name] for name in now if name != "pod"} == {
        name: before[name] for name in before if name != "pod"
    }
    again = type_in("migrate", "--records", "-n", "ml", "--apply", "--journal", journal.with_name("other"))
    assert again.out == "nothing to do\n"


def test_the_way_back_to_hami_tells_it_what_pods_hold(
    server: ApiServer, before: dict[str, Any], type_in: Type, journal: Path
) -> None:
    type_in("migrate", "-n", "ml", "--apply", "--journal", journal)
    cluster = connect_to(server.url)
    cluster.merge_patch(PATHS["pod"], {"metadata": {"annotations": {HAMI_RECORD: None}}})
    said = type_in("migrate", "-n", "ml", "--to", "hami", "--apply", "--journal", journal.with_name("back"))
    assert said.code in {0, 1}
    annotations = cluster.get(PATHS["pod"])["metadata"]["annotations"]
    assert annotations[HAMI_RECORD] == "GPU-1,NVIDIA,8192,40:;"
    assert annotations["hami.io/vgpu-node"] == "gpu-1"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--apply", "--dry-run"], "exclude each other"),
        (["--undo"], "no such journal"),
        (["--apply", "--snapshot", "x.json"], "cannot be combined with --snapshot"),
    ],
)
def test_orders_that_mean_nothing_are_refused(type_in: Type, journal: Path, words: list[str], complaint: str) -> None:
    said = type_in("migrate", *words, "--journal", journal)
    assert said.code == 2
    assert complaint in said.err


def test_a_journal_belongs_to_one_migration_of_one_cluster(
    server: ApiServer, before: dict[str, Any], type_in: Type, journal: Path
) -> None:
    type_in("migrate", "-n", "ml", "--apply", "--journal", journal)
    assert "this migration is done" in type_in("migrate", "-n", "ml", "--apply", "--journal", journal).err
    type_in("migrate", "-n", "ml", "--undo", "--apply", "--journal", journal)
    assert "has been undone" in type_in("migrate", "-n", "ml", "--apply", "--journal", journal).err
    text = journal.read_text(encoding="utf-8")
    journal.write_text(text.replace('"cluster":"', '"cluster":"other-'), encoding="utf-8")
    assert "of another cluster" in type_in("migrate", "-n", "ml", "--undo", "--journal", journal).err


@pytest.mark.parametrize(
    "damage",
    [
        lambda _: "{}\n",
        lambda _: "",
        lambda _: "dear diary,\nnothing happened",
        lambda text: text.replace('"kind":"Migration"', '"kind":"Mi'),
        lambda text: text.replace('"mark":"begun"', '"mark":"beg'),
        lambda text: f'{text}{{"step":99,"mark":"done"}}\n',
        lambda text: text.replace('"steps":[', '"steps":[7,'),
    ],
)
def test_a_file_that_is_no_whole_journal_is_refused_and_stays_as_it_is(
    server: ApiServer, before: dict[str, Any], type_in: Type, journal: Path, *, damage: Callable[[str], str]
) -> None:
    type_in("migrate", "-n", "ml", "--apply", "--journal", journal)
    after = state(server)
    text = damage(journal.read_text(encoding="utf-8"))
    journal.write_text(text, encoding="utf-8")
    for words in (["--apply"], ["--undo", "--apply"]):
        said = type_in("migrate", "-n", "ml", *words, "--journal", journal)
        assert (said.code, said.out) == (2, "")
        assert "not the journal of a migration" in said.err
        assert "defect" not in said.err
    assert journal.read_text(encoding="utf-8") == text
    assert state(server) == after


def test_a_snapshot_is_planned_as_the_cluster_is(
    server: ApiServer, before: dict[str, Any], type_in: Type, journal: Path, tmp_path: Path
) -> None:
    live = json.loads(type_in("migrate", "-n", "ml", "-o", "json", "--journal", journal).out)
    dump = tmp_path / "dump.json"
    dump.write_text(json.dumps({"kind": "List", "items": a_cluster()}), encoding="utf-8")
    told = json.loads(type_in("migrate", "-n", "ml", "-o", "json", "--snapshot", dump).out)
    assert told["kind"] == "Migration"
    assert sorted(each["name"] for each in told["steps"]) == sorted(each["name"] for each in live["steps"])


@pytest.mark.parametrize(("kinds", "code"), [({"Node"}, 2), ({"Pod"}, 0), (set(), 2), ({"Pod", "Deployment"}, 0)])
def test_a_dump_that_lacks_what_is_to_be_moved_is_told_with_the_command_that_makes_one(
    type_in: Type, tmp_path: Path, kinds: set[str], code: int
) -> None:
    dump = tmp_path / "dump.json"
    items = [raw for raw in a_cluster() if raw["kind"] in {*kinds, "Device"}]
    dump.write_text(json.dumps({"kind": "List", "items": items}), encoding="utf-8")
    said = type_in("migrate", "-n", "ml", "--snapshot", dump)
    assert said.code == code
    assert ("kubectl get deployments," in said.err) is ("Deployment" not in kinds)
    assert "no workloads and no pods of namespace other" in type_in("migrate", "-n", "other", "--snapshot", dump).err


@pytest.mark.parametrize(
    ("page", "command"),
    [("docs/tasks/migrate.md", migrate.DUMP), ("koordinator_adapter/README.md", doctor_evidence.DUMP)],
)
def test_the_page_says_how_a_dump_is_made(page: str, command: str) -> None:
    text = (Path(__file__).parents[4] / page).read_text(encoding="utf-8")
    assert f"{command} > dump.json\n" in text


def test_an_object_of_a_dump_with_a_name_that_none_can_have_is_told_and_hides_no_other(
    type_in: Type, tmp_path: Path
) -> None:
    odd = a_workload("a/b", a_template(HAMI, "hami-scheduler"))
    nameless = a_workload("c", a_template(HAMI, "hami-scheduler"), kind="ReplicaSet")
    del nameless["metadata"]["name"]
    dump = tmp_path / "dump.json"
    dump.write_text(json.dumps({"kind": "List", "items": [odd, nameless, *a_cluster()]}), encoding="utf-8")
    said = type_in("migrate", "-n", "ml", "-o", "json", "--snapshot", dump)
    assert "deployment/ml/a/b: the name of an object is text without /" in said.err
    assert "replicaset/ml/: the name" in said.err
    assert "deployment/ml/serving" in {each["name"] for each in json.loads(said.out)["steps"]}


def test_a_pod_whose_cards_nobody_publishes_is_told_and_hides_no_other(
    server: ApiServer, before: dict[str, Any], type_in: Type, journal: Path
) -> None:
    server.put(a_pod("lost", "GPU-7", node="gpu-9"))
    said = type_in("migrate", "--records", "-n", "ml", "--journal", journal)
    assert said.code == 1
    assert "node gpu-9 has no Device object" in said.out
    assert "pod/ml/serving-1-a: holds cards of gpu-1" in said.out


def test_a_device_object_that_means_nothing_is_told_and_ends_no_migration(
    server: ApiServer, before: dict[str, Any], type_in: Type, journal: Path
) -> None:
    server.put(
        {
            "apiVersion": "scheduling.koordinator.sh/v1alpha1",
            "kind": "Device",
            "metadata": {"name": "broken"},
            "spec": {"devices": "x"},
        }
    )
    said = type_in("migrate", "--records", "-n", "ml", "--journal", journal)
    assert "device broken: spec.devices" in said.err
    assert "pod/ml/serving-1-a: holds cards of gpu-1" in said.out


@pytest.mark.parametrize("kind", ["pod", "job"])
def test_the_command_for_what_cannot_be_changed_makes_it_anew(
    server: ApiServer,
    before: dict[str, Any],
    type_in: Type,
    journal: Path,
    *,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    kind: str,
) -> None:
    raw = a_pod("alone", "GPU-1")
    del raw["metadata"]["ownerReferences"]
    server.put(raw)
    written = connect_to(server.url).get(PATHS["job"])
    written["spec"]["selector"] = {"matchLabels": {"controller-uid": "u"}}
    written["spec"]["template"]["metadata"]["labels"]["controller-uid"] = "u"
    server.put(written)
    name, path = {"pod": ("alone", PATHS["pod"].replace("serving-1-a", "alone")), "job": ("once", PATHS["job"])}[kind]
    said = type_in("migrate", "-n", "ml", "--journal", journal)
    (line,) = [line for line in said.out.splitlines() if f"{kind}/ml/{name}: " in line and "kubectl" in line]
    command = line[line.index("hami-plugins koordinator translate") : line.index(" > ")].split()[3:]
    assert line.endswith(
        f"> {kind}-{name}.yaml && kubectl -n ml delete {kind} {name} && kubectl create -f {kind}-{name}.yaml"
    )
    cluster = connect_to(server.url)
    version, named = {"pod": ("v1", "Pod"), "job": ("batch/v1", "Job")}[kind]
    text = json.dumps({"apiVersion": version, "kind": named, **cluster.get(path)}).encode()
    cluster.delete(path, body={"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0})
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert main(["koordinator", "translate", *command]) == 0
    (document,) = manifests.read(capsys.readouterr().out, source="out")
    found = cluster.create(path.rpartition("/")[0], dict(document.raw))
    template = found if kind == "pod" else found["spec"]["template"]
    assert template["spec"]["schedulerName"] == "koord-scheduler"
    assert template["metadata"]["labels"].keys() == {"koordinator.sh/gpu-isolation-provider"} | (
        {"app"} if kind == "job" else set()
    )
    assert not {"nodeName", "selector"} & found["spec"].keys()
