"""How a set lies in the host."""

from neuron_topology.core.hardware.fabric import mask_of
from neuron_topology.core.sets.locality import ANYWHERE, Locality, SetSpread

HOST = Locality(numa=(0, 0, 0, 1, 1, 1), pcie=((0, 1), (2, 3), (4, 5)))


def test_nodes_and_buses_that_a_set_touches_are_counted_and_the_buses_that_it_has_in_part() -> None:
    assert HOST.spread(mask_of((0, 1))) == SetSpread(numa=1, pcie=1, parted=0)
    assert HOST.spread(mask_of((0, 1, 2))) == SetSpread(numa=1, pcie=2, parted=1)
    assert HOST.spread(mask_of((2, 3))) == SetSpread(numa=2, pcie=1, parted=0)
    assert HOST.spread(mask_of((1, 2, 4))) == SetSpread(numa=2, pcie=3, parted=3)


def test_of_an_unknown_host_nothing_is_counted() -> None:
    assert ANYWHERE.spread(mask_of((1, 2, 4))) == SetSpread(numa=0, pcie=0, parted=0)


def test_interfaces_that_other_devices_use_as_well_are_counted() -> None:
    host = Locality(efa=((0, 1), (2, 3)))
    assert host.spread(mask_of((0, 1))) == SetSpread(numa=0, pcie=0, parted=0, shared=0)
    assert host.spread(mask_of((1, 2))) == SetSpread(numa=0, pcie=0, parted=0, shared=2)
    assert host.spread(mask_of((4,))) == SetSpread(numa=0, pcie=0, parted=0, shared=0)
