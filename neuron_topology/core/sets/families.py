"""The sets of devices that may be allocated together.

``aws`` has exactly the sets of AWS's scheduler extension: rows of a torus and its two halves of rows, windows of a line
or ring that do not wrap. ``linked`` has everything that is wired as well: all subcubes of the torus, arcs that wrap,
and for any other count the best-connected sets. Behind switches (Trainium 3) any set is as good as another, in both
families. Source: AWS Neuron SDK 2.32, scheduler extension.

The 4x4 torus is the 4-dimensional hypercube. By Harper's theorem the first k numbers are a k-set with the most inner
links, so the best sets for any k are their images under the symmetries of the hypercube; nothing is searched.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from itertools import combinations, permutations
from typing import Final

from neuron_topology.core.hardware.fabric import TORUS_SIDE, Fabric, FabricShape, devices_of, mask_of
from neuron_topology.core.sets.measures import connected, hops, links_in

LARGEST: Final = 16
"""Devices up to which every set of an irregular fabric is looked at; more are allocated singly or all together."""

_DIMENSIONS: Final = 4
_GRAY: Final = (0, 1, 3, 2)
LABELS: Final = tuple(
    _GRAY[row] * TORUS_SIDE + _GRAY[column] for row in range(TORUS_SIDE) for column in range(TORUS_SIDE)
)
"""The hypercube label of each device of the torus: two are linked exactly if their labels differ in one bit."""

_DEVICE_OF: Final = tuple(LABELS.index(label) for label in range(len(LABELS)))


class Family(StrEnum):
    """Which sets a node pool's devices are allocated in."""

    AWS = "aws"
    LINKED = "linked"


def sets_of(fabric: Fabric, family: Family, dead: Iterable[tuple[int, int]] = ()) -> Mapping[int, tuple[int, ...]]:
    """The sets by count, as masks in the order of their device lists; counts that are never allocated are left out.

    A set with both ends of a ``dead`` link does not count: its members are no longer wired as the family promises.
    Where that leaves ``linked`` no set of a count, those are its sets that keep the most links and still hang together.
    """
    gone = tuple(dead)
    broken = [1 << one | 1 << other for one, other in gone]
    found: dict[int, tuple[int, ...]] = {}
    for count in range(1, fabric.devices + 1):
        wanted = tuple(_sets(fabric, family, count))
        whole = [each for each in wanted if not any(pair & each == pair for pair in broken)]
        if not whole and family is Family.LINKED:
            whole = _most_linked(wanted, without(fabric.masks, gone))
        if whole:
            found[count] = tuple(sorted(whole, key=devices_of))
    return found


def _most_linked(sets: Iterable[int], neighbours: Sequence[int]) -> list[int]:
    """The connected ones of some sets that have the most inner links."""
    by_links: dict[int, list[int]] = defaultdict(list)
    for each in sets:
        by_links[links_in(each, neighbours)].append(each)
    for links in sorted(by_links, reverse=True):
        found = [each for each in by_links[links] if connected(each, neighbours)]
        if found:
            return found
    return []


def without(neighbours: Sequence[int], dead: Iterable[tuple[int, int]]) -> tuple[int, ...]:
    """The neighbours of each device, less links that do not work."""
    left = list(neighbours)
    for one, other in dead:
        left[one] &= ~(1 << other)
        left[other] &= ~(1 << one)
    return tuple(left)


def _sets(fabric: Fabric, family: Family, count: int) -> Iterable[int]:
    total = fabric.devices
    if count in {1, total}:
        return windows(total, count)
    match fabric.shape:
        case FabricShape.TORUS:
            return _rows(count) if family is Family.AWS else _best_in_cube(count)
        case FabricShape.RING if family is Family.LINKED:
            return arcs(total, count)
        case FabricShape.LINE | FabricShape.RING:
            return windows(total, count)
        case FabricShape.SWITCH if total <= LARGEST:
            return map(mask_of, combinations(range(total), count))
        case _:
            return () if family is Family.AWS or total > LARGEST else _best_connected(fabric, count)


def windows(devices: int, count: int) -> tuple[int, ...]:
    """Neighbouring indexes, from the lowest to the highest."""
    return tuple(((1 << count) - 1) << start for start in range(devices - count + 1))


def arcs(devices: int, count: int) -> tuple[int, ...]:
    """Neighbouring indexes on a circle, by the one that each begins with."""
    return tuple(mask_of((start + step) % devices for step in range(count)) for start in range(devices))


def _rows(count: int) -> tuple[int, ...]:
    if count not in {TORUS_SIDE, 2 * TORUS_SIDE}:
        return ()
    return windows(TORUS_SIDE**2, count)[::count]


@lru_cache(maxsize=TORUS_SIDE**2)
def _best_in_cube(count: int) -> frozenset[int]:
    """The images of the first ``count`` labels under all symmetries of the hypercube, as device masks.

    Every symmetry swaps the axes and then flips some of them.
    """
    found = set()
    for axes in permutations(range(_DIMENSIONS)):
        turned = [sum((label >> axis & 1) << to for to, axis in enumerate(axes)) for label in range(count)]
        for flipped in range(1 << _DIMENSIONS):
            found.add(mask_of(_DEVICE_OF[label ^ flipped] for label in turned))
    return frozenset(found)


def subcubes(count: int) -> tuple[int, ...]:
    """The subcubes of the torus with so many devices, in the order of their device lists."""
    return tuple(sorted(_best_in_cube(count), key=devices_of)) if count.bit_count() == 1 else ()


@lru_cache(maxsize=256)
def _best_connected(fabric: Fabric, count: int) -> tuple[int, ...]:
    """The connected sets with the most inner links, of those with the least diameter, of those with the least hops."""
    neighbours = fabric.masks
    best = _most_linked(map(mask_of, combinations(range(fabric.devices), count)), neighbours)
    measured = [(hops(members, neighbours), members) for members in best]
    least = min((found for found, _ in measured), default=None)
    return tuple(members for found, members in measured if found == least)
