"""The jobs of a simulation: drawn from a mix at a load, or from a trace. Time has no unit of its own."""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, NamedTuple, Protocol


class SimulatedJob(NamedTuple):
    """A job: when it arrives, how many devices of one node it asks for, and how long it holds them."""

    arrival: float
    devices: int
    duration: float


@dataclass(frozen=True, slots=True)
class Mix:
    """How many of the jobs ask for how many devices: (devices, weight) by devices; only the weights' ratios matter."""

    name: str
    shares: tuple[tuple[int, float], ...]

    @property
    def devices(self) -> tuple[int, ...]:
        """The sizes that occur."""
        return tuple(devices for devices, _ in self.shares)

    @property
    def mean_devices(self) -> float:
        """The devices that a job asks for on average."""
        return sum(devices * weight for devices, weight in self.shares) / sum(weight for _, weight in self.shares)


@dataclass(frozen=True, slots=True)
class Durations:
    """Lognormal durations: their mean, and the standard deviation of their logarithm."""

    mean: float = 1.0
    sigma: float = 1.0


@dataclass(frozen=True, slots=True)
class Poisson:
    """``count`` jobs of a mix that arrive independently of each other.

    ``load`` is what they ask for on average as a multiple of what the cluster has: above 1 not all can be held.
    """

    mix: Mix
    load: float
    count: int
    durations: Durations = Durations()


@dataclass(frozen=True, slots=True)
class Trace:
    """Jobs as they came, by arrival; those that are counted do not all arrive at once."""

    name: str
    jobs: tuple[SimulatedJob, ...]


Workload = Poisson | Trace


class Randomness(Protocol):
    """What is used of ``random.Random``."""

    def expovariate(self, lambd: float, /) -> float:
        """A time between two events that come ``lambd`` times per unit of time."""

    def random(self) -> float:
        """A number from 0 to 1, without 1."""

    def lognormvariate(self, mu: float, sigma: float, /) -> float:
        """A number whose logarithm is normal."""


FOURS_AND_EIGHTS: Final = Mix("fours-and-eights", ((1, 0.15), (4, 0.45), (8, 0.35), (16, 0.05)))
SINGLES: Final = Mix("singles", ((1, 0.6), (4, 0.2), (8, 0.15), (16, 0.05)))
PAIRS: Final = Mix("pairs", ((1, 0.3), (2, 0.3), (4, 0.2), (8, 0.15), (16, 0.05)))

MIXES: Final = {mix.name: mix for mix in (FOURS_AND_EIGHTS, SINGLES, PAIRS)}
"""The mixes that come with the pack, by name."""


def sizes_of(workload: Workload) -> tuple[int, ...]:
    """How many devices jobs ask for, each number once, ascending."""
    if isinstance(workload, Poisson):
        return workload.mix.devices
    return tuple(sorted({job.devices for job in workload.jobs}))


def jobs_of(workload: Workload, randomness: Randomness, *, capacity: int) -> Sequence[SimulatedJob]:
    """The jobs of one run on a cluster of ``capacity`` devices."""
    return _drawn(workload, randomness, capacity) if isinstance(workload, Poisson) else workload.jobs


def _drawn(poisson: Poisson, randomness: Randomness, capacity: int) -> list[SimulatedJob]:
    durations = poisson.durations
    rate = poisson.load * capacity / (poisson.mix.mean_devices * durations.mean)
    mu = math.log(durations.mean) - durations.sigma**2 / 2
    sizes = poisson.mix.devices
    up_to = list(accumulate(weight for _, weight in poisson.mix.shares))
    now = 0.0
    jobs: list[SimulatedJob] = []
    for _ in range(poisson.count):
        now += randomness.expovariate(rate)
        devices = sizes[bisect(up_to, randomness.random() * up_to[-1])]
        jobs.append(SimulatedJob(now, devices, randomness.lognormvariate(mu, durations.sigma)))
    return jobs
