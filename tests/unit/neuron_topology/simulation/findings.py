"""Findings to look at, without a simulation."""

from __future__ import annotations

from neuron_topology.hardware.instances import INSTANCE_TYPES
from neuron_topology.simulation.comparison import Finding, Setting, Study
from neuron_topology.simulation.estimates import Estimate
from neuron_topology.simulation.jobs import PAIRS, Job, Poisson, Trace, Workload
from neuron_topology.simulation.policies import Policy

TRACE = Trace("ours.csv", (Job(0.0, 1, 5.0), Job(1.0, 4, 5.0), Job(2.0, 4, 5.0)))
MIXED = Poisson(PAIRS, 0.9, 1_000)


def a_setting(workload: Workload = MIXED, nodes: int = 8) -> Setting:
    return Setting(instance=INSTANCE_TYPES["trn1.32xlarge"], nodes=nodes, workload=workload)


def a_share(mean: float, half_width: float | None = 0.01) -> Estimate:
    return Estimate(mean, half_width, 1 if half_width is None else 10)


def a_finding(
    policy: Policy, rejects: float, *, setting: Setting | None = None, half_width: float | None = 0.01
) -> Finding:
    return Finding(
        setting=setting or a_setting(),
        policy=policy,
        utilisation=a_share(0.7, half_width),
        frag_rejects=a_share(rejects, half_width),
        acceptance=a_share(0.9, half_width),
        acceptance_of={1: a_share(0.995, half_width), 4: a_share(0.5, half_width)},
    )


def both(aws: float = 0.04, linked: float = 0.01, *, setting: Setting | None = None) -> tuple[Finding, ...]:
    return (a_finding(Policy.AWS, aws, setting=setting), a_finding(Policy.LINKED, linked, setting=setting))


def a_study(*settings: Setting) -> Study:
    return Study(settings=settings or (a_setting(),), policies=(Policy.AWS, Policy.LINKED), runs=10)
