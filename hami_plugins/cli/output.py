"""Answers: documents as JSON or YAML, tables fitted to the terminal and plain in a pipe, and files that are changed."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from hami_plugins.cli.edge import printable
from hami_plugins.cli.options import Form

if TYPE_CHECKING:
    from hami_plugins.report.rows import Table

_STYLES: Mapping[str, str] = {"good": "green", "bad": "red", "warn": "yellow", "dim": "dim", "": ""}


def document(content: Mapping[str, object], form: Form) -> None:
    """A document in one of the machine forms."""
    if form is Form.YAML:
        sys.stdout.write(as_yaml(content))
        return
    import orjson

    data = orjson.dumps(content, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    sys.stdout.write(data.decode())


def as_yaml(content: object) -> str:
    """YAML in block style, members in their order, every value written out where it stands."""
    import yaml

    class Plain(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
        def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - the dumper asks so
            return True

    text: str = yaml.dump(content, Dumper=Plain, sort_keys=False, allow_unicode=True, width=1_000_000)
    return text


def line(text: str = "", tone: str = "") -> None:
    """One line of text; ``tone`` colours it on a terminal that wants colours."""
    if tone and sys.stdout.isatty():
        from rich.console import Console
        from rich.text import Text

        Console(highlight=False).print(Text(printable(text), style=_STYLES[tone]))
        return
    sys.stdout.write(printable(text) + "\n")


def remark(text: str) -> None:
    """A line about the input, on stderr."""
    sys.stderr.write(f"note: {printable(text)}\n")


def into_file(path: Path, text: str) -> None:
    """Put a text in the place of that of a file, whole or not at all. A link stays a link, mode and owner are kept."""
    target = path.resolve()
    held = target.stat()
    number, draft = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(number, "wb") as file:
            with contextlib.suppress(PermissionError):
                os.fchown(number, held.st_uid, held.st_gid)
            os.fchmod(number, stat.S_IMODE(held.st_mode))
            file.write(text.encode())
            file.flush()
            os.fsync(number)
        Path(draft).replace(target)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise


def table(content: Table, *, headers: bool = True) -> None:
    """A table: on a terminal wrapped to its width, elsewhere one line per row, aligned, without colours."""
    if not content.rows and not headers:
        return
    if sys.stdout.isatty():
        _fitted(content, headers=headers)
    else:
        _plain(content, headers=headers)


def _plain(content: Table, *, headers: bool) -> None:
    rows = [[printable(cell) for cell in row.cells] for row in content.rows]
    if headers:
        rows.insert(0, list(content.columns))
    widths = [max((len(row[at]) for row in rows), default=0) for at in range(len(content.columns))]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        sys.stdout.write("   ".join(cells).rstrip() + "\n")


def _fitted(content: Table, *, headers: bool) -> None:
    from rich.console import Console
    from rich.table import Table as Grid
    from rich.text import Text

    console = Console(highlight=False)
    shown, whole = fitting(content, console.width)
    grid = Grid(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=headers, header_style="bold")
    for at in shown:
        grid.add_column(content.columns[at], overflow="fold", no_wrap=at in whole, min_width=6)
    for row in content.rows:
        style = _STYLES[row.tone]
        grid.add_row(*(Text(printable(row.cells[at]), style=style if at == content.toned else "") for at in shown))
    console.print(grid)


def fitting(content: Table, width: int) -> tuple[list[int], frozenset[int]]:
    """The columns that a terminal of some width has room for, and those of them that are not to be broken."""
    needed = [
        max(len(title), *(len(row.cells[at]) for row in content.rows), 0) + 2
        for at, title in enumerate(content.columns)
    ]
    shown = list(range(len(content.columns)))
    for at in content.optional:
        if sum(needed[each] for each in shown) <= width:
            break
        shown.remove(at)
    whole = content.whole if sum(needed[at] for at in shown if at in content.whole) <= width * 4 // 5 else frozenset()
    return shown, whole
