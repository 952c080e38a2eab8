"""The five ways of choosing devices that are compared. Sets and best fits are those of ``allocation.tables``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

from neuron_topology.allocation.families import Family
from neuron_topology.allocation.tables import Tables, Topology
from neuron_topology.hardware.fabric import Fabric
from neuron_topology.simulation.loss_system import Table


class Policy(StrEnum):
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
        return Family.LINKED if self in {Policy.LINKED, Policy.LINKED_FIRST_FIT} else Family.AWS


_WORDS: Mapping[Policy, str] = {
    Policy.AWS: "the sets of AWS's scheduler extension, the lowest first",
    Policy.HAMI: "as aws, single devices from the highest down",
    Policy.AWS_BEST_FIT: "the sets of AWS, the one that leaves the most of them",
    Policy.LINKED_FIRST_FIT: "every set that is fully linked, the lowest first",
    Policy.LINKED: "every set that is fully linked, the one that leaves the most of them",
}


def tables(policy: Policy, fabric: Fabric, sizes: Iterable[int]) -> dict[int, Table]:
    """What a policy grants on nodes of a fabric, by the number of devices that a job asks for.

    Among best fits that leave equally much the lowest wins: where devices sit in the host is left out of account.
    """
    found = Topology(fabric, policy.family).tables
    return {size: _table(policy, found, size) for size in sizes}


def _table(policy: Policy, found: Tables, size: int) -> Table:
    if policy in {Policy.AWS_BEST_FIT, Policy.LINKED}:
        return found.choices(size)
    sets = found.sets.get(size, ())
    return _FirstFit(reversed(sets) if policy is Policy.HAMI and size == 1 else sets)


class _FirstFit(dict[int, int]):
    """The first of some sets that is free; looked for once for each mask of free devices."""

    def __init__(self, sets: Iterable[int]) -> None:
        super().__init__()
        self._sets = tuple(sets)

    def __missing__(self, free: int) -> int:
        found = self[free] = next((each for each in self._sets if each & ~free == 0), 0)
        return found
