"""``neuron patch`` at a terminal."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest
import yaml

from hami_plugins.errors import ConfigError, ManifestError
from tests.unit.neuron_topology.jobs.submitted import DRY_RUNS, NEURON, a_container, a_job, a_task
from tests.unit.neuron_topology.typing_in import type_in

DRY_RUN = DRY_RUNS[0]
SERVICE = "apiVersion: v1\nkind: Service\nmetadata: {name: front} # mine\n"
FAULTY = a_job(a_task(a_container({NEURON: 99})))


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


def test_checking_prints_no_object_and_fails_until_all_is_done(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    said = type_in(capsys, "patch", "--check", "-f", str(DRY_RUN))
    assert (said.code, said.out) == (1, "")
    done = tmp_path / "done.yaml"
    done.write_text(type_in(capsys, "patch", "-f", str(DRY_RUN)).out)
    assert type_in(capsys, "patch", "--check", "-f", str(done)) == (0, "", "")


def test_a_job_with_a_fault_stays_as_it_is_and_hides_no_other(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "all.yaml"
    file.write_text("---\n".join([SERVICE, yaml.safe_dump(FAULTY), DRY_RUN.read_text()]))
    said = type_in(capsys, "patch", "-f", str(file))
    service, faulty, fine = yaml.safe_load_all(said.out)
    assert said.code == 1
    assert said.out.startswith(SERVICE)
    assert service["kind"] == "Service"
    assert faulty == FAULTY
    assert fine["spec"]["minAvailable"] == 2
    assert f"left as it is: {file}:5: job train: spec.tasks[0]" in said.err


def test_files_are_printed_one_after_another(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.yaml").write_text(SERVICE.replace("front", name))
    said = type_in(capsys, "patch", "-f", str(tmp_path))
    assert [each["metadata"]["name"] for each in yaml.safe_load_all(said.out)] == ["a", "b"]


def test_what_cannot_be_written_into_the_text_is_written_anew(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "job.yaml"
    task = a_task()
    file.write_text("# mine\n" + yaml.dump(a_job(task, task), sort_keys=False))
    said = type_in(capsys, "patch", "-f", str(file), "--tier", "none", "--restarts", "0")
    assert "*" in file.read_text()
    assert "written anew, without its comments" in said.err
    assert yaml.safe_load(said.out)["spec"]["minAvailable"] == 2
    assert "networkTopology" not in said.out
    assert "TerminateJob" in said.out


def test_json_is_one_object_or_a_list(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    one = json.loads(type_in(capsys, "patch", "-o", "json", "-f", str(DRY_RUN)).out)
    assert one["kind"] == "Job"
    both = json.loads(type_in(capsys, "patch", "-o", "json", "-f", str(DRY_RUN), "-f", str(DRY_RUNS[1])).out)
    assert [both["kind"], len(both["items"])] == ["List", 2]


def test_an_unknown_tier_is_refused_with_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConfigError, match=r"no tier is called rack; there are ultraserver-2, .* zone, cluster"):
        type_in(capsys, "patch", "-f", str(DRY_RUN), "--tier", "rack")


def test_nothing_to_patch_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ManifestError, match="give manifests with -f"):
        type_in(capsys, "patch")
