"""How many sets fit on a node, and which one is shared: never at the price of another that there is room for."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuron_topology.core.gangs.shared_sets import room, shared_set
from neuron_topology.core.hardware.fabric import mask_of
from neuron_topology.core.hardware.instances import INSTANCE_TYPES
from neuron_topology.core.sets.families import Family
from neuron_topology.core.sets.tables import Tables, Topology

ALL = 0xFFFF
TORUS = INSTANCE_TYPES["trn1.32xlarge"].fabric
LINKED = Topology(TORUS, Family.LINKED).tables
AWS = Topology(TORUS, Family.AWS).tables
SWITCHED = Topology(INSTANCE_TYPES["trn3.48xlarge"].fabric).tables
RING = Topology(INSTANCE_TYPES["inf2.48xlarge"].fabric, Family.LINKED).tables


@pytest.mark.parametrize(
    ("tables", "free", "count", "most"),
    [
        (LINKED, ALL, 4, 4),
        (LINKED, ALL, 8, 2),
        (LINKED, ALL, 16, 1),
        (LINKED, ALL, 2, 8),
        (LINKED, ALL, 3, 5),
        (LINKED, ALL & ~mask_of([0, 2, 5, 11, 13]), 4, 0),
        (LINKED, ALL & ~mask_of([0, 10]), 8, 0),
        (LINKED, mask_of([0, 4, 8, 12, 1, 5, 9, 13]), 8, 1),
        (AWS, mask_of([0, 4, 8, 12, 1, 5, 9, 13]), 4, 0),
        (AWS, ALL, 4, 4),
        (AWS, ALL, 2, 0),
        (AWS, 0b1011, 1, 3),
        (RING, mask_of([11, 0, 1, 2]), 2, 2),
        (LINKED, 0, 4, 0),
        (SWITCHED, ALL & ~mask_of([0, 2, 5, 11, 13]), 4, 2),
        (SWITCHED, 0b111, 4, 0),
    ],
)
def test_room_is_counted_in_sets(tables: Tables, free: int, count: int, most: int) -> None:
    assert room(tables, free, count) == most


@given(free=st.integers(0, ALL), count=st.sampled_from([2, 4, 8]))
def test_room_is_what_trying_everything_finds(free: int, count: int) -> None:
    sets = LINKED.options(free, count)
    found = room(LINKED, free, count)
    assert found == 0 or any(_apart(each) for each in combinations(sets, found))
    if len(sets) <= 24 and found < 4:
        assert not any(_apart(each) for each in combinations(sets, found + 1))


def _apart(sets: tuple[int, ...]) -> bool:
    together = 0
    for each in sets:
        if together & each:
            return False
        together |= each
    return True


@given(
    nodes=st.lists(st.integers(0, ALL), min_size=1, max_size=4),
    count=st.sampled_from([1, 2, 4, 8]),
    order=st.randoms(use_true_random=False),
)
def test_a_job_gets_as_many_sets_as_there_is_room_for_in_whatever_order_nodes_are_chosen(
    nodes: list[int], count: int, order: st.DataObject
) -> None:
    free = list(nodes)
    promised = sum(room(LINKED, each, count) for each in nodes)
    given_: list[tuple[int, int]] = []
    while left := [at for at, each in enumerate(free) if room(LINKED, each, count)]:
        at = order.choice(left)  # type: ignore[attr-defined]
        taken: dict[int, int] = {}
        for other, members in given_:
            if other != at:
                taken[members] = taken.get(members, 0) + 1
        elsewhere: dict[int, int] = {}
        for other, each in enumerate(free):
            if other != at:
                elsewhere[each] = elsewhere.get(each, 0) + 1
        chosen = shared_set(LINKED, free[at], count, taken, elsewhere)
        assert chosen in LINKED.options(free[at], count)
        free[at] &= ~chosen
        given_.append((at, chosen))
    assert len(given_) == promised


def test_what_the_others_have_comes_first() -> None:
    column = mask_of([1, 5, 9, 13])
    assert shared_set(LINKED, ALL, 4, {column: 1}, {}) == column
    assert shared_set(LINKED, ALL & ~1 << 1, 4, {column: 1}, {}) != column


def test_before_anybody_has_one_it_is_what_most_nodes_could_give() -> None:
    row = mask_of(range(4, 8))
    assert shared_set(LINKED, ALL, 4, {}, {row: 2, ALL: 1}) == row


def test_repaired_devices_come_last_among_equals() -> None:
    worn = mask_of(range(12))
    assert shared_set(LINKED, ALL, 4, {}, {}, worn) == mask_of(range(12, 16))


def test_where_nothing_is_free_there_is_none() -> None:
    assert shared_set(LINKED, 0, 4, {}, {}) == 0


@given(
    free=st.integers(0, ALL),
    count=st.sampled_from([2, 3, 4, 8]),
    others=st.dictionaries(st.integers(0, ALL), st.just(3)),
)
def test_a_set_for_a_range_of_cores_has_neighbouring_numbers_and_costs_no_other(
    free: int, count: int, others: dict[int, int]
) -> None:
    chosen = shared_set(LINKED, free, count, others, {}, run=True)
    left = room(LINKED, free, count, True)
    assert bool(chosen) is bool(left)
    if chosen:
        assert chosen in LINKED.runs(count)
        assert chosen & ~free == 0
        assert room(LINKED, free & ~chosen, count, True) == left - 1


@given(free=st.lists(st.integers(0, ALL), min_size=2, max_size=3), count=st.sampled_from([2, 4, 8]))
def test_a_set_that_costs_no_node_another_is_found_where_there_is_one(free: list[int], count: int) -> None:
    def costs_nothing(mask: int, members: int) -> bool:
        return members & ~mask == 0 and room(LINKED, mask & ~members, count) == room(LINKED, mask, count) - 1

    common = {each for each in LINKED.sets[count] if all(costs_nothing(mask, each) for mask in free)}
    first = shared_set(LINKED, free[0], count, {}, Counter(free[1:]))
    if common:
        assert first in common
        for mask in free[1:]:
            assert shared_set(LINKED, mask, count, {first: 1}, {}) == first


@pytest.mark.parametrize(
    ("free", "count", "others", "elsewhere", "shunned", "shared"),
    [
        (0b111101, 2, {0b011: 1, 0b100100: 1, 0b110000: 2}, {}, 0, 0b110000),
        (0b111101, 2, {0b011: 3}, {0b110000: 2, 0b101000: 1}, 0, 0b110000),
        (0b111101, 2, {0b1: 3}, {}, 0b1, 0b1100),
        (0b111101, 6, {}, {}, 0, 0),
    ],
    ids=["what most have", "what most could give", "sound ones first", "too few"],
)
def test_behind_switches_members_get_the_same_devices(  # noqa: PLR0917 - a case
    free: int, count: int, others: dict[int, int], elsewhere: dict[int, int], shunned: int, shared: int
) -> None:
    assert shared_set(SWITCHED, free, count, others, elsewhere, shunned) == shared
