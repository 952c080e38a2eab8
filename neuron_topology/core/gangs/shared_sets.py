"""How many sets of one size still fit on a node, and which one members of a job get so that all have the same.

Neuron's collectives between machines want the same devices on each of them (AWS Neuron SDK 2.32 on collectives). A set
is never chosen at the price of another that the node has room for: so what a job was found to have room for, it gets.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from neuron_topology.core.hardware.fabric import FabricShape, devices_of, mask_of
from neuron_topology.core.sets.tables import Tables

_ROOMS: Final = 65_536


@lru_cache(maxsize=_ROOMS)
def room(tables: Tables, free: int, count: int, run: bool = False) -> int:
    """The most sets of a count that fit together into the free devices; with ``run`` sets for a range of cores."""
    if count == 1:
        return free.bit_count() if 1 in tables.sets else 0
    most = free.bit_count() // count
    if tables.topology.fabric.shape is FabricShape.SWITCH:
        return most if most and tables.choices(count)[free] else 0
    sets = tables.options(free, count, run=run) if most else ()
    if not sets:
        return 0
    within = 0
    for members in sets:
        within |= members
    # Devices that are in no set do not matter: without them equal cases are found again.
    if within != free:
        return room(tables, within, count, run)
    first = free & -free
    best = 0
    for members in sets:
        if members & first:
            best = max(best, 1 + room(tables, free & ~members, count, run))
            if best == most:
                return best
    return max(best, room(tables, free & ~first, count, run))


def shared_set(  # noqa: PLR0913, PLR0917 - one node, what the others have, and what they could have
    tables: Tables,
    free: int,
    count: int,
    others: Mapping[int, int],
    elsewhere: Mapping[int, int],
    shunned: int = 0,
    *,
    run: bool = False,
) -> int:
    """The set for one more member on a node, 0 where there is none; with ``run`` as in ``room``.

    ``others`` are the sets that other members have on other nodes, ``elsewhere`` what is free on nodes that may get
    some more, both with their numbers. First comes what most members have already, then what most nodes could give
    without the loss of another set, then what most could give at all.
    """
    if tables.topology.any_set:
        return _shared_behind_switches(free, count, others, elsewhere, shunned)
    options = tables.options(free, count, run=run)
    if not options:
        return 0
    left = room(tables, free, count, run) - 1
    choose = tables.choose_run if run else tables.choose
    usual = choose(free, count, shunned=shunned)

    def worth(members: int) -> tuple[bool, int, int, int, int, bool, int]:
        giving = {mask: number for mask, number in elsewhere.items() if members & ~mask == 0}
        could = sum(giving.values())
        cheaply = sum(
            number
            for mask, number in giving.items()
            if room(tables, mask & ~members, count, run) == room(tables, mask, count, run) - 1
        )
        worn = (members & shunned).bit_count()
        value = tables.value(free & ~members)
        return (
            room(tables, free & ~members, count, run) == left,
            others.get(members, 0),
            cheaply - worn,
            could - worn,
            -worn,
            members == usual,
            value,
        )

    return max(options, key=lambda members: (worth(members), tuple(-each for each in devices_of(members))))


def _shared_behind_switches(
    free: int, count: int, others: Mapping[int, int], elsewhere: Mapping[int, int], shunned: int
) -> int:
    """The same where any devices may go together: those that most nodes could give, and sound ones before others."""
    if free.bit_count() < count:
        return 0
    known = [members for members in others if members.bit_count() == count and members & ~free == 0]
    if known:
        return max(known, key=lambda members: (others[members], tuple(-each for each in devices_of(members))))

    def worth(device: int) -> tuple[int, int, int]:
        could = sum(number for mask, number in elsewhere.items() if mask >> device & 1)
        return could - (shunned >> device & 1), -(shunned >> device & 1), -device

    return mask_of(sorted(devices_of(free), key=worth, reverse=True)[:count])
