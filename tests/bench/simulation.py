"""The loss system: its speed, and all of the reference's workload, 30 runs of 20,000 jobs for each of its cases."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterator, Mapping
from typing import Any

from neuron_topology.core.hardware.instances import INSTANCE_TYPES
from neuron_topology.core.simulation import comparison, loss_system, policies
from neuron_topology.core.simulation.comparison import PolicyResult, SimulationSetting, Study
from neuron_topology.core.simulation.estimates import Estimate
from neuron_topology.core.simulation.jobs import FOURS_AND_EIGHTS, MIXES, Poisson, jobs_of
from neuron_topology.core.simulation.policies import SelectionPolicy
from tests.bench.measuring import Figure, figure
from tests.golden import cases

TRN1 = INSTANCE_TYPES["trn1.32xlarge"]
FILE = "neuron/simulation.yaml"
JOBS = 20_000
Measured = Mapping[str, Estimate]


def figures() -> Iterator[Figure]:
    """Events a second on one core, then what the 30 runs say against the reference."""
    yield from speed()
    yield from reference()


def speed(repeats: int = 15) -> Iterator[Figure]:
    """Arrivals and departures of one policy in a second of one core, the drawing of the jobs included.

    Measured in CPU time: what else the machine does is left out. On 8 nodes, then on 1,000.
    """
    for nodes, load, target in ((8, 0.9, 300_000), (1_000, 1.1, None)):
        workload = Poisson(FOURS_AND_EIGHTS, load, JOBS)
        tables = policies.tables(SelectionPolicy.LINKED, TRN1.fabric, FOURS_AND_EIGHTS.devices)

        def run(
            seed: int, nodes: int = nodes, workload: Poisson = workload, tables: Any = tables
        ) -> loss_system.SimulationOutcome:
            jobs = jobs_of(workload, random.Random(seed), capacity=nodes * TRN1.devices)
            (outcome,) = loss_system.run(jobs, tables, nodes=nodes, devices=TRN1.devices, warm_up=0.0)
            return outcome

        run(0)
        rates = []
        for seed in range(repeats):
            start = time.process_time()
            outcome = run(seed)
            rates.append(outcome.events / (time.process_time() - start))
        yield figure(f"simulation, linked, {nodes:,} nodes, one core", rates, unit="1/s", at_least=target)


def reference(seed: int = 0) -> Iterator[Figure]:
    """How far every mean is from the reference's, in joint standard errors, and what wider sets save in rejects."""
    expected = {tuple(case.given.values()): case for case in cases.of(FILE)}
    settings = list(dict.fromkeys(key[:3] for key in expected))
    study = Study(
        settings=tuple(
            SimulationSetting(instance=TRN1, nodes=nodes, workload=Poisson(MIXES[mix], load, JOBS))
            for mix, nodes, load in settings
        ),
        policies=tuple(SelectionPolicy),
        runs=30,
        seed=seed,
    )
    apart: list[float] = []
    saved: list[float] = []
    for key, findings in zip(settings, comparison.compare(study, random.Random), strict=True):
        rejects = {each.policy: each.frag_rejects.mean for each in findings}
        saved.append(rejects[SelectionPolicy.AWS] / rejects[SelectionPolicy.LINKED])
        for each in findings:
            case = expected[(*key, each.policy.value)]
            apart += [
                _apart(found, case.expect[name], case.about["half_width"][name])
                for name, found in _measured(each).items()
            ]
    name = f"{len(apart)} means against the reference, seeds {seed} to {seed + 29}"
    yield figure(name, apart, unit="s.e.", p99_at_most=3)
    yield figure("the farthest of them", [max(apart)], unit="s.e.", at_most=3)
    yield figure("rejects for fragments, aws by linked, all mixes", saved, unit="x")
    yield figure("the same of the mix that gains least", [min(saved)], unit="x", at_least=1.6)


def _measured(finding: PolicyResult) -> Measured:
    by_size = {f"acceptance_{size}": each for size, each in finding.acceptance_of.items()}
    return {
        "utilisation": finding.utilisation,
        "frag_rejects": finding.frag_rejects,
        "acceptance": finding.acceptance,
        **by_size,
    }


def _apart(found: Estimate, expected: float, half_width: float) -> float:
    """The distance of two means in joint standard errors; what never varies has to be equal."""
    joint = math.hypot(found.standard_error, half_width / 1.96)
    if joint:
        return abs(found.mean - expected) / joint
    return 0.0 if found.mean == expected else math.inf
