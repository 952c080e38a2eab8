"""Means and their intervals."""

from __future__ import annotations

import random
import statistics

import pytest

from neuron_topology.core.simulation.estimates import Estimate, estimate, quantile


def test_one_run_has_a_mean_and_no_interval() -> None:
    found = estimate([0.25])
    assert found == Estimate(0.25, None, 1)
    assert (found.low, found.high, found.standard_error) == (0.25, 0.25, 0.0)


def test_the_interval_is_students() -> None:
    found = estimate([1.0, 2.0, 3.0])
    assert found.mean == 2.0
    assert found.half_width == pytest.approx(4.303 / 3**0.5)
    assert found.standard_error == pytest.approx(1 / 3**0.5)
    assert found.low == pytest.approx(2 - 4.303 / 3**0.5)
    assert found.high == pytest.approx(2 + 4.303 / 3**0.5)


def test_a_mean_of_unequal_parts_keeps_the_interval_of_their_differences() -> None:
    assert estimate([1.0, 2.0, 3.0], mean=2.5) == Estimate(2.5, estimate([1.0, 2.0, 3.0]).half_width, 3)


@pytest.mark.parametrize(("degrees", "expected"), [(1, 12.706), (30, 2.042), (40, 2.021), (100, 1.984), (10**6, 1.96)])
def test_quantiles_are_those_of_the_tables(degrees: int, expected: float) -> None:
    assert quantile(degrees) == pytest.approx(expected, abs=0.003)


@pytest.mark.parametrize("runs", [3, 10, 40])
def test_about_every_twentieth_interval_misses_the_truth(runs: int) -> None:
    source = random.Random(runs)
    found = [estimate([source.gauss(5, 2) for _ in range(runs)]) for _ in range(4_000)]
    missed = statistics.fmean(not each.low <= 5 <= each.high for each in found)
    assert missed == pytest.approx(0.05, abs=0.012)
