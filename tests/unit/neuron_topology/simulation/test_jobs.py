"""The jobs of a simulation: sizes by the shares of the mix, arrivals by the load, durations lognormal."""

from __future__ import annotations

import math
import random
import statistics

import pytest

from neuron_topology.core.simulation import jobs
from neuron_topology.core.simulation.jobs import Durations, Mix, Poisson, SimulatedJob, Trace

MANY = 40_000


def drawn(*, load: float = 1.0, durations: Durations = Durations(), seed: int = 1) -> list[SimulatedJob]:  # noqa: B008 - frozen
    workload = Poisson(jobs.PAIRS, load, MANY, durations)
    return list(jobs.jobs_of(workload, random.Random(seed), capacity=128))


def test_sizes_are_drawn_by_the_shares_of_the_mix() -> None:
    sizes = [job.devices for job in drawn()]
    for size, share in jobs.PAIRS.shares:
        assert sizes.count(size) / MANY == pytest.approx(share, abs=0.01)


@pytest.mark.parametrize("mix", [Mix("one in four", ((1, 3), (8, 1))), Mix("the same", ((1, 0.75), (8, 0.25)))])
def test_only_the_ratios_of_weights_matter(mix: Mix) -> None:
    assert mix.mean_devices == 2.75
    found = jobs.jobs_of(Poisson(mix, 1.0, 1_000), random.Random(1), capacity=16)
    assert [job.devices for job in found].count(8) == pytest.approx(250, abs=40)


@pytest.mark.parametrize("load", [0.5, 2.0])
def test_the_work_that_arrives_is_the_load_times_what_the_cluster_has(load: float) -> None:
    found = drawn(load=load, durations=Durations(mean=3.0, sigma=0.5))
    work = sum(job.devices * job.duration for job in found)
    assert work / found[-1].arrival / 128 == pytest.approx(load, rel=0.03)


def test_durations_are_lognormal_with_their_mean_and_sigma() -> None:
    durations = [job.duration for job in drawn(durations=Durations(mean=2.0, sigma=0.5))]
    assert statistics.fmean(durations) == pytest.approx(2.0, rel=0.02)
    assert statistics.median(durations) == pytest.approx(2.0 * 2.718281828 ** (-(0.5**2) / 2), rel=0.02)


def test_equal_seeds_draw_equal_jobs() -> None:
    assert drawn(seed=3) == drawn(seed=3)
    assert drawn(seed=3) != drawn(seed=4)


def test_a_trace_is_what_it_is() -> None:
    trace = Trace("ours", (SimulatedJob(0.0, 4, 1.0), SimulatedJob(1.0, 1, 1.0), SimulatedJob(1.0, 4, 2.0)))
    assert jobs.jobs_of(trace, random.Random(1), capacity=16) == trace.jobs
    assert jobs.sizes_of(trace) == (1, 4)


@pytest.mark.parametrize("mix", jobs.MIXES.values(), ids=lambda mix: mix.name)
def test_the_mixes_of_the_pack_are_shares_of_one(mix: Mix) -> None:
    assert sum(weight for _, weight in mix.shares) == pytest.approx(1.0)
    assert jobs.sizes_of(Poisson(mix, 1.0, 1)) == tuple(sorted(mix.devices))


class Highest:
    """Always the largest number below 1, and times of 1."""

    def random(self) -> float:
        return math.nextafter(1, 0)

    def expovariate(self, lambd: float, /) -> float:
        return 1.0

    def lognormvariate(self, mu: float, sigma: float, /) -> float:
        return 1.0


@pytest.mark.parametrize("weights", [(0.1, 0.1), (0.1, 0.2), (1e-9, 1e-9), (0.7, 0.1)])
def test_the_last_size_is_drawn_at_the_very_end_however_weights_are_rounded(weights: tuple[float, float]) -> None:
    mix = Mix("two", ((1, weights[0]), (4, weights[1])))
    (job,) = jobs.jobs_of(Poisson(mix, 1.0, 1), Highest(), capacity=16)
    assert job == SimulatedJob(1.0, 4, 1.0)
