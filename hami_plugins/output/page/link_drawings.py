"""Drawings of linked devices as the page shows them: paths and discs in the units of an inline SVG."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from hami_plugins.explain.drawings import DeviceMark, Drawing, DrawnDevice, DrawnLink

PITCH: Final = 48
"""From one device to the next."""

RADIUS: Final = 15
MARGIN: Final = 34
"""From the edge to the first device: room for the ends of links that go around to the other side."""

_STUB: Final = 13
"""How far such an end stands out."""

_STYLE: Final[Mapping[DeviceMark, str]] = {
    DeviceMark.FREE: "f",
    DeviceMark.OURS: "p",
    DeviceMark.HELD: "h",
    DeviceMark.BROKEN: "u",
}
"""The style sheet's class of each mark, the same letters as those of the bars."""


@dataclass(frozen=True, slots=True)
class Stroke:
    """All links of one kind, or all ends of links around the edge: one path, because a page may have many drawings."""

    path: str
    css: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Disc:
    """A device."""

    x: int
    y: int
    css: str
    text: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """One drawing; ``label`` says all of it in words, ``caption`` what it is."""

    width: int
    height: int
    radius: int
    label: str
    caption: str
    strokes: tuple[Stroke, ...]
    discs: tuple[Disc, ...]


def picture(drawing: Drawing) -> Picture:
    """The drawing of one node."""
    paths: dict[str, list[str]] = {}
    for line in drawing.lines:
        for css, path in _paths(drawing, line):
            paths.setdefault(css, []).append(path)
    rows = max(spot.row for spot in drawing.spots)
    columns = max(spot.column for spot in drawing.spots)
    wraps = any(line.wraps for line in drawing.lines)
    return Picture(
        width=2 * MARGIN + PITCH * columns,
        height=2 * MARGIN + PITCH * rows,
        radius=RADIUS,
        label=drawing.words,
        caption=drawing.title + (", links at the edges lead to the other side" if wraps else ""),
        strokes=tuple(Stroke("".join(parts), css) for css, parts in sorted(paths.items())),
        discs=tuple(_disc(spot) for spot in drawing.spots),
    )


def _disc(spot: DrawnDevice) -> Disc:
    x, y = _at(spot)
    states = {DeviceMark.FREE: "free", DeviceMark.BROKEN: "unhealthy or cordoned"}
    who = ", ".join(spot.pods) or states.get(spot.mark, "")
    return Disc(
        x=x,
        y=y,
        css=_STYLE[spot.mark] + (" meant" if spot.meant else ""),
        text=str(spot.index),
        title=f"device {spot.index}: {who}" + (", of the nearest set" if spot.meant else ""),
    )


def _at(spot: DrawnDevice) -> tuple[int, int]:
    return MARGIN + PITCH * spot.column, MARGIN + PITCH * spot.row


def _paths(drawing: Drawing, line: DrawnLink) -> Iterator[tuple[str, str]]:
    """The class and the path of a link; two of each where it goes around the edge."""
    one, other = drawing.spots[line.one], drawing.spots[line.other]
    css = "dead" if not line.works else "in" if line.inside else "link"
    (left, top), (right, bottom) = _at(one), _at(other)
    if not line.wraps:
        yield css, f"M{left} {top}L{right} {bottom}"
    elif one.row != other.row and one.column != other.column:
        yield css, f"M{left} {top}Q{right} {top} {right} {bottom}"
    else:
        reach = RADIUS + _STUB
        across = (one.column > other.column) - (one.column < other.column)
        along = (one.row > other.row) - (one.row < other.row)
        yield f"{css} end", f"M{left} {top}L{left + across * reach} {top + along * reach}"
        yield f"{css} end", f"M{right} {bottom}L{right - across * reach} {bottom - along * reach}"
