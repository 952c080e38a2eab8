"""Where devices sit in the host: the choice among sets that are linked equally well."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from neuron_topology.core.hardware.fabric import devices_of, mask_of


class SetSpread(NamedTuple):
    """How a set lies in the host; less is better, member by member.

    ``numa`` NUMA nodes and ``pcie`` PCIe buses or switches are touched; ``parted`` of the latter are not taken whole,
    and ``shared`` EFA interfaces belong to devices of the set and to others as well.
    """

    numa: int
    pcie: int
    parted: int
    shared: int = 0


@dataclass(frozen=True, slots=True)
class Locality:
    """``numa[i]`` is the NUMA node of device i, ``pcie`` the groups of devices behind one bus, ``efa`` those of one EFA
    interface; empty where unknown.
    """

    numa: tuple[int, ...] = ()
    pcie: tuple[tuple[int, ...], ...] = ()
    efa: tuple[tuple[int, ...], ...] = ()

    def spread(self, members: int) -> SetSpread:
        """How a set lies in the host."""
        touched = _touched(self.pcie, members)
        nodes = {self.numa[device] for device in devices_of(members)} if self.numa else ()
        return SetSpread(
            len(nodes), len(touched), _parted(touched, members), _parted(_touched(self.efa, members), members)
        )


def _touched(groups: Iterable[tuple[int, ...]], members: int) -> list[int]:
    """The groups with a device of the set, as masks."""
    return [mask for group in groups if (mask := mask_of(group)) & members]


def _parted(groups: Iterable[int], members: int) -> int:
    """How many of the groups have a device outside of the set."""
    return sum(1 for group in groups if group & ~members)


ANYWHERE: Final = Locality()
"""Nothing is known of the host."""
