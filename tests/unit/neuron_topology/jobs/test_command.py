"""``neuron patch`` at a terminal."""

from __future__ import annotations

import io
import json
import re
import sys
from collections import Counter
from pathlib import Path

import pytest
import typer
import yaml

from hami_plugins.errors import ConfigError, ManifestError
from neuron_topology.core.hypernodes import tiers
from neuron_topology.core.jobs import patch, templates
from tests.unit.neuron_topology.hypernodes.nodes import a_node
from tests.unit.neuron_topology.jobs.submitted import DRY_RUNS, NEURON, a_container, a_dry_run, a_job, a_task
from tests.unit.neuron_topology.typing_in import type_in

DRY_RUN = DRY_RUNS[0]
SERVICE = "apiVersion: v1\nkind: Service\nmetadata: {name: front} # mine\n"
FAULTS = {
    "devices": a_job(a_task(a_container({NEURON: 99}))),
    "events": a_job(policies=[{"events": 5, "action": "AbortJob"}]),
    "event": a_job(a_task(policies=[{"event": ["PodFailed"], "action": "AbortJob"}])),
}


def test_what_torchx_prints_can_be_piped_through(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = f"=== APPLICATION ===\nname: x\n\n=== SCHEDULER REQUEST ===\n{DRY_RUN.read_text()}"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(printed.encode())))
    said = type_in(capsys, "patch", "-f", "-")
    assert said.code == 0
    assert said.out.startswith(DRY_RUN.read_text().splitlines()[0])
    assert yaml.safe_load(said.out)["spec"]["minAvailable"] == 2
    assert "so that Volcano counts it" in said.err


def test_nothing_on_stdin_is_an_error_and_not_a_patched_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    with pytest.raises(ManifestError, match=r"^-: no object; did the command before this one print a job\?"):
        type_in(capsys, "patch", "-f", "-")


