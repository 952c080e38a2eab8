"""The choice among free sets: what it prefers, and what stays true of it whatever is free or broken."""

from collections.abc import Iterable, Iterator
from itertools import chain, pairwise, product
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuron_topology.core.hardware.fabric import (
    Fabric,
    FabricShape,
    devices_of,
    line,
    mask_of,
    ring,
    single,
    switched,
    torus,
)
from neuron_topology.core.sets.families import Family, subcubes
from neuron_topology.core.sets.locality import Locality
from neuron_topology.core.sets.measures import connected
from neuron_topology.core.sets.tables import Tables, Topology

ALL = 0xFFFF
SQUARE_WITH_TAIL = Fabric(FabricShape.IRREGULAR, ((1, 3), (0, 2), (1, 3), (0, 2, 4), (3,)))
SMALL = (
    Topology(line(5)),
    Topology(line(5), Family.LINKED),
    Topology(ring(6)),
    Topology(ring(6), Family.LINKED),
    Topology(ring(6), Family.LINKED, Locality((0, 1, 1, 0, 0, 1), ((0, 2), (1, 4), (3, 5)))),
    Topology(ring(6), Family.LINKED, dead=((2, 3),)),
    Topology(SQUARE_WITH_TAIL, Family.LINKED),
)
"""Machines of few devices, of which every mask of free ones can be tried."""

every_small_machine = pytest.mark.parametrize("topology", SMALL, ids=range(len(SMALL)))
free_masks = st.integers(0, ALL)
counts = st.integers(0, 17)


def linked() -> Tables:
    """All linked sets of the torus; asked for within a test, as the product makes them once."""
    return Topology(torus(), Family.LINKED).tables


def aws() -> Tables:
    """AWS's own sets of the torus."""
    return Topology(torus()).tables


def islands(devices: int) -> Fabric:
    """Devices whose links are unknown."""
    return Fabric(FabricShape.IRREGULAR, ((),) * devices)


def chosen(tables: Tables, free: int, count: int, **defaults: int) -> list[int]:
    return list(devices_of(tables.choose(free, count, **defaults)))


def situations(topology: Topology) -> Iterator[tuple[int, int]]:
    """Everything that can be free, with every count, those that no machine has among them."""
    return product(range(1 << topology.fabric.devices), range(topology.fabric.devices + 2))


def within(sets: Iterable[int], free: int) -> list[int]:
    return [each for each in sets if each | free == free]


def several_within(tables: Tables, free: int) -> int:
    """How many sets of several devices are free."""
    return sum(len(within(sets, free)) for count, sets in tables.sets.items() if count > 1)


@every_small_machine
def test_of_the_free_sets_that_is_chosen_which_leaves_most_then_by_the_host_then_the_lowest(topology: Topology) -> None:
    tables = topology.tables
    for free, count in situations(topology):
        options = within(tables.sets.get(count, ()), free)
        assert list(tables.options(free, count)) == options
        ranked = sorted(
            options,
            key=lambda each: (-several_within(tables, free & ~each), topology.locality.spread(each), devices_of(each)),
        )
        assert tables.choose(free, count) == (ranked[0] if ranked else 0)


@every_small_machine
def test_shunned_devices_are_taken_only_where_no_set_is_free_without_them(topology: Topology) -> None:
    tables = topology.tables
    for free, count in situations(topology):
        for shunned in (0b1, 0b110, 0b10101):
            expected = tables.choose(free & ~shunned, count) or tables.choose(free, count)
            assert tables.choose(free, count, shunned=shunned) == expected


@every_small_machine
def test_a_wished_set_is_allocated_exactly_if_it_is_one_of_the_count_and_free(topology: Topology) -> None:
    tables = topology.tables
    for free, count in situations(topology):
        for preferred in range(1 << topology.fabric.devices):
            allocated = preferred in within(tables.sets.get(count, ()), free)
            expected = preferred if allocated else tables.choose(free, count, shunned=0b1)
            assert tables.choose(free, count, shunned=0b1, preferred=preferred) == expected


