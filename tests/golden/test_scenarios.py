"""Whole clusters: what the real Volcano 1.14.1 did with a submission, and what a plan of the same says."""

from __future__ import annotations

import gzip
import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from hami_plugins.plan import Stage
from tests.golden import scenarios
from tests.golden.scenario_judge import EXPLAINED, UNEXPLAINED, Judgement, judged
from tests.golden.scenario_plans import FOLDER, Scenario, names, scenario

FAULTS = {
    "45-unhealthy-card": "unhealthy-card",
    "69-gang-and-selectors": "blocked-gang",
    "72-notready-without-taint": "not-ready",
    "81-pending-gang-before": "blocked-gang",
    "83-gang-after-room": "stale-gang",
    "106-minima-of-tasks-against-numbers": "task-minima",
    "120-gang-tried-first-keeps-cards": "blocked-gang",
}
"""Where Volcano did what a user would call a bug, the rule that says so."""

OTHER_SETS = frozenset({"106-minima-of-tasks-against-numbers", "120-gang-tried-first-keeps-cards"})
"""The faults by which pods wait that have room; with the others the sets of pods are the same."""


@cache
def planned(name: str) -> Scenario:
    return scenario(FOLDER / name)


@cache
def judgement(name: str) -> Judgement:
    return judged(planned(name))


every_scenario = pytest.mark.parametrize("name", names())


@every_scenario
def test_nothing_is_left_unexplained(name: str) -> None:
    assert judgement(name).unexplained == []


@every_scenario
def test_the_same_pods_find_a_place_and_the_others_stop_where_they_stop_in_volcano(name: str) -> None:
    given = planned(name)
    if name not in OTHER_SETS:
        assert given.placed.keys() == given.expect["placed"].keys()
        assert given.pending.keys() == given.expect["pending"].keys()
    if given.expect["kind"] != "fault":
        assert judgement(name).explained == []


@every_scenario
def test_pods_at_the_gate_hear_what_volcano_says_of_their_gang(name: str) -> None:
    given = planned(name)
    for pod, stage in given.expect["pending_stage"].items():
        if stage == "enqueue":
            said = given.expect["pending"][pod].partition("PodGroup event: ")[2].split(" | ")
            assert given.pending[pod].words in said


@pytest.mark.parametrize(("name", "rule"), FAULTS.items())
def test_every_fault_has_its_sentence(name: str, rule: str) -> None:
    assert judgement(name).verdict == EXPLAINED
    assert rule in {each for said in planned(name).said.values() for each in said}


def test_every_fault_is_known() -> None:
    assert {name for name in names() if planned(name).expect["kind"] == "fault"} == FAULTS.keys()


def test_the_unhealthy_card_is_left_alone() -> None:
    given = planned("45-unhealthy-card")
    (share,) = given.placed["p1"].shares()
    entry = given.plan.after.node(given.placed["p1"].node)
    assert entry is not None
    assert entry.state.shape.devices[entry.ids.index(share.device)].healthy
    assert judgement("45-unhealthy-card").impossible.keys() == {"p1"}


def test_every_member_of_a_late_gang_has_its_own_card() -> None:
    devices = [share.device for placed in planned("83-gang-after-room").placed.values() for share in placed.shares()]
    assert len(set(devices)) == len(devices) == 4


