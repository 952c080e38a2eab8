"""The edge: whatever happens becomes a code and at most one line."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from hami_plugins.cli import plan
from hami_plugins.cli.kit import edge, inputs
from hami_plugins.cli.kit.edge import Exit
from hami_plugins.errors import ManifestError
from tests.unit.cli.conftest import Type


def test_without_a_command_the_help_is_printed(type_in: Type) -> None:
    said = type_in()
    assert said.code == 0
    assert "Usage: hami-plugins" in said.out
    assert "plan" in said.out


@pytest.mark.parametrize("words", [["--help"], ["-h"], ["plan", "-h"], ["vendors", "--help"]])
def test_help_ends_well(type_in: Type, words: list[str]) -> None:
    said = type_in(*words)
    assert said.code == 0
    assert "Usage: hami-plugins" in said.out


def test_the_version_is_told(type_in: Type) -> None:
    assert type_in("--version").out.startswith("hami-plugins ")


def test_debug_lets_the_traceback_through(type_in: Type) -> None:
    with pytest.raises(ManifestError):
        type_in("plan", "--debug", "--fleet", "t4x1")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        pytest.param(KeyboardInterrupt(), Exit.INTERRUPTED, id="ctrl-c"),
        pytest.param(FileNotFoundError(2, "No such file or directory", "x"), Exit.UNABLE, id="file"),
        pytest.param(OSError("strange"), Exit.UNABLE, id="nameless file"),
        pytest.param(RuntimeError("oh"), Exit.UNABLE, id="defect"),
    ],
)
def test_every_error_has_its_code(
    type_in: Type, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: Exit
) -> None:
    def fail(_: object) -> int:
        raise error

    monkeypatch.setattr(plan, "run", fail)
    said = type_in("plan", "-f", __file__)
    assert said.code == code
    assert said.out == ""
    assert said.err.count("\n") == (0 if code is Exit.INTERRUPTED else 1)


@pytest.mark.parametrize("group", [("neuron",), ("neuron", "hypernodes"), ("koordinator",), ("volcano-vgpu",)])
def test_a_group_without_a_command_is_answered_with_its_commands(type_in: Type, group: tuple[str, ...]) -> None:
    said = type_in(*group)
    assert (said.code, said.out) == (Exit.UNABLE, "")
    assert said.err.startswith(f"Usage: hami-plugins {' '.join(group)} ")
    assert "Commands:" in said.err
    assert "error:" not in said.err


def test_a_closed_pipe_is_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: object) -> int:
        raise BrokenPipeError

    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        monkeypatch.setattr(plan, "run", fail)
        assert edge.run(["plan", "-f", __file__]) == Exit.BROKEN_PIPE
        pipe.write("nobody reads this")


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/usr/bin/kubectl-hami", "kubectl hami"),
        ("kubectl_hami", "kubectl hami"),
        ("/x/hami-plugins", "hami-plugins"),
        ("-m", "hami-plugins"),
    ],
)
def test_the_program_calls_itself_as_it_was_called(monkeypatch: pytest.MonkeyPatch, path: str, name: str) -> None:
    monkeypatch.setattr(sys, "argv", [path])
    assert edge.program_name() == name


def test_control_characters_of_strangers_do_not_reach_the_terminal() -> None:
    assert edge.printable("a\x1b[2Jb\nc\u202e") == "a\\x1b[2Jb\nc\\x202e"


def test_progress_is_silent_where_nobody_looks(capsys: pytest.CaptureFixture[str]) -> None:
    with inputs.working("long"):
        pass
    assert capsys.readouterr() == ("", "")


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_bytes(b"\xff\xff")
    with pytest.raises(ManifestError, match="x: not UTF-8"):
        inputs.read_text(str(file))
