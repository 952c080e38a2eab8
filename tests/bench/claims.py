"""A plan of pods with claims on a large listing: 5,000 nodes, 20,000 devices, 3,000 claims that have theirs."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import orjson

from tests.bench.commands import cpu_seconds
from tests.bench.measuring import Figure, figure
from tests.claim_objects import DRIVER, a_claim, a_class, a_device, a_node, a_request, a_slice, a_template, given
from tests.raw_objects import Raw

NODES: Final = 5_000
CARDS: Final = 4
CLAIMS: Final = 3_000
PODS: Final = 200
WANTED: Final = (
    f'device.attributes["{DRIVER}"].model == "H100" && '
    f'device.capacity["{DRIVER}"].memory.isGreaterThan(quantity("40Gi"))'
)


def figures(repeats: int = 3) -> Iterator[Figure]:
    """The whole process, in CPU seconds, so that other processes count little.

    Each pod wants two cards of a model and an amount, on one NUMA node. Asking every node again for each pod took
    11.8 s; asking those that changed takes 3.6 s.
    """
    with tempfile.TemporaryDirectory() as folder:
        listing, manifest = Path(folder, "dump.json"), Path(folder, "pods.json")
        listing.write_bytes(orjson.dumps(_listed(_cluster())))
        manifest.write_bytes(orjson.dumps(_listed(_submitted())))
        times = cpu_seconds(repeats, "plan", "-f", str(manifest), "--snapshot", str(listing))
    yield figure(f"plan of {PODS} pods with claims, {NODES * CARDS:,} devices, CPU", times, unit="s", at_most=6.0)


def _cluster() -> Iterator[Raw]:
    yield a_class()
    for at in range(NODES):
        name = f"n{at:05}"
        yield a_node(name)
        yield a_slice(*(_card(at, card) for card in range(CARDS)), node=name)
    for at in range(CLAIMS):
        yield a_claim(f"c{at}", a_request(), **given(f"gpu-{at % 2}", node=f"n{at:05}", users=[f"u{at}"]))


def _card(node: int, card: int) -> Raw:
    named = {"model": "A100" if node % 2 else "H100", "numa": card // 2, "uuid": f"GPU-{node:05}-{card}"}
    return a_device(f"gpu-{card}", attributes=named, capacity={"memory": {"value": "80Gi"}})


def _submitted() -> Iterator[Raw]:
    tied = [{"matchAttribute": f"{DRIVER}/numa"}]
    yield a_template("pair", a_request("r", WANTED, count=2), constraints=tied)
    spec: dict[str, Any] = {
        "resourceClaims": [{"name": "c", "resourceClaimTemplateName": "pair"}],
        "containers": [{"name": "main", "image": "busybox", "resources": {"claims": [{"name": "c"}]}}],
    }
    metadata = {"name": "train", "namespace": "default"}
    yield {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {"replicas": PODS, "template": {"metadata": {}, "spec": spec}},
    }


def _listed(items: Iterator[Raw]) -> Raw:
    return {"apiVersion": "v1", "kind": "List", "items": list(items)}