class TestTheJudge:
    """It finds what does not agree; the recorded answers are changed so that they do not."""

    def judged(self, folder: Path, name: str, **changes: Any) -> Judgement:
        original = FOLDER / name
        expect = yaml.safe_load((original / "expect.yaml").read_text(encoding="utf-8"))
        (folder / "expect.yaml").write_text(yaml.safe_dump({**expect, **changes}), encoding="utf-8")
        (folder / "submit.yaml").write_text((original / "submit.yaml").read_text(encoding="utf-8"), encoding="utf-8")
        with gzip.open(original / "before.json.gz", "rt", encoding="utf-8") as packed:
            (folder / "before.json").write_text(packed.read(), encoding="utf-8")
        return judged(scenario(folder))

    def test_a_pod_that_is_placed_where_volcano_left_it_waiting(self, tmp_path: Path) -> None:
        found = self.judged(tmp_path, "09-number-above-cards", placed={"huge": "n1"}, pending={}, pending_stage={})
        assert found.verdict == UNEXPLAINED
        assert any(line.startswith("placed differ in") for line in found.unexplained)

    def test_a_stage_that_volcano_never_came_to(self, tmp_path: Path) -> None:
        found = self.judged(tmp_path, "24-gang-missing-member", pending_stage={"g-0": "not-volcano"})
        assert found.unexplained == ["g-0 stops at not-volcano in Volcano and at gang here"]

    def test_cards_that_cannot_be_had(self, tmp_path: Path) -> None:
        card = "GPU-72700556-1000-4c1e-9a5b-000000abc000"
        cards = [[f"{card}:40960:0"], [f"{card}:1:0"], ["GPU-0:1:0"]]
        found = self.judged(tmp_path, "66-number-two-one-card-short", devices={"two": cards}, stable_devices=False)
        (line,) = found.unexplained
        assert "GPU-0 is not on" in line

    def test_another_of_equal_pods_explains_itself(self, tmp_path: Path) -> None:
        given = planned("75-pods-limit").expect
        swapped = {
            "placed": {pod if pod != "p3" else "p4": node for pod, node in given["placed"].items()},
            "pending": {"p3": given["pending"]["p4"]},
            "pending_stage": {"p3": "allocate"},
        }
        strict = self.judged(tmp_path, "75-pods-limit", **swapped, devices={})
        assert strict.verdict == UNEXPLAINED  # bare pods are workloads of their own
        loose = self.judged(tmp_path, "75-pods-limit", **swapped, devices={}, stable=False, stable_devices=False)
        assert loose.verdict == EXPLAINED

    def test_where_nothing_is_fixed_nothing_is_wrong(self, tmp_path: Path) -> None:
        free = {"stable": False, "stable_counts": False, "stable_devices": False}
        found = self.judged(tmp_path, "09-number-above-cards", placed={"x": "n1"}, pending={}, pending_stage={}, **free)
        assert found.unexplained == []

    def test_a_fault_without_a_sentence(self, tmp_path: Path) -> None:
        found = self.judged(tmp_path, "48-number-full", kind="fault")
        assert found.unexplained == ["a fault of Volcano 1.14.1, and no rule says what it does"]

    def test_a_job_with_other_pods(self, tmp_path: Path) -> None:
        found = self.judged(tmp_path, "15-gang-fits", jobs={"train": {"pods_created": 1}})
        assert found.unexplained == ["job train has 3 pods, not 1"]


class TestTheCommand:
    def run(self, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
        monkeypatch.setattr(sys, "argv", ["scenarios", *arguments])
        return scenarios.main()

    def test_it_reads_folders_and_folders_of_folders(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert self.run(monkeypatch, str(FOLDER / "45-unhealthy-card"), str(FOLDER / "12-two-containers-no-card")) == 0
        out = capsys.readouterr().out
        assert "45-unhealthy-card (fault): explained" in out
        assert "2 scenarios: 1 agrees, 1 explained, 0 unexplained" in out

    def test_it_prints_json(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        assert self.run(monkeypatch, "--json", str(FOLDER / "45-unhealthy-card")) == 0
        (found,) = json.loads(capsys.readouterr().out)["scenarios"]
        assert found["devices"]["p1"]["possible"] is False
        assert found["volcanoDoes"][0]["rule"] == "unhealthy-card"

    def test_a_folder_that_cannot_be_read_does_not_stop_the_others(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        (tmp_path / "expect.yaml").write_text("title: broken", encoding="utf-8")
        (tmp_path / "before.json").write_text("{}", encoding="utf-8")
        (tmp_path / "submit.yaml").write_text("a: [", encoding="utf-8")
        assert self.run(monkeypatch, str(tmp_path), str(FOLDER / "45-unhealthy-card")) == 1
        out = capsys.readouterr().out
        assert "UNEXPLAINED: it cannot be planned" in out
        assert "45-unhealthy-card (fault): explained" in out

    def test_a_folder_without_scenarios_is_an_error(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        with pytest.raises(SystemExit, match="2"):
            self.run(monkeypatch, str(tmp_path))

    def test_it_fails_where_anything_is_left_over(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        TestTheJudge().judged(tmp_path, "15-gang-fits", jobs={"train": {"pods_created": 1}})
        assert self.run(monkeypatch, str(tmp_path)) == 1
        assert "UNEXPLAINED: job train has 3 pods, not 1" in capsys.readouterr().out


def test_the_stage_of_every_waiting_pod_is_named() -> None:
    for name in names():
        for plan in planned(name).pending.values():
            assert plan.stage is not Stage.PLACED
            assert plan.why or plan.words
