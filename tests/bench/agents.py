"""A thousand agents in one process against the embedded API server in another: start, silence, and its restart."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from tests.bench.measuring import Figure, figure
from tests.bench.processes import Load, Worker

AGENTS = 1_000
WATCHES = 3
"""What each agent follows: its node, the pods of its node, the scheduler's lease."""

_IDLE_SECONDS = 60.0
_SETTLE_SECONDS = 10.0
_AWAY_SECONDS = 1.0
_LONGEST_WAIT = 600.0
_LOOK_SECONDS = 0.1


def thousand(agents: int = AGENTS) -> Iterator[Figure]:
    """Eight cards each, writes spread over three seconds as set by default, a lease that is renewed every 5 s."""
    name = f"{agents:,} agents"
    with Worker("tests.bench.cluster") as cluster, Worker("tests.bench.fleet") as fleet:
        url = cluster.ask("start", nodes=agents)
        cluster.ask("clear")
        before = cluster.load, fleet.load
        began = time.monotonic()
        fleet.ask("start", url=url, nodes=agents)
        told = _until(cluster, lambda counts: counts["registered"] == agents)
        registered = time.monotonic() - began
        _until(cluster, lambda counts: counts["watches"] == agents * WATCHES)
        time.sleep(_SETTLE_SECONDS)
        after = cluster.load, fleet.load
        told = cluster.ask("counts")
        yield figure(f"{name}: cold start to all registered", [registered], unit="s", at_most=60)
        yield from _cost(f"{name}: cold start", before, after)
        writes = [told["writes"] / agents, told["most_writes"]]
        yield figure(f"{name}: writes per node, on average and at most", writes, unit="", at_most=2)
        yield figure(f"{name}: requests per agent until it is quiet", [told["requests"] / agents], unit="")
        for part, load in (("agents", after[1]), ("API server", after[0])):
            yield figure(f"{name}: memory of the {part}", [load.resident_mib], unit="MiB")
            yield figure(f"{name}: threads of the {part}", [load.threads], unit="")
        yield from _idle(name, cluster, fleet)
        yield from _restart(name, agents, cluster, fleet)


def _idle(name: str, cluster: Worker, fleet: Worker) -> Iterator[Figure]:
    cluster.ask("clear")
    before = cluster.load, fleet.load
    time.sleep(_IDLE_SECONDS)
    told = cluster.ask("counts")
    yield figure(f"{name}: writes in {_IDLE_SECONDS:.0f} s of idleness", [told["writes"]], unit="", at_most=0)
    yield from _cost(f"{name}: {_IDLE_SECONDS:.0f} s of idleness", before, (cluster.load, fleet.load))


def _restart(name: str, agents: int, cluster: Worker, fleet: Worker) -> Iterator[Figure]:
    cluster.ask("clear")
    before = cluster.load, fleet.load
    cluster.ask("pause")
    time.sleep(_AWAY_SECONDS)
    cluster.ask("resume")
    began = time.monotonic()
    _until(cluster, lambda counts: counts["watches"] >= agents * WATCHES)
    back = time.monotonic() - began
    time.sleep(_SETTLE_SECONDS)
    told = cluster.ask("counts")
    yield figure(f"{name}: API server back, until all watch again", [back], unit="s")
    yield figure(f"{name}: writes after the API server's restart", [told["writes"]], unit="", at_most=0)
    yield from _cost(f"{name}: API server's restart", before, (cluster.load, fleet.load))


def _cost(name: str, before: tuple[Load, Load], after: tuple[Load, Load]) -> Iterator[Figure]:
    for at, part in enumerate(("API server", "agents")):
        spent = after[at].cpu_seconds - before[at].cpu_seconds
        yield figure(f"{name}, CPU time of the {part}", [spent], unit="s")


def _until(cluster: Worker, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    end = time.monotonic() + _LONGEST_WAIT
    while True:
        counts: dict[str, Any] = cluster.ask("counts")
        if condition(counts):
            return counts
        if time.monotonic() > end:
            raise TimeoutError(f"not within {_LONGEST_WAIT:.0f} s; the API server counts {counts}")
        time.sleep(_LOOK_SECONDS)
