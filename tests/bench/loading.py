"""How long a snapshot takes from raw API objects, and what it costs in memory when fed page by page.

Run as a module it does one load in this process and prints seconds and peak memory, so that each load starts fresh.
"""

from __future__ import annotations

import itertools
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import orjson

from tests.bench import workload
from tests.bench.measuring import Figure, figure

HERE = Path(__file__).parent
PAGE = 500
CASES = {
    "lean": (5_000, 50_000),
    "api-shaped": (1_000, 20_000),
}


def pages(items: Iterable[dict[str, Any]]) -> Iterator[bytes]:
    """The objects as an API server sends them: JSON lists of at most 500."""
    batches = iter(items)
    while batch := list(itertools.islice(batches, PAGE)):
        yield orjson.dumps({"kind": "List", "items": batch})


def objects(case: str) -> Iterator[dict[str, Any]]:
    """The objects of a case."""
    nodes, pods = CASES[case]
    if case == "lean":
        yield from workload.lean(nodes, pods)
        return
    node = json.loads((HERE / "node-api.json").read_text())
    pod = json.loads((HERE / "scheduled-pod-api.json").read_text())
    for item in workload.lean(nodes, pods):
        yield workload.as_the_server_shows(item, node if item["kind"] == "Node" else pod)


def peak_mib() -> float:
    """The most memory that this process held. ``getrusage`` would also count what its parent held before."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def load(case: str) -> tuple[float, float, int]:
    """Seconds of parsing and building (making the pages left out), peak memory in MiB, and the pods found."""
    from hami_plugins.inputs.list_reader import ListingReader  # noqa: PLC0415 - imported in the process that is measured
    from hami_plugins.vendors import builtin  # noqa: PLC0415
    from hami_plugins.wire.pages import load_page  # noqa: PLC0415

    reader = ListingReader(builtin())
    seconds = 0.0
    for page in pages(objects(case)):
        start = time.perf_counter()
        reader.feed(load_page("page", page))
        seconds += time.perf_counter() - start
    start = time.perf_counter()
    snapshot = reader.finish()
    seconds += time.perf_counter() - start
    peak = peak_mib()
    return seconds, peak, sum(len(entry.pods) for entry in snapshot.nodes)


def figures(repeats: int = 3) -> Iterator[Figure]:
    """Each case in fresh processes."""
    for case, (nodes, pods) in CASES.items():
        runs = [
            json.loads(
                subprocess.run(
                    [sys.executable, "-m", "tests.bench.loading", case],
                    check=True,
                    capture_output=True,
                    text=True,
                    cwd=HERE.parent.parent,
                ).stdout
            )
            for _ in range(repeats)
        ]
        name = f"snapshot from {nodes:,} nodes / {pods:,} pods, {case}"
        yield figure(name, [run[0] * 1000 for run in runs], at_most=6_000)
        yield figure(f"{name}, peak memory", [run[1] for run in runs], unit="MiB", at_most=500)


if __name__ == "__main__":
    print(json.dumps(load(sys.argv[1])))
