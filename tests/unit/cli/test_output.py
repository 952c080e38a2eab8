"""Printing: what fits, what is coloured, and what never reaches a terminal."""

from __future__ import annotations

import io
import json
import os
import re
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
    ("width", "shown"),
    [
        pytest.param(100, [0, 1, 2], id="all"),
        pytest.param(40, [0, 1], id="without what is optional"),
        pytest.param(10, None, id="too narrow for names"),
    ],
)
def test_a_table_drops_what_is_optional_before_it_gives_up_columns(width: int, shown: list[int] | None) -> None:
    assert output.fitting(CONTENT, width) == shown


def test_a_table_without_rows_has_its_titles() -> None:
    assert output.fitting(Table(columns=("A", "B"), rows=()), 80) == [0, 1]


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


PLAN = Table(
    columns=("POD", "STATUS", "NODE", "CARDS", "SLICE", "WHY HERE"),
    rows=(
        Row(
            ("vision/detector-[0-1]", "fits", "h100x8-mig-0", "NVIDIA H100 80GB HBM3 #5-6", "2 x 79 GiB, 100 %", "w"),
            "good",
        ),
        Row(("vision/smoke-lltf50khzltrhd-smoke-0-0", "does not fit", "-", "-", "-", "-"), "bad"),
    ),
    whole=frozenset({0, 1, 2}),
    optional=(5,),
    toned=1,
)
WORDS = "  5 of 7 nodes: memory: asked 100,000 MiB on 1 card; largest free 16,000 MiB (t4x1-0), total free 32,000 MiB"


def plain(text: str) -> list[str]:
    return [line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()]


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120, 200])
def test_names_and_numbers_are_never_broken(look: Look, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    lines = plain(look(lambda: output.table(PLAN)))
    text = "\n".join(lines)
    for name in ("vision/detector-[0-1]", "vision/smoke-lltf50khzltrhd-smoke-0-0", "h100x8-mig-0", "#5-6"):
        assert name in text
    assert max(map(len, lines)) <= width


@pytest.mark.parametrize("width", [30, 80, 120])
def test_sentences_are_wrapped_at_spaces_below_their_first_word(
    look: Look, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    lines = plain(look(lambda: output.prose(WORDS, "bad")))
    assert max(map(len, lines)) <= width
    assert " ".join(line.strip() for line in lines) == WORDS.strip()
    assert lines[0].startswith("  5 of 7")
    assert all(line.startswith("    ") for line in lines[1:])


def test_a_sentence_in_a_pipe_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    output.prose(WORDS, "bad")
    assert capsys.readouterr().out == f"{WORDS}\n"


def test_a_word_that_is_longer_than_the_terminal_stays_whole(look: Look, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    assert "a" * 30 in plain(look(lambda: output.prose(f"x {'a' * 30} y")))[1]


def test_a_list_may_be_produced_while_it_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    for items in ([], [{"a": ["x\ny", 1]}, {"a": [], "b": {}}]):
        for form in (Form.JSON, Form.YAML):
            output.document({"kind": "X", "items": list(items), "last": [1]}, form)
            whole = capsys.readouterr().out
            output.document({"kind": "X", "items": iter(items), "last": [1]}, form)
            assert capsys.readouterr().out == whole


def test_json_is_indented_as_a_whole_would_be(capsys: pytest.CaptureFixture[str]) -> None:
    for content in ({}, {"a": 1, "b": [], "c": {"d": [1, {"e": "x\ny"}], "ü": None}}):
        output.document(content, Form.JSON)
        assert capsys.readouterr().out == json.dumps(content, indent=2, ensure_ascii=False) + "\n"
