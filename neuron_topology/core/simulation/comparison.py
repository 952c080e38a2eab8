"""Policies on the same jobs: many runs, each with its own jobs, the same for every policy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from neuron_topology.core.hardware.instances import InstanceType
from neuron_topology.core.simulation import loss_system, policies
from neuron_topology.core.simulation.estimates import Estimate, estimate
from neuron_topology.core.simulation.jobs import Poisson, Randomness, Trace, Workload, jobs_of, sizes_of
from neuron_topology.core.simulation.loss_system import SimulationOutcome
from neuron_topology.core.simulation.policies import SelectionPolicy

PARTS: Final = 10
"""Parts of a trace whose differences say how uncertain its figures are."""

JOBS_OF_A_PART: Final = 20
"""The fewest jobs of such a part; a shorter trace is reported as a whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationSetting:
    """A cluster of equal nodes, and the jobs that come to it."""

    instance: InstanceType
    nodes: int
    workload: Workload

    @property
    def capacity(self) -> int:
        """The devices of all nodes."""
        return self.nodes * self.instance.devices


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """What is to be compared. Run n of a setting draws its jobs from ``seed + n``; ``warm_up`` is not counted."""

    settings: tuple[SimulationSetting, ...]
    policies: tuple[SelectionPolicy, ...]
    runs: int = 30
    seed: int = 0
    warm_up: float = 0.1

    def runs_of(self, setting: SimulationSetting) -> int:
        """How often a setting is run: a trace is the same every time."""
        return self.runs if isinstance(setting.workload, Poisson) else 1

    def parts_of(self, setting: SimulationSetting) -> int:
        """The number of parts in which a run is reported: a long trace in ``PARTS``, because it has no second run to
        compare with.
        """
        counted = _count(setting.workload) * (1 - self.warm_up)
        return PARTS if isinstance(setting.workload, Trace) and counted >= PARTS * JOBS_OF_A_PART else 1

    @property
    def jobs(self) -> int:
        """The jobs of all runs and policies together."""
        return sum(self.runs_of(each) * _count(each.workload) for each in self.settings) * len(self.policies)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyResult:
    """How one policy does in one setting.

    ``frag_rejects`` is the share of all jobs that are rejected although some node has enough free devices,
    ``acceptance`` the share that is accepted, ``acceptance_of`` the same of the jobs of each size.
    """

    setting: SimulationSetting
    policy: SelectionPolicy
    utilisation: Estimate
    frag_rejects: Estimate
    acceptance: Estimate
    acceptance_of: Mapping[int, Estimate]


def compare(
    study: Study, randomness: Callable[[int], Randomness], advance: Callable[[int], None] = lambda _jobs: None
) -> Iterator[tuple[PolicyResult, ...]]:
    """The findings of each setting, in the order of the study's policies.

    ``randomness`` makes a source of random numbers from a seed; ``advance`` is called with the number of finished jobs.
    """
    for setting in study.settings:
        yield _compared(study, setting, randomness, advance)


def _compared(
    study: Study, setting: SimulationSetting, randomness: Callable[[int], Randomness], advance: Callable[[int], None]
) -> tuple[PolicyResult, ...]:
    sizes, fabric = sizes_of(setting.workload), setting.instance.fabric
    tables = {policy: policies.tables(policy, fabric, sizes) for policy in study.policies}
    outcomes: dict[SelectionPolicy, list[SimulationOutcome]] = {policy: [] for policy in study.policies}
    for number in range(study.runs_of(setting)):
        jobs = jobs_of(setting.workload, randomness(study.seed + number), capacity=setting.capacity)
        for policy in study.policies:
            outcomes[policy] += loss_system.run(
                jobs,
                tables[policy],
                nodes=setting.nodes,
                devices=setting.instance.devices,
                warm_up=study.warm_up,
                parts=study.parts_of(setting),
            )
            advance(len(jobs))
    return tuple(_finding(setting, policy, found) for policy, found in outcomes.items())


def _finding(
    setting: SimulationSetting, policy: SelectionPolicy, outcomes: Sequence[SimulationOutcome]
) -> PolicyResult:
    """The means; where a run has nothing of a kind it says nothing about it."""
    together = loss_system.whole(outcomes)

    def mean(of: Callable[[SimulationOutcome], float | None]) -> Estimate:
        values = [value for each in outcomes if (value := of(each)) is not None]
        return estimate(values, mean=of(together) if isinstance(setting.workload, Trace) else None)

    return PolicyResult(
        setting=setting,
        policy=policy,
        utilisation=mean(lambda each: each.utilisation),
        frag_rejects=mean(lambda each: each.frag_rejects),
        acceptance=mean(lambda each: each.acceptance),
        acceptance_of={
            size: mean(partial(SimulationOutcome.acceptance_of, devices=size)) for size in sorted(together.offered)
        },
    )


def _count(workload: Workload) -> int:
    return workload.count if isinstance(workload, Poisson) else len(workload.jobs)
