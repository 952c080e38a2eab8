"""The five policies on one node of 16 devices."""

from __future__ import annotations

import pytest

from neuron_topology.hardware.fabric import devices_of, mask_of, ring, torus
from neuron_topology.simulation import policies
from neuron_topology.simulation.policies import Policy

ALL = 0xFFFF
SIZES = (1, 2, 4, 8, 16)


def granted(policy: Policy, size: int, free: int = ALL) -> tuple[int, ...]:
    return devices_of(policies.tables(policy, torus(), SIZES)[size][free])


@pytest.mark.parametrize(
    ("policy", "size", "busy", "expected"),
    [
        (Policy.AWS, 1, (), (0,)),
        (Policy.HAMI, 1, (), (15,)),
        (Policy.HAMI, 1, (15, 14), (13,)),
        (Policy.HAMI, 4, (), (0, 1, 2, 3)),
        (Policy.AWS, 4, (1, 6), (8, 9, 10, 11)),
        (Policy.AWS, 8, (1,), tuple(range(8, 16))),
        (Policy.AWS, 8, (1, 9), ()),
        (Policy.AWS_BEST_FIT, 4, (12,), (8, 9, 10, 11)),
        (Policy.LINKED_FIRST_FIT, 4, (), (0, 1, 2, 3)),
        (Policy.LINKED_FIRST_FIT, 8, (1,), (0, 3, 4, 7, 8, 11, 12, 15)),
        (Policy.LINKED_FIRST_FIT, 2, (1,), (0, 3)),
        (Policy.LINKED, 8, (0, 10), ()),
        (Policy.LINKED, 16, (), tuple(range(16))),
        (Policy.LINKED, 16, (3,), ()),
    ],
)
def test_what_is_granted(policy: Policy, size: int, busy: tuple[int, ...], expected: tuple[int, ...]) -> None:
    assert granted(policy, size, ALL & ~mask_of(busy)) == expected


@pytest.mark.parametrize("policy", [Policy.AWS, Policy.HAMI, Policy.AWS_BEST_FIT])
def test_pairs_are_never_granted_out_of_awss_sets(policy: Policy) -> None:
    assert granted(policy, 2) == ()


def test_the_best_fit_fills_the_corner_that_is_broken_already() -> None:
    free = ALL & ~mask_of([12, 13, 14])
    assert granted(Policy.LINKED_FIRST_FIT, 1, free) == (0,)
    assert granted(Policy.LINKED, 1, free) == (15,)


def test_singles_go_from_the_top_on_other_machines_too() -> None:
    assert devices_of(policies.tables(Policy.HAMI, ring(12), (1,))[1][0xFFF]) == (11,)


@pytest.mark.parametrize("policy", list(Policy))
def test_every_policy_says_what_it_does(policy: Policy) -> None:
    assert policy.words
