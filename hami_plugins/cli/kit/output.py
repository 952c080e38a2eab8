"""Answers: documents as JSON or YAML, tables fitted to the terminal and plain in a pipe, and files that are changed."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import sys
import tempfile
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hami_plugins.cli.kit.edge import in_one_line, printable
from hami_plugins.cli.kit.options import Form

if TYPE_CHECKING:
    from hami_plugins.output.rows import Table

_GAP = 2
"""Blanks between two columns of a table."""

_FEW_WORDS = 24
"""Characters of a line in a column that is wrapped before others go."""

_STYLES: Mapping[str, str] = {"good": "green", "bad": "red", "warn": "yellow", "dim": "dim", "": ""}

_HIDDEN = re.compile(r"[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Characters that JSON may hold as they are, and that control a terminal or turn the direction of its text."""


def document(content: Mapping[str, object], form: Form) -> None:
    """A document in one of the machine forms. A member that is an iterator becomes a list, printed item by item."""
    if form is Form.YAML:
        _print_yaml(content)
    else:
        _print_json(content)


def _print_yaml(content: Mapping[str, object]) -> None:
    for key, value in content.items():
        if not isinstance(value, Iterator):
            sys.stdout.write(as_yaml({key: value}))
            continue
        empty = True
        for item in value:
            sys.stdout.write((f"{key}:\n" if empty else "") + as_yaml([item]))
            empty = False
        if empty:
            sys.stdout.write(f"{key}: []\n")


def _print_json(content: Mapping[str, object]) -> None:
    import orjson

    def indented(value: object, by: str) -> str:
        text = _HIDDEN.sub(_escaped, orjson.dumps(value, option=orjson.OPT_INDENT_2).decode())
        return text.replace("\n", f"\n{by}")

    sys.stdout.write("{")
    for number, (key, value) in enumerate(content.items()):
        sys.stdout.write(f"{',' if number else ''}\n  {indented(key, '')}: ")
        if not isinstance(value, Iterator):
            sys.stdout.write(indented(value, "  "))
            continue
        sys.stdout.write("[")
        at = -1
        for at, item in enumerate(value):
            sys.stdout.write(f"{',' if at else ''}\n    {indented(item, '    ')}")
        sys.stdout.write("]" if at < 0 else "\n  ]")
    sys.stdout.write("\n}\n" if content else "}\n")


def _escaped(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def as_yaml(content: object) -> str:
    """YAML in block style, members in their order, every value written out where it stands."""
    import yaml

    class Plain(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
        def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - the dumper asks so
            return True

    text: str = yaml.dump(content, Dumper=Plain, sort_keys=False, allow_unicode=True, width=1_000_000)
    return text


def line(text: str = "", tone: str = "") -> None:
    """One line of text as it is; ``tone`` colours it on a terminal that wants colours."""
    if tone and sys.stdout.isatty():
        from rich.console import Console
        from rich.text import Text

        Console(highlight=False).print(Text(in_one_line(text), style=_STYLES[tone]), soft_wrap=True)
        return
    sys.stdout.write(in_one_line(text) + "\n")


def lines(text: str) -> None:
    """A text of several lines, none of which holds a stranger's words that were not quoted for their format."""
    sys.stdout.write(printable(text) + "\n")


def prose(text: str, tone: str = "") -> None:
    """A sentence: wrapped at spaces on a terminal, so that names and numbers stay whole; one line elsewhere."""
    if not sys.stdout.isatty():
        line(text, tone)
        return
    for each in _wrapped(in_one_line(text), _width()):
        line(each, tone)


def _wrapped(text: str, width: int) -> list[str]:
    """The lines of a sentence; those after the first stand below its first word."""
    indent = " " * (len(text) - len(text.lstrip()))
    found = textwrap.wrap(
        text.strip(),
        width,
        initial_indent=indent,
        subsequent_indent=f"{indent}  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return found or [""]


def _width() -> int:
    return shutil.get_terminal_size().columns


def remark(text: str) -> None:
    """A line about the input, on stderr; wrapped at spaces on a terminal."""
    words = f"note: {in_one_line(text)}"
    lines = _wrapped(words, _width()) if sys.stderr.isatty() else [words]
    sys.stderr.write("".join(f"{each}\n" for each in lines))


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
    rows = [[in_one_line(cell) for cell in row.cells] for row in content.rows]
    if headers:
        rows.insert(0, list(content.columns))
    widths = [max((len(row[at]) for row in rows), default=0) for at in range(len(content.columns))]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        sys.stdout.write("   ".join(cells).rstrip() + "\n")


def _fitted(content: Table, *, headers: bool) -> None:
    shown = fitting(content, _width())
    if shown is None:
        _as_blocks(content)
        return
    from rich.console import Console
    from rich.table import Table as Grid
    from rich.text import Text

    grid = Grid(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), show_header=headers, header_style="bold")
    widths = _widths(content, shown, _width())
    for at in shown:
        grid.add_column(content.columns[at], no_wrap=at in content.whole, width=widths[at])
    for row in content.rows:
        style = _STYLES[row.tone]
        grid.add_row(*(Text(in_one_line(row.cells[at]), style=style if at == content.toned else "") for at in shown))
    Console(highlight=False).print(grid)


def _widths(content: Table, shown: Sequence[int], width: int) -> Mapping[int, int]:
    """How wide the columns are that fit: the widest one that can be wrapped gives first."""
    least = {at: _least(content, at) for at in shown}
    found = {at: _natural(content, at) for at in shown}
    while sum(found.values()) + _GAP * len(shown) > width:
        widest = max((at for at in shown if found[at] > least[at]), key=found.__getitem__)
        found[widest] -= 1
    return found


def _as_blocks(content: Table) -> None:
    """Two lines for each row, for terminals on which the columns have no room: its name, and what is known of it."""
    for row in content.rows:
        rest = (at for at in range(1, len(row.cells)) if at not in {content.toned, *content.optional})
        known = [f"{content.columns[at].lower()} {row.cells[at]}" for at in rest if row.cells[at] not in {"", "-"}]
        if content.toned <= 0:
            prose(f"{row.cells[0]}: {', '.join(known)}", row.tone)
            continue
        prose(f"{row.cells[0]}: {row.cells[content.toned]}", row.tone)
        if known:
            prose(f"  {', '.join(known)}")


def fitting(content: Table, width: int) -> list[int] | None:
    """The columns that a terminal of some width has room for; ``None`` where names would have to be broken."""
    natural = [_wanted(content, at) + _GAP for at in range(len(content.columns))]
    shown = list(range(len(content.columns)))
    for at in content.optional:
        if sum(natural[each] for each in shown) <= width:
            break
        shown.remove(at)
    return shown if sum(_least(content, at) + _GAP for at in shown) <= width else None


def _wanted(content: Table, at: int) -> int:
    """How wide a column wants to be before others go: one that is wrapped first wants a few words in a line."""
    natural = _natural(content, at)
    return max(min(natural, _FEW_WORDS), _least(content, at)) if at in content.wrapped else natural


def _natural(content: Table, at: int) -> int:
    """How wide a column is where there is room for all of it."""
    return max(len(content.columns[at]), *(len(in_one_line(row.cells[at])) for row in content.rows), 0)


def _least(content: Table, at: int) -> int:
    """How wide a column has to be: whole columns as wide as their longest cell, others as their longest word."""
    cells = (content.columns[at], *(in_one_line(row.cells[at]) for row in content.rows))
    return max(len(part) for cell in cells for part in ([cell] if at in content.whole else cell.split() or [""]))