def test_tasks_that_are_alike_are_told_of_once(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    job = tmp_path / "job.yaml"
    whole, part = a_task(a_container({NEURON: 16})), a_task(a_container({NEURON: 4}))
    job.write_text(yaml.safe_dump(a_job(*(whole if at != 2 else part for at in range(6)))))
    counted = [line for line in type_in(capsys, "patch", "-f", str(job)).err.splitlines() if NEURON in line]
    assert [line.partition(".spec")[0] for line in counted if "as limited" in line] == [
        "note: job train: spec.tasks[0-1,3-5].template",
        "note: job train: spec.tasks[2].template",
    ]
    assert sum("tolerations" in line for line in counted) == 1


@pytest.mark.parametrize("command", [("patch", "-f", str(DRY_RUN)), ("submit", "--queue", "test", "--dryrun")])
def test_a_duration_that_is_none_is_a_fault_of_the_option(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.BadParameter, match="'soon' is not a duration; write 90m") as error:
        type_in(capsys, *command, "--duration", "soon")
    assert error.value.param_hint == "--duration"


def test_checking_prints_no_object_and_fails_until_all_is_done(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    said = type_in(capsys, "patch", "--check", "-f", str(DRY_RUN))
    assert (said.code, said.out) == (1, "")
    done = tmp_path / "done.yaml"
    done.write_text(type_in(capsys, "patch", "-f", str(DRY_RUN)).out)
    assert type_in(capsys, "patch", "--check", "-f", str(done)) == (0, "", "")


@pytest.mark.parametrize("fault", FAULTS)
def test_a_job_with_a_fault_stays_as_it_is_and_hides_no_other(
    fault: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "all.yaml"
    file.write_text("---\n".join([SERVICE, yaml.safe_dump(FAULTS[fault]), DRY_RUN.read_text()]))
    said = type_in(capsys, "patch", "-f", str(file))
    service, faulty, fine = yaml.safe_load_all(said.out)
    assert said.code == 1
    assert said.out.startswith(SERVICE)
    assert service["kind"] == "Service"
    assert faulty == FAULTS[fault]
    assert fine["spec"]["minAvailable"] == 2
    assert f"unchanged: {file}:5: job train: spec." in said.err


def test_what_only_some_pools_allocation_is_said_and_is_no_change(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(a_job(a_task(a_container({NEURON: 7})))))
    file.write_text(type_in(capsys, "patch", "-f", str(file)).out)
    said = type_in(capsys, "patch", "--check", "-f", str(file))
    assert (said.code, said.out) == (0, "")
    assert said.err.count("7 devices of trn1.32xlarge are never allocated together; ask for 4 or 8") == 1


@pytest.mark.parametrize(("tier", "said_of"), [("zone", 0), ("network-layer-3", 1), ("none", 0)])
def test_a_tier_that_the_nodes_of_a_cluster_do_not_make_is_told(
    tier: str, said_of: int, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    dump = tmp_path / "dump.json"
    dump.write_text(json.dumps({"kind": "List", "items": [a_node("n", zone="z"), a_node("m", zone="z")]}))
    said = type_in(capsys, "patch", "-f", str(DRY_RUN), "--tier", tier, "--snapshot", str(dump))
    assert said.code == 0
    what = f"networkTopology.highestTierName: the nodes' labels make no HyperNode of tier {tier}"
    assert said.err.count(what) == said_of
    assert said.err.count("tiers: zone\n") == said_of
    assert templates.ORDER_ENV not in said.out


def test_the_clusters_own_nodes_decide_what_a_pod_may_request(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    node = a_node("n", zone="z")
    node["status"]["allocatable"] = {"cpu": "100", "memory": "400Gi"}
    dump = tmp_path / "dump.json"
    dump.write_text(json.dumps({"kind": "List", "items": [node]}))
    said = type_in(capsys, "patch", "-f", str(DRY_RUN), "--snapshot", str(dump))
    assert "cpu 99500m instead of" in said.err
    assert "the most that the cluster's trn1.32xlarge nodes leave besides the daemons" in said.err


def test_files_are_printed_one_after_another(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.yaml").write_text(SERVICE.replace("front", name))
    said = type_in(capsys, "patch", "-f", str(tmp_path))
    assert [each["metadata"]["name"] for each in yaml.safe_load_all(said.out)] == ["a", "b"]


@pytest.mark.parametrize("path", DRY_RUNS, ids=lambda path: path.stem)
def test_the_comments_and_the_order_of_a_dry_run_stay(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = type_in(capsys, "patch", "-f", str(path))
    text = path.read_text()
    assert "written anew" not in said.err
    assert said.out.splitlines()[:4] == text.splitlines()[:4]
    assert yaml.safe_load(said.out) == patch.patch(a_dry_run(path)).job
    gone = Counter(text.splitlines()) - Counter(said.out.splitlines())
    touched = ("neurondevice", "requests: {}", "cpu: ", "memory: ", "maxRetry: 0")
    assert [line for line in gone if not any(each in line for each in touched)] == []


def test_a_job_in_a_list_is_patched_in_its_place(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "list.yaml"
    items = [yaml.safe_load(SERVICE), a_dry_run(DRY_RUN), a_dry_run(DRY_RUNS[2])]
    file.write_text("# mine\n" + yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": items}, sort_keys=False))
    said = type_in(capsys, "patch", "-f", str(file))
    assert said.out.startswith("# mine\n")
    assert [each["spec"].get("minAvailable") for each in yaml.safe_load(said.out)["items"][1:]] == [2, 1]


def test_what_cannot_be_written_into_the_text_is_written_anew(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "job.yaml"
    text = yaml.dump(a_job(maxRetry="&number 1", ttlSecondsAfterFinished="*number"), sort_keys=False)
    file.write_text("# mine\n" + text.replace("'", ""))
    said = type_in(capsys, "patch", "-f", str(file), "--tier", "none", "--restarts", "0")
    assert "# mine" in said.out
    said = type_in(capsys, "patch", "-f", str(file), "--tier", "none", "--restarts", "2")
    assert "document 1: rewritten, in another style" in said.err
    file.write_text(file.read_text().replace("kind: Job\n", "kind: Job  # a comment\n", 1))
    said = type_in(capsys, "patch", "-f", str(file), "--tier", "none", "--restarts", "2")
    assert "document 1: rewritten, without its comments" in said.err
    spec = yaml.safe_load(said.out)["spec"]
    assert (spec["maxRetry"], spec["ttlSecondsAfterFinished"], spec["minAvailable"]) == (2, 1, 2)
    assert "networkTopology" not in said.out


def test_json_is_one_object_or_a_list(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    one = json.loads(type_in(capsys, "patch", "-o", "json", "-f", str(DRY_RUN)).out)
    assert one["kind"] == "Job"
    both = json.loads(type_in(capsys, "patch", "-o", "json", "-f", str(DRY_RUN), "-f", str(DRY_RUNS[1])).out)
    assert [both["kind"], len(both["items"])] == ["List", 2]


def test_an_unknown_tier_is_refused_with_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConfigError, match=r"no tier is called rack; there are ultraserver-2, .* zone, cluster"):
        type_in(capsys, "patch", "-f", str(DRY_RUN), "--tier", "rack")


def test_the_help_names_every_tier_that_is_accepted(capsys: pytest.CaptureFixture[str]) -> None:
    said = re.sub(r"\s", "", type_in(capsys, "patch", "--help").out)
    assert ",".join(tiers.BY_NAME) in said


@pytest.mark.parametrize("command", [("patch", "-f", str(DRY_RUN)), ("submit", "--queue", "q", "--dry-run")])
def test_objects_are_printed_as_objects_and_never_as_a_table(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.BadParameter, match="'table' is not one of 'yaml', 'json'"):
        type_in(capsys, *command, "-o", "table")


def test_nothing_to_patch_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ManifestError, match="give manifests with -f"):
        type_in(capsys, "patch")
