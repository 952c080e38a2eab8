"""Where errors become one line on stderr and an exit code. Knows no command."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from enum import IntEnum
from pathlib import Path
from typing import Any

from hami_plugins.errors import HamiPluginsError


class Exit(IntEnum):
    """Exit codes of every command."""

    FINE = 0
    FINDINGS = 1
    UNABLE = 2
    INTERRUPTED = 130
    BROKEN_PIPE = 141


def run(arguments: Sequence[str]) -> int:
    """Run the command line; ``--debug`` among the arguments lets tracebacks through."""
    debug = "--debug" in arguments
    given = [each for each in arguments if each != "--debug"]
    try:
        return _print_version() if given == ["--version"] else _run(given)
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BrokenPipeError:
        _close_stdout()
        return Exit.BROKEN_PIPE
    except Exception as error:
        if debug:
            raise
        return _unable(error)


def _print_version() -> int:
    """Without typer, which takes five times as long as the answer."""
    from hami_plugins.observe.build import version

    print(f"hami-plugins {version()}")  # noqa: T201 - the edge is where text is printed
    return Exit.FINE


def _run(arguments: list[str]) -> int:
    from hami_plugins.cli.app import app

    try:
        code = app(arguments, prog_name=program_name(), standalone_mode=False)
    except SystemExit as done:  # typer ends shell completion with this, and a closed pipe
        if isinstance(done.__context__, BrokenPipeError):
            return Exit.BROKEN_PIPE
        code = done.code if isinstance(done.code, int) else Exit.FINE
    sys.stdout.flush()
    return int(code or Exit.FINE)


def failed(message: str) -> int:
    """Say why nothing could be done."""
    for line in printable(message).splitlines():
        print(f"error: {line}", file=sys.stderr)  # noqa: T201 - the edge is where text is printed
    return Exit.UNABLE


def program_name() -> str:
    """What people typed: ``kubectl hami`` when kubectl started us."""
    name = Path(sys.argv[0]).name if sys.argv else ""
    if name.startswith(("kubectl-", "kubectl_")):
        return f"kubectl {name[len('kubectl-') :].replace('_', '-')}"
    return "hami-plugins"


def printable(text: str) -> str:
    """Text from strangers without the control characters that would move a terminal's cursor."""
    return "".join(each if each.isprintable() or each == "\n" else f"\\x{ord(each):02x}" for each in text)


def in_one_line(text: str) -> str:
    """The same in one line: a name with a line break would write lines of its own into an answer or a CI log."""
    return printable(text).replace("\n", "\\x0a")


def _unable(error: Exception) -> int:
    if isinstance(error, HamiPluginsError):
        return failed(str(error))
    if isinstance(error, OSError):
        return failed(_about_file(error))
    from typer import Abort

    if isinstance(error, Abort):
        return Exit.INTERRUPTED
    shown = getattr(error, "format_message", None)
    if shown is None:
        return failed(f"{type(error).__name__}: {error} (this is a defect; --debug shows where)")
    text = str(shown()).expandtabs(2).replace(": Value error, ", ": ")
    if text.startswith("Usage: "):  # commands of a group are the answer to its name alone
        print(printable(text), file=sys.stderr)  # noqa: T201 - as above
        return Exit.UNABLE
    context = getattr(error, "ctx", None)
    code = failed(text + _missing_option(text, context))
    if context is not None:
        print(f"try '{context.command_path} --help'", file=sys.stderr)  # noqa: T201 - as above
    return code


def _missing_option(text: str, context: Any) -> str:
    """A hint for a file that stands where its option is missing."""
    if not text.startswith("Got unexpected extra argument") or context is None:
        return ""
    if not any("-f" in getattr(each, "opts", ()) for each in context.command.params):
        return ""
    files = text.rpartition(" (")[2].removesuffix(")").split()
    return f"; did you mean {' '.join(f'-f {each}' for each in files)}?"


def _about_file(error: OSError) -> str:
    if error.filename is None:
        return error.strerror or str(error)
    return f"{os.fspath(error.filename)}: {error.strerror}"


def _close_stdout() -> None:
    """The reader of stdout is gone: redirect stdout to where the interpreter's last flush does no harm."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
