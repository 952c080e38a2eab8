"""With which headrooms a verdict is the same: what a quota leaves changes with each pod, a verdict seldom.

A pod is compared with what is left while its devices are chosen. Any headroom that gives the same outcome of each
comparison gives the same verdict.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from hami_plugins.model.units import VendorName
from hami_plugins.model.vendor import Headroom, Left

_Limit = tuple[VendorName, int]
"""A vendor, and the position of an amount in ``Headroom``."""

_Amounts = tuple[tuple[_Limit, int], ...]

_UNLIMITED: Final = Headroom()


@dataclass(frozen=True, slots=True)
class HeadroomRange:
    """Headrooms that leave at least ``enough`` of each amount, and less than ``short``. No limit is more than any."""

    enough: _Amounts = ()
    short: _Amounts = ()

    def holds(self, left: Left) -> bool:
        """Whether a headroom is in the range."""
        rooms = dict(left)
        return all(
            (room := rooms.get(vendor, _UNLIMITED)[at]) is None or room >= amount
            for (vendor, at), amount in self.enough
        ) and all(
            (room := rooms.get(vendor, _UNLIMITED)[at]) is not None and room < amount
            for (vendor, at), amount in self.short
        )

    def both(self, other: HeadroomRange) -> HeadroomRange:
        """The headrooms that are in both ranges."""
        if other is self or other is ANY_HEADROOM:
            return self
        if self is ANY_HEADROOM:
            return other
        return HeadroomRange(_joined(self.enough, other.enough, max), _joined(self.short, other.short, min))


ANY_HEADROOM: Final = HeadroomRange()


class HeadroomComparison:
    """Compares amounts with what is left, and knows for which headrooms all outcomes so far are the same."""

    __slots__ = ("_enough", "_rooms", "_short")

    def __init__(self, left: Left) -> None:
        self._rooms = dict(left)
        self._enough: dict[_Limit, int] = {}
        self._short: dict[_Limit, int] = {}

    def allows(self, vendor: VendorName, memory: int, cores: int) -> bool:
        """Whether so much of a vendor's devices may be taken (MiB, and cores as a quota counts them)."""
        rooms, amounts = self._rooms.get(vendor, _UNLIMITED), (memory, cores)
        for at, (room, amount) in enumerate(zip(rooms, amounts, strict=True)):
            if room is not None and amount > room:
                limit = vendor, at
                self._short[limit] = min(amount, self._short.get(limit, amount))
                return False
        for at, amount in enumerate(amounts):
            limit = vendor, at
            self._enough[limit] = max(amount, self._enough.get(limit, amount))
        return True

    @property
    def range(self) -> HeadroomRange:
        """The headrooms that change no outcome."""
        if not self._enough and not self._short:
            return ANY_HEADROOM
        return HeadroomRange(tuple(sorted(self._enough.items())), tuple(sorted(self._short.items())))


def _joined(one: _Amounts, other: _Amounts, choose: Callable[[int, int], int]) -> _Amounts:
    found = dict(one)
    for limit, amount in other:
        found[limit] = choose(amount, found.get(limit, amount))
    return tuple(sorted(found.items()))
