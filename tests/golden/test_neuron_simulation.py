"""The loss system on the reference's workload: one run of each of its cases, within what one run may differ.

All 30 runs of a case are compared by ``make bench`` (group ``neuron-simulation``).
"""

from __future__ import annotations

import random
from functools import lru_cache

from neuron_topology.core.hardware.instances import INSTANCE_TYPES
from neuron_topology.core.simulation import loss_system, policies
from neuron_topology.core.simulation.jobs import MIXES, Mix, Poisson, SimulatedJob, jobs_of
from neuron_topology.core.simulation.policies import SelectionPolicy
from tests.golden import cases
from tests.golden.cases import Case

FILE = "neuron/simulation.yaml"
TRN1 = INSTANCE_TYPES["trn1.32xlarge"]
JOBS, RUNS = 20_000, 30
SEED = 30
"""Not among the seeds of the reference's own runs."""


@lru_cache(maxsize=1)
def jobs(mix: str, nodes: int, load: float) -> tuple[SimulatedJob, ...]:
    return tuple(jobs_of(Poisson(MIXES[mix], load, JOBS), random.Random(SEED), capacity=nodes * TRN1.devices))


def test_the_mixes_are_those_of_the_reference() -> None:
    written = cases.document(FILE)["mixes"]
    assert {name: Mix(name, tuple(sorted(shares.items()))) for name, shares in written.items()} == MIXES


@cases.each(FILE)
def test_a_run_is_one_of_those_that_the_mean_is_taken_over(case: Case) -> None:
    mix, nodes, load = case.given["mix"], case.given["nodes"], case.given["load"]
    tables = policies.tables(SelectionPolicy(case.given["policy"]), TRN1.fabric, MIXES[mix].devices)
    (outcome,) = loss_system.run(jobs(mix, nodes, load), tables, nodes=nodes, devices=TRN1.devices)
    measured = {
        "utilisation": outcome.utilisation or 0.0,
        "frag_rejects": outcome.frag_rejects,
        "acceptance": outcome.acceptance,
        **{f"acceptance_{size}": outcome.accepted[size] / count for size, count in outcome.offered.items()},
    }
    assert measured.keys() == case.expect.keys()
    for name, mean in case.expect.items():
        of_one_run = case.about["half_width"][name] / 1.96 * (RUNS + 1) ** 0.5
        assert abs(measured[name] - mean) <= 3.5 * of_one_run + 5e-5, (name, measured[name], mean)
