"""What the allocation cache costs: 1,000 nodes of eight cards and 20,000 pods that hold slices of them.

Run as a module it fills one cache in this process and prints what it measured, so that each run starts fresh.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from hami_plugins.allocations.answers import PodAllocation
from hami_plugins.allocations.cache import AllocationCache
from hami_plugins.cli.kit.memory import undisturbed
from hami_plugins.engine.decide import Decider
from hami_plugins.engine.intake import PodInfo, Rules, take_in
from hami_plugins.engine.registry import Registry
from hami_plugins.model.units import CoreShare, DeviceId, MiB, NodeName
from hami_plugins.vendors.volcano import BIND_TIME_KEY, NODE_KEY, PHASE_KEY, SPEC, TIME_KEY
from hami_plugins.wire import objects
from hami_plugins.wire.node_devices import DEFAULT_MODE, RegisteredDevice
from hami_plugins.wire.pages import load_page
from hami_plugins.wire.pod_devices import AssignedDevice
from hami_plugins.wire.volcano import encode_assignment, encode_register
from tests import raw_objects
from tests.bench.loading import pages
from tests.bench.measuring import Figure, figure, timed
from tests.bench.workload import CARDS, MODEL, as_the_server_shows, gpu_id, node_name, pod_uid

Raw = dict[str, Any]

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
NOW_NS = 1_790_000_000_000_000_000
NODES, PODS = 1_000, 20_000
REGISTRY = Registry([SPEC])
COUNT, MEMORY, CORES = SPEC.resources.count, SPEC.resources.memory, SPEC.resources.cores


def node(number: int) -> Raw:
    """A node as its agent registers it."""
    cards = (
        RegisteredDevice(id=DeviceId(gpu_id(number, card)), slots=10, memory=MiB(81_920), model=MODEL, healthy=True)
        for card in range(CARDS)
    )
    register = encode_register(replace(card, mode=DEFAULT_MODE) for card in cards)
    return {
        "kind": "Node",
        "metadata": {"name": node_name(number), "annotations": {SPEC.keys.register: register}},
        "spec": {},
        "status": {},
    }


def pod(number: int, memory: int, cores: int, kind: int = 1) -> Raw:
    """A pod that waits for a slice of one card."""
    asks = raw_objects.container(limits={COUNT: "1", MEMORY: str(memory), CORES: str(cores)})
    metadata = {"namespace": "default", "uid": pod_uid(kind, number)}
    return raw_objects.pod(f"run-{number:06d}", asks, metadata=metadata, scheduler="volcano", phase="Pending")


def running(number: int, memory: int, cores: int) -> Raw:
    """A pod that runs; pods fill node after node, card after card."""
    on, card = number % NODES, (number // NODES) % CARDS
    device = AssignedDevice(DeviceId(gpu_id(on, card)), "NVIDIA", MiB(memory), CoreShare(cores))
    raw = pod(number, memory, cores)
    raw["metadata"]["annotations"] = {
        SPEC.keys.allocated: encode_assignment([[device]]),
        SPEC.keys.to_allocate: "",
        NODE_KEY: node_name(on),
        TIME_KEY: "18446744073709551615",
        PHASE_KEY: "success",
        BIND_TIME_KEY: "1790000000",
    }
    raw["spec"]["nodeName"] = node_name(on)
    raw["status"] = {"phase": "Running"}
    return raw


def listed() -> Iterator[Raw]:
    """All objects as an API server shows them, slices of many sizes, so that nearly every node has its own state."""
    chance = random.Random(1)
    like_node = json.loads((HERE / "node-api.json").read_text())
    like_pod = json.loads((HERE / "scheduled-pod-api.json").read_text())
    for number in range(NODES):
        yield as_the_server_shows(node(number), like_node)
    for number in range(PODS):
        yield as_the_server_shows(running(number, chance.randrange(1_000, 12_000), chance.randrange(0, 16)), like_pod)


def filled() -> tuple[float, AllocationCache]:
    """Milliseconds from the bytes of the lists to a cache that has looked at every node, as the server fills it."""
    cache = AllocationCache(Decider(REGISTRY))
    with undisturbed():
        spent = sum(timed(feed, cache, page)[0] for page in pages(listed()))
        return spent + timed(cache.snapshot)[0], cache


def feed(cache: AllocationCache, page: bytes) -> None:
    """A watch's handling of one page of its first list."""
    for item in load_page("page", page)["items"]:
        if item["kind"] == "Node":
            cache.see_node(objects.node_object(item))
        else:
            cache.see_pod(objects.pod(item), 0)


def resident_mib() -> float:
    """The memory that this process holds now."""
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS:")).split()[1]) / 1024


def asked(turn: int) -> PodInfo:
    """One of twenty shapes in turn."""
    shape = turn % 20
    raw = pod(turn, 2_000 + 700 * shape, 5 * (shape % 7), kind=2)
    return take_in(objects.pod(raw), REGISTRY, Rules())


def measure(questions: int = 20_000, allocations: int = 2_000) -> dict[str, list[float]]:
    """One run: how long it takes to fill a cache and to ask it, in milliseconds, and what it holds, in MiB."""
    empty = resident_mib()
    seconds, cache = filled()
    found: dict[str, list[float]] = {
        "fill": [seconds],
        "memory": [resident_mib() - empty],
        "answer": [],
        "allocation": [],
    }
    names = [NodeName(node_name(number)) for number in range(NODES)]
    shapes = [asked(turn) for turn in range(20)]
    chance = random.Random(2)
    for turn in range(questions):
        found["answer"].append(timed(cache.answer, chance.choice(names), shapes[turn % 20])[0])
    for turn in range(allocations):
        intake, name = asked(turn), chance.choice(names)
        took, said = timed(bind, cache, intake, name)
        found["allocation"].append(took)
        if said is None:
            raise TypeError("the workload no longer fits")
    found["findings"] = [timed(cache.findings)[0]]
    return found


def bind(cache: AllocationCache, intake: PodInfo, name: NodeName) -> dict[str, str] | None:
    """What a Binding is answered with."""
    said = cache.allocate(name, intake, 1)
    return cache.annotations(said, intake.pod, now_ns=NOW_NS) if isinstance(said, PodAllocation) else None


def figures(repeats: int = 3) -> Iterator[Figure]:
    """Every run in a process of its own."""
    runs = [
        json.loads(
            subprocess.run(
                [sys.executable, "-m", "tests.bench.allocations"], check=True, capture_output=True, text=True, cwd=ROOT
            ).stdout
        )
        for _ in range(repeats)
    ]

    def of(name: str) -> list[float]:
        return [value for run in runs for value in run[name]]

    size = f"{NODES:,} nodes x {CARDS} / {PODS:,} pods"
    yield figure(f"cache from the bytes of the lists, {size}", of("fill"), at_most=5_000)
    yield figure("the same, memory", of("memory"), unit="MiB", at_most=300)
    yield figure(
        "cache: whether a node takes a pod, 20 shapes, nodes in different states",
        of("answer"),
        at_most=0.2,
        p99_at_most=1,
    )
    yield figure(
        "cache: a Binding answered, the node placed on and the annotations written",
        of("allocation"),
        at_most=1,
        p99_at_most=5,
    )
    yield figure("cache: all that is wrong with what is held", of("findings"))


if __name__ == "__main__":
    print(json.dumps(measure()))
