"""The allocator's tables for an instance type, as the golden tests of Neuron ask for them."""

from neuron_topology.allocation.families import Family
from neuron_topology.allocation.locality import Locality
from neuron_topology.allocation.tables import Tables, Topology
from neuron_topology.hardware.instances import INSTANCE_TYPES


def locality_of(instance_type: str) -> Locality:
    """Where the devices of a type sit."""
    found = INSTANCE_TYPES[instance_type]
    return Locality(found.numa, tuple(group.devices for group in found.pcie))


def tables_of(instance_type: str, family: Family = Family.LINKED) -> Tables:
    """The tables of a healthy machine."""
    fabric = INSTANCE_TYPES[instance_type].fabric
    return Topology(fabric, family, locality_of(instance_type)).tables
