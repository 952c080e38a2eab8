"""Which set to allocate, for everything that can be free: worked out once, looked up afterwards.

Among the sets of a count that are free, the one is allocated that leaves the most future sets, then the one that
touches the fewest NUMA nodes, PCIe groups and parted PCIe groups, then the one with the lowest indexes. The answer for
every mask of free devices stands in a table, one for each count, which is made when the count is first asked for.
"""

from __future__ import annotations

from array import array
from bisect import bisect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import add
from typing import Final, Protocol

from neuron_topology.core.hardware.fabric import Fabric, FabricShape, devices_of, mask_of
from neuron_topology.core.sets.families import LARGEST, Family, sets_of, without
from neuron_topology.core.sets.locality import ANYWHERE, Locality
from neuron_topology.core.sets.measures import path_through, ring_through

CUBE_WEIGHTS: Final[Mapping[int, int]] = {16: 64 * 33, 8: 8 * 33, 4: 33, 2: 1}
"""The worth of a free set of the torus by its size, for comparing how much an allocation leaves.

All 32 pairs together weigh less than one set of four.
"""


class Choices(Protocol):
    """The set to allocate for each mask of free devices; 0 where there is none."""

    def __getitem__(self, free: int, /) -> int: ...


@dataclass(frozen=True, slots=True)
class Topology:
    """All inputs of the choice of a set, besides the free devices.

    ``dead`` are links of ``fabric`` that do not work, the lower index first.
    """

    fabric: Fabric
    family: Family = Family.AWS
    locality: Locality = ANYWHERE
    dead: tuple[tuple[int, int], ...] = ()

    @property
    def any_set(self) -> bool:
        """Whether all sets of a count are alike: devices behind switches of which every pair is linked."""
        return self.fabric.shape is FabricShape.SWITCH and not self.dead

    @property
    def tables(self) -> Tables:
        """The tables of this topology; those of equal ones are shared."""
        return _tables(self)


class Tables:
    """The choices on one topology. Sets, free devices and answers are bit masks; 0 is "none"."""

    __slots__ = ("_choices", "_neighbours", "_orders", "_values", "full", "sets", "topology")

    def __init__(self, topology: Topology) -> None:
        fabric = topology.fabric
        self.topology = topology
        self.full = (1 << fabric.devices) - 1
        self.sets = sets_of(fabric, topology.family, topology.dead)
        self._neighbours = without(fabric.masks, topology.dead)
        self._choices: dict[int, Choices] = {}
        self._orders: dict[int, tuple[int, ...]] = {}
        self._values: Sequence[int] = ()

    @property
    def counts(self) -> tuple[int, ...]:
        """How many devices may go together, ascending."""
        return tuple(self.sets)

    def nearest(self, count: int) -> tuple[int, ...]:
        """The counts that can be allocated next to one that cannot: the largest below it, the smallest above it."""
        at = bisect(self.counts, count)
        return (*self.counts[:at][-1:], *self.counts[at:][:1])

    def choose(self, free: int, count: int, *, shunned: int = 0, preferred: int = 0) -> int:
        """The set to allocate of what is free, or 0.

        ``shunned`` devices are taken only where no set is free without them; a ``preferred`` set that may be allocated
        wins over both.
        """
        if preferred and preferred & ~free == 0 and preferred in self.sets.get(count, ()):
            return preferred
        table = self._choices.get(count)
        if table is None:
            table = self.choices(count)
        if shunned and (found := table[free & ~shunned]):
            return found
        return table[free]

    def choose_run(self, free: int, count: int, *, shunned: int = 0) -> int:
        """The same among the sets of neighbouring numbers, as a range of cores over several devices needs them."""
        if self.topology.family is Family.AWS:
            return self.choose(free, count, shunned=shunned)
        runs = [each for each in self.runs(count) if each & ~free == 0]
        return max(runs, key=lambda each: (-(each & shunned).bit_count(), self.value(free & ~each), -each), default=0)

    def ranged(self, count: int) -> tuple[int, ...]:
        """The sets that ``choose_run`` chooses from."""
        return self.sets.get(count, ()) if self.topology.family is Family.AWS else self.runs(count)

    def runs(self, count: int) -> tuple[int, ...]:
        """The sets of neighbouring numbers."""
        return tuple(each for each in self.sets.get(count, ()) if each & (each + (each & -each)) == 0)

    def choices(self, count: int) -> Choices:
        """The table of one count."""
        found = self._choices.get(count)
        if found is None:
            found = self._choices[count] = self._made(count)
        return found

    def options(self, free: int, count: int, *, run: bool = False) -> tuple[int, ...]:
        """Every set of the count that is free, in the order of their device lists; with ``run`` those for cores."""
        sets = self.ranged(count) if run else self.sets.get(count, ())
        return tuple(each for each in sets if each & ~free == 0)

    def largest(self, free: int) -> int:
        """The largest count that can be allocated of what is free; 0 when there is none."""
        return max((count for count in self.sets if self.choices(count)[free]), default=0)

    def values(self) -> Sequence[int]:
        """The worth of each mask of free devices: its sets, weighted by size."""
        if not self._values and self.topology.fabric.devices <= LARGEST:
            self._values = _worth(self.sets, self.topology.fabric)
        return self._values

    def value(self, free: int) -> int:
        """The worth of the sets in these free devices; 0 if there are too many devices for a table."""
        values = self.values()
        return values[free] if values else 0

    def order(self, members: int) -> tuple[int, ...]:
        """The devices of a set as a container is to count them: along a ring of links, else along a path of them.

        AWS's own sets stay ascending, as AWS's plugin expects them, and so does a set without ring and path.
        """
        found = self._orders.get(members)
        if found is None:
            found = self._orders[members] = self._ordered(members)
        return found

    def _ordered(self, members: int) -> tuple[int, ...]:
        ascending = devices_of(members)
        if self.topology.family is Family.AWS:
            return ascending
        if self.topology.fabric.shape is FabricShape.RING and members != self.full:
            return _along_the_arc(ascending, self.topology.fabric.devices)
        return ring_through(members, self._neighbours) or path_through(members, self._neighbours) or ascending

    def _made(self, count: int) -> Choices:
        sets = self.sets.get(count, ())
        if self.topology.any_set and sets:
            return _Lowest(count)
        if self.topology.fabric.devices > LARGEST or self.topology.fabric.shape is FabricShape.SWITCH:
            return _Scanned(sets)
        locality = self.topology.locality
        worst_first = sorted(sets, key=lambda each: (locality.spread(each), devices_of(each)), reverse=True)
        values = self.values()
        best = [0] * len(values)
        table = array("H", best)
        for members in worst_first:
            for rest in _subsets(self.full & ~members):
                value = values[rest]
                free = members | rest
                if value >= best[free]:
                    best[free] = value
                    table[free] = members
        return table


