"""The embedded cluster with nodes and pods in HAMi's words, and calls as kube-scheduler makes them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hami_plugins.allocator.handlers import SCHEDULER_PATH
from hami_plugins.sandbox.fleet import bare_node
from tests import raw_objects
from tests.integration.allocator.sites import Site, site
from tests.integration.volcano_vgpu.allocation.servers import Client

LOCK, PHASE, TIME, NODE = "hami.io/mutex.lock", "hami.io/bind-phase", "hami.io/bind-time", "hami.io/vgpu-node"
TO_ALLOCATE, ALLOCATED = "hami.io/vgpu-devices-to-allocate", "hami.io/vgpu-devices-allocated"
VENDORS = ["NVIDIA"]


def a_node(name: str, cards: int = 2) -> dict[str, Any]:
    devices = raw_objects.registered_cards(*(f"GPU-{name}-{at}" for at in range(cards)))
    notes = {
        "hami.io/node-nvidia-register": json.dumps(devices),
        "hami.io/node-handshake": "Requesting_2026-01-01 00:00:00",
    }
    return bare_node(name, capacity={"nvidia.com/gpu": str(10 * cards)}, annotations=notes)


def a_pod(name: str, memory: int = 1000, *, notes: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    asks = raw_objects.container(limits={"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(memory)}, image="i")
    return raw_objects.pod(name, asks, metadata={"namespace": "default", "annotations": dict(notes or {})}, **spec)


def a_holder(name: str, node: str, card: str, memory: int) -> dict[str, Any]:
    """A pod that is bound already and has so much of a card."""
    text = f"{card},NVIDIA,{memory},0:;"
    made = a_pod(name, memory, notes={ALLOCATED: text, NODE: node}, nodeName=node, schedulerName="hami-scheduler")
    return {**made, "status": {"phase": "Running"}}


def call(client: Client, verb: str, **body: Any) -> Any:
    status, text = client.post(client.plain(f"{SCHEDULER_PATH}/{verb}"), json.dumps(body).encode())
    assert status == 200, text
    return json.loads(text)


def bind(client: Client, pod: dict[str, Any], node: str) -> str:
    metadata = pod["metadata"]
    found = call(client, "bind", PodName=metadata["name"], PodNamespace="default", PodUID=metadata["uid"], Node=node)
    return str(found["Error"])


def notes_of(raw: dict[str, Any]) -> dict[str, str]:
    found: dict[str, str] = raw["metadata"].get("annotations") or {}
    return found


@contextmanager
def hami(folder: Path, *nodes: dict[str, Any], **told: Any) -> Iterator[tuple[Site, Client]]:
    """The cluster with one replica, which has such settings, and its webhooks."""
    with site(folder, *nodes) as place:
        client = place.start(vendors=VENDORS, **told)
        place.install(client, vendors=VENDORS)
        yield place, client
