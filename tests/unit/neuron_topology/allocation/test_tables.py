"""The choice among free sets: what it prefers, and what stays true of it whatever is free or broken."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuron_topology.allocation.families import Family, subcubes
from neuron_topology.allocation.locality import Locality
from neuron_topology.allocation.measures import connected
from neuron_topology.allocation.tables import Tables, Topology
from neuron_topology.hardware.fabric import Fabric, Shape, devices_of, line, mask_of, ring, single, torus

LINKED = Topology(torus(), Family.LINKED).tables
AWS = Topology(torus()).tables
ALL = 0xFFFF
free_masks = st.integers(0, ALL)
counts = st.integers(0, 17)


def islands(devices: int) -> Fabric:
    """Devices that nobody knows the links of."""
    return Fabric(Shape.IRREGULAR, ((),) * devices)


def chosen(tables: Tables, free: int, count: int, **wishes: int) -> list[int]:
    return list(devices_of(tables.choose(free, count, **wishes)))


@given(free=free_masks, count=counts)
def test_a_choice_is_free_and_a_set_of_the_family_and_made_exactly_if_there_is_one(free: int, count: int) -> None:
    for tables in (LINKED, AWS):
        members, options = tables.choose(free, count), tables.options(free, count)
        assert bool(members) is bool(options)
        assert not members or members in options


@given(free=free_masks, count=counts)
def test_no_other_set_would_leave_more(free: int, count: int) -> None:
    members = LINKED.choose(free, count)
    left = [LINKED.value(free & ~each) for each in LINKED.options(free, count)]
    assert not members or LINKED.value(free & ~members) == max(left)


@given(free=free_masks, count=counts, shunned=free_masks)
def test_shunned_devices_are_taken_only_without_another_set(free: int, count: int, shunned: int) -> None:
    members = LINKED.choose(free, count, shunned=shunned)
    assert bool(members) is bool(LINKED.choose(free, count))
    assert not members & shunned or not LINKED.options(free & ~shunned, count)


@given(free=free_masks, wished=free_masks)
def test_a_wish_is_granted_if_it_is_a_free_set(free: int, wished: int) -> None:
    count = wished.bit_count()
    members = LINKED.choose(free, count, wished=wished)
    assert (members == wished != 0) or wished not in LINKED.options(free, count)
    assert bool(members) is bool(LINKED.choose(free, count))


def test_the_torus_is_worth_its_halves_quarters_and_itself() -> None:
    assert LINKED.value(ALL) == 64 + 8 * 8 + 24
    assert AWS.value(ALL) == 64 + 8 * 2 + 4
    assert LINKED.value(mask_of(range(8))) == 8 + len([each for each in subcubes(4) if each < 256])


def test_the_largest_count_that_is_left() -> None:
    assert [LINKED.largest(free) for free in (0, 1, 0b11, 0xF, 0xFF, ALL)] == [0, 1, 2, 4, 8, 16]


@pytest.mark.parametrize(
    ("tables", "count", "near"),
    [(AWS, 7, (4, 8)), (AWS, 2, (1, 4)), (AWS, 17, (16,)), (Topology(single()).tables, 2, (1,)), (AWS, 0, (1,))],
)
def test_the_nearest_counts_are_named(tables: Tables, count: int, near: tuple[int, ...]) -> None:
    assert count not in tables.counts
    assert tables.nearest(count) == near
    assert not tables.choose(tables.full, count)


def test_the_line_keeps_its_long_stretches() -> None:
    tables = Topology(line(6), Family.LINKED).tables
    assert chosen(tables, 0b111111, 2) == [0, 1]
    assert chosen(tables, 0b110111, 2) == [4, 5]
    assert chosen(tables, 0b100001, 2) == []


def test_an_arc_is_counted_from_its_first_device_over_the_wrap() -> None:
    tables = Topology(ring(12), Family.LINKED).tables
    assert tables.order(mask_of((0, 1, 10, 11))) == (10, 11, 0, 1)
    assert tables.order(tables.full) == tuple(range(12))
    assert Topology(ring(12)).tables.choose(mask_of((0, 11)), 2) == 0


@given(free_masks)
def test_a_set_is_counted_from_link_to_link(free: int) -> None:
    for count in LINKED.counts:
        members = LINKED.choose(free, count)
        order = LINKED.order(members) if members else ()
        assert mask_of(order) == members
        assert all(other in torus().neighbours[one] for one, other in pairwise(order))


def test_unconnected_devices_are_counted_as_they_are() -> None:
    tables = Topology(islands(4), Family.LINKED).tables
    assert tables.order(tables.full) == (0, 1, 2, 3)


@pytest.mark.parametrize("family", Family)
def test_devices_without_known_links_go_singly_or_all_together(family: Family) -> None:
    tables = Topology(islands(4), family).tables
    assert tables.counts == (1, 4)
    assert chosen(tables, 0b1110, 1) == [1]
    assert chosen(tables, 0b1111, 4) == [0, 1, 2, 3]
    assert tables.nearest(2) == (1, 4)


@pytest.mark.parametrize("family", Family)
def test_more_devices_than_a_table_holds_go_singly_or_all_together(family: Family) -> None:
    tables = Topology(islands(20), family).tables
    assert tables.counts == (1, 20)
    assert chosen(tables, 0b110, 1) == [1]
    assert tables.choose(tables.full, 20) == tables.full
    assert tables.choose(tables.full - 1, 20) == 0
    assert tables.value(tables.full) == 0
    assert tables.largest(tables.full) == 20


def test_an_odd_graph_gives_its_best_connected_sets() -> None:
    square_with_tail = Fabric(Shape.IRREGULAR, ((1, 3), (0, 2), (1, 3), (0, 2, 4), (3,)))
    tables = Topology(square_with_tail, Family.LINKED).tables
    assert [devices_of(each) for each in tables.sets[4]] == [(0, 1, 2, 3)]
    assert Topology(square_with_tail).tables.counts == (1, 5)


def test_of_sets_with_equally_many_links_an_odd_graph_gives_those_whose_members_are_nearest() -> None:
    star_with_tail = Fabric(Shape.IRREGULAR, ((4,), (4,), (3, 4), (2,), (0, 1, 2)))
    tables = Topology(star_with_tail, Family.LINKED).tables
    assert [devices_of(each) for each in tables.sets[4]] == [(0, 1, 2, 4)]


@pytest.mark.parametrize("family", Family)
def test_no_set_uses_a_dead_link_and_the_others_stay(family: Family) -> None:
    dead = ((4, 5),)
    tables = Topology(torus(), family, dead=dead).tables
    whole = Topology(torus(), family).tables
    for count in whole.counts:
        expected = [each for each in whole.sets[count] if not (each >> 4 & 1 and each >> 5 & 1)]
        assert list(tables.sets.get(count, ())) == expected or count == 16
    assert tables.choose(ALL, 16) == (ALL if family is Family.LINKED else 0)
    assert tables.choose(ALL, 4) in tables.sets[4]


def test_a_whole_torus_with_a_dead_link_is_ordered_along_a_ring_that_goes_around_it() -> None:
    order = Topology(torus(), Family.LINKED, dead=((0, 1),)).tables.order(ALL)
    pairs = {frozenset(pair) for pair in zip(order, (*order[1:], order[0]), strict=True)}
    assert frozenset((0, 1)) not in pairs
    assert all(tuple(sorted(pair)) in torus().links for pair in pairs)


def test_a_ring_around_a_dead_link_is_a_path() -> None:
    tables = Topology(ring(4), Family.LINKED, dead=((1, 2),)).tables
    assert tables.counts == (1, 2, 3, 4)
    assert {devices_of(each) for each in tables.sets[3]} == {(0, 2, 3), (0, 1, 3)}


def test_where_every_set_has_a_dead_link_those_are_left_that_keep_the_most() -> None:
    tables = Topology(torus(), Family.LINKED, dead=((0, 4), (1, 2), (4, 5), (4, 8))).tables
    assert tables.sets[16] == (ALL,)
    assert tables.sets[15] == (ALL & ~(1 << 4),)


def test_a_set_that_a_dead_link_parts_is_none() -> None:
    assert Topology(line(6), Family.LINKED, dead=((2, 3),)).tables.counts == (1, 2, 3)


def test_among_equal_sets_the_host_decides_and_then_the_index() -> None:
    numa = (0, 0, 1, 1) * 4
    buses = ((0, 1, 12, 13), (4, 5, 8, 9), (2, 3, 14, 15), (6, 7, 10, 11))
    assert chosen(LINKED, ALL, 4) == [0, 1, 2, 3]
    assert chosen(Topology(torus(), Family.LINKED, Locality(numa)).tables, ALL, 4) == [0, 1, 4, 5]
    assert chosen(Topology(torus(), Family.LINKED, Locality(numa, buses)).tables, ALL, 4) == [0, 1, 12, 13]


def test_tables_of_equal_topologies_are_shared() -> None:
    first, second = (Topology(torus(), Family.LINKED) for _ in range(2))
    assert first.tables is second.tables


@given(st.integers(1, ALL))
def test_every_set_is_connected(free: int) -> None:
    for count in LINKED.counts:
        assert all(connected(each, torus().masks) for each in LINKED.options(free, count))
