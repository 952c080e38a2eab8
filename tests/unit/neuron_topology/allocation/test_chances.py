"""How likely a set is free by how many devices are in use."""

from neuron_topology.core.hardware.fabric import line, ring
from neuron_topology.core.sets.chances import chances
from neuron_topology.core.sets.families import Family
from neuron_topology.core.sets.tables import Topology


def test_there_is_a_chance_for_every_number_of_devices_in_use_from_none_to_all() -> None:
    tables = Topology(line(3), Family.LINKED).tables
    assert chances(tables, 2) == (1, 2 / 3, 0, 0)
    assert chances(tables, 1) == (1, 1, 1, 0)


def test_of_more_than_sixteen_devices_no_chance_is_counted() -> None:
    assert chances(Topology(ring(17)).tables, 1) == ()
