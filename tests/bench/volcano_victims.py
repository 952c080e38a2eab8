"""What plans of evictions cost under Volcano: PodGroups and Queues, 1,000 full nodes with 20,000 running pods."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from typing import Any

from hami_plugins.allocator.locked_cache import LockedAllocationCache
from hami_plugins.allocator.preemption_objects import PreemptionObjects
from hami_plugins.allocator.volcano_objects import VolcanoObjects
from hami_plugins.allocator.volcano_planner import GangPlan, VolcanoPlanner
from hami_plugins.cli.kit.memory import undisturbed
from hami_plugins.engine.intake import PodInfo
from hami_plugins.kube.reflector import ObjectChange
from hami_plugins.wire.gang_keys import GROUP_KEY
from tests.bench.allocations import CORES, COUNT, MEMORY, NODES, PODS, node, pod, running
from tests.bench.measuring import Figure, figure
from tests.bench.workload import CARDS, pod_uid
from tests.unit.allocator.products import product

Raw = dict[str, Any]

FIRST, NEXT, GANG = 60, 5, 400
MEMBERS = 8
IN_A_GANG = 4
"""Running pods of one gang, of which 3 have to stay."""

TURNS = 5
MOST = 81_920
"""MiB of a whole card."""

WAITING = "waiting"
"""The queue of the pods that wait; the running ones are in it, or in two others that hold more than they deserve."""

SUMS = {COUNT: str(10 * CARDS), MEMORY: str(81_920 * CARDS), CORES: str(100 * CARDS), "pods": "110"}


def figures() -> Iterator[Figure]:
    """CPU time of a planner's first plan, of its first for another demand, and of the next for that."""
    shapes = (
        ("groups of one pod, 1 queue", 1, (WAITING,)),
        ("gangs of 4, 1 queue", IN_A_GANG, (WAITING,)),
        ("gangs of 4, 3 queues", IN_A_GANG, (WAITING, "busy-a", "busy-b")),
    )
    for what, size, queues in shapes:
        with undisturbed():
            cluster = Cluster(size, queues)
        for waiting, members, first, later in (("one pod", 1, FIRST, NEXT), ("a gang of 8", MEMBERS, GANG, None)):
            start, sight, warm = cluster.measured(members)
            name = f"Volcano, {what}: victims for {waiting}"
            yield figure(f"{name}, after a start", start)
            yield figure(f"{name}, first sight", sight, at_most=first)
            yield figure(f"{name}, next", warm, at_most=later)


class Cluster:
    """The caches of an allocator as its watches fill them; running pods are in groups of a size."""

    def __init__(self, size: int, queues: tuple[str, ...]) -> None:
        self._cache = LockedAllocationCache(product(), keep=90.0, clock=time.monotonic)
        self._preemption, self._objects = PreemptionObjects(), VolcanoObjects()
        self._turn = 0
        chance = random.Random(1)
        for number in range(NODES):
            raw = node(number)
            raw["metadata"]["uid"] = pod_uid(7, number)
            raw["status"] = {"allocatable": SUMS}
            self._show(self._cache.node_changed, raw)
            self._show(self._objects.node_changed, raw)
        for name in queues:
            deserved = {MEMORY: str(81_920 * CARDS * NODES)} if name == WAITING else {MEMORY: "1000"}
            self._show(
                self._objects.queue_changed, {"metadata": {"name": name, "uid": name}, "spec": {"deserved": deserved}}
            )
        groups = [f"job-{number}" for number in range(PODS // size)]
        for number in range(PODS):
            raw = running(number, chance.randrange(1_000, 12_000), chance.randrange(0, 16))
            raw["metadata"]["annotations"][GROUP_KEY] = groups[number // size]
            made_at = time.gmtime(1_760_000_000 + chance.randrange(365 * 86_400))
            raw["metadata"]["creationTimestamp"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", made_at)
            raw["spec"]["priority"] = chance.choice((0, 10, 100))
            self._show(self._cache.pod_changed, raw)
        for name in groups:
            self._group(name, chance.choice(queues), least=max(size - 1, 1))

    def measured(self, members: int) -> tuple[list[float], list[float], list[float]]:
        """CPU milliseconds of a planner's first plan, of the first for another demand, and of later ones."""
        start: list[float] = []
        sight: list[float] = []
        warm: list[float] = []
        for _ in range(TURNS):
            planner = VolcanoPlanner(self._cache, self._preemption, self._objects)
            kept = list[PodInfo]()
            for memory, into in ((40_960, start), (MOST, sight), (MOST, warm), (MOST, warm)):
                kept += self._planned(planner, members, memory, into)
            for each in kept:
                self._cache.withdraw(each.pod.uid)
        return start, sight, warm

    def _planned(self, planner: VolcanoPlanner, members: int, memory: int, into: list[float]) -> list[PodInfo]:
        """One plan, for which room is kept afterwards."""
        self._turn += 1
        group = f"new-{self._turn}"
        self._group(group, WAITING, least=members)
        raws = [self._waiting(group, at, memory) for at in range(members)]
        for raw in raws:
            self._show(self._cache.pod_changed, raw)
        infos = [self._cache.intake(raw) for raw in raws]
        seen, _ = self._cache.search_view(infos)
        start = time.thread_time()
        found = planner.plan(infos[0], f"default/{group}", but=(), thorough=False)
        into.append((time.thread_time() - start) * 1000)
        if not isinstance(found, GangPlan) or len(found.plan.victims) < members:
            raise ValueError("the cluster has to be full of pods that may be evicted")
        if not self._cache.nominate(found.plan, infos, seen, lasting=3600.0):
            raise ValueError("the nodes of a plan have changed")
        return infos

    def _waiting(self, group: str, at: int, memory: int) -> Raw:
        raw = pod(100 * self._turn + at, memory, 100, kind=2)
        raw["metadata"]["name"] = f"{group}-{at}"
        raw["metadata"]["annotations"] = {GROUP_KEY: group}
        raw["spec"]["priority"] = 1_000
        return raw

    def _group(self, name: str, queue: str, *, least: int) -> None:
        spec = {"minMember": least, "queue": queue}
        metadata = {"namespace": "default", "name": name, "uid": f"group-{name}"}
        self._show(self._preemption.group_changed, {"metadata": metadata, "spec": spec, "status": {"phase": "Running"}})

    def _show(self, changed: Callable[[ObjectChange], object], raw: Raw) -> None:
        changed(ObjectChange("added", raw, raw["metadata"]["uid"]))
