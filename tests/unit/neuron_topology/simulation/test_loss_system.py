"""The loss system, step by step and as laws over random histories."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuron_topology.core.hardware.fabric import ring, torus
from neuron_topology.core.simulation import loss_system, policies
from neuron_topology.core.simulation.jobs import SimulatedJob
from neuron_topology.core.simulation.loss_system import AllocationTable, Nodes, SimulationOutcome
from neuron_topology.core.simulation.policies import SelectionPolicy

SIZES = (1, 2, 4, 8, 16)


def a_run(
    *jobs: tuple[float, int, float], policy: SelectionPolicy = SelectionPolicy.AWS, nodes: int = 1, warm_up: float = 0.0
) -> SimulationOutcome:
    found = [SimulatedJob(*job) for job in jobs]
    tables = policies.tables(SelectionPolicy.AWS, torus(), SIZES)
    (outcome,) = loss_system.run(found, tables, nodes=nodes, devices=16, warm_up=warm_up)
    return outcome


def test_what_no_node_can_hold_is_rejected_and_not_waited_for() -> None:
    outcome = a_run((0, 16, 10), (1, 1, 1), (20, 1, 1))
    assert outcome.offered == {16: 1, 1: 2}
    assert outcome.accepted == {16: 1, 1: 1}
    assert outcome.fragmented == 0


def test_rejected_for_its_fragments_is_what_some_node_has_devices_enough_for() -> None:
    assert a_run((0, 1, 10), (1, 8, 10), (2, 8, 1)).fragmented == 0
    outcome = a_run((0, 1, 10), (1, 8, 10), (2, 4, 10), (3, 1, 10), (4, 2, 10))
    assert outcome.accepted == {1: 2, 8: 1, 4: 1, 2: 0}
    assert outcome.fragmented == 1


def test_a_departure_at_the_time_of_an_arrival_comes_first() -> None:
    assert a_run((0, 16, 5), (5, 16, 1)).accepted == {16: 2}
    assert a_run((0, 16, 5.1), (5, 16, 1)).accepted == {16: 1}


def test_use_is_averaged_over_time() -> None:
    assert a_run((0, 16, 5), (10, 1, 1)).utilisation == pytest.approx(0.5)
    assert a_run((0, 4, 100), (10, 1, 1)).utilisation == pytest.approx(0.25)


def test_what_is_in_use_before_the_warm_up_ends_counts_after_it() -> None:
    outcome = a_run((0, 8, 100), (10, 1, 1), (20, 1, 1), (30, 1, 1), warm_up=0.5)
    assert outcome.offered == {1: 2}
    assert outcome.utilisation == pytest.approx((8 * 10 + 1) / 160)


def test_a_run_can_be_told_of_in_parts_that_make_up_the_whole() -> None:
    tables = policies.tables(SelectionPolicy.AWS, torus(), SIZES)
    jobs = [SimulatedJob(float(at), (1, 4, 8)[at % 3], 7.5) for at in range(50)]
    parts = loss_system.run(jobs, tables, nodes=1, devices=16, parts=4)
    assert [sum(part.offered.values()) for part in parts] == [11, 11, 11, 12]
    (together,) = loss_system.run(jobs, tables, nodes=1, devices=16)
    assert loss_system.whole(parts) == together
    assert len({part.acceptance for part in parts}) > 1


def test_a_part_without_time_or_without_jobs_of_a_size_says_nothing_of_them() -> None:
    tables = policies.tables(SelectionPolicy.AWS, torus(), SIZES)
    jobs = [SimulatedJob(0.0, 1, 1.0), SimulatedJob(0.0, 1, 1.0), SimulatedJob(0.0, 4, 1.0), SimulatedJob(9.0, 4, 1.0)]
    early, late = loss_system.run(jobs, tables, nodes=1, devices=16, warm_up=0.0, parts=2)
    assert (early.utilisation, early.acceptance_of(4)) == (None, None)
    assert late.utilisation is not None
    assert (late.acceptance_of(4), late.acceptance_of(1)) == (1.0, None)


def test_every_arrival_and_every_departure_before_the_last_arrival_is_an_event() -> None:
    assert a_run((0, 1, 1), (0.5, 1, 100), (5, 1, 1)).events == 4


def test_the_fullest_node_that_has_a_set_takes_a_job_and_of_equals_the_first() -> None:
    nodes, tables = Nodes(3, 16), policies.tables(SelectionPolicy.AWS, torus(), SIZES)
    assert nodes.take(tables[8], 8) == (0, 0x00FF)
    assert nodes.take(tables[16], 16) == (1, 0xFFFF)
    assert nodes.take(tables[1], 1) == (0, 0x0100)
    assert nodes.take(tables[8], 8) == (2, 0x00FF)
    assert nodes.take(tables[4], 4) == (0, 0xF000)
    assert nodes.take(tables[8], 8) == (2, 0xFF00)
    assert nodes.take(tables[4], 4) is None
    assert not nodes.has_room(4)
    assert nodes.has_room(3)


def test_a_node_with_devices_but_no_set_is_passed_over() -> None:
    nodes, tables = Nodes(2, 16), policies.tables(SelectionPolicy.AWS, torus(), SIZES)
    first = nodes.take(tables[1], 1)
    assert first is not None
    assert nodes.take(tables[8], 8) == (0, 0xFF00)
    assert nodes.take(tables[8], 8) == (1, 0x00FF)
    nodes.give_back(first, 1)
    assert nodes.take(tables[8], 8) == (0, 0x00FF)


times = st.floats(0, 20, allow_nan=False)
some_jobs = st.lists(st.tuples(times, st.sampled_from(SIZES), times), min_size=2, max_size=60).filter(
    lambda found: len({arrival for arrival, _, _ in found}) > 1
)


class _Watched(dict[int, int]):
    """A table that counts what it allocates of a mask."""

    def __init__(self, table: AllocationTable, size: int) -> None:
        super().__init__()
        self._table, self._size = table, size

    def __missing__(self, free: int) -> int:
        allocated = self._table[free]
        assert allocated & ~free == 0
        assert allocated == 0 or allocated.bit_count() == self._size
        return allocated


@given(st.sampled_from(list(SelectionPolicy)), some_jobs, st.integers(1, 4))
def test_only_free_devices_are_allocated_and_nothing_is_lost(
    policy: SelectionPolicy, raw: list[tuple[float, int, float]], nodes: int
) -> None:
    jobs = sorted(SimulatedJob(*each) for each in raw)
    tables: Mapping[int, AllocationTable] = {
        size: _Watched(table, size) for size, table in policies.tables(policy, torus(), SIZES).items()
    }
    (outcome,) = loss_system.run(jobs, tables, nodes=nodes, devices=16, warm_up=0.0)
    assert sum(outcome.offered.values()) == len(jobs)
    assert all(0 <= outcome.accepted[size] <= count for size, count in outcome.offered.items())
    assert 0 <= outcome.fragmented <= len(jobs) - sum(outcome.accepted.values())
    assert outcome.utilisation is not None
    assert 0 <= outcome.utilisation <= 1 + 1e-9


@given(st.sampled_from(list(SelectionPolicy)), st.lists(st.tuples(st.sampled_from((1, 4)), st.booleans()), max_size=40))
def test_everything_given_back_makes_the_nodes_new(policy: SelectionPolicy, steps: list[tuple[int, bool]]) -> None:
    nodes, tables = Nodes(2, 16), policies.tables(policy, torus(), SIZES)
    held = []
    for size, gives_back in steps:
        allocation = nodes.take(tables[size], size)
        if allocation is not None:
            held.append((allocation, size))
        if gives_back and held:
            nodes.give_back(*held.pop(0))
    for allocation, size in held:
        nodes.give_back(allocation, size)
    assert nodes.take(tables[16], 16) == (0, 0xFFFF)
    assert nodes.take(tables[16], 16) == (1, 0xFFFF)


def test_other_machines_than_a_torus_can_be_simulated() -> None:
    tables = policies.tables(SelectionPolicy.LINKED, ring(12), (12, 3))
    (outcome,) = loss_system.run(
        [SimulatedJob(0, 3, 9), SimulatedJob(1, 12, 1), SimulatedJob(2, 3, 1)], tables, nodes=1, devices=12, warm_up=0.0
    )
    assert outcome.accepted == {3: 2, 12: 0}