@every_small_machine
def test_a_range_of_cores_gets_neighbouring_numbers(topology: Topology) -> None:
    """Of free sets of neighbouring numbers the one with the fewest shunned devices, then the one that leaves most, then
    the lowest. AWS's own sets are such ranges."""
    tables = topology.tables
    for free, count in situations(topology):
        sets = [
            mask_of(range(first, first + count))
            for first in range(topology.fabric.devices)
            if mask_of(range(first, first + count)) in tables.sets.get(count, ())
        ]
        assert list(tables.runs(count)) == list(tables.ranged(count)) == sets
        assert list(tables.options(free, count, run=True)) == within(sets, free)
        assert tables.choose_run(free, count) == tables.choose_run(free, count, shunned=0)
        for shunned in (0, 0b1, 0b110):
            found = tables.choose_run(free, count, shunned=shunned)
            if topology.family is Family.AWS:
                assert found == tables.choose(free, count, shunned=shunned)
            else:
                ranked = sorted(
                    within(sets, free),
                    key=lambda each: ((each & shunned).bit_count(), -several_within(tables, free & ~each), each),
                )
                assert found == (ranked[0] if ranked else 0)


@every_small_machine
def test_free_devices_are_worth_the_sets_of_several_that_they_hold(topology: Topology) -> None:
    tables = topology.tables
    for free in range(1 << topology.fabric.devices):
        assert tables.value(free) == several_within(tables, free)
        assert tables.largest(free) == max((count for count in tables.counts if tables.choose(free, count)), default=0)


@given(free=free_masks, count=counts)
def test_a_choice_is_free_and_a_set_of_the_family_and_made_exactly_if_there_is_one(free: int, count: int) -> None:
    for tables in (linked(), aws()):
        members, options = tables.choose(free, count), tables.options(free, count)
        assert bool(members) is bool(options)
        assert not members or members in options


@given(free=free_masks, count=counts)
def test_no_other_set_would_leave_more(free: int, count: int) -> None:
    members = linked().choose(free, count)
    left = [linked().value(free & ~each) for each in linked().options(free, count)]
    assert not members or linked().value(free & ~members) == max(left)


def test_the_torus_is_worth_its_halves_quarters_pairs_and_itself() -> None:
    assert linked().value(ALL) == 33 * (64 + 8 * 8 + 24) + 32
    assert aws().value(ALL) == 33 * (64 + 8 * 2 + 4)
    fours = [each for each in subcubes(4) if each < 256]
    assert linked().value(mask_of(range(8))) == 33 * (8 + len(fours)) + 12


def test_the_largest_count_that_is_left() -> None:
    assert [linked().largest(free) for free in (0, 1, 0b11, 0xF, 0xFF, ALL)] == [0, 1, 2, 4, 8, 16]


@pytest.mark.parametrize(
    ("fabric", "count", "near"),
    [(torus(), 7, (4, 8)), (torus(), 2, (1, 4)), (torus(), 17, (16,)), (single(), 2, (1,)), (torus(), 0, (1,))],
)
def test_the_nearest_counts_are_named(fabric: Fabric, count: int, near: tuple[int, ...]) -> None:
    tables = Topology(fabric).tables
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
    for members in chain.from_iterable(tables.sets[count] for count in range(1, 12)):
        order = tables.order(members)
        assert mask_of(order) == members
        assert all(other == (one + 1) % 12 for one, other in pairwise(order))
    assert Topology(ring(12)).tables.choose(mask_of((0, 11)), 2) == 0


@given(free_masks)
def test_a_set_is_counted_from_link_to_link(free: int) -> None:
    for count in linked().counts:
        members = linked().choose(free, count)
        order = linked().order(members) if members else ()
        assert mask_of(order) == members
        assert all(other in torus().neighbours[one] for one, other in pairwise(order))


def test_unconnected_devices_are_counted_as_they_are() -> None:
    tables = Topology(islands(4), Family.LINKED).tables
    assert tables.order(tables.full) == (0, 1, 2, 3)


