"""How the devices of one machine are wired: a graph over device indexes, with the name of its shape."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

TORUS_SIDE: Final = 4
"""Rows and columns of the torus that sixteen Trainium devices form."""


class FabricShape(StrEnum):
    """What the links of a machine look like; ``irregular`` is any graph that is none of the others.

    Where a ``switch`` is between them, every device is as near to each other one.
    """

    SINGLE = "single"
    LINE = "line"
    RING = "ring"
    TORUS = "torus"
    SWITCH = "switch"
    IRREGULAR = "irregular"


@dataclass(frozen=True, slots=True)
class Fabric:
    """The links of a machine: ``neighbours[i]`` are the devices wired to device i, in the order AWS lists them."""

    shape: FabricShape
    neighbours: tuple[tuple[int, ...], ...]

    @property
    def devices(self) -> int:
        """How many devices there are."""
        return len(self.neighbours)

    @property
    def masks(self) -> tuple[int, ...]:
        """The neighbours of each device as a bit mask."""
        return tuple(mask_of(linked) for linked in self.neighbours)

    @property
    def links(self) -> frozenset[tuple[int, int]]:
        """Every link once, the lower index first."""
        return frozenset((min(a, b), max(a, b)) for a, linked in enumerate(self.neighbours) for b in linked)


def mask_of(devices: Iterable[int]) -> int:
    """A set of device indexes as a bit mask, bit i for device i."""
    mask = 0
    for device in devices:
        mask |= 1 << device
    return mask


def devices_of(mask: int) -> tuple[int, ...]:
    """The device indexes of a bit mask, ascending."""
    return tuple(_bits(mask))


def _bits(mask: int) -> Iterator[int]:
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def single() -> Fabric:
    """One device, wired to nothing."""
    return Fabric(FabricShape.SINGLE, ((),))


def line(devices: int) -> Fabric:
    """Devices in a row, open at both ends (inf2.24xlarge)."""
    return Fabric(
        FabricShape.LINE, tuple(tuple(at for at in (i - 1, i + 1) if 0 <= at < devices) for i in range(devices))
    )


def ring(devices: int) -> Fabric:
    """Devices in a circle (inf2.48xlarge)."""
    return Fabric(FabricShape.RING, tuple(((i - 1) % devices, (i + 1) % devices) for i in range(devices)))


def torus() -> Fabric:
    """Sixteen devices as four rows of four, both directions closed; neighbours are up, left, down, right."""
    side = TORUS_SIDE

    def at(row: int, column: int) -> int:
        return row % side * side + column % side

    return Fabric(
        FabricShape.TORUS,
        tuple(
            (at(row - 1, column), at(row, column - 1), at(row + 1, column), at(row, column + 1))
            for row in range(side)
            for column in range(side)
        ),
    )


def switched(devices: int) -> Fabric:
    """Devices that reach each other through switches (Trainium 3); fewer than four are a line or a ring as well."""
    return Fabric(FabricShape.SWITCH, tuple(tuple(at for at in range(devices) if at != i) for i in range(devices)))


def recognised(neighbours: Sequence[Sequence[int]]) -> Fabric:
    """The fabric with these links and the name of its shape; a link reported by one end alone counts."""
    linked = [set(row) for row in neighbours]
    for device, row in enumerate(neighbours):
        for other in row:
            linked[other].add(device)
    masks = tuple(mask_of(row) for row in linked)
    count = len(masks)
    known = [single()] if count == 1 else [line(count), ring(count)] if count > 2 else [line(count)]
    if count > 3:
        known.append(switched(count))
    if count == TORUS_SIDE**2:
        known.append(torus())
    for fabric in known:
        if fabric.masks == masks:
            return fabric
    return Fabric(FabricShape.IRREGULAR, tuple(devices_of(mask) for mask in masks))
