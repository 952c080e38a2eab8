"""``vet``: what goes in, what comes out, and how it ends."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import orjson
import pytest
import yaml

from hami_plugins.cli import main
from hami_plugins.inputs import fleets
from hami_plugins.vet import RULES
from tests.unit.cli.conftest import FITS, TOO_BIG, Type

WRONG = FITS.replace("4000", "16Gi")
NOTED = FITS.replace(", nvidia.com/gpumem: 4000", "")


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    file = tmp_path / "wrong.yaml"
    file.write_text(WRONG, encoding="utf-8")
    return file


def test_manifests_without_mistakes_end_with_zero(type_in: Type, job: Path) -> None:
    said = type_in("vet", "-f", job)
    assert (said.code, said.out, said.err) == (0, "no findings in 1 file\n", "")


def test_a_mistake_is_a_line_to_jump_from_what_is_wrong_and_the_remedy(type_in: Type, wrong: Path) -> None:
    said = type_in("vet", "-f", wrong)
    assert said.code == 1
    place, what, fix, _, rule, _, hint, last = said.out.splitlines()
    assert place == f"{wrong}:8:45: HP211 error: Pod default/small, container main"
    assert what.startswith("    nvidia.com/gpumem=16Gi: memory is counted in MiB here, not in bytes")
    assert fix.startswith("    fix: write 16384")
    assert rule.split()[:2] == ["HP211", "1"]
    assert hint == "`hami-plugins vet --explain HP211` explains a rule."
    assert last == "1 error in 1 file"


JOB = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: train}
spec:
  schedulerName: volcano
  minAvailable: 2
  tasks:
  - {name: ps, template: {spec: {containers: [{name: main, resources: {limits: {nvidia.com/gpu: 1}}}]}}}
  - {name: worker, template: {spec: {containers: [{name: main, resources: {limits: {nvidia.com/gpu: 1}}}]}}}
"""


def test_what_several_tasks_do_wrong_is_said_once(type_in: Type) -> None:
    said = type_in("vet", "-f", "-", "--fleet", "t4x1", stdin=JOB.replace("gpu: 1", "gpu: 9"))
    found = said.out.split("\n\n")[0].splitlines()
    assert [line for line in found if "HP802" in line] == [
        "stdin:8:81: HP802 error: Job default/train, task ps, container main"
    ]
    assert "    also: task worker, container main (line 9)" in found


def test_findings_stand_by_file(type_in: Type, tmp_path: Path) -> None:
    for name in ("a.yaml", "b.yaml"):
        (tmp_path / name).write_text(WRONG, encoding="utf-8")
    first, second, *_ = type_in("vet", "-f", tmp_path).out.split("\n\n")
    assert first.startswith(f"{tmp_path / 'a.yaml'}:8:45: HP211 error")
    assert second.startswith(f"{tmp_path / 'b.yaml'}:8:45: HP211 error")


