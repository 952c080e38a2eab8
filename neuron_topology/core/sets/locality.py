"""Where devices sit in the host: the choice among sets that are linked equally well."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from neuron_topology.core.hardware.fabric import devices_of, mask_of


class SetSpread(NamedTuple):
    """How a set lies in the host; less is better, member by member.

    ``numa`` NUMA nodes and ``pcie`` PCIe buses or switches are touched; ``parted`` of the latter are not taken whole,
    so that their EFA interfaces are shared with strangers.
    """

    numa: int
    pcie: int
    parted: int


@dataclass(frozen=True, slots=True)
class Locality:
    """``numa[i]`` is the NUMA node of device i, ``pcie`` the groups of devices behind one bus; empty where unknown."""

    numa: tuple[int, ...] = ()
    pcie: tuple[tuple[int, ...], ...] = ()

    def spread(self, members: int) -> SetSpread:
        """How a set lies in the host."""
        groups = tuple(mask_of(group) for group in self.pcie)
        touched = [group for group in groups if group & members]
        nodes = {self.numa[device] for device in devices_of(members)} if self.numa else ()
        return SetSpread(len(nodes), len(touched), sum(1 for group in touched if group & ~members))


ANYWHERE: Final = Locality()
"""Nothing is known of the host."""
