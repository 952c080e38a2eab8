"""What the allocator costs kube-scheduler for pods in HAMi's words: a process of its own, asked over sockets."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

from hami_plugins.allocator.handlers import SCHEDULER_PATH
from hami_plugins.sandbox.apiserver import VOLCANO, ApiServer
from hami_plugins.sandbox.fleet import bare_node
from tests import raw_objects
from tests.bench.measuring import Figure, figure, timed
from tests.bench.neuron_allocator import Server, compact
from tests.bench.processes import load

CARDS = 8
MEMORY = 81_920
PODS = 20
"""Pods of each node."""

CALLS = 300
WARM = 20
RATE = 50
"""Pods that are bound in a second, and as many that end."""

Raw = dict[str, Any]


def figures() -> Iterator[Figure]:
    """A cluster of HAMi's size in its benchmarks, and one five times as large."""
    yield from filtering(1_000, p50=4.0, p99=12.0)
    yield from filtering(5_000, p50=15.0, p99=40.0)


def filtering(nodes: int, *, p50: float, p99: float) -> Iterator[Figure]:
    """Every node is asked about, and nearly every one is in a state of its own. Then the same while pods come."""
    draw = random.Random(7)
    names = [f"n{at:04}" for at in range(nodes)]
    what = f"{nodes:,} nodes / {nodes * PODS:,} pods"
    with ApiServer(kinds=VOLCANO) as api:
        for name in names:
            api.put(a_node(name))
            for pod in running(name, draw):
                api.put(pod)
        began = time.perf_counter()
        with Server(api, ("allocator", "run"), vendors=["NVIDIA"]) as server:
            ready = [time.perf_counter() - began]
            quiet = Calls(server, names, draw)
            quiet.make(WARM, counted=False)
            quiet.make(CALLS)
            busy = Calls(server, names, draw)
            with coming(api, names):
                busy.make(CALLS)
            memory = [load(server.pid).resident_mib]
    if len(quiet.fitting) < 2:
        raise ValueError(f"{quiet.fitting} of {nodes} nodes fit: the workload decides nothing")
    for calls, while_what in ((quiet, ""), (busy, f", {RATE} pods/s bound meanwhile")):
        yield figure(f"hami: filter over HTTP, {what}{while_what}", calls.took, at_most=p50, p99_at_most=p99)
        yield figure(f"hami: CPU time of the server per call, {what}{while_what}", [calls.cpu], at_most=p50)
    yield figure(f"hami: cold to ready, {what}", ready, unit="s", at_most=20)
    yield figure(f"hami: memory of the allocator, {what}", memory, unit="MiB", at_most=600)


class Calls:
    """``filter`` calls about all nodes, one after another: how long each took, and how many nodes fit."""

    def __init__(self, server: Server, names: list[str], draw: random.Random) -> None:
        self.took: list[float] = []
        self.fitting: set[int] = set()
        self.cpu = 0.0
        """Milliseconds of the server per call; what its watches cost meanwhile is in them."""
        self._server = server
        self._names = names
        self._draw = draw

    def make(self, number: int, *, counted: bool = True) -> None:
        """Makes so many calls."""
        before = load(self._server.pid).cpu_seconds
        for turn in range(number):
            body = compact({"Pod": asking(f"asks-{turn}", self._draw), "Nodes": None, "NodeNames": self._names})
            took, answer = timed(self._server.post, f"{SCHEDULER_PATH}/filter", body)
            if counted:
                self.took.append(took)
                self.fitting.add(len(json.loads(answer)["NodeNames"]))
        self.cpu = (load(self._server.pid).cpu_seconds - before) * 1000 / number


@contextmanager
def coming(api: ApiServer, names: list[str]) -> Iterator[None]:
    """Pods are bound and end all the time, ``RATE`` a second."""
    end, draw = threading.Event(), random.Random(11)

    def come() -> None:
        for turn in count():
            if end.wait(1 / RATE):
                return
            on = draw.choice(names)
            held = f"GPU-{on}-{turn % CARDS},NVIDIA,100,0:;"
            pod = a_pod(f"comes-{turn}", 100, {"hami.io/vgpu-devices-allocated": held, "hami.io/vgpu-node": on})
            api.put({**pod, "spec": {**pod["spec"], "nodeName": on}, "status": {"phase": "Running"}})
            if turn >= RATE:
                api.delete("pods", f"comes-{turn - RATE}", "default", grace=0)

    thread = threading.Thread(target=come, daemon=True)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


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
        cores = draw.choice((0, 5, 10))
        held = f"GPU-{node}-{card},NVIDIA,{memory},{cores}:;"
        notes = {"hami.io/vgpu-devices-allocated": held, "hami.io/vgpu-node": node}
        pod = a_pod(f"{node}-{at}", memory, notes, cores=cores)
        yield {**pod, "spec": {**pod["spec"], "nodeName": node}, "status": {"phase": "Running"}}


def asking(name: str, draw: random.Random) -> Raw:
    """A pod that waits."""
    return a_pod(name, draw.choice((8_000, 20_000, 40_000, 60_000, 70_000)), {})


def a_pod(name: str, memory: int, notes: dict[str, str], *, cores: int = 0) -> Raw:
    """A pod that asks for a slice of one card."""
    limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(memory), "nvidia.com/gpucores": str(cores)}
    asks = raw_objects.container(limits=limits, image="i")
    metadata = {"namespace": "default", "uid": f"uid-{name}", "annotations": notes}
    return raw_objects.pod(name, asks, metadata=metadata, scheduler="hami-scheduler")
