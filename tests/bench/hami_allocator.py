"""What the allocator costs kube-scheduler for pods in HAMi's words: a process of its own, asked over sockets."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from typing import Any

from hami_plugins.allocator.handlers import SCHEDULER_PATH
from hami_plugins.sandbox.apiserver import VOLCANO, ApiServer
from hami_plugins.sandbox.fleet import bare_node
from tests import raw_objects
from tests.bench.measuring import Figure, figure, timed
from tests.bench.neuron_allocator import Server, compact

CARDS = 8
MEMORY = 81_920
PODS = 20
"""Pods of each node."""

CALLS = 320
WARM = 20

Raw = dict[str, Any]


def figures() -> Iterator[Figure]:
    """A cluster of HAMi's size in its benchmarks, and one five times as large."""
    yield from filtering(1_000, p50=4.0, p99=12.0)
    yield from filtering(5_000, p50=15.0, p99=40.0)


def filtering(nodes: int, *, p50: float, p99: float) -> Iterator[Figure]:
    """Every node is asked about, and nearly every one is in a state of its own."""
    draw = random.Random(7)
    names = [f"n{at:04}" for at in range(nodes)]
    with ApiServer(kinds=VOLCANO) as api:
        for name in names:
            api.put(a_node(name))
            for pod in running(name, draw):
                api.put(pod)
        began = time.perf_counter()
        with Server(api, ("allocator", "run"), vendors=["NVIDIA"]) as server:
            ready = time.perf_counter() - began
            took, fitting = [], set[int]()
            for turn in range(CALLS):
                body = compact({"Pod": asking(f"asks-{turn}", draw), "Nodes": None, "NodeNames": names})
                each, answer = timed(server.post, f"{SCHEDULER_PATH}/filter", body)
                if turn >= WARM:
                    took.append(each)
                    fitting.add(len(json.loads(answer)["NodeNames"]))
            memory = resident(server.pid)
    if len(fitting) < 2:
        raise ValueError(f"{fitting} of {nodes} nodes fit: the workload decides nothing")
    what = f"{nodes:,} nodes / {nodes * PODS:,} pods"
    yield figure(f"hami: filter over HTTP, {what}", took, at_most=p50, p99_at_most=p99)
    yield figure(f"hami: cold to ready, {what}", [ready], unit="s")
    yield figure(f"hami: memory of the allocator, {what}", [memory], unit="MiB", at_most=600)


def a_node(name: str) -> Raw:
    """A node of eight cards, as HAMi's plugin registers it."""
    devices = [
        {"id": f"GPU-{name}-{at}", "index": at, "count": 10, "devmem": MEMORY, "devcore": 100}
        | {"type": "NVIDIA-A100", "numa": at // 4, "mode": "hami-core", "health": True}
        for at in range(CARDS)
    ]
    handshake = "Requesting_2026-01-01 00:00:00"
    notes = {"hami.io/node-nvidia-register": json.dumps(devices), "hami.io/node-handshake": handshake}
    return bare_node(name, capacity={"nvidia.com/gpu": str(10 * CARDS)}, annotations=notes)


def running(node: str, draw: random.Random) -> Iterator[Raw]:
    """Pods that leave each card of a node with a rest of its own."""
    free = [MEMORY] * CARDS
    for at in range(PODS):
        card, memory = draw.randrange(CARDS), draw.randrange(1_000, 30_000)
        if memory > free[card]:
            memory = draw.randrange(100, 200)
        free[card] -= memory
        held = f"GPU-{node}-{card},NVIDIA,{memory},{draw.choice((0, 5, 10))}:;"
        notes = {"hami.io/vgpu-devices-allocated": held, "hami.io/vgpu-node": node}
        pod = a_pod(f"{node}-{at}", memory, notes)
        yield {**pod, "spec": {**pod["spec"], "nodeName": node}, "status": {"phase": "Running"}}


def asking(name: str, draw: random.Random) -> Raw:
    """A pod that waits."""
    return a_pod(name, draw.choice((8_000, 20_000, 40_000, 60_000, 70_000)), {})


def a_pod(name: str, memory: int, notes: dict[str, str]) -> Raw:
    """A pod that asks for a slice of one card."""
    asks = raw_objects.container(limits={"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(memory)}, image="i")
    metadata = {"namespace": "default", "uid": f"uid-{name}", "annotations": notes}
    return raw_objects.pod(name, asks, metadata=metadata, scheduler="hami-scheduler")


def resident(pid: int) -> float:
    """The memory of a process in MiB."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:  # noqa: PTH123 - a line of a virtual file
        found = next(line for line in file if line.startswith("VmRSS:"))
    return int(found.split()[1]) / 1024
