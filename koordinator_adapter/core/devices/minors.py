"""The number of a card on its node, by which Koordinator's records name it: once given, it stays with the card."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from hami_plugins.model.units import DeviceId
from hami_plugins.wire.koordinator_devices import LARGEST_MINOR


class Minors(NamedTuple):
    """The number of each card; ``without`` are those for which none is left."""

    of: Mapping[DeviceId, int]
    without: tuple[DeviceId, ...] = ()


def numbered(
    cards: Sequence[tuple[DeviceId, int]], known: Mapping[DeviceId, int], taken: Collection[int] = ()
) -> Minors:
    """Numbers for cards, each given with its place in the list of the node's agent.

    A card keeps its number of ``known``. A new one gets its place, by which the driver and so the runtime call it, or
    else the lowest free number; none of ``taken``, which pods still hold.
    """
    found = {name: known[name] for name, _ in cards if name in known}
    used = {*found.values(), *taken}
    without: list[DeviceId] = []
    for name, place in cards:
        if name in found:
            continue
        wanted = place if 0 <= place <= LARGEST_MINOR and place not in used else _lowest(used)
        if wanted is None:
            without.append(name)
            continue
        found[name] = wanted
        used.add(wanted)
    return Minors(found, tuple(without))


def _lowest(used: Collection[int]) -> int | None:
    return next((number for number in range(LARGEST_MINOR + 1) if number not in used), None)
