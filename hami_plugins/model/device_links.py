"""Links between devices: which devices belong together, and where a drawing puts them.

Devices go by their positions in the shape of their node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hami_plugins.model.nodes import NodeShape


class Together(NamedTuple):
    """The sets, of the requested size, that may be allocated together, whichever pods hold them now.

    Where there are none, ``nearest`` are the counts next to it that there are sets of.
    """

    sets: Sequence[tuple[int, ...]]
    nearest: tuple[int, ...] = ()


class Relabelled(NamedTuple):
    """What a shape of node would be with another value of one node label."""

    key: str
    value: str
    shape: NodeShape


class GridPosition(NamedTuple):
    """Where a drawing puts a device; rows and columns count from 0."""

    position: int
    row: int
    column: int


class WiringLink(NamedTuple):
    """A link between two devices. ``wraps`` says that it joins opposite ends of a row or column of the drawing."""

    one: int
    other: int
    works: bool = True
    wraps: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WiringLayout:
    """The wiring of a shape of node as one draws it; ``title`` is what it is called, such as ``4x4 torus``."""

    title: str
    spots: tuple[GridPosition, ...]
    links: tuple[WiringLink, ...]