class _Scanned:
    """The first set that is free: for too many devices for a table, which go singly or all together, and for devices
    behind switches, whose sets are all as good."""

    __slots__ = ("_sets",)

    def __init__(self, sets: Sequence[int]) -> None:
        self._sets = sets

    def __getitem__(self, free: int) -> int:
        return next((each for each in self._sets if each & ~free == 0), 0)


class _Lowest:
    """The choices where any devices may go together: those with the lowest numbers."""

    __slots__ = ("_count",)

    def __init__(self, count: int) -> None:
        self._count = count

    def __getitem__(self, free: int) -> int:
        if free.bit_count() < self._count:
            return 0
        return mask_of(devices_of(free)[: self._count])


@lru_cache(maxsize=256)
def _tables(topology: Topology) -> Tables:
    return Tables(topology)


def _along_the_arc(ascending: tuple[int, ...], devices: int) -> tuple[int, ...]:
    """The devices of an arc from its first to its last, over the wrap where it wraps."""
    first = next(at for at, device in enumerate(ascending) if (device - 1) % devices not in ascending)
    return ascending[first:] + ascending[:first]


def _worth(sets: Mapping[int, Sequence[int]], fabric: Fabric) -> list[int]:
    """For each mask the summed weights of the sets inside it.

    It is a sum over subsets, one device after another: that of the lowest bit is added, and its bit then becomes the
    highest one. After all devices each bit is in its place again.

    On the torus rows, squares and halves count as ``CUBE_WEIGHTS`` says; elsewhere every set of several devices is one.
    """
    cube = fabric.shape is FabricShape.TORUS
    values = [0] * (1 << fabric.devices)
    for count, members in sets.items():
        weight = CUBE_WEIGHTS.get(count, 0) if cube else int(count > 1)
        for each in members:
            values[each] += weight
    for _ in range(fabric.devices):
        without_lowest = values[::2]
        values = [*without_lowest, *map(add, without_lowest, values[1::2])]
    return values


def _subsets(mask: int) -> list[int]:
    found = [0]
    for device in devices_of(mask):
        bit = 1 << device
        found += [each | bit for each in found]
    return found
