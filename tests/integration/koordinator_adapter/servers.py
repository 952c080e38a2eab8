"""The embedded cluster with servers of the adapter."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import urllib3

from hami_plugins.allocations.manifests.webhooks import WebhookTarget
from hami_plugins.kube.client import connect_to
from hami_plugins.kube.request_metrics import api_requests
from hami_plugins.sandbox.apiserver import KOORDINATOR, ApiServer
from hami_plugins.sandbox.fleet import bare_node
from hami_plugins.vendors import builtin
from hami_plugins.wire.fields import Json
from koordinator_adapter.core import webhooks
from koordinator_adapter.server.app import AdapterServer
from koordinator_adapter.server.metrics import AdapterMetrics
from koordinator_adapter.server.settings import AdapterSettings
from tests import raw_objects
from tests.integration.web.certificates import a_certificate
from tests.waiting import PATIENCE, wait_for

SCHEDULER: Final = "system:serviceaccount:koordinator-system:koord-scheduler"
TOKEN: Final = "scheduler"
LEASE: Final = {"duration": 6.0, "deadline": 5.0, "retry": 0.2}
"""Short enough for tests of takeovers, and long enough that a busy machine loses none by chance."""


def register(*cards: dict[str, Any]) -> dict[str, str]:
    """The annotation in which HAMi's agent lists NVIDIA's cards."""
    return {"hami.io/node-nvidia-register": json.dumps(list(cards))}


def card(node: str, at: int, **changes: Any) -> dict[str, Any]:
    """A card called ``GPU-<node>-<number>``."""
    usual = {"id": f"GPU-{node}-{at}", "index": at, "count": 10, "devmem": 40_960, "devcore": 100}
    return {**usual, "type": "NVIDIA-NVIDIA A100", "numa": at // 2, "mode": "hami-core", "health": True, **changes}


def a_node(name: str, *cards: dict[str, Any], number: int = 2, **more: Any) -> dict[str, Any]:
    """A node with these cards, or with some usual ones."""
    listed = cards or tuple(card(name, at) for at in range(number))
    return bare_node(name, annotations=register(*listed), **more)


def a_pod(name: str, limits: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    """A pod with one container."""
    return raw_objects.pod(
        name, raw_objects.container(limits=limits, image="i"), metadata={"namespace": "default", **metadata}
    )


class Site:
    """An API server, and servers of the adapter."""

    def __init__(self, server: ApiServer, folder: Path) -> None:
        self.server = server
        self.folder = folder
        self.running: list[AdapterServer] = []
        self.metrics: dict[int, AdapterMetrics] = {}
        self.api = connect_to(server.url, component="test")
        a_certificate(folder)

    def start(
        self,
        identity: str = "one",
        *,
        ready: bool = True,
        filling: Callable[[], AbstractContextManager[object]] = nullcontext,
        **settings: Any,
    ) -> AdapterServer:
        """One more replica, waited for until it may be asked."""
        told: dict[str, Any] = {
            "listen": {"host": "127.0.0.1", "port": 0},
            "webhooks": {"host": "127.0.0.1", "port": 0},
            "certificate": {"directory": str(self.folder)},
            "service": {"namespace": "default"},
            "devices": {"grace": 0},
            "lease": LEASE,
            "shutdownDelay": 0,
        }
        found = AdapterSettings.model_validate(told | settings)
        metrics = AdapterMetrics()
        api = replace(connect_to(self.server.url, component="adapter"), on_request=api_requests(metrics.metrics))
        made = AdapterServer(found, api, builtin(), metrics=metrics, identity=identity, filling=filling)
        self.metrics[id(made)] = metrics
        self.running.append(made)
        made.start()
        if ready:
            wait_for(lambda: not made.trouble, f"ready: {made.trouble}")
        return made

    def install(self, server: AdapterServer, **settings: Any) -> None:
        """Has the API server ask this replica."""
        assert server.webhook_address is not None
        authority = base64.b64encode((self.folder / "tls.crt").read_bytes()).decode()
        target = WebhookTarget(
            configuration="koordinator-adapter",
            service="x",
            namespace="adapter-system",
            url=f"https://localhost:{server.webhook_address[1]}",
            ca=authority,
        )
        injects = settings.get("injection", {}).get("mode", "never") != "never"
        self.put(
            webhooks.mutating(target, injects=injects),
            webhooks.validating(target),
        )

    def value(self, server: AdapterServer, name: str, **labels: str) -> float:
        """A metric of a replica."""
        return self.metrics[id(server)].metrics.value(name, **labels) or 0.0

    def writes(self, server: AdapterServer) -> dict[str, float]:
        """The writes of a replica, by their results."""
        kinds = ("created", "changed", "sums", "labels", "conflict", "failed")
        return {kind: found for kind in kinds if (found := self.value(server, "writes_total", what=kind))}

    def get(self, server: AdapterServer, path: str) -> tuple[int, str]:
        """Status and text of a probe."""
        answer = urllib3.request("GET", f"http://127.0.0.1:{server.address[1]}{path}", retries=False, timeout=PATIENCE)
        return answer.status, answer.data.decode()

    def put(self, *objects: Json) -> list[dict[str, Any]]:
        """Objects that are there at once."""
        return [self.server.put(each) for each in objects]

    def device(self, node: str) -> dict[str, Any] | None:
        """A node's Device object."""
        found = [each for each in self.server.objects("devices") if each["metadata"]["name"] == node]
        return found[0] if found else None

    def devices(self, node: str) -> list[dict[str, Any]]:
        """The devices that are published of a node."""
        listed = ((self.device(node) or {}).get("spec") or {}).get("devices")
        return [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []

    def stop(self) -> None:
        """Ends all replicas."""
        for server in self.running:
            server.stop()
        self.api.close()


@contextmanager
def site(folder: Path) -> Iterator[Site]:
    """An embedded cluster without nodes."""
    with ApiServer(kinds=KOORDINATOR, users={TOKEN: SCHEDULER}) as server:
        made = Site(server, folder)
        made.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}})
        try:
            yield made
        finally:
            made.stop()
