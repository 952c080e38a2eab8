"""``plan``: what goes in, what comes out, and how it ends."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import orjson
import pytest
import yaml

from hami_plugins.inputs import fleets
from tests import pool_objects
from tests.schema import ADAPTER
from tests.unit.cli.conftest import FITS, SERVICE, TOO_BIG, Type
from tests.unit.queueing.test_cycle import a_node, a_pod

FLEET = "nodes: [{shape: t4x1, count: 2}]"


def a_listing(count: int = 1) -> bytes:
    """A dump of some T4 nodes."""
    nodes = fleets.nodes_of(fleets.parse(f"nodes: [{{shape: t4x1, count: {count}}}]", source="test"))
    return orjson.dumps({"apiVersion": "v1", "kind": "List", "items": nodes})


def test_a_plan_that_works_out_ends_with_zero(type_in: Type, job: Path) -> None:
    said = type_in("plan", "-f", job, "--fleet", "t4x1")
    assert (said.code, said.err) == (0, "")
    header, row, *_ = said.out.splitlines()
    assert header.split() == ["POD", "STATUS", "NODE", "CARDS", "SLICE", "WHY", "HERE"]
    assert row.split()[:3] == ["default/small", "fits", "t4x1-0"]


def test_a_pod_that_does_not_fit_ends_with_one(type_in: Type, job: Path, too_big: Path) -> None:
    said = type_in("plan", "-f", job, "-f", too_big, "--snapshot", "-", stdin=a_listing())
    assert said.code == 1
    why = "memory: asked 400,000 MiB on 1 card; largest free 11,360 MiB (t4x1-0), total free 11,360 MiB"
    assert f"\ndefault/big: does not fit\n  1 of 1 node: {why}\n" in said.out
    assert "  -> fits with nvidia.com/gpumem: 11360 instead of 400000 (on t4x1-0)\n" in said.out
    assert said.out.endswith("\n1 of 2 pods placed\n")


@pytest.mark.parametrize(
    ("names", "about"),
    [pytest.param(("a",), "default/a", id="one pod"), pytest.param(("a", "b"), "default/a and 1 more", id="two pods")],
)
def test_where_volcano_may_do_otherwise_is_said_once(
    type_in: Type, tmp_path: Path, names: tuple[str, ...], about: str
) -> None:
    sick = a_node()
    sick["metadata"]["annotations"]["volcano.sh/node-vgpu-register"] = (
        "GPU-0,10,10000,NVIDIA-NVIDIA A100,true,hami-core:GPU-1,10,10000,NVIDIA-NVIDIA A100,false,hami-core:"
    )
    dump, jobs = tmp_path / "dump.json", tmp_path / "jobs.yaml"
    dump.write_bytes(orjson.dumps({"apiVersion": "v1", "kind": "List", "items": [sick]}))
    jobs.write_text(yaml.safe_dump_all(a_pod(name, 1000) for name in names), encoding="utf-8")
    said = type_in("plan", "-f", jobs, "--snapshot", dump)
    assert f"\n\nnote: {about}: Volcano does not look at health: it may give the pod an unhealthy card\n" in said.out


def test_no_headers_leave_the_rows(type_in: Type, job: Path) -> None:
    assert type_in("plan", "-f", job, "--fleet", "t4x1", "--no-headers").out.startswith("default/small")


def test_json_is_as_the_schema_says(type_in: Type, job: Path, too_big: Path) -> None:
    said = type_in("plan", "-f", job, "-f", too_big, "--fleet", "t4x1", "-o", "json")
    assert said.code == 1
    ADAPTER.validate_python(json.loads(said.out), strict=True)


def test_yaml_says_the_same_as_json(type_in: Type, job: Path) -> None:
    words = ("plan", "-f", job, "--fleet", "t4x1", "--policy", "node=spread", "-o")
    as_json, as_yaml = json.loads(type_in(*words, "json").out), yaml.safe_load(type_in(*words, "yaml").out)
    for each in (as_json, as_yaml):
        each["pods"][0]["annotations"].pop("hami.io/vgpu-time")
    assert as_json == as_yaml


@pytest.mark.parametrize("suffix", ["json", "yaml", "json.gz"])
def test_a_dump_is_taken_as_kubectl_prints_it(type_in: Type, job: Path, tmp_path: Path, suffix: str) -> None:
    data = a_listing()
    if suffix == "yaml":
        data = yaml.safe_dump(json.loads(data)).encode()
    dump = tmp_path / f"dump.{suffix}"
    dump.write_bytes(gzip.compress(data) if suffix.endswith("gz") else data)
    assert "t4x1-0" in type_in("plan", "-f", job, "--snapshot", dump).out


def test_a_dump_comes_through_a_pipe(type_in: Type, job: Path) -> None:
    assert type_in("plan", "-f", job, "--snapshot", "-", stdin=a_listing()).code == 0


def test_manifests_come_through_a_pipe(type_in: Type) -> None:
    assert "default/small" in type_in("plan", "-f", "-", "--fleet", "t4x1", stdin=FITS).out


def test_stdin_cannot_be_read_twice(type_in: Type) -> None:
    said = type_in("plan", "-f", "-", "--snapshot", "-")
    assert said.code == 2
    assert "stdin can be read once" in said.err


def test_several_dumps_make_one_cluster(type_in: Type, job: Path, tmp_path: Path) -> None:
    nodes, pods = tmp_path / "nodes.json", tmp_path / "pods.json"
    nodes.write_bytes(a_listing())
    pods.write_text('{"kind": "List", "items": []} {"kind": "List", "items": []}', encoding="utf-8")
    assert type_in("plan", "-f", job, "--snapshot", nodes, "--snapshot", pods).code == 0


def test_a_folder_gives_its_manifests_by_name(type_in: Type, tmp_path: Path) -> None:
    (tmp_path / "b.yml").write_text(FITS, encoding="utf-8")
    (tmp_path / "a.yaml").write_text(TOO_BIG, encoding="utf-8")
    (tmp_path / "notes.txt").write_text("{", encoding="utf-8")
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "c.json").write_text(json.dumps(yaml.safe_load(FITS.replace("small", "deep"))), encoding="utf-8")
    flat = type_in("plan", "-f", tmp_path, "--fleet", "t4x1", "--no-headers").out
    assert [line.split()[0] for line in flat.splitlines()[:2]] == ["default/big", "default/small"]
    assert "default/deep" not in flat
    assert "default/deep" in type_in("plan", "-R", "-f", tmp_path, "--fleet", "t4x1").out


def test_a_fleet_may_be_a_file(type_in: Type, job: Path, tmp_path: Path) -> None:
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text(FLEET, encoding="utf-8")
    said = json.loads(type_in("plan", "-f", job, "--fleet", fleet, "-o", "json").out)
    assert said["summary"]["nodes"] == 2


def test_the_namespace_is_that_of_pods_that_name_none(type_in: Type, job: Path) -> None:
    assert "lab/small" in type_in("plan", "-f", job, "--fleet", "t4x1", "-n", "lab").out


def test_what_if_there_were_more_nodes(type_in: Type, tmp_path: Path, job: Path) -> None:
    dump = tmp_path / "dump.json"
    dump.write_bytes(a_listing())
    words = ("plan", "-f", job, "--snapshot", dump)
    assert type_in(*words, "--without", "node/t4x1-0").code == 1
    assert "added-t4x1-0" in type_in(*words, "--without", "node/t4x1-0", "--add-nodes", "t4x1").out


def test_the_annotations_of_a_dialect_are_patches(type_in: Type, job: Path, too_big: Path) -> None:
    said = type_in("plan", "-f", job, "-f", too_big, "--fleet", "t4x1", "--annotations", "hami")
    (patch,) = yaml.safe_load_all(said.out)
    assert patch["metadata"]["name"] == "small"
    assert patch["metadata"]["annotations"]["hami.io/vgpu-node"] == "t4x1-0"
    assert "# default/big: does not fit" in said.out


def test_pods_in_another_dialects_words_are_only_named(type_in: Type, job: Path) -> None:
    said = type_in("plan", "-f", job, "--fleet", "t4x1", "--annotations", "volcano")
    assert said.out == "# default/small: requests resources of hami\n"


def test_the_page_is_written_beside_the_answer(type_in: Type, job: Path, tmp_path: Path) -> None:
    html = tmp_path / "plan.html"
    assert type_in("plan", "-f", job, "--fleet", "t4x1", "--html", html).code == 0
    assert html.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_the_page_is_named_as_a_link_and_no_folder_is_made_for_it(type_in: Type, job: Path, tmp_path: Path) -> None:
    html = tmp_path / "plan.html"
    assert f"page: {html.as_uri()}" in type_in("plan", "-f", job, "--fleet", "t4x1", "--html", html).err
    said = type_in("plan", "-f", job, "--fleet", "t4x1", "--html", tmp_path / "new" / "plan.html")
    assert (said.code, said.out) == (2, "")
    assert f"folder {tmp_path / 'new'} does not exist" in said.err
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("command", ["plan", "vet"])
def test_a_file_without_its_option_is_answered_with_the_option(type_in: Type, job: Path, command: str) -> None:
    said = type_in(command, job)
    assert said.code == 2
    assert f"did you mean -f {job}?" in said.err
    assert "did you mean -f" not in type_in("vendors", "NVIDIA", "AMD").err


def test_settings_change_the_plan(type_in: Type, tmp_path: Path) -> None:
    settings, job = tmp_path / "device-config.yaml", tmp_path / "job.yaml"
    settings.write_text("nvidia: {resourceCountName: example.com/gpu}", encoding="utf-8")
    job.write_text(FITS.replace("nvidia.com/gpu:", "example.com/gpu:"), encoding="utf-8")
    said = type_in("plan", "-f", job, "--fleet", "t4x1", "--settings", settings, "-o", "json")
    assert json.loads(said.out)["pods"][0]["containers"][0]["slices"]


def test_documents_that_run_nothing_are_in_the_document_and_are_no_noise(type_in: Type, tmp_path: Path) -> None:
    job = tmp_path / "job.yaml"
    job.write_text(FITS + SERVICE, encoding="utf-8")
    words = ("plan", "-f", job, "--fleet", "t4x1")
    said = json.loads(type_in(*words, "-o", "json").out)
    assert [(each["kind"], each["line"]) for each in said["ignored"]] == [("Service", 10)]
    said = type_in(*words)
    assert (said.err, "left out" in said.out) == ("", False)


def test_a_document_that_is_written_again_is_named(type_in: Type, tmp_path: Path) -> None:
    job = tmp_path / "job.yaml"
    job.write_text(f"{FITS}---{FITS}", encoding="utf-8")
    said = type_in("plan", "-f", job, "--fleet", "t4x1")
    assert said.err == f"note: {job} line 2: Pod small is left out: written again further down\n"


def test_a_faulty_object_is_named_with_its_place_and_the_others_are_planned(type_in: Type, tmp_path: Path) -> None:
    job = tmp_path / "job.yaml"
    faulty = "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {replicas: -1}\n"
    job.write_text(f"{FITS}{faulty}", encoding="utf-8")
    said = type_in("plan", "-f", job, "--fleet", "t4x1")
    assert said.code == 1
    assert said.out.endswith("\n1 of 1 pod placed; 1 of 2 workloads skipped\n")
    assert "Deployment web is left out: spec: template is missing" in said.err


def test_a_faulty_object_without_pods_is_a_finding(type_in: Type, tmp_path: Path) -> None:
    job = tmp_path / "job.yaml"
    quota = "---\napiVersion: v1\nkind: ResourceQuota\nmetadata: {name: q}\nspec: {hard: {pods: some}}\n"
    job.write_text(f"{FITS}{quota}", encoding="utf-8")
    said = type_in("plan", "-f", job, "--fleet", "t4x1")
    assert said.code == 1
    assert "ResourceQuota q is left out: spec.hard.pods:" in said.err


def test_skipped_workloads_are_counted_beside_the_placed_pods(type_in: Type, tmp_path: Path) -> None:
    job, page = tmp_path / "job.yaml", tmp_path / "page.html"
    train = "---\napiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata: {name: train}\nspec: {}\n"
    job.write_text(f"{FITS}---{FITS.replace('small', 'other')}{train}{SERVICE}", encoding="utf-8")
    said = type_in("plan", "-f", job, "--fleet", "t4x1", "--html", page)
    assert said.code == 1
    assert said.out.endswith("\n2 of 2 pods placed; 1 of 3 workloads skipped\n")
    assert "TrainJob train is left out: spec.runtimeRef: it names no runtime, and spec.trainer" in said.err
    assert "1 of 3 workloads skipped" in page.read_text(encoding="utf-8")
    document = json.loads(type_in("plan", "-f", job, "--fleet", "t4x1", "-o", "json").out)
    assert (document["summary"]["workloads"], document["summary"]["skipped"]) == (3, 1)
    assert [each["hasPods"] for each in document["ignored"]] == [True, False]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        pytest.param(["plan", "--fleet", "t4x1"], "nothing to plan", id="no manifests"),
        pytest.param(["plan", "-f", "none.yaml", "--fleet", "t4x1"], "none.yaml: No such file", id="no such file"),
        pytest.param(["plan", "-f", "-", "--fleet", "t5x1"], "shipped fleets are .*t4x1", id="no such fleet"),
        pytest.param(["plan", "-f", "-", "--fleet", "t4x1", "-o", "jsn"], "jsn", id="no such form"),
        pytest.param(["plan", "-f", "-", "--fleet", "t4x1", "--polcy", "x"], "--polcy", id="no such option"),
        pytest.param(["plan", "-f", "-", "--fleet", "t4x1", "--add-nodes", "x=1"], "no shape 'x'", id="no such shape"),
        pytest.param(["plan", "-f", "-", "--fleet", "t4x1", "--without", "pod/a/b"], "no such pod", id="no such pod"),
        pytest.param(["plan", "-f", "-", "--fleet", "t4x1", "--settings", "s.yaml"], "s.yaml", id="no settings"),
        pytest.param(["plans"], "plans", id="no such command"),
    ],
)
def test_bad_usage_is_one_line_and_two(type_in: Type, words: list[str], complaint: str) -> None:
    said = type_in(*words, stdin=FITS)
    assert said.code == 2
    assert said.out == ""
    first = said.err.splitlines()[0]
    assert first.startswith("error: ")
    assert re.search(complaint, first)
    assert "Traceback" not in said.err


@pytest.mark.parametrize(
    ("manifest", "complaint"),
    [
        pytest.param("kind: Pod\n", "stdin: document 1, line 1, column 1: no apiVersion", id="no kind"),
        pytest.param(FITS.replace("1,", "x y,", 1), r"limits\[\"nvidia.com/gpu\"\]", id="no quantity"),
        pytest.param("a: [", "stdin: document 1, line 2", id="no yaml"),
        pytest.param("\xff", "stdin", id="no object"),
        pytest.param("---\n# nothing\n", "stdin: nothing to plan", id="empty"),
    ],
)
def test_a_bad_manifest_is_named_with_its_place(type_in: Type, manifest: str, complaint: str) -> None:
    said = type_in("plan", "-f", "-", "--fleet", "t4x1", stdin=manifest)
    assert said.code == 2
    assert re.search(complaint, said.err)


@pytest.mark.parametrize(
    ("dump", "complaint"),
    [
        pytest.param(b'{"kind": "List", "items": []}', "it has no nodes", id="empty"),
        pytest.param(b"\xff\xfe", "neither JSON nor UTF-8", id="binary"),
        pytest.param(b"\x1f\x8bnope", "broken gzip", id="gzip"),
        pytest.param(b'{"items": [', "breaks off after 11 bytes", id="cut off"),
    ],
)
def test_a_bad_dump_is_named(type_in: Type, job: Path, tmp_path: Path, dump: bytes, complaint: str) -> None:
    file = tmp_path / "dump.json"
    file.write_bytes(dump)
    said = type_in("plan", "-f", job, "--snapshot", file)
    assert said.code == 2
    assert "dump.json" in said.err
    assert complaint in said.err


def test_a_cluster_of_nothing_but_a_node_pool_is_planned_on(type_in: Type, tmp_path: Path) -> None:
    dump = tmp_path / "dump.json"
    dump.write_text(json.dumps({"kind": "List", "items": [pool_objects.a_node_pool()]}), encoding="utf-8")
    said = type_in("plan", "-f", "-", "--snapshot", dump, stdin=json.dumps(pool_objects.a_waiting_pod()))
    assert said.code == 1
    assert "-> fits after 1 more trn1.32xlarge of NodePool trn, no limit" in said.out


def test_a_broken_object_hides_no_healthy_one(type_in: Type, job: Path, tmp_path: Path) -> None:
    dump = tmp_path / "dump.json"
    listing = json.loads(a_listing())
    listing["items"].append({"kind": "Pod", "metadata": {"name": "odd"}, "spec": {"containers": 5}})
    dump.write_text(json.dumps(listing), encoding="utf-8")
    words = ("plan", "-f", job, "--snapshot", dump)
    said = type_in(*words, "-o", "json")
    assert said.code == 0
    assert "default/odd" in json.loads(said.out)["problems"][0]["what"]
    assert "default/odd" in type_in(*words).err


def test_many_broken_objects_are_counted(type_in: Type, job: Path, tmp_path: Path) -> None:
    dump = tmp_path / "dump.json"
    listing = json.loads(a_listing())
    listing["items"] += [{"kind": "Pod", "metadata": {"name": f"odd-{at}"}, "spec": 5} for at in range(15)]
    dump.write_text(json.dumps(listing), encoding="utf-8")
    assert "note: and 5 more; -o json has all of them" in type_in("plan", "-f", job, "--snapshot", dump).err


def test_what_a_release_does_otherwise_is_said_when_it_is_asked_for(type_in: Type, tmp_path: Path) -> None:
    dump, jobs = tmp_path / "dump.json", tmp_path / "jobs.yaml"
    dump.write_bytes(orjson.dumps({"apiVersion": "v1", "kind": "List", "items": [a_node()]}))
    jobs.write_text(yaml.safe_dump(a_pod("p", 1000)), encoding="utf-8")
    quiet = type_in("plan", "-f", jobs, "--snapshot", dump)
    told = type_in("plan", "-f", jobs, "--snapshot", dump, "--scheduler", "volcano-1.14")
    sentence = "note: default/p: Volcano 1.14.1 binds pods without looking at cards from its start"
    assert sentence not in quiet.out
    assert sentence in told.out
    settings = tmp_path / "settings.yaml"
    settings.write_text("version: 1\nvolcano: {assigner: extender}\n", encoding="utf-8")
    asked = ("plan", "-f", jobs, "--snapshot", dump, "--scheduler", "volcano-1.14")
    assert sentence not in type_in(*asked, "--assigner", "webhook").out
    assert sentence not in type_in(*asked, "--settings", settings).out
    assert sentence in type_in(*asked, "--settings", settings, "--assigner", "volcano").out
    assert "--assigner ours: not one of" in type_in(*asked, "--assigner", "ours").err


def test_a_scheduler_that_nobody_knows_is_an_error(type_in: Type, job: Path) -> None:
    said = type_in("plan", "-f", job, "--fleet", "t4x1", "--scheduler", "slurm")
    assert said.code == 2
    assert "--scheduler slurm: not a known release; write volcano-RELEASE with one of 1.14.0, 1.14.1" in said.err
