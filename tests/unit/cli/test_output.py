"""Printing: what fits, what is coloured, and what never reaches a terminal."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stdout

import pytest

from hami_plugins.cli import output
from hami_plugins.cli.options import Form
from hami_plugins.report.rows import Row, Table

CONTENT = Table(
    columns=("NAME", "STATE", "NOTE"),
    rows=(Row(("one", "good", "n" * 30), "good"), Row(("two\x1b[2J", "bad", "-"), "bad")),
    whole=frozenset({0}),
    optional=(2,),
    toned=1,
)


class Terminal(io.StringIO):
    """A stream that somebody looks at."""

    def isatty(self) -> bool:
        return True


Look = Callable[[Callable[[], None]], str]


@pytest.fixture
def look(monkeypatch: pytest.MonkeyPatch) -> Look:
    """What stands on a terminal of 100 columns that can show colours after something was printed there."""
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "100")

    def looked(prints: Callable[[], None]) -> str:
        with redirect_stdout(Terminal()) as terminal:
            prints()
        return terminal.getvalue()

    return looked


def everything() -> None:
    """Print a table and a line."""
    output.table(CONTENT)
    output.line("all well\x1b[2J", "good")
    output.line("x\x1b[2J")


@pytest.mark.parametrize(
    ("width", "shown", "whole"),
    [
        pytest.param(100, [0, 1, 2], {0}, id="all"),
        pytest.param(40, [0, 1], {0}, id="without what is optional"),
        pytest.param(10, [0, 1], set(), id="too narrow for names"),
    ],
)
def test_a_table_drops_what_is_optional_before_it_breaks_names(width: int, shown: list[int], whole: set[int]) -> None:
    assert output.fitting(CONTENT, width) == (shown, frozenset(whole))


def test_a_table_without_rows_has_its_titles() -> None:
    assert output.fitting(Table(columns=("A", "B"), rows=()), 80)[0] == [0, 1]


def test_states_are_coloured_on_a_terminal(look: Look) -> None:
    text = look(everything)
    assert "\x1b[32mgood" in text
    assert "\x1b[31mbad" in text
    assert "\x1b[32mall well" in text


def test_no_colour_where_the_reader_wants_none(look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[3" not in look(everything)


def test_strangers_cannot_move_the_cursor(look: Look) -> None:
    assert "\x1b[2J" not in look(everything)


def test_a_pipe_gets_one_line_per_row(capsys: pytest.CaptureFixture[str]) -> None:
    output.table(CONTENT)
    header, one, two = capsys.readouterr().out.splitlines()
    assert header.split() == ["NAME", "STATE", "NOTE"]
    assert one.index("good") == header.index("STATE") == two.index("bad")
    assert one.endswith("n" * 30)


def test_nothing_is_printed_of_an_empty_table_without_headers(capsys: pytest.CaptureFixture[str]) -> None:
    output.table(Table(columns=("A",), rows=()), headers=False)
    assert capsys.readouterr().out == ""


def test_yaml_repeats_instead_of_referring(capsys: pytest.CaptureFixture[str]) -> None:
    shared = {"a": "1"}
    output.document({"x": shared, "y": shared, "word": "on"}, Form.YAML)
    assert capsys.readouterr().out == "x:\n  a: '1'\ny:\n  a: '1'\nword: 'on'\n"


def test_a_reader_who_leaves_is_no_finding() -> None:
    read, write = os.pipe()
    os.close(read)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "hami_plugins.cli", "vendors"]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, env=environment, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")
