"""How long the commands take: a plan on a large dump once it is parsed, what would help, and the program's start."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import orjson

from hami_plugins import library
from hami_plugins.engine.decide import Decider
from hami_plugins.inputs import fleets
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


def dump(repeats: int = 3) -> Iterator[Figure]:
    """The whole process: a dump of 5,000 nodes and 30,000 pods as a file, and one pod to plan, or all devices to show.

    In CPU seconds, so that other processes count little. Run in turn on the same two cores, this took 4.0 s (median)
    when each node built devices of its own and each pod asked every vendor, and 3.5 s now: a ratio of 0.87.
    """
    with tempfile.TemporaryDirectory() as folder:
        listing, manifest = Path(folder, "dump.json"), Path(folder, "pod.json")
        items = list(workload.varied(5_000, 30_000))
        listing.write_bytes(orjson.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
        manifest.write_bytes(orjson.dumps(workload.request_pod(0)))
        plan = cpu_seconds(repeats, "plan", "-f", str(manifest), "--snapshot", str(listing))
        nodes = cpu_seconds(repeats, "nodes", "--snapshot", str(listing))
    yield figure("plan of one pod, dump of 5,000 nodes / 30,000 pods, CPU", plan, unit="s", at_most=4.5)
    yield figure("nodes, dump of 5,000 nodes / 30,000 pods, CPU", nodes, unit="s", at_most=5.5)


REPLICAS: Final = {"one workload of 100,000": (100_000,), "three workloads of 300,000": (300_000,) * 3}


def replicas(repeats: int = 3) -> Iterator[Figure]:
    """The whole process: very many replicas of one template on 200 nodes of 8 cards, which have room for 16,000.

    In CPU seconds and in the most memory that the process held. When each replica was made by itself, 100,000 held
    272 MiB.
    """
    limits = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 4000}
    template = {"spec": {"containers": [{"name": "main", "resources": {"limits": limits}}]}}
    with tempfile.TemporaryDirectory() as folder:
        listing, manifest = Path(folder, "dump.json"), Path(folder, "many.json")
        nodes = list(fleets.objects_of(fleets.add_nodes("h100x8=200")))
        listing.write_bytes(orjson.dumps({"apiVersion": "v1", "kind": "List", "items": nodes}))
        for name, counts in REPLICAS.items():
            items = [
                {
                    "apiVersion": "apps/v1",
                    "kind": "Deployment",
                    "metadata": {"name": f"web{at}"},
                    "spec": {"replicas": count, "template": template},
                }
                for at, count in enumerate(counts)
            ]
            manifest.write_bytes(orjson.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
            runs = [_child("plan", "-f", str(manifest), "--snapshot", str(listing)) for _ in range(repeats)]
            yield figure(f"plan of {name} replicas, 200 nodes, CPU", [each[0] for each in runs], unit="s", at_most=5)
            yield figure(f"plan of {name} replicas, peak memory", [each[1] for each in runs], unit="MiB", at_most=300)


def _child(*words: str) -> tuple[float, float]:
    """CPU seconds of a command, and the most memory (MiB) that it held."""
    command = [sys.executable, "-m", "hami_plugins.cli", *words]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in {0, 1}:
        raise ValueError(f"{' '.join(words)} ended with {process.returncode}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def cpu_seconds(repeats: int, *words: str) -> list[float]:
    """What a command takes as a whole process."""
    times: list[float] = []
    for _ in range(repeats):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "hami_plugins.cli", *words], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return times


STARTS: Final = (
    "--help",
    "--version",
    "plan --help",
    "vet --help",
    "explain --help",
    "snapshot --help",
    "nodes --help",
    "vendors",
)


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
