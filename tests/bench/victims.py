"""What it costs to find victims: for a pod and for a gang on 1,000 full nodes with 20,000 pods of different sizes."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import replace

from hami_plugins.cli.kit.memory import undisturbed
from hami_plugins.engine.intake import PodInfo
from hami_plugins.engine.inventory import with_pods
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.pods import PodRecord
from hami_plugins.plan import Planner, PlanUnit
from hami_plugins.preemption.search import VictimSearch
from hami_plugins.preemption.values import EvictionPlan
from tests.bench import workload
from tests.bench.decisions import REGISTRY, intake_of, snapshot_of
from tests.bench.measuring import Figure, figure

NODES, PODS = 1_000, 20_000
YEAR = 365 * 86_400
WHOLE_CARD = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 81_920, "nvidia.com/gpucores": 100}


def figures(repeats: int = 5) -> Iterator[Figure]:
    """CPU time at first sight of a demand, and for the next pod of its kind after the first one has its place."""
    with undisturbed():  # as in a replica
        snapshot = full()
    for name, members, first, later in (("one pod", 1, 60, 5), ("a gang of 8", 8, 400, None)):
        cold: list[float] = []
        warm: list[float] = []
        for _ in range(repeats):
            search = VictimSearch(REGISTRY)
            milliseconds, found = searched(search, snapshot, members)
            cold.append(milliseconds)
            warm.append(searched(search, found.after, members)[0])
        yield figure(f"victims for {name}, 1,000 nodes / 20,000 pods, first sight", cold, at_most=first)
        yield figure(f"the next {name}", warm, at_most=later)
    yield figure("plan of 30 pods that all need evictions", list(planned(snapshot, repeats)), at_most=2_000)


def planned(snapshot: ClusterSnapshot, repeats: int) -> Iterator[float]:
    """The CPU milliseconds of a plan with preemption: victims, their rules, and whether they fit again."""
    pods = tuple(replace(info.submitted, name=info.pod.name, priority=1_000) for info in waiting(30))
    for _ in range(repeats):
        start = time.thread_time()
        plan = Planner(REGISTRY).plan(snapshot, [PlanUnit(name="deployment/bench/high", pods=pods)], preemption=True)
        yield (time.thread_time() - start) * 1000
        if len(plan.evictions) != len(pods):
            raise ValueError("every pod has to need evictions")


def searched(search: VictimSearch, snapshot: ClusterSnapshot, members: int) -> tuple[float, EvictionPlan]:
    """The CPU milliseconds of one search, and what it found."""
    infos = waiting(members)
    start = time.thread_time()
    found = search.find(snapshot, infos)
    milliseconds = (time.thread_time() - start) * 1000
    if not isinstance(found, EvictionPlan) or len(found.victims) < members:
        raise ValueError("the cluster has to be full of pods that may be evicted")
    return milliseconds, found


def waiting(members: int) -> list[PodInfo]:
    """Pods of high priority that ask for a whole card each."""
    info = intake_of(WHOLE_CARD)
    return [replace(info, pod=replace(info.pod, name=f"high-{at}", priority=1_000)) for at in range(members)]


def full() -> ClusterSnapshot:
    """The workload with three priorities and different ages; no card is unused."""
    chance = random.Random(1)
    snapshot = snapshot_of(workload.varied(NODES, PODS))

    def aged(record: PodRecord) -> PodRecord:
        made_at = 1_760_000_000 + chance.randrange(YEAR)
        return replace(record, priority=chance.choice((0, 10, 100)), made_at=made_at)

    return replace(snapshot, nodes=tuple(with_pods(entry, map(aged, entry.pods)) for entry in snapshot.nodes))
