"""Policies compared on the same jobs."""

from __future__ import annotations

import random

import pytest

from neuron_topology.core.hardware.instances import INSTANCE_TYPES
from neuron_topology.core.simulation import comparison, jobs, loss_system, policies
from neuron_topology.core.simulation.comparison import PolicyResult, SimulationSetting, Study
from neuron_topology.core.simulation.jobs import Poisson, SimulatedJob, Trace
from neuron_topology.core.simulation.policies import SelectionPolicy

TRN1 = INSTANCE_TYPES["trn1.32xlarge"]
TRACE = Trace("ours", tuple(SimulatedJob(float(at), 1 + 3 * (at % 2), 5.0) for at in range(40)))


def a_study(workload: jobs.Workload, *compared: SelectionPolicy, runs: int = 3, seed: int = 0, nodes: int = 1) -> Study:
    setting = SimulationSetting(instance=TRN1, nodes=nodes, workload=workload)
    return Study(settings=(setting,), policies=compared or tuple(SelectionPolicy), runs=runs, seed=seed)


def found(study: Study) -> tuple[PolicyResult, ...]:
    (findings,) = comparison.compare(study, random.Random)
    return findings


def test_policies_are_compared_in_their_order_on_the_same_jobs() -> None:
    first, again = found(
        a_study(Poisson(jobs.PAIRS, 1.0, 500), SelectionPolicy.LINKED, SelectionPolicy.LINKED_FIRST_FIT)
    )
    assert (first.policy, again.policy) == (SelectionPolicy.LINKED, SelectionPolicy.LINKED_FIRST_FIT)
    alone = found(a_study(Poisson(jobs.PAIRS, 1.0, 500), SelectionPolicy.LINKED))
    assert alone == (first,)


def test_the_same_seed_says_the_same_and_another_one_something_else() -> None:
    workload = Poisson(jobs.SINGLES, 1.0, 300)
    assert found(a_study(workload, seed=5)) == found(a_study(workload, seed=5))
    assert found(a_study(workload, seed=5)) != found(a_study(workload, seed=6))


def test_wider_sets_fragment_less() -> None:
    by_policy = {each.policy: each for each in found(a_study(Poisson(jobs.FOURS_AND_EIGHTS, 1.1, 2_000)))}
    aws, linked = by_policy[SelectionPolicy.AWS], by_policy[SelectionPolicy.LINKED]
    assert linked.frag_rejects.high < aws.frag_rejects.low
    assert linked.utilisation.mean > aws.utilisation.mean
    assert set(linked.acceptance_of) == {1, 4, 8, 16}


def test_a_short_trace_is_run_once_and_has_no_interval() -> None:
    study = a_study(TRACE, SelectionPolicy.AWS, runs=30)
    assert study.jobs == 40
    (only,) = found(study)
    assert only.acceptance.half_width is None
    assert only.acceptance.mean == 1.0


def test_the_parts_of_a_long_trace_say_how_uncertain_it_is() -> None:
    drawn = jobs.jobs_of(Poisson(jobs.SINGLES, 1.1, 2_000), random.Random(1), capacity=16)
    study = a_study(Trace("long", tuple(drawn)), SelectionPolicy.AWS)
    assert study.jobs == 2_000
    (only,) = found(study)
    assert only.acceptance.runs == comparison.PARTS
    (whole,) = loss_system.run(
        drawn, policies.tables(SelectionPolicy.AWS, TRN1.fabric, (1, 4, 8, 16)), nodes=1, devices=16
    )
    assert only.acceptance.mean == whole.acceptance
    assert only.utilisation.mean == whole.utilisation
    runs = found(a_study(Poisson(jobs.SINGLES, 1.1, 2_000), SelectionPolicy.AWS, runs=60, seed=7))[0]
    assert runs.acceptance.half_width is not None
    of_one_run = runs.acceptance.standard_error * 60**0.5
    assert only.acceptance.standard_error == pytest.approx(of_one_run, rel=0.6)
    assert abs(only.acceptance.mean - runs.acceptance.mean) < 3 * only.acceptance.standard_error


@pytest.mark.parametrize(("count", "parts"), [(222, 1), (223, comparison.PARTS)])
def test_a_trace_is_parted_by_the_jobs_of_it_that_count(count: int, parts: int) -> None:
    study = a_study(Trace("short", tuple(SimulatedJob(float(at), 1, 1.0) for at in range(count))))
    assert study.parts_of(study.settings[0]) == parts


def test_a_size_that_a_run_does_not_have_says_nothing_about_it() -> None:
    rare = jobs.Mix("rare", ((1, 0.97), (16, 0.03)))
    (only,) = found(a_study(Poisson(rare, 0.1, 40), SelectionPolicy.AWS, runs=10))
    assert only.acceptance_of[1].runs == 10
    assert 1 <= only.acceptance_of[16].runs < 10


def test_progress_adds_up_to_all_jobs() -> None:
    study = a_study(Poisson(jobs.SINGLES, 1.0, 100), SelectionPolicy.AWS, SelectionPolicy.HAMI)
    told: list[int] = []
    for _ in comparison.compare(study, random.Random, told.append):
        pass
    assert sum(told) == study.jobs == 600
    assert len(told) == 6


def test_the_capacity_is_that_of_all_nodes() -> None:
    study = a_study(Poisson(jobs.SINGLES, 1.0, 10), nodes=3)
    assert study.settings[0].capacity == 48
    with pytest.raises(AttributeError):
        study.settings[0].nodes = 4  # type: ignore[misc]
