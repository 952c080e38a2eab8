"""What is wrong after thousands of binds of six vendors, under kills of allocator, schedulers and API server."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.bench.measuring import Figure, figure
from tests.integration.allocator.chaos import LEASE, chaos

BINDS = 2_000
KILLS = 30


def figures() -> Iterator[Figure]:
    """One run."""
    with tempfile.TemporaryDirectory() as folder, chaos(Path(folder), seed=6) as cluster:
        found = cluster.run(BINDS, KILLS)
    for fault in sorted(found.faults)[:20]:
        print(fault, file=sys.stderr)
    what = f"{found.bound.total():,} binds of {len(found.bound)} vendors, {KILLS} kills"
    yield figure(f"chaos: double or lost slices, {what}", [len(found.faults)], unit="", at_most=0)
    yield figure("chaos: takeover by the standby", cluster.takeovers, unit="s", at_most=LEASE["duration"] + 1)
