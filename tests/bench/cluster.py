"""The embedded API server in a process of its own, counting what is written to each node."""

from __future__ import annotations

import threading
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

from hami_plugins.observe import logging
from hami_plugins.sandbox.apiserver import VOLCANO, ApiServer
from hami_plugins.sandbox.apiserver.store import Event
from hami_plugins.sandbox.fleet import bare_node
from tests.bench.processes import serve

REGISTER = "volcano.sh/node-vgpu-register"
MEMORY = "volcano.sh/vgpu-memory"
NAMESPACE = "volcano-system"
RENEW_SECONDS = 5.0
"""Between two renewals of the scheduler's lease, Volcano's own default."""


class Cluster:
    """Nodes, a Volcano scheduler that renews its lease, and what became of them."""

    def __init__(self) -> None:
        self.server = ApiServer(kinds=VOLCANO)
        self._writes: Counter[str] = Counter()
        self._registered: set[str] = set()
        self._over = threading.Event()
        self._renewing = threading.Thread(target=self._renew, daemon=True)

    def start(self, *, nodes: int) -> str:
        """Serve so many nodes without cards; the URL."""
        for number in range(nodes):
            self.server.put(bare_node(f"node-{number}"))
        self.server.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        self.server.put(
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": "volcano-scheduler", "namespace": NAMESPACE},
                "spec": {
                    "template": {
                        "spec": {"containers": [{"name": "scheduler", "image": "volcanosh/vc-scheduler:v1.14.1"}]}
                    }
                },
            }
        )
        self._put_lease()
        self.server.store.listen(self._heard)
        self._renewing.start()
        return self.server.start()

    def stop(self) -> None:
        """End everything."""
        self._over.set()
        self._renewing.join()
        self.server.stop()

    def counts(self) -> dict[str, Any]:
        """What has happened since the last ``clear``; watches and registered nodes are those of now."""
        requests = self.server.requests
        return {
            "registered": len(self._registered),
            "watches": self.server.open_watches(),
            "writes": requests.writes(),
            "requests": sum(requests.counts().values()),
            "by_kind": sorted(
                [f"{asked.verb} {asked.resource} {asked.subresource} {asked.code}", count]
                for asked, count in requests.counts().items()
            ),
            "most_writes": max(self._writes.values(), default=0),
        }

    def clear(self) -> None:
        """Count from zero."""
        self.server.requests.clear()
        self._writes.clear()

    def _heard(self, storage: tuple[str, str], event: Event) -> None:
        if storage == ("", "nodes"):
            raw, name = event.after.raw, event.after.key.name
            self._writes[name] += 1
            annotations = raw["metadata"].get("annotations") or {}
            if annotations.get(REGISTER) and MEMORY in raw["status"]["capacity"]:
                self._registered.add(name)

    def _renew(self) -> None:
        while not self._over.wait(RENEW_SECONDS):
            self._put_lease()

    def _put_lease(self) -> None:
        now = datetime.now(UTC)
        self.server.put(
            {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": "volcano", "namespace": NAMESPACE},
                "spec": {
                    "holderIdentity": "scheduler-1",
                    "leaseDurationSeconds": 15,
                    "acquireTime": _stamp(now - timedelta(days=1)),
                    "renewTime": _stamp(now),
                },
            }
        )


def _stamp(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def main() -> None:
    """Answer until the bench ends."""
    logging.configure("error", "json")
    cluster = Cluster()
    serve(
        {
            "start": cluster.start,
            "counts": cluster.counts,
            "clear": cluster.clear,
            "pause": cluster.server.pause,
            "resume": cluster.server.resume,
        }
    )
    cluster.stop()


if __name__ == "__main__":
    main()
