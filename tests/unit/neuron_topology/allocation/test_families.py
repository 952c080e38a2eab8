"""The sets of simple shapes, one by one."""

from neuron_topology.core.hardware.fabric import line, ring
from neuron_topology.core.sets.families import arcs, windows, without


def test_windows_begin_with_each_index_that_leaves_room() -> None:
    assert windows(4, 2) == (0b0011, 0b0110, 0b1100)


def test_arcs_begin_with_each_index_and_wrap() -> None:
    assert arcs(4, 2) == (0b0011, 0b0110, 0b1100, 0b1001)


def test_neither_end_of_a_dead_link_has_the_other_for_a_neighbour() -> None:
    assert without(ring(6).masks, ((0, 5),)) == line(6).masks
