"""The order in which devices are tried."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_plugins.engine.order import arranged, device_scores
from hami_plugins.model.devices import Device, DeviceUsage
from hami_plugins.model.policy import Policy, SortKey, Weights
from hami_plugins.model.requests import Percent
from tests.builders import a_device, a_request, used

IDLE = DeviceUsage()


def tried(
    *keys: SortKey, devices: list[Device], usage: list[DeviceUsage] | None = None, arrangement: list[int] | None = None
) -> list[int]:
    known = usage or [IDLE] * len(devices)
    return arranged(arrangement or range(len(devices)), devices, known, Policy(order=keys), (a_request(),))


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (SortKey.LEAST_SCORE, [2, 0, 1]),
        (SortKey.MOST_SCORE, [1, 0, 2]),
        (SortKey.LOW_NUMA, [1, 0, 2]),
        (SortKey.HIGH_NUMA, [2, 0, 1]),
        (SortKey.LEAST_SHARED, [2, 1, 0]),
        (SortKey.MOST_MEMORY, [1, 0, 2]),
        (SortKey.LOW_INDEX, [2, 0, 1]),
        (SortKey.HIGH_INDEX, [1, 0, 2]),
        (SortKey.FIRST, [0, 1, 2]),
        (SortKey.LAST, [2, 1, 0]),
    ],
)
def test_each_sort_key_puts_its_own_device_first(key: SortKey, expected: list[int]) -> None:
    devices = [a_device(index=4, numa=1), a_device(index=9, numa=0), a_device(index=2, numa=7)]
    usage = [used(3, 100), used(2, 9_000), used(1)]
    assert tried(key, devices=devices, usage=usage) == expected


def test_later_keys_decide_between_equals() -> None:
    devices = [a_device(numa=1), a_device(numa=0), a_device(numa=1)]
    assert tried(SortKey.HIGH_NUMA, SortKey.LAST, devices=devices) == [2, 0, 1]
    assert tried(SortKey.HIGH_NUMA, SortKey.FIRST, devices=devices) == [0, 2, 1]


def test_equals_go_by_the_arrangement_that_they_are_in() -> None:
    devices = [a_device()] * 3
    assert tried(SortKey.LEAST_SHARED, SortKey.LAST, devices=devices, arrangement=[1, 2, 0]) == [0, 2, 1]


def test_a_score_is_ten_times_the_used_parts_with_the_request_on_top() -> None:
    device = a_device(model="Acme", slots=10, memory=1_000, cores=100)
    request = a_request(memory=250, cores=20)
    assert device_scores([device], [used(4, 500, 30)], Weights(), (request,)) == [17.5]
    assert device_scores([device], [used(4, 500, 30)], Weights(), (request, request)) == pytest.approx([23.0])


def test_a_request_counts_only_on_cards_whose_model_is_spelled_like_the_vendor() -> None:
    card = a_device(model="Acme Two", memory=1_000)
    assert device_scores([card], [used(5)], Weights(), (a_request(memory=500),)) == [5.0]


def test_a_percentage_counts_as_what_it_means_on_the_card() -> None:
    card = a_device(slots=10, memory=1_000, cores=100)
    assert device_scores([card], [IDLE], Weights(), (a_request(memory=Percent(40)),)) == [5.0]
    assert device_scores([card], [IDLE], Weights(), (a_request(memory=Percent(0)),)) == [1.0]


@pytest.mark.parametrize("card", [a_device(slots=0), a_device(memory=0), a_device(cores=0)])
def test_a_card_that_lacks_a_dimension_scores_nothing(card: Device) -> None:
    assert device_scores([card], [used(5, 500, 50)], Weights(), (a_request(),)) == [0.0]


def test_weights_multiply_their_own_part() -> None:
    card, usage = a_device(model="other", slots=10, memory=1_000, cores=100), [used(5, 250, 10)]
    assert device_scores([card], usage, Weights(slot=2, core=1, memory=1), ()) == pytest.approx([13.5])
    assert device_scores([card], usage, Weights(slot=1, core=5, memory=1), ()) == pytest.approx([12.5])
    assert device_scores([card], usage, Weights(slot=1, core=1, memory=0), ()) == pytest.approx([6.0])


def test_scores_are_those_of_32_bit_floats() -> None:
    """A third is not a third there, and sums that differ in 64 bits may be equal."""
    card = a_device(model="other", slots=3, memory=3, cores=3)
    (score,) = device_scores([card], [used(1)], Weights(), ())
    assert score != 10 / 3
    assert score == pytest.approx(10 / 3, rel=1e-7)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 16_000), st.integers(0, 100)), min_size=1, max_size=9))
def test_every_device_is_tried_once_whatever_is_promised(load: list[tuple[int, int, int]]) -> None:
    usage = [used(*each) for each in load]
    found = tried(SortKey.LEAST_SCORE, SortKey.LAST, devices=[a_device()] * len(load), usage=usage)
    assert sorted(found) == list(range(len(load)))


@pytest.mark.parametrize("shortage", ["slots", "memory", "cores"])
def test_a_card_that_lacks_a_dimension_does_not_spoil_the_scores_of_others(shortage: str) -> None:
    card = replace(a_device(model="x"), **{shortage: 0})  # type: ignore[arg-type]
    other = a_device(model="x", slots=10, memory=1_000, cores=100)
    assert device_scores([card, other], [used(1), used(5)], Weights(), (a_request(),)) == [0.0, 5.0]