def test_a_terminal_gets_whole_names_in_its_width(
    wrong: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("NO_COLOR", "1")
    main(["vet", "-f", str(wrong)])
    lines = capsys.readouterr().out.splitlines()
    assert max(len(line) for line in lines if str(wrong) not in line) <= 60
    text = " ".join(line.strip() for line in lines)
    assert "HP211 error: Pod default/small, container main nvidia.com/gpumem=16Gi: memory is counted in MiB" in text
    assert "fix: write 16384" in text


@pytest.mark.parametrize("name", ["HP211", "hp211", "memory-in-bytes"])
def test_a_rule_is_explained_by_id_and_name(type_in: Type, name: str) -> None:
    said = type_in("vet", "--explain", name)
    assert said.code == 0
    assert said.out.startswith("HP211 error: memory-in-bytes\n")
    listed = json.loads(type_in("vet", "--explain", name, "-o", "json").out)
    assert [rule["id"] for rule in listed["items"]] == ["HP211"]


def test_a_rule_that_does_not_exist_is_not_explained(type_in: Type) -> None:
    said = type_in("vet", "--explain", "HP999")
    assert (said.code, said.err) == (2, "error: --explain HP999: unknown rule; --list-rules lists the rules\n")


def test_notes_do_not_fail(type_in: Type) -> None:
    said = type_in("vet", "-f", "-", stdin=NOTED)
    assert said.code == 0
    assert said.out.startswith("stdin:8:45: HP216 note: ")


def test_a_folder_is_read_by_name_and_a_broken_file_does_not_hide_the_others(type_in: Type, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("a: }\n", encoding="utf-8")
    (tmp_path / "b.yaml").write_text(WRONG, encoding="utf-8")
    said = type_in("vet", "-f", tmp_path)
    assert said.code == 1
    assert [line.split(": ")[1].strip() for line in said.out.splitlines() if ": HP" in line] == [
        "HP001 error",
        "HP211 error",
    ]


def test_a_file_that_is_no_text_does_not_hide_the_others(type_in: Type, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "b.yaml").write_text(WRONG, encoding="utf-8")
    said = type_in("vet", "-f", tmp_path)
    assert said.code == 1
    assert [line.split(": ")[1].strip() for line in said.out.splitlines() if ": HP" in line] == [
        "HP001 error",
        "HP211 error",
    ]


def test_a_cluster_shows_what_fits_nowhere(type_in: Type, too_big: Path) -> None:
    assert "HP803" not in type_in("vet", "-f", too_big).out
    text = TOO_BIG.replace("400000", "100000")
    said = type_in("vet", "-f", "-", "--fleet", "t4x1", stdin=text)
    assert said.code == 1
    assert "HP803 error: Pod default/big" in said.out


def test_a_cluster_alone_is_looked_at(type_in: Type, tmp_path: Path) -> None:
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1"},
        "status": {"allocatable": {"volcano.sh/vgpu-number": "10"}},
    }
    said = type_in("vet", "--snapshot", "-", stdin=json.dumps({"kind": "List", "items": [node]}))
    assert said.code == 1
    assert said.out.startswith("stdin:1:1: HP731 error: Node n1\n    the node offers 10 volcano.sh/vgpu-number")
    assert type_in("vet", "--fleet", "mixed").code == 0
    allocated = tmp_path / "settings.yaml"
    allocated.write_text("version: 1\nvolcano: {assigner: extender, release: 1.14.1}\n", encoding="utf-8")
    assert type_in("vet", "--snapshot", "-", "--settings", allocated, stdin=json.dumps(node)).code == 0


IDS = """\
apiVersion: v1
kind: Pod
metadata: {name: ids, annotations: {volcano.sh/vgpu-use-gpuuuid: GPU-0}}
spec:
  schedulerName: volcano
  containers: [{name: c, resources: {limits: {volcano.sh/vgpu-number: 1}}}]
"""


@pytest.mark.parametrize(("scheduler", "code"), [("volcano-1.14", 1), ("volcano-1.16", 0)])
def test_the_release_of_volcano_is_an_option(type_in: Type, scheduler: str, code: int) -> None:
    assert type_in("vet", "-f", "-", "--scheduler", scheduler, stdin=IDS).code == code


@pytest.mark.parametrize(("assigner", "code"), [("volcano", 1), ("extender", 0)])
def test_who_assigns_cards_is_an_option(type_in: Type, assigner: str, code: int) -> None:
    assert type_in("vet", "-f", "-", "--scheduler", "volcano-1.14", "--assigner", assigner, stdin=IDS).code == code


def test_rules_are_left_out_by_id_and_name(type_in: Type, wrong: Path) -> None:
    assert type_in("vet", "-f", wrong, "--ignore", "HP211,unusable-request").code == 0
    said = type_in("vet", "-f", wrong, "--ignore", "HP1")
    assert (said.code, said.err) == (2, "error: --ignore HP1: unknown rule; --list-rules lists the rules\n")


def test_json_and_yaml_say_the_same(type_in: Type, wrong: Path) -> None:
    as_json = json.loads(type_in("vet", "-f", wrong, "-o", "json").out)
    assert as_json == yaml.safe_load(type_in("vet", "-f", wrong, "-o", "yaml").out)
    assert as_json["summary"] == {"errors": 1, "warnings": 0, "notes": 0}
    assert as_json["findings"][0]["fix"]["replacement"]["new"] == "16384"


def test_sarif_is_one_run_with_all_rules(type_in: Type, wrong: Path) -> None:
    said = type_in("vet", "-f", wrong, "-o", "sarif")
    assert said.code == 1
    (run,) = json.loads(said.out)["runs"]
    assert len(run["tool"]["driver"]["rules"]) == len(RULES)
    assert [result["ruleId"] for result in run["results"]] == ["HP211"]


@pytest.mark.parametrize("form", ["text", "json", "yaml", "sarif"])
def test_the_rules_are_listed_in_every_form(type_in: Type, form: str) -> None:
    said = type_in("vet", "--list-rules", "-o", form)
    assert said.code == 0
    assert all(rule.id in said.out for rule in RULES)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (
            (),
            "error: nothing to check; give manifests with -f FILE, a folder, or - for stdin, or a cluster with "
            "--snapshot\n",
        ),
        (("-f", "-", "--snapshot", "-"), "error: stdin can be read once: only one of -f and --snapshot may be -\n"),
        (("-f", "no-such-file.yaml"), "error: no-such-file.yaml: No such file or directory\n"),
    ],
)
def test_what_cannot_be_done_ends_with_two(type_in: Type, words: tuple[str, ...], error: str) -> None:
    said = type_in("vet", *words)
    assert (said.code, said.err) == (2, error)


