"""Drawings of linked devices as text, a few lines wide enough for any terminal.

``[ 4 ]`` is a device that the answer is about (allocated, or of the nearest set), a letter behind a number is the pod
that holds the device, ``x`` an unhealthy one. ``--`` and ``|`` are links, ``~`` at an edge leads around to the other
side, ``=`` and ``#`` are links inside of the set, ``/`` is a link that does not work.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from string import ascii_lowercase
from typing import Final

from hami_plugins.explain.drawings import DeviceMark, Drawing, DrawnDevice, DrawnLink

_WIDTH: Final = 5
"""Columns of one device; its link takes two more."""


def lines(drawing: Drawing) -> tuple[str, ...]:
    """The grid, below it who holds what."""
    letters = _letters(drawing)
    by_place = {(spot.row, spot.column): at for at, spot in enumerate(drawing.spots)}
    links = {(line.one, line.other): line for line in drawing.lines}
    rows = 1 + max(spot.row for spot in drawing.spots)
    columns = 1 + max(spot.column for spot in drawing.spots)
    sides = {end for line in drawing.lines if line.wraps for end in _ends(drawing, line)}
    straight = {end for end, across in sides if across}
    upright = {end for end, across in sides if not across}
    edge = "  " + "".join(
        f"{'~' if by_place.get((0, column)) in upright else ' ':^{_WIDTH}}  " for column in range(columns)
    )
    told = [f"{drawing.node}, {drawing.title}"]
    told += [edge.rstrip()] * bool(upright)
    for row in range(rows):
        if row:
            told.append(_between(by_place, links, row, columns))
        told.append(_row(drawing, by_place, links, letters, straight, row, columns))
    told += [edge.rstrip()] * bool(upright)
    return (*told, *_legend(drawing, letters))


def _letters(drawing: Drawing) -> Mapping[str, str]:
    """A letter for each pod; those beyond the alphabet share a sign."""
    signs = ascii_lowercase.replace("x", "")
    return {pod: signs[at] if at < len(signs) else "+" for at, pod in enumerate(drawing.holders)}


def _ends(drawing: Drawing, line: DrawnLink) -> tuple[tuple[int, bool], ...]:
    """Both ends of a link around the edge, and whether it runs along a row; links of other drawings have none."""
    one, other = drawing.spots[line.one], drawing.spots[line.other]
    if one.row != other.row and one.column != other.column:
        return ()
    return (line.one, one.row == other.row), (line.other, one.row == other.row)


def _row(  # noqa: PLR0913, PLR0917 - the drawing, and what is looked up in it
    drawing: Drawing,
    by_place: Mapping[tuple[int, int], int],
    links: Mapping[tuple[int, int], DrawnLink],
    letters: Mapping[str, str],
    straight: set[int],
    row: int,
    columns: int,
) -> str:
    first, last = by_place.get((row, 0)), by_place.get((row, columns - 1))
    written = "~ " if first in straight else "  "
    for column in range(columns):
        at = by_place.get((row, column))
        written += " " * _WIDTH if at is None else _device(drawing.spots[at], letters)
        if column < columns - 1:
            written += _sign(links, at, by_place.get((row, column + 1)), plain="--", inside="==", dead="-/")
    return f"{written} ~" if last in straight else written.rstrip()


def _between(
    by_place: Mapping[tuple[int, int], int], links: Mapping[tuple[int, int], DrawnLink], row: int, columns: int
) -> str:
    """The links between a row and the one above it."""
    signs = (
        _sign(links, by_place.get((row - 1, column)), by_place.get((row, column)), plain="|", inside="#", dead="/")
        for column in range(columns)
    )
    return ("  " + "".join(f"{sign:^{_WIDTH}}  " for sign in signs)).rstrip()


def _sign(  # noqa: PLR0913 - two ends, and the sign of each kind of link
    links: Mapping[tuple[int, int], DrawnLink],
    one: int | None,
    other: int | None,
    *,
    plain: str,
    inside: str,
    dead: str,
) -> str:
    if one is None or other is None:
        return " " * len(plain)
    line = links.get((min(one, other), max(one, other)))
    if line is None:
        return " " * len(plain)
    if not line.works:
        return dead
    return inside if line.inside else plain


def _device(spot: DrawnDevice, letters: Mapping[str, str]) -> str:
    sign = " " if not spot.pods else letters[spot.pods[0]] if len(spot.pods) == 1 else "+"
    if spot.mark is DeviceMark.BROKEN:
        sign = "x"
    text = f"{spot.index:2d}{sign}"
    return f"[{text}]" if spot.meant or spot.mark is DeviceMark.OURS else f" {text} "


def _legend(drawing: Drawing, letters: Mapping[str, str]) -> Iterator[str]:
    for pod, letter in letters.items():
        yield f"  {letter} {pod}: {drawing.indexes_of(pod)}"
    if any(spot.mark is DeviceMark.BROKEN for spot in drawing.spots):
        yield "  x unhealthy or cordoned"
    if dead := [line for line in drawing.lines if not line.works]:
        yield f"  / links that do not work: {', '.join(_name(drawing, line) for line in dead)}"
    if far := [line for line in drawing.lines if line.wraps and not _ends(drawing, line)]:
        yield f"  links that are not drawn: {', '.join(_name(drawing, line) for line in far)}"


def _name(drawing: Drawing, line: DrawnLink) -> str:
    return f"{drawing.spots[line.one].index}-{drawing.spots[line.other].index}"
