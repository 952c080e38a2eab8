"""Findings to look at, without a simulation."""

from __future__ import annotations

from neuron_topology.core.hardware.instances import INSTANCE_TYPES
from neuron_topology.core.simulation.comparison import PolicyResult, SimulationSetting, Study
from neuron_topology.core.simulation.estimates import Estimate
from neuron_topology.core.simulation.jobs import PAIRS, Poisson, SimulatedJob, Trace, Workload
from neuron_topology.core.simulation.policies import SelectionPolicy

TRACE = Trace("ours.csv", (SimulatedJob(0.0, 1, 5.0), SimulatedJob(1.0, 4, 5.0), SimulatedJob(2.0, 4, 5.0)))
MIXED = Poisson(PAIRS, 0.9, 1_000)


def a_setting(workload: Workload = MIXED, nodes: int = 8) -> SimulationSetting:
    return SimulationSetting(instance=INSTANCE_TYPES["trn1.32xlarge"], nodes=nodes, workload=workload)


def a_share(mean: float, half_width: float | None = 0.01) -> Estimate:
    return Estimate(mean, half_width, 1 if half_width is None else 10)


def a_finding(
    policy: SelectionPolicy,
    rejects: float,
    *,
    setting: SimulationSetting | None = None,
    half_width: float | None = 0.01,
) -> PolicyResult:
    return PolicyResult(
        setting=setting or a_setting(),
        policy=policy,
        utilisation=a_share(0.7, half_width),
        frag_rejects=a_share(rejects, half_width),
        acceptance=a_share(0.9, half_width),
        acceptance_of={1: a_share(0.995, half_width), 4: a_share(0.5, half_width)},
    )


def both(
    aws: float = 0.04, linked: float = 0.01, *, setting: SimulationSetting | None = None
) -> tuple[PolicyResult, ...]:
    return (
        a_finding(SelectionPolicy.AWS, aws, setting=setting),
        a_finding(SelectionPolicy.LINKED, linked, setting=setting),
    )


def a_study(*settings: SimulationSetting) -> Study:
    return Study(settings=settings or (a_setting(),), policies=(SelectionPolicy.AWS, SelectionPolicy.LINKED), runs=10)
