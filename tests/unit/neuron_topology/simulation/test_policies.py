"""The five policies on one node of 16 devices."""

from __future__ import annotations

import pytest

from neuron_topology.core.hardware.fabric import devices_of, mask_of, ring, torus
from neuron_topology.core.simulation import policies
from neuron_topology.core.simulation.policies import SelectionPolicy

ALL = 0xFFFF
SIZES = (1, 2, 4, 8, 16)


def allocated(policy: SelectionPolicy, size: int, free: int = ALL) -> tuple[int, ...]:
    return devices_of(policies.tables(policy, torus(), SIZES)[size][free])


@pytest.mark.parametrize(
    ("policy", "size", "busy", "expected"),
    [
        (SelectionPolicy.AWS, 1, (), (0,)),
        (SelectionPolicy.HAMI, 1, (), (15,)),
        (SelectionPolicy.HAMI, 1, (15, 14), (13,)),
        (SelectionPolicy.HAMI, 4, (), (0, 1, 2, 3)),
        (SelectionPolicy.AWS, 4, (1, 6), (8, 9, 10, 11)),
        (SelectionPolicy.AWS, 8, (1,), tuple(range(8, 16))),
        (SelectionPolicy.AWS, 8, (1, 9), ()),
        (SelectionPolicy.AWS_BEST_FIT, 4, (12,), (8, 9, 10, 11)),
        (SelectionPolicy.LINKED_FIRST_FIT, 4, (), (0, 1, 2, 3)),
        (SelectionPolicy.LINKED_FIRST_FIT, 8, (1,), (0, 3, 4, 7, 8, 11, 12, 15)),
        (SelectionPolicy.LINKED_FIRST_FIT, 2, (1,), (0, 3)),
        (SelectionPolicy.LINKED, 8, (0, 10), ()),
        (SelectionPolicy.LINKED, 16, (), tuple(range(16))),
        (SelectionPolicy.LINKED, 16, (3,), ()),
    ],
)
def test_what_is_allocated(
    policy: SelectionPolicy, size: int, busy: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    assert allocated(policy, size, ALL & ~mask_of(busy)) == expected


@pytest.mark.parametrize("policy", [SelectionPolicy.AWS, SelectionPolicy.HAMI, SelectionPolicy.AWS_BEST_FIT])
def test_pairs_are_never_allocated_out_of_awss_sets(policy: SelectionPolicy) -> None:
    assert allocated(policy, 2) == ()


def test_the_best_fit_fills_the_corner_that_is_broken_already() -> None:
    free = ALL & ~mask_of([12, 13, 14])
    assert allocated(SelectionPolicy.LINKED_FIRST_FIT, 1, free) == (0,)
    assert allocated(SelectionPolicy.LINKED, 1, free) == (15,)


def test_singles_go_from_the_top_on_other_machines_too() -> None:
    assert devices_of(policies.tables(SelectionPolicy.HAMI, ring(12), (1,))[1][0xFFF]) == (11,)


@pytest.mark.parametrize("policy", list(SelectionPolicy))
def test_every_policy_says_what_it_does(policy: SelectionPolicy) -> None:
    assert policy.words
