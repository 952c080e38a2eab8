"""A story's lines: each is printed as soon as it is true, with the time in front."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Callable
from typing import Final

from hami_plugins.cli.kit import output
from hami_plugins.output.rows import Table

_MARGIN: Final = 9
_LEAST_ROOM: Final = 40


class DemoPrinter:
    """``seconds`` is the time since the demo began."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        self.seconds = seconds

    def say(self, text: str, tone: str = "") -> None:
        """Something that has happened now."""
        _print(f"{self.seconds():5.1f} s  ", text, tone)

    def more(self, text: str, tone: str = "") -> None:
        """What belongs to the line before."""
        _print(" " * _MARGIN, text, tone)

    def table(self, content: Table) -> None:
        """A table, with air around it."""
        output.line()
        output.table(content)
        output.line()


def _print(margin: str, text: str, tone: str) -> None:
    """Folded next to the margin on a terminal, elsewhere unfolded."""
    lines = [text]
    if sys.stdout.isatty():
        room = max(shutil.get_terminal_size().columns - _MARGIN, _LEAST_ROOM)
        lines = textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False)
    for at, line in enumerate(lines):
        output.line(f"{' ' * _MARGIN if at else margin}{line}", tone)
    sys.stdout.flush()
