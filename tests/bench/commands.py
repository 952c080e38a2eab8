"""How long the commands take: a plan on a large dump once it is parsed, what would help, and the program's start."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Final

import orjson

from hami_plugins import library
from hami_plugins.engine.decide import Decider
from hami_plugins.output import tables
from hami_plugins.plan import Planner, submission
from hami_plugins.suggest import relax
from tests.bench import workload
from tests.bench.decisions import REGISTRY, intake_of, snapshot_of
from tests.bench.measuring import Figure, figure, timed


def plan_and_relax(repeats: int = 5) -> Iterator[Figure]:
    """One pod on a dump of 5,000 nodes, every node in a state of its own, nothing remembered from before."""
    snapshot = snapshot_of(workload.varied(5_000, 50_000))
    submitted = library.read_manifests(orjson.dumps(workload.request_pod(0)).decode())

    def plan() -> None:
        found = Planner(REGISTRY).plan(snapshot, submission.units(submitted, snapshot))
        tables.plan(found, REGISTRY)

    yield figure(
        "plan of one pod, 5,000-node dump, after parsing", [timed(plan)[0] for _ in range(repeats)], at_most=300
    )
    impossible = intake_of({"nvidia.com/gpu": 2, "nvidia.com/gpumem": 90_000, "nvidia.com/gpucores": 30})

    def counterfactuals() -> None:
        if not relax(Decider(REGISTRY), snapshot, impossible.demand, impossible.policy):
            raise ValueError("nothing was found for a pod that less memory would help")

    times = [timed(counterfactuals)[0] for _ in range(repeats)]
    yield figure("relax, 5,000 nodes in different states, nothing remembered", times, at_most=1_000)


STARTS: Final = ("--help", "--version", "plan --help", "vet --help", "explain --help", "snapshot --help")


def start(repeats: int = 20) -> Iterator[Figure]:
    """Commands that only print what they know, as whole processes."""
    for words in STARTS:
        times: list[float] = []
        for _ in range(repeats):
            before = time.perf_counter()
            command = [sys.executable, "-m", "hami_plugins.cli", *words.split()]
            subprocess.run(command, check=True, capture_output=True)
            times.append((time.perf_counter() - before) * 1000)
        yield figure(f"hami-plugins {words}, whole process", times, at_most=250)
