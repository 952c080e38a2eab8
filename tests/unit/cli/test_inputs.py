"""Where a cluster comes from, and what people see while it is being read."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from hami_plugins.cli import inputs
from hami_plugins.cli.inputs import Source
from tests.unit.cli.test_plan import a_listing


class Terminal(io.StringIO):
    """What is printed, where somebody looks."""

    def isatty(self) -> bool:
        return True


def a_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Standard error as a terminal. No fixture: the runner puts its own stream back before a test begins."""
    looking = Terminal()
    monkeypatch.setattr(sys, "stderr", looking)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    return looking


@pytest.mark.parametrize(
    ("source", "words"),
    [
        pytest.param(Source(snapshots=("a/b.json", "-")), "b.json, stdin", id="dumps"),
        pytest.param(Source(fleet="mixed"), "fleet mixed", id="fleet"),
        pytest.param(Source(context="prod"), "cluster prod", id="context"),
        pytest.param(Source(), "the cluster of kubeconfig", id="live"),
    ],
)
def test_a_source_is_called_as_people_gave_it(source: Source, words: str) -> None:
    assert source.words() == words


def test_a_long_read_tells_a_terminal_what_it_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = a_terminal(monkeypatch)
    monkeypatch.setattr(inputs, "_LONG", 1)
    dump = tmp_path / "dump.json"
    dump.write_bytes(a_listing())
    assert len(list(inputs.objects(Source(snapshots=(str(dump),))))) == 1
    assert "reading dump.json" in terminal.getvalue()
    assert "parsing" in terminal.getvalue()


def test_a_live_read_counts_the_objects_of_each_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = a_terminal(monkeypatch)
    with inputs.counting() as seen:
        assert seen is not None
        seen("Node", 500)
        seen("Pod", 1)
        seen("Node", 600)
    assert "1,100 Nodes, 1 Pods" in terminal.getvalue()


def test_nothing_is_counted_where_nobody_looks() -> None:
    with inputs.counting() as seen:
        assert seen is None
