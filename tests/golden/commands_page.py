"""The page about the command line: ``python -m tests.golden.commands_page`` writes it anew."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from typer.main import get_command

from hami_plugins.cli import main
from hami_plugins.cli.app import app

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"
INTRODUCTION = """\
# Commands

For users of the command line: the help of every command. `kubectl hami` is the same program. Commands read unless
their help says that they write. Exit codes: 0 success, 1 findings, 2 the command failed, 130 interrupted.

| command | |
| --- | --- |
"""
WIDTH = "100"


def page() -> str:
    """The page with the help as the program prints it."""
    found = [(path, command) for path, command in _commands(get_command(app), ()) if path]
    rows = "".join(
        f"| [`{' '.join(path)}`](#{'-'.join(path)}) | {command.get_short_help_str(1000)} |\n" for path, command in found
    )
    sections = "".join(f"\n## {' '.join(path)}\n\n```text\n{_help(path)}```\n" for path, _ in found)
    return INTRODUCTION + rows + sections


def _commands(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, command
    if hasattr(command, "list_commands"):
        context = command.make_context("hami-plugins", [], resilient_parsing=True)
        for name in command.list_commands(context):
            yield from _commands(command.get_command(context, name), (*path, name))


def _help(path: tuple[str, ...]) -> str:
    printed = io.StringIO()
    plain = {"COLUMNS": WIDTH, "TERMINAL_WIDTH": WIDTH, "NO_COLOR": "1", "TERM": "dumb"}
    with mock.patch.dict(os.environ, plain), contextlib.redirect_stdout(printed):
        main([*path, "--help"])
    return "\n".join(line.rstrip() for line in printed.getvalue().splitlines()) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
