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

from hami_plugins.cli.kit import output
from hami_plugins.cli.kit.options import Form
from hami_plugins.output.rows import Table, TableRow

CONTENT = Table(
    columns=("NAME", "STATE", "NOTE"),
    rows=(TableRow(("one", "good", "n" * 30), "good"), TableRow(("two\x1b[2J", "bad", "-"), "bad")),
    whole=frozenset({0}),
    optional=(2,),
    toned=1,
)


class Terminal(io.StringIO):
    """A stream that is a terminal."""

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


@pytest.mark.parametrize(("width", "shown"), [(100, [0, 1, 2]), (36, [0, 1, 2]), (35, [0, 2]), (32, [0, 2]), (6, None)])
def test_a_column_that_is_wrapped_gives_way_before_another_goes(width: int, shown: list[int] | None) -> None:
    row = TableRow(("one", "two", "word " * 20))
    content = Table(("A", "B", "C"), (row,), whole=frozenset({0}), optional=(1,), wrapped=frozenset({2}))
    assert output.fitting(content, width) == shown


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


@pytest.mark.parametrize("terminal", [False, True], ids=["pipe", "terminal"])
def test_a_name_with_line_breaks_writes_no_line_of_its_own(terminal: bool, look: Look) -> None:
    name = "a\n::error::b\r::error::c\u2028::error::d"

    def everywhere() -> None:
        output.line(f"{name} fits")
        output.prose(f"{name} fits")
        output.table(Table(columns=("NAME",), rows=(TableRow((name,), ""),)))

    with redirect_stdout(io.StringIO()) as piped:
        everywhere()
    found = look(everywhere) if terminal else piped.getvalue()
    assert "error" in found
    assert not [line for line in found.splitlines() if line.lstrip().startswith("::")]


def test_a_remark_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    output.remark("a\n::error::b")
    assert capsys.readouterr().err == "note: a\\x0a::error::b\n"


def test_json_of_strangers_controls_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    name = "a\x9b2J\x7f\x1b\u202e\u2066\u2028b"
    output.document({"name": name, "rest": iter([{name: name}])}, Form.JSON)
    found = capsys.readouterr().out
    assert all(each.isprintable() or each == "\n" for each in found)
    assert json.loads(found) == {"name": name, "rest": [{name: name}]}


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
        TableRow(
            ("vision/detector-[0-1]", "fits", "h100x8-mig-0", "NVIDIA H100 80GB HBM3 #5-6", "2 x 79 GiB, 100 %", "w"),
            "good",
        ),
        TableRow(("vision/smoke-lltf50khzltrhd-smoke-0-0", "does not fit", "-", "-", "-", "-"), "bad"),
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


FULL = Table(
    columns=("POD", "STATUS", "NODE", "CARDS", "SLICE"),
    rows=(
        TableRow(("lab/slice", "fits", "h100x8-0", "NVIDIA H100 80GB HBM3 #7", "4000 MiB, 30 %"), "good"),
        TableRow(("lab/pair-[0-1]", "fits", "inf2-48xlarge-0", "NVIDIA A100-SXM4-80GB #4-7", "2 x 40779 MiB"), "good"),
        TableRow(("lab/gang-worker-[0-2]", "does not fit", "-", "-", "all 2 cores"), "bad"),
    ),
    whole=frozenset({0, 1, 2}),
    toned=1,
)


@pytest.mark.parametrize("width", [*range(75, 110)])
def test_nothing_is_cut_off_at_the_edge_of_the_terminal(
    look: Look, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    lines = plain(look(lambda: output.table(FULL)))
    words = [word.rstrip(":,") for word in " ".join(lines).split()]
    for row in FULL.rows:
        for cell in row.cells:
            assert [word for word in cell.split() if word.rstrip(",") not in {"-", *words}] == []


def test_rows_without_a_state_are_one_sentence_where_columns_have_no_room(
    look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    ranks = Table(
        ("RANK", "NODE", "ZONE", "LAYER"), (TableRow(("0", "node-with-a-long-name", "z", "")),), frozenset({1})
    )
    assert " ".join(plain(look(lambda: output.table(ranks)))) == "0: node   node-with-a-long-name,   zone z"


def test_a_remark_is_wrapped_on_a_terminal_and_one_line_elsewhere(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    output.remark("aaaa bbbb cccc dddd")
    assert capsys.readouterr().err == "note: aaaa bbbb cccc dddd\n"
    monkeypatch.setenv("COLUMNS", "16")
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    output.remark("aaaa bbbb cccc dddd")
    assert terminal.getvalue() == "note: aaaa bbbb\n  cccc dddd\n"


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
