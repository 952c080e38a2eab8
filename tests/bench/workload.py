"""The benchmark workload: nodes of eight H100 cards with twenty pods each, as other schedulers were measured on it.

Deterministic: the same numbers give the same objects, byte for byte.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

from tests import raw_objects

Raw = dict[str, Any]

MODEL = "NVIDIA H100 80GB HBM3"
CARDS = 8
PODS_PER_NODE = 20


def node_name(node: int) -> str:
    """The name of a node by number."""
    return f"gpu-node-{node:05d}"


def gpu_id(node: int, card: int) -> str:
    """The id of a card by node and number."""
    return f"GPU-{node:08x}-0000-4000-8000-{card:012x}"


def pod_uid(kind: int, number: int) -> str:
    """A uid: kind 7 for nodes, 1 for scheduled pods, 2 for requests."""
    return f"{kind:08x}-1111-4111-8111-{number:012x}"


def node(number: int) -> Raw:
    """A node as HAMi's plugin and the API server leave it."""
    amounts = {"cpu": "128", "memory": "1Ti", "nvidia.com/gpu": "80", "pods": "110"}
    register = json.dumps([_card(number, card) for card in range(CARDS)], separators=(",", ":"))
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": node_name(number),
            "uid": pod_uid(7, number),
            "labels": {"gpu": "on", "kubernetes.io/hostname": node_name(number)},
            "annotations": {
                "hami.io/node-handshake": "Requesting_2099-01-01 00:00:00",
                "hami.io/node-nvidia-register": register,
            },
        },
        "spec": {},
        "status": {"capacity": amounts, "allocatable": dict(amounts)},
    }


def _card(number: int, card: int) -> Raw:
    device: Raw = {"id": gpu_id(number, card)}
    if card:
        device["index"] = card
    device.update(count=10, devmem=81920, devcore=100, type=MODEL)
    if card // 4:
        device["numa"] = 1
    device.update(mode="hami-core", health=True)
    return device


def scheduled_pod(number: int, nodes: int, *, memory: int = 8192, cores: int = 10) -> Raw:
    """A running pod with one slice; pods fill node after node, card after card."""
    on, card = number % nodes, (number // nodes) % CARDS
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"run-{number:06d}",
            "namespace": "default",
            "uid": pod_uid(1, number),
            "labels": {"hami.io/vgpu-node": node_name(on)},
            "annotations": {
                "hami.io/bind-phase": "success",
                "hami.io/bind-time": "1787306401",
                "hami.io/vgpu-devices-allocated": f"{gpu_id(on, card)},NVIDIA,{memory},{cores}:;",
                "hami.io/vgpu-devices-to-allocate": ";",
                "hami.io/vgpu-node": node_name(on),
                "hami.io/vgpu-time": "1787306400",
            },
        },
        "spec": {
            "nodeName": node_name(on),
            "containers": [
                _container({"nvidia.com/gpu": 1, "nvidia.com/gpucores": cores, "nvidia.com/gpumem": memory})
            ],
        },
        "status": {"phase": "Running"},
    }


def request_pod(number: int, limits: dict[str, int] | None = None) -> Raw:
    """A pod to be placed; without limits the vGPU request that others were measured with."""
    asked = limits or {"nvidia.com/gpu": 1, "nvidia.com/gpucores": 30, "nvidia.com/gpumem": 3000}
    metadata = {"namespace": "default", "uid": pod_uid(2, number)}
    asks = _container(asked)
    return raw_objects.pod(f"req-{number:06d}", asks, metadata=metadata, scheduler="hami-scheduler", phase="Pending")


def _container(limits: dict[str, int]) -> Raw:
    return {
        "name": "main",
        "image": "img:1",
        "resources": {"limits": {resource: str(amount) for resource, amount in limits.items()}},
    }


def lean(nodes: int, pods: int) -> Iterator[Raw]:
    """The whole workload: every node carries the same load."""
    for number in range(nodes):
        yield node(number)
    for number in range(pods):
        yield scheduled_pod(number, nodes)


def varied(nodes: int, pods: int, seed: int = 1) -> Iterator[Raw]:
    """The workload with slices of many sizes, so that (nearly) every node is in a state of its own."""
    chance = random.Random(seed)
    for number in range(nodes):
        yield node(number)
    for number in range(pods):
        yield scheduled_pod(number, nodes, memory=chance.randrange(1_000, 12_000), cores=chance.randrange(0, 16))


def shapes(count: int = 20) -> list[dict[str, int]]:
    """Different requests: slices of growing size, some of two and four cards, and one of all eight."""
    made = [
        {
            "nvidia.com/gpu": 1 + (at % 5 == 3) + 3 * (at % 10 == 7),
            "nvidia.com/gpumem": 2_000 + 700 * at,
            "nvidia.com/gpucores": 5 * (at % 7),
        }
        for at in range(count - 1)
    ]
    return [*made, {"nvidia.com/gpu": CARDS, "nvidia.com/gpumem": 1_000}]


def as_the_server_shows(pod: Raw, example: Raw) -> Raw:
    """A pod with the managed fields, conditions and defaults that a real API server adds, taken from an example."""
    shown = {**example, **pod}
    shown["metadata"] = {**example["metadata"], **pod["metadata"]}
    shown["spec"] = {**example["spec"], **pod["spec"]}
    shown["status"] = {**example["status"], **pod["status"]}
    return shown
