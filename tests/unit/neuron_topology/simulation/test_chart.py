"""The drawing: every mean and interval where the scale says, and all of it in words."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuron_topology.core.simulation import chart
from neuron_topology.core.simulation.chart import LEFT, RIGHT
from neuron_topology.core.simulation.policies import SelectionPolicy
from tests.unit.neuron_topology.simulation.findings import a_finding, both

shares = st.floats(0, 100)


def test_there_is_a_panel_for_every_measure_and_every_size() -> None:
    assert [panel.title for panel in chart.panels(both())] == [
        "utilisation",
        "fragmentation rejects",
        "accepted",
        "accepted of 1",
        "accepted of 4",
    ]


def test_rejects_are_drawn_from_zero_at_the_length_that_they_have() -> None:
    aws, linked = chart.panels(both(aws=0.04, linked=0.01))[1].dots
    assert (aws.x - LEFT) / (linked.x - LEFT) == pytest.approx(4, rel=0.001)
    assert (aws.high - aws.low) / (aws.x - LEFT) == pytest.approx(0.5, rel=0.001)
    assert (aws.policy, aws.value, aws.linked) == ("aws", "4.00", False)
    assert (linked.policy, linked.value, linked.linked) == ("linked", "1.00", True)
    assert aws.y < linked.y


def test_a_panel_says_in_words_what_it_draws() -> None:
    assert chart.panels(both())[1].label == "fragmentation rejects: aws 4.00 ±1.00 %; linked 1.00 ±1.00 %"


def test_no_interval_leaves_what_a_share_can_be() -> None:
    for panel in chart.panels(both(aws=0.001, linked=0.0)):
        for dot in panel.dots:
            assert LEFT <= dot.low <= dot.x <= dot.high <= RIGHT
    assert chart.panels(both())[3].ticks[-1].text == "100"


def test_a_single_run_is_drawn_without_interval() -> None:
    (dot,) = chart.panels([a_finding(SelectionPolicy.AWS, 0.04, half_width=None)])[1].dots
    assert not dot.interval
    assert dot.low == dot.x == dot.high


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 30.5, (0, 10, 20, 30, 40)),
        (93.3, 94.9, (93, 93.5, 94, 94.5, 95)),
        (99.7, 100, (99.7, 99.8, 99.9, 100)),
        (0, 0, (0, 0.1)),
        (100, 100, (99.9, 100)),
    ],
)
def test_the_scale_has_round_numbers(low: float, high: float, expected: tuple[float, ...]) -> None:
    assert chart.scale(low, high) == expected


@given(shares, shares)
def test_a_scale_holds_its_range_in_few_equal_steps_and_stays_a_share(one: float, other: float) -> None:
    low, high = sorted((one, other))
    ticks = chart.scale(low, high)
    assert 2 <= len(ticks) <= 5
    assert ticks[0] <= low + 1e-6
    assert ticks[-1] >= high - 1e-6
    assert ticks[0] >= 0
    assert ticks[-1] <= 100
    steps = [after - before for before, after in pairwise(ticks)]
    assert min(steps) > 0
    assert max(steps) - min(steps) < 1e-5
