"""What a defragmentation costs: 200 nodes of eight cards that are 85 % full of pods of different sizes."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import Any

from hami_plugins.defrag.planner import Defragmenter
from hami_plugins.defrag.values import DefragPlan, MoveOptions, NoMoves, RunningCluster, RunningPod
from hami_plugins.engine.decide import Decider
from hami_plugins.engine.intake import Rules
from hami_plugins.wire import objects
from tests.bench import workload
from tests.bench.decisions import REGISTRY, intake_of, snapshot_of
from tests.bench.measuring import Figure, figure

NODES, CARDS, CARD = 200, 8, 81_920
FULL = 0.85
LARGE = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 40_000}
PAIR = {"nvidia.com/gpu": 2, "nvidia.com/gpumem": 40_000}


def figures(repeats: int = 5) -> Iterator[Figure]:
    """Seconds of CPU time for each goal, everything unknown before."""
    cluster = fragmented()
    for name, asked, most in (
        ("a pod of half a card", [LARGE], 10),
        ("a gang of 8 with two half cards each", [PAIR] * 8, 40),
        ("stranded memory, 20 moves", [], 20),
    ):
        seconds: list[float] = []
        for _ in range(repeats):
            start = time.thread_time()
            found = planned(cluster, asked, most)
            seconds.append(time.thread_time() - start)
            if isinstance(found, NoMoves) or not found.moves:
                raise ValueError(f"the cluster has to be fragmented, and such that moves help: {found}")
        yield figure(f"defrag plan for {name}, 200 nodes x 8 cards 85 % full", seconds, unit="s", at_most=5)


def planned(cluster: RunningCluster, asked: list[dict[str, int]], most: int) -> DefragPlan | NoMoves:
    """One plan by a decider that knows nothing yet."""
    defragmenter = Defragmenter(cluster, Decider(REGISTRY), Rules(), MoveOptions(most=most))
    infos = [intake_of(limits, number) for number, limits in enumerate(asked)]
    return defragmenter.for_pods(infos) if infos else defragmenter.for_stranded([intake_of(LARGE)])


def fragmented(nodes: int = NODES, seed: int = 1) -> RunningCluster:
    """Each card holds pods of different sizes up to 85 % of it on average, and no card has room for a large pod."""
    chance = random.Random(seed)
    raws: list[dict[str, Any]] = [workload.node(number) for number in range(nodes)]
    number = 0
    for node in range(nodes):
        for card in range(CARDS):
            left = int(CARD * chance.uniform(FULL - 0.15, 1.0))
            while left >= 2_000:
                memory = min(left, chance.randrange(2_000, 24_000))
                left -= memory
                raws.append(_pod(number, node, card, memory))
                number += 1
    pods = {f"default/{raw['metadata']['name']}": RunningPod(objects.pod(raw), "ReplicaSet") for raw in raws[nodes:]}
    return RunningCluster(snapshot_of(raws), pods)


def _pod(number: int, node: int, card: int, memory: int) -> dict[str, Any]:
    raw = workload.scheduled_pod(number, 1, memory=memory, cores=0)
    written = f"{workload.gpu_id(node, card)},NVIDIA,{memory},0:;"
    raw["metadata"]["annotations"]["hami.io/vgpu-devices-allocated"] = written
    raw["spec"]["nodeName"] = workload.node_name(node)
    return raw
