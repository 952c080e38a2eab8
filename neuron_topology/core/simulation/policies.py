"""The five ways of choosing devices that are compared. Sets and best fits are those of ``core.sets.tables``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

from neuron_topology.core.hardware.fabric import Fabric
from neuron_topology.core.sets.families import Family
from neuron_topology.core.sets.tables import Tables, Topology
from neuron_topology.core.simulation.loss_system import AllocationTable


class SelectionPolicy(StrEnum):
    """A way of choosing devices."""

    AWS = "aws"
    HAMI = "hami"
    AWS_BEST_FIT = "aws-best-fit"
    LINKED_FIRST_FIT = "linked-first-fit"
    LINKED = "linked"

    @property
    def words(self) -> str:
        """What it does, for people."""
        return _WORDS[self]

    @property
    def family(self) -> Family:
        """The sets that it chooses from."""
        return Family.LINKED if self in {SelectionPolicy.LINKED, SelectionPolicy.LINKED_FIRST_FIT} else Family.AWS


_WORDS: Mapping[SelectionPolicy, str] = {
    SelectionPolicy.AWS: "the sets of AWS's scheduler extension, the lowest first",
    SelectionPolicy.HAMI: "as aws, single devices from the highest down",
    SelectionPolicy.AWS_BEST_FIT: "the sets of AWS, the one that leaves the most of them",
    SelectionPolicy.LINKED_FIRST_FIT: "every set that is fully linked, the lowest first",
    SelectionPolicy.LINKED: "every set that is fully linked, the one that leaves the most of them",
}


def tables(policy: SelectionPolicy, fabric: Fabric, sizes: Iterable[int]) -> dict[int, AllocationTable]:
    """What a policy allocates on nodes of a fabric, by the number of devices that a job asks for.

    Among best fits that leave equally much the lowest wins: where devices sit in the host is left out of account.
    """
    found = Topology(fabric, policy.family).tables
    return {size: _table(policy, found, size) for size in sizes}


def _table(policy: SelectionPolicy, found: Tables, size: int) -> AllocationTable:
    if policy in {SelectionPolicy.AWS_BEST_FIT, SelectionPolicy.LINKED}:
        return found.choices(size)
    sets = found.sets.get(size, ())
    return _FirstFit(reversed(sets) if policy is SelectionPolicy.HAMI and size == 1 else sets)


class _FirstFit(dict[int, int]):
    """The first of some sets that is free; looked for once for each mask of free devices."""

    def __init__(self, sets: Iterable[int]) -> None:
        super().__init__()
        self._sets = tuple(sets)

    def __missing__(self, free: int) -> int:
        found = self[free] = next((each for each in self._sets if each & ~free == 0), 0)
        return found
