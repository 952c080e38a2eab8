"""``neuron simulate`` at a terminal."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest
import yaml

from hami_plugins.errors import ConfigError
from tests.unit.neuron_topology.typing_in import Said
from tests.unit.neuron_topology.typing_in import type_in as typed

TRACE = "arrival,devices,duration\n" + "\n".join(f"{at},{1 + at % 4},3" for at in range(30))
SMALL = ("--mix", "singles", "--jobs", "200", "--runs", "2")


def simulate(capsys: pytest.CaptureFixture[str], *arguments: object) -> Said:
    return typed(capsys, "simulate", *map(str, arguments))


def test_policies_are_listed_for_every_setting(capsys: pytest.CaptureFixture[str]) -> None:
    said = simulate(capsys, *SMALL, "--runs", 10, "--load", 0.5, "--load", 2)
    assert said.code == 0
    assert "singles, 8 x trn1.32xlarge, load 0.5 (per cent" in said.out
    assert "singles, 8 x trn1.32xlarge, load 2 (per cent" in said.out
    assert said.out.count("linked-first-fit") == 2
    assert "rejected for fragments by aws" in said.out


def test_documents_are_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    said = simulate(capsys, *SMALL, "--policy", "hami", "-o", "json")
    document = json.loads(said.out)
    assert document["kind"] == "NeuronSimulation"
    assert [each["policy"] for each in document["settings"][0]["policies"]] == ["hami"]
    assert yaml.safe_load(simulate(capsys, *SMALL, "--policy", "hami", "-o", "yaml").out) == document


def test_options_win_over_the_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "study.yaml"
    file.write_text("mixes: {ours: {1: 1, 8: 1}}\nseed: 5\nnodes: 3\njobs: 300\nruns: 2\npolicies: [aws]\n")
    document = json.loads(simulate(capsys, "-f", file, "--seed", 0, "--nodes", 2, "-o", "json").out)
    assert document["seed"] == 0
    (setting,) = document["settings"]
    assert (setting["nodes"], setting["workload"]["name"], setting["workload"]["jobs"]) == (2, "ours", 300)


def test_a_trace_is_simulated_and_what_is_no_job_is_a_finding(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "jobs.csv"
    file.write_text(TRACE)
    said = simulate(capsys, "--trace", file, "--nodes", 1)
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith("jobs.csv, 1 x trn1.32xlarge (per cent; one run of 30 jobs")
    file.write_text(TRACE + "\nsoon,1,1" * 12)
    said = simulate(capsys, "--trace", file, "--nodes", 1)
    assert said.code == 1
    assert said.err.startswith("note: jobs.csv: line 32: arrival: not a number")
    assert said.err.endswith("note: and 2 more jobs are left out\n")


def test_options_that_change_nothing_for_a_trace_are_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "jobs.csv"
    file.write_text(TRACE)
    said = simulate(capsys, "--trace", file, "--load", 0.8, "--seed", 0, "--nodes", 1)
    assert (said.code, said.err) == (
        0,
        "note: --load, --seed: only for mixes; a trace has its own jobs and is run once (--mix adds a mix)\n",
    )
    assert simulate(capsys, "--trace", file, *SMALL).err == ""


def test_a_trace_can_come_through_a_pipe_but_not_two(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TRACE.encode())))
    assert simulate(capsys, "--trace", "-").out.startswith("stdin, 8 x")
    with pytest.raises(ConfigError, match="only one"):
        simulate(capsys, "--trace", "-", "-f", "-")


def test_the_page_is_written_where_it_is_asked_for(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    page = tmp_path / "new" / "page.html"
    said = simulate(capsys, *SMALL, "--html", page, "--no-headers")
    assert said.code == 0
    assert "POLICY" not in said.out
    assert page.read_text().count("<figure") == 7


def test_a_policy_that_nobody_knows_is_named_with_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConfigError, match=r"policies\.0: .*'linked-first-fit'.*found 'best'"):
        simulate(capsys, "--policy", "best")
