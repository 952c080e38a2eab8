"""Manifests after users' reports get the verdict that the references say."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.golden import report_cases
from tests.golden.report_cases import Run

ALL = tuple(report_cases.runs())


@pytest.mark.parametrize("run", ALL, ids=lambda run: run.id)
def test_a_report_gets_its_verdict(run: Run, tmp_path: Path) -> None:
    assert report_cases.wrong(run, tmp_path) == []


def test_cases_have_names_of_their_own_and_say_where_their_verdict_comes_from() -> None:
    cases = {id(run.case): run.case for run in ALL}.values()
    assert max(Counter(case["id"] for case in cases).values()) == 1
    assert all(case["about"] and case["source"] for case in cases)


def test_every_run_expects_something() -> None:
    assert all(run.expected.keys() > {"run"} for run in ALL)
