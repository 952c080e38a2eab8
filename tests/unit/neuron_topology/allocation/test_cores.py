"""Runs of neighbouring cores on one device."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuron_topology.core.sets.cores import longest_run, run_of


@pytest.mark.parametrize(
    ("free", "count", "run"),
    [
        (0b11, 1, 0b01),
        (0b10, 1, 0b10),
        (0b11, 2, 0b11),
        (0b01, 2, 0),
        (0, 1, 0),
        (0b1011, 1, 0b1000),  # the pair stays whole
        (0b1110, 2, 0b1100),  # starts at a multiple of two
        (0b0110, 2, 0b0110),  # nothing else is left
        (0b1111_1011, 2, 0b0000_0011),  # the shorter stretch
        (0b0111_0110, 1, 0b0000_0010),  # the shorter stretch, and the lower of its cores
        (0b1111_1100, 4, 0b1111_0000),
        (0b0111, 3, 0b0111),
    ],
)
def test_a_run_starts_evenly_and_leaves_the_longest_stretches(free: int, count: int, run: int) -> None:
    assert run_of(free, count) == run


@given(free=st.integers(0, 255), count=st.integers(1, 9))
def test_a_run_is_free_and_of_its_length_and_found_exactly_if_there_is_one(free: int, count: int) -> None:
    run = run_of(free, count)
    assert bool(run) is (longest_run(free) >= count)
    assert run & ~free == 0
    if run:
        assert run.bit_count() == count
        assert longest_run(run) == count
