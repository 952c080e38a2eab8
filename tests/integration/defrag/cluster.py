"""A cluster whose controller, scheduler and kubelets are one thread: evicted pods end, and are made anew and placed."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from hami_plugins.cli import main
from hami_plugins.engine.annotate import annotations_of
from hami_plugins.engine.decide import Decider
from hami_plugins.engine.intake import Rules, take_in
from hami_plugins.inputs.list_reader import snapshot_of
from hami_plugins.model.decisions import Placed
from hami_plugins.sandbox.apiserver import ApiServer
from hami_plugins.vendors import builtin
from hami_plugins.wire import objects, quantity

Raw = dict[str, Any]
CARD = 24_576
REGISTRY = builtin()


class Placement(NamedTuple):
    """A node for a pod, and the id of its card."""

    node: str
    card: str


class Site:
    """The cluster. ``place`` says where a new pod goes; ``None`` for not yet."""

    def __init__(self, server: ApiServer, folder: Path) -> None:
        self.server = server
        self.folder = folder
        self.journal = folder / "moves.jsonl"
        self.kubeconfig = server.kubeconfig(folder / "kubeconfig")
        self.place: Callable[[Raw], Placement | None] = self.decided
        self.copies = 1
        self.ready = True
        self._made = 0

    def defrag(self, *words: str) -> int:
        """Run the command."""
        wait = () if "--wait" in words else ("--wait", "20")
        return main(["defrag", "--kubeconfig", str(self.kubeconfig), "--journal", str(self.journal), *wait, *words])

    def step(self) -> None:
        """What controller, scheduler and kubelets do in their turn."""
        for raw in self.server.objects("pods"):
            metadata = raw["metadata"]
            if metadata.get("deletionTimestamp"):
                self.server.delete("pods", metadata["name"], metadata["namespace"], grace=0)
                for _ in range(self.copies):
                    self._made += 1
                    name = f"{metadata['ownerReferences'][0]['name']}-{self._made}n"
                    self.put(name, raw["spec"]["containers"], metadata["ownerReferences"], metadata["namespace"])
            elif not raw["spec"].get("nodeName") and metadata.get("ownerReferences"):
                placement = self.place(raw)
                if placement is not None:
                    self.bind(raw, placement)

    def put(self, name: str, containers: list[Raw], owners: list[Raw], namespace: str = "ml") -> None:
        """A pod that waits."""
        metadata = {"name": name, "namespace": namespace, "ownerReferences": owners}
        spec = {"schedulerName": "hami-scheduler", "containers": containers}
        self.server.put({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})

    def bind(self, raw: Raw, placement: Placement) -> None:
        """The pod runs, with an allocation."""
        limits = raw["spec"]["containers"][0]["resources"]["limits"]
        memory = quantity.parse(limits["nvidia.com/gpumem"], key="memory").whole
        held = f"{placement.card},NVIDIA,{memory},0:;"
        raw["metadata"].setdefault("annotations", {})["hami.io/vgpu-devices-allocated"] = held
        raw["spec"]["nodeName"] = placement.node
        conditions = [{"type": "Ready", "status": "True" if self.ready else "False"}]
        raw["status"] = {"phase": "Running", "conditions": conditions}
        self.server.put(raw)

    def decided(self, raw: Raw) -> Placement | None:
        """As our allocator decides."""
        items = [*self.server.objects("nodes"), *self.server.objects("pods")]
        kinds = ["Node"] * len(self.server.objects("nodes")) + ["Pod"] * len(self.server.objects("pods"))
        snapshot = snapshot_of([{**item, "kind": kind} for item, kind in zip(items, kinds, strict=True)], REGISTRY)
        info = take_in(objects.pod(raw), REGISTRY, Rules())
        found = Decider(REGISTRY).decide(snapshot, info.demand, info.policy)
        if not isinstance(found, Placed):
            return None
        entry = snapshot.nodes[snapshot.position[found.node]]
        assert annotations_of(info.pod, found, entry, REGISTRY, now_ns=0)
        return Placement(found.node, found.shares()[0].device)

    def pods(self) -> dict[str, str]:
        """The node of each pod."""
        found = self.server.objects("pods", "ml")
        return {each["metadata"]["name"]: each["spec"].get("nodeName", "") for each in found}

    def marks(self) -> list[tuple[int, str]]:
        """What the journal says of moves."""
        lines = [json.loads(line) for line in self.journal.read_text().splitlines()]
        return [(line["step"], line["mark"]) for line in lines[1:]]


def a_node(name: str) -> Raw:
    """A node of one card."""
    card = {"id": f"GPU-{name}", "index": 0, "count": 10, "devmem": CARD, "devcore": 100, "type": "NVIDIA L4"}
    card |= {"numa": 0, "mode": "hami-core", "health": True}
    amounts = {"cpu": "32", "memory": "128Gi", "pods": "110", "nvidia.com/gpu": "10"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "annotations": {"hami.io/node-nvidia-register": json.dumps([card])}},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


@contextmanager
def site(folder: Path, **nodes: dict[str, int]) -> Iterator[Site]:
    """Nodes with their pods and what those hold (MiB). Pods named ``fixed`` are marked as not preemptable."""
    with ApiServer() as server:
        server.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ml"}})
        place = Site(server, folder)
        for node, pods in nodes.items():
            server.put(a_node(node))
            for name, memory in pods.items():
                owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": f"of-{name}"}
                limits = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": str(memory)}
                container = {"name": "main", "image": "i", "resources": {"limits": limits}}
                place.put(name, [container], [{**owner, "controller": True}])
                raw = server.get("pods", name, "ml")
                if name.startswith("fixed"):
                    raw["metadata"]["annotations"] = {"volcano.sh/preemptable": "false"}
                place.bind(raw, Placement(node, f"GPU-{node}"))
        stop = threading.Event()

        failures: list[Exception] = []

        def work() -> None:
            while not stop.wait(0.02):
                try:
                    place.step()
                except Exception as error:
                    failures.append(error)
                    raise

        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield place
        finally:
            stop.set()
            thread.join()
            assert not failures