def test_a_cluster_is_counted_as_one_and_not_as_a_file(type_in: Type, tmp_path: Path, job: Path) -> None:
    files = [tmp_path / f"{kind}.json" for kind in ("nodes", "pods")]
    nodes = fleets.nodes_of(fleets.parse("nodes: [{shape: t4x1}]", source="test"))
    for file, items in zip(files, (nodes, []), strict=True):
        file.write_bytes(orjson.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    said = type_in("vet", "-f", job, "--snapshot", files[0], "--snapshot", files[1])
    assert said.out.splitlines()[-1].endswith(" in 1 file and 1 cluster")
    assert type_in("vet", "-f", job, "--fleet", "t4x1").out.splitlines()[-1].endswith(" in 1 file and 1 cluster")
    assert type_in("vet", "--snapshot", files[0]).out.splitlines()[-1].endswith(" in 1 cluster")


def test_a_job_may_say_how_long_its_pods_run(type_in: Type) -> None:
    job = JOB.replace("{name: train}", "{name: train, annotations: {hami-plugins.io/expected-duration: 6h}}")
    wrong = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: d, annotations: {hami-plugins.io/expected-duration: 6h}}
spec: {template: {spec: {containers: [{name: c}]}}}
"""
    assert "HP406" not in type_in("vet", "-f", "-", stdin=job).out
    assert "HP406" in type_in("vet", "-f", "-", stdin=wrong).out


def limited(**limits: int | str) -> str:
    """A pod; two underscores are a slash, one is a dot."""
    written = {name.replace("__", "/").replace("_", "."): amount for name, amount in limits.items()}
    containers = [{"name": "main", "resources": {"limits": written}}]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": containers}}
    return yaml.safe_dump(pod)


def test_a_wrong_name_is_renamed_and_not_asked_for_less(type_in: Type) -> None:
    text = limited(cambricon_com__vmlu=1, cambricon_com__mlu370_smlu_vmemory=20)
    found = json.loads(type_in("vet", "-f", "-", "--fleet", "mixed", "-o", "json", stdin=text).out)["findings"]
    assert [(each["rule"], each["fix"]["text"]) for each in found] == [
        ("HP102", "write cambricon.com/mlu.smlu.vmemory")
    ]


def test_a_pod_with_a_wrong_name_that_fits_nowhere_anyway_is_told_so(type_in: Type) -> None:
    text = limited(nvidia_com__gpu=1, nvidia_com__gpumem=90000, **{"nvidia.com/gpu-mem": 1})
    found = json.loads(type_in("vet", "-f", "-", "--fleet", "t4x1", "-o", "json", stdin=text).out)["findings"]
    assert {each["rule"] for each in found} == {"HP101", "HP803"}


def test_a_resource_that_no_node_has_is_to_be_dropped(type_in: Type) -> None:
    text = limited(nvidia_com__gpu=1, nvidia_com__gpumem=1000, example_com__fpga=1)
    found = json.loads(type_in("vet", "-f", "-", "--fleet", "t4x1", "-o", "json", stdin=text).out)["findings"]
    assert [each["fix"]["text"] for each in found] == ["drop example.com/fpga"]
    assert "the pod fits on none of the 8 nodes, even when all are idle" in found[0]["message"]


@pytest.mark.parametrize(
    ("limits", "annotations", "fix"),
    [
        ({"nvidia.com/gpu": 1, "nvidia.com/gpumem": "16Gi"}, {}, "write 16384"),
        (
            {"huawei.com/Ascend910B3": 1, "huawei.com/Ascend910B3-memory": 70000},
            {},
            "ask for at most 65536, or drop huawei.com/Ascend910B3-memory and get a whole card",
        ),
        (
            {"metax-tech.com/sgpu": 2},
            {"metax-tech.com/sgpu-app-class": "online"},
            "ask for metax-tech.com/sgpu: 1, or drop the annotation metax-tech.com/sgpu-app-class",
        ),
        ({"nvidia.com/gpu": 1}, {"hami.io/node-scheduler-policy": "best"}, "write binpack or spread"),
        (
            {"nvidia.com/gpu": 1},
            {"nvidia.com/vgpu-mode": "whole"},
            "write hami-core, mig or mps",
        ),
    ],
)
def test_a_remedy_is_what_to_write(
    type_in: Type, limits: dict[str, object], annotations: dict[str, str], fix: str
) -> None:
    pod = yaml.safe_load(limited())
    pod["metadata"]["annotations"] = annotations
    pod["spec"]["containers"][0]["resources"]["limits"] = limits
    found = json.loads(type_in("vet", "-f", "-", "-o", "json", stdin=yaml.safe_dump(pod)).out)["findings"]
    assert fix in [each["fix"]["text"] for each in found]
