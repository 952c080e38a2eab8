"""Links, hops, rings and paths of sets, where the golden tables do not reach."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuron_topology.core.hardware.fabric import Fabric, FabricShape, devices_of, line, mask_of, ring, torus
from neuron_topology.core.sets.measures import connected, hops, path_through, ring_through

TORUS = torus().masks
LINE = line(6).masks
TRIANGLE = Fabric(FabricShape.IRREGULAR, ((1, 2), (0, 2), (0, 1), ()))


def test_nothing_is_not_connected() -> None:
    assert not connected(0, TORUS)
    assert not connected(0b101, LINE)


def test_a_single_device_has_no_hops() -> None:
    assert not any(hops(1, TORUS))


@pytest.mark.parametrize(
    ("devices", "neighbours", "path"),
    [
        ((0, 1), LINE, (0, 1)),
        ((2, 3, 4), LINE, (2, 3, 4)),
        ((0, 1, 2), TRIANGLE.masks, (0, 1, 2)),
        ((0, 1, 2, 6), TORUS, (0, 1, 2, 6)),
        ((0, 1, 3, 4), TORUS, ()),
        ((0, 1, 3, 4, 12), TORUS, ()),
        ((0, 2), LINE, ()),
    ],
)
def test_a_path_goes_from_link_to_link(
    devices: tuple[int, ...], neighbours: tuple[int, ...], path: tuple[int, ...]
) -> None:
    found = path_through(mask_of(devices), neighbours)
    assert sorted(found) == sorted(path)
    assert all(neighbours[one] >> other & 1 for one, other in pairwise(found))


def test_links_between_three_devices_make_a_ring_of_an_odd_number() -> None:
    assert ring_through(0b111, TRIANGLE.masks) == (0, 1, 2)
    assert ring_through(0b11, TRIANGLE.masks) == ()
    assert ring_through(mask_of(range(6)), LINE) == ()
    assert ring_through(mask_of(range(12)), ring(12).masks) == tuple(range(12))


def between(fewer: int, more: int) -> tuple[int, ...]:
    """The neighbours where each device of one class is linked to all of another, and to none of its own."""
    return ((((1 << more) - 1) << fewer),) * fewer + (((1 << fewer) - 1),) * more


def test_where_one_class_of_devices_is_too_large_no_way_is_searched() -> None:
    """There are so many beginnings of ways between 9 and 11 devices that a search would not end."""
    assert path_through((1 << 20) - 1, between(9, 11)) == ()
    assert ring_through((1 << 19) - 1, between(9, 10)) == ()


def test_ways_through_two_classes_take_them_in_turn() -> None:
    assert path_through(0b11111, between(2, 3)) == (2, 0, 3, 1, 4)
    assert path_through(0b1111, between(2, 2)) == (0, 2, 1, 3)
    assert ring_through(0b1111, between(2, 2)) == (0, 2, 1, 3)


@given(st.integers(1, (1 << 16) - 1))
def test_a_ring_or_path_visits_each_device_once(members: int) -> None:
    for found in (ring_through(members, TORUS), path_through(members, TORUS)):
        if found:
            assert sorted(found) == list(devices_of(members))
