"""Completion: the shell's suggestions, and the arguments for kubectl."""

from __future__ import annotations

import os
import sys

import pytest

from hami_plugins.cli import completion


@pytest.mark.parametrize(
    ("found", "offered"),
    [
        pytest.param(completion.fleets("mi"), ["mixed"], id="fleets"),
        pytest.param(completion.shapes("h100"), ["h100x8=1", "h100x8-mig=1"], id="shapes"),
        pytest.param(completion.vendors("nvi"), ["NVIDIA"], id="vendors"),
        pytest.param(completion.policies("node=s"), ["node=spread"], id="policy"),
        pytest.param(completion.policies("node=spread,device=n"), ["node=spread,device=numa"], id="second policy"),
        pytest.param(completion.kinds("j"), ["job"], id="kinds"),
        pytest.param(completion.shells("z"), ["zsh"], id="shells"),
        pytest.param(completion.modes("e"), ["extender"], id="modes"),
        pytest.param(completion.fleets("none"), [], id="nothing"),
    ],
)
def test_what_begins_so_is_offered(found: list[str], offered: list[str]) -> None:
    assert found == offered


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        pytest.param(["ve"], {"vet", "vendors", "version"}, id="commands"),
        pytest.param(["plan", "--fleet", "mi"], {"mixed"}, id="values"),
        pytest.param(["plan", "--no"], {"--no-headers", "--node-groups"}, id="options"),
        pytest.param(["explain", ""], {"pod", "job"}, id="kinds"),
        pytest.param(["completion", "p"], {"powershell"}, id="shells"),
        pytest.param(["plan", "--assigner", "w"], {"webhook"}, id="modes"),
    ],
)
def test_kubectl_is_told_one_completion_on_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], offered: set[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["kubectl_complete-hami", *words])
    assert completion.for_kubectl() == 0
    *lines, directive = capsys.readouterr().out.splitlines()
    assert set(lines) == offered
    assert directive == ":0"
    assert "COMP_WORDS" not in os.environ