@given(st.integers(1, ALL))
def test_a_pair_is_taken_where_it_leaves_the_most_pairs_beside_larger_sets(free: int) -> None:
    def left(members: int) -> tuple[int, ...]:
        return tuple(len(linked().options(free & ~members, count)) for count in (4, 2))

    pairs = [each for each in linked().options(free, 2) if not linked().options(free, 8)]
    if pairs:
        assert left(linked().choose(free, 2)) == max(map(left, pairs))


@pytest.mark.parametrize("family", Family)
def test_devices_without_known_links_go_singly_or_all_together(family: Family) -> None:
    tables = Topology(islands(4), family).tables
    assert tables.counts == (1, 4)
    assert chosen(tables, 0b1110, 1) == [1]
    assert chosen(tables, 0b1111, 4) == [0, 1, 2, 3]
    assert tables.nearest(2) == (1, 4)


@pytest.mark.parametrize("family", Family)
@pytest.mark.parametrize("devices", [4, 16])
def test_behind_switches_any_devices_go_together_those_with_the_lowest_numbers_first(
    family: Family, devices: int
) -> None:
    tables = Topology(switched(devices), family).tables
    assert tables.counts == tuple(range(1, devices + 1))
    assert {count: len(sets) for count, sets in tables.sets.items()} == {
        count: comb(devices, count) for count in tables.counts
    }
    assert chosen(tables, 0b1011, 3) == [0, 1, 3]
    assert tables.choose(0b1011, 4) == 0
    assert tables.choose(0b1011, 2, shunned=0b1) == 0b1010
    assert tables.order(0b1011) == (0, 1, 3)


def test_behind_switches_two_devices_that_do_not_reach_each_other_stay_apart() -> None:
    tables = Topology(switched(4), Family.LINKED, dead=((0, 1),)).tables
    assert chosen(tables, 0b1111, 2) == [0, 2]
    assert tables.choose(0b0011, 2) == 0
    assert not Topology(switched(4), Family.AWS, dead=((0, 1),)).any_set


@pytest.mark.parametrize("family", Family)
def test_more_than_sixteen_devices_go_singly_or_all_together(family: Family) -> None:
    circle = Fabric(FabricShape.IRREGULAR, ring(17).neighbours)
    tables = Topology(circle, family).tables
    assert tables.counts == (1, 17)
    assert chosen(tables, 0b110, 1) == [1]
    assert tables.choose(tables.full, 17) == tables.full
    assert tables.choose(tables.full - 1, 17) == 0
    assert tables.value(tables.full) == 0
    assert tables.largest(tables.full) == 17


def test_an_odd_graph_gives_its_best_connected_sets() -> None:
    tables = Topology(SQUARE_WITH_TAIL, Family.LINKED).tables
    assert [devices_of(each) for each in tables.sets[4]] == [(0, 1, 2, 3)]
    assert Topology(SQUARE_WITH_TAIL).tables.counts == (1, 5)


def test_of_sets_with_equally_many_links_an_odd_graph_gives_those_whose_members_are_nearest() -> None:
    star_with_tail = Fabric(FabricShape.IRREGULAR, ((4,), (4,), (3, 4), (2,), (0, 1, 2)))
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
    assert chosen(linked(), ALL, 4) == [0, 1, 2, 3]
    assert chosen(Topology(torus(), Family.LINKED, Locality(numa)).tables, ALL, 4) == [0, 1, 4, 5]
    assert chosen(Topology(torus(), Family.LINKED, Locality(numa, buses)).tables, ALL, 4) == [0, 1, 12, 13]


def test_tables_of_equal_topologies_are_shared() -> None:
    first, second = (Topology(torus(), Family.LINKED) for _ in range(2))
    assert first.tables is second.tables


@given(st.integers(1, ALL))
def test_every_set_is_connected(free: int) -> None:
    for count in linked().counts:
        assert all(connected(each, torus().masks) for each in linked().options(free, count))
