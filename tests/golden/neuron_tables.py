"""The allocator's tables for an instance type, and a measure of sets, as the golden tests of Neuron ask for them."""

from collections.abc import Sequence
from itertools import combinations

from neuron_topology.core.hardware.fabric import devices_of, mask_of
from neuron_topology.core.hardware.instances import INSTANCE_TYPES
from neuron_topology.core.sets.families import Family
from neuron_topology.core.sets.locality import Locality
from neuron_topology.core.sets.measures import links_in
from neuron_topology.core.sets.tables import Tables, Topology


def locality_of(instance_type: str) -> Locality:
    """Where the devices of a type sit."""
    found = INSTANCE_TYPES[instance_type]
    return Locality(found.numa, tuple(group.devices for group in found.pcie), found.efa_groups)


def tables_of(instance_type: str, family: Family = Family.LINKED) -> Tables:
    """The tables of a healthy machine."""
    fabric = INSTANCE_TYPES[instance_type].fabric
    return Topology(fabric, family, locality_of(instance_type)).tables


def bisection(members: int, neighbours: Sequence[int]) -> int:
    """The fewest links that have to be cut to part the set into two halves (one larger by one where it is odd)."""
    inside = devices_of(members)
    half = len(inside) // 2
    if not half:
        return 0
    whole = links_in(members, neighbours)
    return min(
        whole - links_in(part, neighbours) - links_in(members ^ part, neighbours)
        for part in map(mask_of, combinations(inside, half))
    )
