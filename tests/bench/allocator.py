"""What the allocator adds to the cache: bodies of schedulers and API servers in, replies out.

Run as a module it fills the cache in this process and prints what it measured, so that each run starts fresh.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

from hami_plugins.allocations.mode import AllocatorMode
from hami_plugins.allocator.bindings import Bindings
from hami_plugins.allocator.locked_cache import LockedAllocationCache
from hami_plugins.allocator.metrics import AllocatorMetrics
from hami_plugins.allocator.volcano_extender import Extender
from hami_plugins.cli.kit.memory import undisturbed
from hami_plugins.errors import KubeError
from hami_plugins.kube.reflector import ObjectChange
from hami_plugins.observe import logging
from hami_plugins.wire import admission_review
from hami_plugins.wire.admission_review import Allowed
from hami_plugins.wire.fields import Json
from hami_plugins.wire.pages import load_page
from tests.bench.allocations import HERE, NODES, NOW_NS, PODS, ROOT, listed, node, pod, running
from tests.bench.loading import pages
from tests.bench.measuring import Figure, figure, timed
from tests.bench.workload import CARDS, as_the_server_shows, node_name
from tests.unit.allocator.products import MARK, product

PODS_A_NODE = PODS // NODES


class Server:
    """The parts of a server that answer, filled, without sockets."""

    def __init__(self) -> None:
        metrics = AllocatorMetrics()
        self.cache = LockedAllocationCache(product(), keep=90.0, clock=time.monotonic)
        self.extender = Extender(self.cache, read=_unread, weight=10.0, metrics=metrics)
        self.bindings = Bindings(
            cache=self.cache,
            metrics=metrics,
            read=_unread,
            now_ns=lambda: NOW_NS,
            touch=lambda _node: None,
        )

    def feed(self, page: bytes) -> None:
        """What the watches do with one page of the lists that they begin with."""
        for item in load_page("page", page)["items"]:
            change = ObjectChange("added", item, item["metadata"].get("uid") or item["metadata"]["name"])
            (self.cache.node_changed if item["kind"] == "Node" else self.cache.pod_changed)(change)

    def bind(self, body: bytes) -> Any:
        """From the body of a review to that of its answer."""
        request = admission_review.decode(body)
        answer = self.bindings(request)
        return admission_review.encode(request.uid, answer), isinstance(answer, Allowed) and answer.operations


def _unread(namespace: str, name: str) -> Json | None:
    raise KubeError(f"{namespace}/{name} was read, and nothing is to be read on the way")


def asking(turn: int, like: dict[str, Any]) -> dict[str, Any]:
    """One of twenty shapes in turn, as the API server shows a pod that waits."""
    shape = turn % 20
    raw = as_the_server_shows(pod(turn, 2_000 + 700 * shape, 5 * (shape % 7), kind=2), like)
    raw["metadata"].setdefault("annotations", {})[MARK] = AllocatorMode.EXTENDER.value
    raw["spec"].pop("nodeName", None)
    raw["status"] = {"phase": "Pending"}
    return raw


def review(raw: Json, on: str) -> bytes:
    """The review of a Binding."""
    metadata = raw["metadata"]
    told = {name: metadata[name] for name in ("name", "namespace", "uid", "annotations")}
    request = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "operation": "CREATE",
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "subResource": "binding",
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "userInfo": {"username": "volcano", "groups": ["system:authenticated"]},
        "object": {"apiVersion": "v1", "kind": "Binding", "metadata": told, "target": {"kind": "Node", "name": on}},
    }
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


def call(raw: Json, number: int, like: dict[str, dict[str, Any]]) -> bytes:
    """A predicate call: the task, and the node with all of its pods."""
    tasks = {}
    for at in range(PODS_A_NODE):
        other = as_the_server_shows(running(number + at * NODES, 4_000, 5), like["pod"])
        tasks[f"default/{other['metadata']['name']}"] = {"UID": other["metadata"]["uid"], "Pod": _short(other)}
    shown = as_the_server_shows(node(number), like["node"])
    body = {"task": _task(raw), "node": {"Name": node_name(number), "Node": shown, "Tasks": tasks}}
    return json.dumps(body, separators=(",", ":")).encode()


def _short(raw: Json) -> Json:
    """A pod of which the managed fields are left out, as Volcano keeps it: about 1.5 kB."""
    metadata = {name: value for name, value in raw["metadata"].items() if name != "managedFields"}
    return {"metadata": metadata, "spec": {"containers": raw["spec"]["containers"]}, "status": {"phase": "Running"}}


def _task(raw: Json) -> dict[str, Any]:
    metadata = raw["metadata"]
    return {
        "UID": metadata["uid"],
        "Name": metadata["name"],
        "Namespace": metadata["namespace"],
        "NodeName": "",
        "Pod": raw,
    }


def measure(bindings: int = 2_000, pods: int = 20, nodes: int = 100) -> dict[str, list[float]]:
    """One run, in milliseconds; the size of a call in kB."""
    like = {
        "node": json.loads((HERE / "node-api.json").read_text()),
        "pod": json.loads((HERE / "scheduled-pod-api.json").read_text()),
    }
    server = Server()
    found: dict[str, list[float]] = {"fill": [0.0], "binding": [], "first": [], "next": [], "size": [], "rank": []}
    with undisturbed():
        for page in pages(listed()):
            found["fill"][0] += timed(server.feed, page)[0]
    chance = random.Random(3)
    for turn in range(bindings):
        raw = asking(turn, like["pod"])
        server.cache.pod_changed(ObjectChange("added", raw, raw["metadata"]["uid"]))
        body = review(raw, node_name(chance.randrange(NODES)))
        took, (_, operations) = timed(server.bind, body)
        found["binding"].append(took)
        if not operations:
            raise TypeError("the workload no longer fits")
    for turn in range(pods):
        raw = asking(bindings + turn, like["pod"])
        for at in range(nodes):
            body = call(raw, chance.randrange(NODES), like)
            found["size"].append(len(body) / 1000)
            found["next" if at else "first"].append(timed(server.extender.predicate, body)[0])
    names = [{"Name": node_name(number)} for number in range(16)]
    ranked = json.dumps({"task": _task(asking(1, like["pod"])), "nodes": names}).encode()
    found["rank"] = [timed(server.extender.prioritize, ranked)[0] for _ in range(200)]
    return found


def figures(repeats: int = 3) -> Iterator[Figure]:
    """Every run in a process of its own."""
    runs = [
        json.loads(
            subprocess.run(
                [sys.executable, "-m", "tests.bench.allocating"], check=True, capture_output=True, text=True, cwd=ROOT
            ).stdout
        )
        for _ in range(repeats)
    ]

    def of(name: str) -> list[float]:
        return [value for run in runs for value in run[name]]

    size = f"{NODES:,} nodes x {CARDS} / {PODS:,} pods"
    yield figure(f"allocations: cache from the bytes of the lists, {size}", of("fill"), at_most=5_000)
    yield figure("allocations: a Binding, from the review to the patch", of("binding"), at_most=1, p99_at_most=5)
    yield figure("allocations: size of a predicate call", of("size"), unit="kB")
    yield figure("allocations: a predicate call, the pod's first", of("first"), at_most=0.5)
    yield figure("allocations: a predicate call, the pod's next nodes", of("next"), at_most=0.5)
    yield figure("allocations: a prioritize call, 16 nodes", of("rank"))


if __name__ == "__main__":
    # As the server does it: a line for each allocation.
    logging.configure("info", "json")
    print(json.dumps(measure()))
