"""Policies on the same jobs: many runs, each with its own jobs, the same for every policy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from neuron_topology.hardware.instances import InstanceType
from neuron_topology.simulation import loss_system, policies
from neuron_topology.simulation.estimates import Estimate, estimate
from neuron_topology.simulation.jobs import Job, Poisson, Randomness, Workload, jobs_of, sizes_of
from neuron_topology.simulation.loss_system import Outcome, Table
from neuron_topology.simulation.policies import Policy


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
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

    settings: tuple[Setting, ...]
    policies: tuple[Policy, ...]
    runs: int = 30
    seed: int = 0
    warm_up: float = 0.1

    def runs_of(self, setting: Setting) -> int:
        """How often a setting is run: a trace is the same every time."""
        return self.runs if isinstance(setting.workload, Poisson) else 1

    @property
    def jobs(self) -> int:
        """The jobs of all runs and policies together."""
        return sum(self.runs_of(each) * _count(each.workload) for each in self.settings) * len(self.policies)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """How one policy does in one setting.

    ``frag_rejects`` is the share of all jobs that are rejected although some node has enough free devices,
    ``acceptance`` the share that is accepted, ``acceptance_of`` the same of the jobs of each size.
    """

    setting: Setting
    policy: Policy
    utilisation: Estimate
    frag_rejects: Estimate
    acceptance: Estimate
    acceptance_of: Mapping[int, Estimate]


def compare(
    study: Study, randomness: Callable[[int], Randomness], advance: Callable[[int], None] = lambda _jobs: None
) -> Iterator[tuple[Finding, ...]]:
    """The findings of each setting, in the order of the study's policies.

    ``randomness`` makes a source of random numbers from a seed; ``advance`` is told how many jobs are done.
    """
    for setting in study.settings:
        yield _compared(study, setting, randomness, advance)


def _compared(
    study: Study, setting: Setting, randomness: Callable[[int], Randomness], advance: Callable[[int], None]
) -> tuple[Finding, ...]:
    sizes, fabric = sizes_of(setting.workload), setting.instance.fabric
    tables = {policy: policies.tables(policy, fabric, sizes) for policy in study.policies}
    outcomes: dict[Policy, list[Outcome]] = {policy: [] for policy in study.policies}
    for number in range(study.runs_of(setting)):
        jobs = jobs_of(setting.workload, randomness(study.seed + number), capacity=setting.capacity)
        for policy in study.policies:
            outcomes[policy].append(_run(setting, jobs, tables[policy], study.warm_up))
            advance(len(jobs))
    return tuple(_finding(setting, policy, found) for policy, found in outcomes.items())


def _run(setting: Setting, jobs: Sequence[Job], tables: Mapping[int, Table], warm_up: float) -> Outcome:
    return loss_system.run(jobs, tables, nodes=setting.nodes, devices=setting.instance.devices, warm_up=warm_up)


def _finding(setting: Setting, policy: Policy, outcomes: Sequence[Outcome]) -> Finding:
    """The means; a size that no job of a run had says nothing in that run."""
    sizes = sorted({size for each in outcomes for size in each.offered})
    return Finding(
        setting=setting,
        policy=policy,
        utilisation=estimate([each.utilisation for each in outcomes]),
        frag_rejects=estimate([each.fragmented / sum(each.offered.values()) for each in outcomes]),
        acceptance=estimate([sum(each.accepted.values()) / sum(each.offered.values()) for each in outcomes]),
        acceptance_of={
            size: estimate([each.accepted[size] / each.offered[size] for each in outcomes if size in each.offered])
            for size in sizes
        },
    )


def _count(workload: Workload) -> int:
    return workload.count if isinstance(workload, Poisson) else len(workload.jobs)
