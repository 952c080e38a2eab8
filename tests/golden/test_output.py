"""Commands' output is kept word for word, so that no change of it goes unnoticed."""

from __future__ import annotations

import re

import pytest

from tests.golden.output.cases import CASES, HERE, printed


@pytest.mark.parametrize("name", CASES)
def test_the_output_is_the_one_that_is_kept(name: str) -> None:
    kept = (HERE / name).read_text(encoding="utf-8")
    assert printed(CASES[name]) == kept, "python -m tests.golden.output writes what is printed now"


def test_the_page_about_evictions_shows_what_is_printed() -> None:
    page = (HERE.parents[2] / "docs" / "tasks" / "see-who-would-be-evicted.md").read_text(encoding="utf-8")
    first, *_ = re.findall(r"^```text\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    kept = (HERE / "plan-preemption.txt").read_text(encoding="utf-8").splitlines()
    assert [line for line in first.splitlines() if line not in kept] == []


def test_the_page_about_moves_shows_what_is_printed() -> None:
    page = (HERE.parents[2] / "docs" / "tasks" / "defragment.md").read_text(encoding="utf-8")
    first, *_ = re.findall(r"^```text\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    kept = (HERE / "defrag.txt").read_text(encoding="utf-8")
    assert kept.startswith(first)


def test_every_kept_output_belongs_to_a_command() -> None:
    inputs = {"fleet.yaml", "jobs.yaml", "cluster.yaml", "nodes-cluster.yaml", "defrag-cluster.yaml"}
    inputs |= {
        f"{vendor}-{name}.yaml" for vendor in ("koordinator", "neuron", "preemption") for name in ("cluster", "jobs")
    }
    kept = {path.name for path in HERE.iterdir() if path.suffix in {".txt", ".json", ".yaml"}}
    assert kept == {*CASES, *inputs}
