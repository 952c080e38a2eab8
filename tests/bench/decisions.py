"""How long decisions take: warm, cold, applied one after another, and at five times the nodes."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator
from typing import Any

from hami_plugins.engine.apply import assigned
from hami_plugins.engine.decide import Decider
from hami_plugins.engine.intake import PodInfo, Rules, take_in
from hami_plugins.inputs.list_reader import ListingReader
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.decisions import Placed
from hami_plugins.vendors import builtin
from hami_plugins.wire import objects
from tests.bench import workload
from tests.bench.measuring import Figure, figure, timed

REGISTRY = builtin()


def snapshot_of(items: Iterable[dict[str, Any]]) -> ClusterSnapshot:
    """A snapshot from raw objects."""
    reader = ListingReader(REGISTRY)
    for item in items:
        reader.feed(item)
    return reader.finish()


def intakes(count: int = 20) -> list[PodInfo]:
    """The requests of the workload, admitted."""
    return [intake_of(limits) for limits in workload.shapes(count)]


def intake_of(limits: dict[str, int] | None = None, number: int = 0) -> PodInfo:
    """One request, admitted."""
    return take_in(objects.pod(workload.request_pod(number, limits)), REGISTRY, Rules())


def decide(decider: Decider, snapshot: ClusterSnapshot, intake: PodInfo) -> Placed:
    """One decision that must find a place."""
    decision = decider.decide(snapshot, intake.demand, intake.policy)
    if not isinstance(decision, Placed):
        raise TypeError(f"the workload no longer fits: {decision.counted()[:3]}")
    return decision


def same_state(repeats: int = 300) -> Iterator[Figure]:
    """One vGPU request at 1,000 nodes and 20,000 pods, decided again and again, each decision applied."""
    current = snapshot_of(workload.lean(1_000, 20_000))
    decider, intake = Decider(REGISTRY), intake_of()
    decide(decider, current, intake)
    times: list[float] = []
    for _ in range(repeats):
        milliseconds, placed = timed(decide, decider, current, intake)
        times.append(milliseconds)
        current = assigned(current, intake.pod, placed)
    yield figure("one decision, 1,000 nodes / 20,000 pods", times, at_most=1)


def many_states(repeats: int = 1_000) -> Iterator[Figure]:
    """Twenty shapes in turn at 5,000 nodes and 100,000 pods, every node in a state of its own, decisions applied."""
    current = snapshot_of(workload.varied(5_000, 100_000))
    states = len({entry.state for entry in current.nodes})
    decider, asked = Decider(REGISTRY), intakes()
    for intake in asked:
        decide(decider, current, intake)
    alone: list[float] = []
    both: list[float] = []
    for turn in range(repeats):
        intake = asked[turn % len(asked)]
        deciding, placed = timed(decide, decider, current, intake)
        applying, current = timed(assigned, current, intake.pod, placed)
        alone.append(deciding)
        both.append(deciding + applying)
    name = f"one of 20 shapes in turn, 5,000 nodes / 100,000 pods, {states:,} states"
    yield figure(name, alone, at_most=2, p99_at_most=5)
    yield figure("the same with the decision applied to the snapshot", both)


def first_sight(repeats: int = 5) -> Iterator[Figure]:
    """A shape never seen before at 5,000 nodes in as many states, and what five times the nodes cost."""
    large, small = snapshot_of(workload.varied(5_000, 100_000)), snapshot_of(workload.varied(1_000, 20_000))
    decider = Decider(REGISTRY)
    cold: dict[int, list[float]] = {}
    warm: dict[int, list[float]] = {}
    for snapshot in (small, large):
        nodes = len(snapshot.nodes)
        unseen = [
            intake_of({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 3_001 + turn, "nvidia.com/gpucores": 10})
            for turn in range(repeats)
        ]
        cold[nodes] = [timed(decide, decider, snapshot, intake)[0] for intake in unseen]
        warm[nodes] = []
        current = snapshot
        for _ in range(200):
            milliseconds, placed = timed(decide, decider, current, unseen[-1])
            warm[nodes].append(milliseconds)
            current = assigned(current, unseen[-1].pod, placed)
    yield figure("first sight of a shape, 5,000 nodes in different states", cold[5_000], at_most=250)
    warmer = statistics.median(warm[5_000]) / statistics.median(warm[1_000])
    colder = statistics.median(cold[5_000]) / statistics.median(cold[1_000])
    yield figure("warm cost at 5x the nodes", [warmer], unit="x", at_most=5)
    yield figure("cold cost at 5x the nodes", [colder], unit="x", at_most=6)


def replay(placements: int = 10_000, repeats: int = 3) -> Iterator[Figure]:
    """Twenty shapes in turn onto 1,000 idle nodes of eight cards until 10,000 pods are placed, decided and applied."""
    start = snapshot_of(workload.lean(1_000, 0))
    asked = intakes()
    rates: list[float] = []
    for _ in range(repeats):
        decider = Decider(REGISTRY)

        def run(decider: Decider = decider) -> None:
            current = start
            for turn in range(placements):
                intake = asked[turn % len(asked)]
                current = assigned(current, intake.pod, decide(decider, current, intake))

        rates.append(placements / timed(run)[0] * 1000)
    yield figure("replay of 10,000 placements, 1,000 nodes x 8", rates, unit="1/s", at_least=3_000)
