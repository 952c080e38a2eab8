"""The embedded API server in a process of its own, with nodes whose cards HAMi's agent registers."""

from __future__ import annotations

import json
from typing import Any

from hami_plugins.observe import logging
from hami_plugins.sandbox.apiserver import KOORDINATOR, ApiServer
from hami_plugins.sandbox.fleet import bare_node
from tests.bench.processes import serve

REGISTER = "hami.io/node-nvidia-register"
CARDS = 8
LEASES = "leases.coordination.k8s.io"


def register(node: int, *, ill: int = -1) -> str:
    """The register of a node's agent; one card may be ill."""
    cards = [
        {
            "id": f"GPU-{node:06d}-{at}",
            "index": at,
            "count": 10,
            "devmem": 81_920,
            "devcore": 100,
            "type": "NVIDIA-NVIDIA H100",
            "numa": at // 4,
            "mode": "hami-core",
            "health": at != ill,
        }
        for at in range(CARDS)
    ]
    return json.dumps(cards)


class Cluster:
    """Nodes with cards, and what is written about them."""

    def __init__(self) -> None:
        self.server = ApiServer(kinds=KOORDINATOR)

    def start(self, *, nodes: int) -> str:
        """Serve so many nodes; the URL."""
        self.server.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}})
        for number in range(nodes):
            self.server.put(bare_node(f"node-{number}", annotations={REGISTER: register(number)}))
        return self.server.start()

    def counts(self) -> dict[str, Any]:
        """What has been written since the last ``clear``, the lease left out; and how many nodes are served in full."""
        written = {
            f"{asked.verb} {asked.resource} {asked.subresource}".strip(): count
            for asked, count in self.server.requests.counts().items()
            if asked.verb in {"create", "update", "patch", "delete"} and asked.resource != LEASES
        }
        summed = [
            each
            for each in self.server.objects("nodes")
            if "koordinator.sh/gpu.shared" in each["status"]["allocatable"]
        ]
        return {"devices": len(self.server.objects("devices")), "summed": len(summed), "written": written}

    def clear(self) -> None:
        """Count from zero."""
        self.server.requests.clear()

    def fall_ill(self, *, nodes: int) -> None:
        """A card of each of the first nodes falls ill."""
        for number in range(nodes):
            node = self.server.get("nodes", f"node-{number}")
            node["metadata"]["annotations"][REGISTER] = register(number, ill=3)
            self.server.put(node)

    def ill(self) -> int:
        """How many nodes are published with an ill card."""
        return sum(
            any(not card["health"] for card in each["spec"]["devices"]) for each in self.server.objects("devices")
        )


def main() -> None:
    """Answer until the bench ends."""
    logging.configure("error", "json")
    cluster = Cluster()
    serve(
        {
            "start": cluster.start,
            "counts": cluster.counts,
            "clear": cluster.clear,
            "fall_ill": cluster.fall_ill,
            "ill": cluster.ill,
        }
    )
    cluster.server.stop()


if __name__ == "__main__":
    main()
