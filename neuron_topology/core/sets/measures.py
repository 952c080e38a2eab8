"""How well a set of devices is connected: links, hops, rings. All sets are bit masks over a fabric's devices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

from neuron_topology.core.hardware.fabric import devices_of


class Hops(NamedTuple):
    """Routing inside a set: the longest way, and the mean over all pairs (0 for a single device)."""

    diameter: int
    mean: Fraction


def links_in(members: int, neighbours: Sequence[int]) -> int:
    """How many links have both ends in the set."""
    return sum((neighbours[device] & members).bit_count() for device in devices_of(members)) // 2


def reached(start: int, members: int, neighbours: Sequence[int]) -> Iterator[int]:
    """The devices that are 0, 1, 2 ... hops from a device, inside the set."""
    seen = ring = 1 << start
    while ring:
        yield ring
        wider = 0
        for device in devices_of(ring):
            wider |= neighbours[device]
        ring = wider & members & ~seen
        seen |= ring


def connected(members: int, neighbours: Sequence[int]) -> bool:
    """Whether every device of the set reaches every other inside it; an empty set does not count."""
    if not members:
        return False
    seen = 0
    for ring in reached(members.bit_length() - 1, members, neighbours):
        seen |= ring
    return seen == members


def hops(members: int, neighbours: Sequence[int]) -> Hops:
    """The hops of a connected set."""
    inside = devices_of(members)
    longest = total = 0
    for device in inside:
        for distance, ring in enumerate(reached(device, members, neighbours)):
            total += distance * ring.bit_count()
            longest = max(longest, distance)
    pairs = len(inside) * (len(inside) - 1)
    return Hops(longest, Fraction(total, pairs) if pairs else Fraction(0))


def ring_through(members: int, neighbours: Sequence[int]) -> tuple[int, ...]:
    """The lexicographically first order in which each device is linked to the next and the last to the first.

    Empty where there is none; a set of one or two has none.
    """
    if members.bit_count() < 3 or _may_end_paths(members, neighbours) != members:
        return ()
    start = devices_of(members)[0]
    return _extended((start,), members & ~(1 << start), neighbours, neighbours[start])


def path_through(members: int, neighbours: Sequence[int]) -> tuple[int, ...]:
    """The lexicographically first order in which each device is linked to the next; empty where there is none."""
    ends = _may_end_paths(members, neighbours)
    for start in devices_of(ends):
        found = _extended((start,), members & ~(1 << start), neighbours, ends)
        if found:
            return found
    return ()


def _may_end_paths(members: int, neighbours: Sequence[int]) -> int:
    """The devices at which a path through a connected set may begin and end.

    Where links lead only between two classes of devices, a path takes them in turn: it begins and ends in the larger
    class, and there is none where that is larger by more than one.
    """
    classes = [0, 0]
    for distance, ring in enumerate(reached(members.bit_length() - 1, members, neighbours)):
        classes[distance % 2] |= ring
    if any(links_in(each, neighbours) for each in classes):
        return members
    fewer, more = sorted(classes, key=int.bit_count)
    surplus = more.bit_count() - fewer.bit_count()
    return 0 if surplus > 1 else more if surplus else members


def _extended(so_far: tuple[int, ...], left: int, neighbours: Sequence[int], may_be_last: int) -> tuple[int, ...]:
    if not left:
        return so_far if may_be_last >> so_far[-1] & 1 else ()
    for device in devices_of(neighbours[so_far[-1]] & left):
        found = _extended((*so_far, device), left & ~(1 << device), neighbours, may_be_last)
        if found:
            return found
    return ()
