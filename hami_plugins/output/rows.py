"""What an answer looks like before anybody prints it: rows, tables, lines. Widths are the printer's matter."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TableRow:
    """The cells of a row; ``tone`` is good, bad, warn, dim or nothing."""

    cells: tuple[str, ...]
    tone: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """Columns and rows.

    ``whole`` are columns that must not be wrapped, ``optional`` those that are dropped first if space is short (in this
    order), ``wrapped`` those that are wrapped before any is dropped, ``toned`` is the one that shows the tone.
    """

    columns: tuple[str, ...]
    rows: tuple[TableRow, ...]
    whole: frozenset[int] = frozenset()
    optional: tuple[int, ...] = ()
    toned: int = -1
    wrapped: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class TextLine:
    """A line of text with a tone; a ``fixed`` one is part of a drawing and is not wrapped."""

    words: str
    tone: str = ""
    fixed: bool = False
