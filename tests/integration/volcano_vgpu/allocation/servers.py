"""The embedded cluster with allocators, and clients that speak to them as schedulers and API servers do."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import urllib3

from hami_plugins.allocations.manifests.webhooks import BINDING_PATH, POD_PATH
from hami_plugins.allocator.app import allocator_server
from hami_plugins.allocator.handlers import EXTENDER_PATH
from hami_plugins.allocator.metrics import AllocatorMetrics
from hami_plugins.allocator.server import AllocatorServer
from hami_plugins.kube.client import KubeClient, connect_to
from hami_plugins.kube.request_metrics import api_requests
from hami_plugins.sandbox.apiserver import VOLCANO, ApiServer
from hami_plugins.sandbox.fleet import bare_node
from hami_plugins.web.tls import Tls
from hami_plugins.wire.fields import Json
from neuron_topology.server.extension import NeuronExtension
from tests import raw_objects
from tests.integration.web.certificates import a_certificate
from tests.unit.allocator.products import MARK, settings, vendors_of
from tests.unit.volcano_vgpu.allocation.cluster import task
from tests.waiting import PATIENCE, wait_for

NUMBER, MEMORY, CORES = "volcano.sh/vgpu-number", "volcano.sh/vgpu-memory", "volcano.sh/vgpu-cores"
IDS, NODE = "volcano.sh/vgpu-ids-new", "volcano.sh/vgpu-node"
LEASE = {"duration": 6.0, "deadline": 5.0, "retry": 0.2}
"""Short enough for tests of takeovers, and long enough that a busy machine loses none by chance."""


def a_node(name: str, *, cards: int = 2, memory: int = 40_960) -> dict[str, Any]:
    """A node with cards called ``GPU-<node>-<number>``."""
    register = "".join(f"GPU-{name}-{at},10,{memory},NVIDIA-A100,true,hami-core:" for at in range(cards))
    return bare_node(
        name,
        capacity={NUMBER: str(10 * cards), MEMORY: str(memory * cards), CORES: str(100 * cards)},
        annotations={
            "volcano.sh/node-vgpu-register": register,
            "volcano.sh/node-vgpu-handshake": "Requesting_2099.01.01 00:00:00",
        },
    )


def a_pod(name: str, *, memory: int = 10_000, node: str = "", ids: str = "") -> dict[str, Any]:
    """A pod that asks for a slice of one card; with ``node`` it is bound there, with ``ids`` with that allocation."""
    asks = raw_objects.container(limits={NUMBER: "1", MEMORY: str(memory)}, image="i")
    metadata = {"namespace": "default", "annotations": {IDS: ids, NODE: node} if ids else {}}
    return raw_objects.pod(name, asks, metadata=metadata, scheduler="volcano", node=node)


def marked(pod: dict[str, Any]) -> dict[str, Any]:
    """The pod as the webhook on new pods leaves it."""
    pod["metadata"].setdefault("annotations", {})[MARK] = "extender"
    return pod


class Client:
    """Speaks to one allocator, whose certificate is for ``host`` and from the authority in ``ca``.

    It shows a ``certificate`` of its own if it has one.
    """

    def __init__(
        self, server: AllocatorServer, ca: Path, host: str = "localhost", *, certificate: Tls | None = None
    ) -> None:
        self.server = server
        own = {"cert_file": str(certificate.certificate), "key_file": str(certificate.key)} if certificate else {}
        names = {"server_hostname": host, "assert_hostname": host}
        self._pool = urllib3.PoolManager(ca_certs=str(ca), **names, **own)  # type: ignore[arg-type]
        self._plain = urllib3.PoolManager()

    def close(self) -> None:
        """Closes its connections."""
        self._pool.clear()
        self._plain.clear()

    def post(self, url: str, body: bytes) -> tuple[int, bytes]:
        """Status and body of an answer."""
        pool = self._pool if url.startswith("https:") else self._plain
        answer = pool.request("POST", url, body=body, retries=False, timeout=PATIENCE)
        return answer.status, answer.data

    def get(self, path: str) -> tuple[int, str]:
        """Status and text of a probe."""
        answer = self._plain.request("GET", self.plain(path), retries=False, timeout=PATIENCE)
        return answer.status, answer.data.decode()

    def plain(self, path: str) -> str:
        """An address of the extender and the probes."""
        return f"http://127.0.0.1:{self.server.address[1]}{path}"

    def call(self, verb: str, **body: Any) -> Any:
        """A reply to the scheduler."""
        sent = json.dumps(body, separators=(",", ":")).encode()
        status, text = self.post(self.plain(f"{EXTENDER_PATH}/{verb}"), sent)
        assert status == 200, text
        return json.loads(text)

    def predicate(self, pod: Json, node: str, *, as_it_is: bool = False) -> str:
        """Why a node does not take a pod, which has the mark of the webhook on new pods unless it goes ``as_it_is``."""
        asked = pod if as_it_is else marked(copy.deepcopy(dict(pod)))
        return str(self.call("predicate", task=task(asked), node={"Name": node, "Node": {}})["status"])

    def allocate(self, pod: Json, node: str) -> str:
        """Why a node's cards cannot be reserved."""
        return str(self.call("allocate", task=task(pod, node))["errorMessage"])

    def review(self, path: str, **request: Any) -> tuple[int, Any]:
        """The status and the response of a webhook, or its text if it is not a review."""
        body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
        address = self.server.webhook_address
        assert address is not None
        status, text = self.post(f"https://127.0.0.1:{address[1]}{path}?timeout=5s", json.dumps(body).encode())
        return status, json.loads(text)["response"] if status == 200 else text.decode()

    def bind(self, pod: Json, node: str, **more: Any) -> tuple[int, Any]:
        """The answer to a Binding."""
        metadata = {name: pod["metadata"][name] for name in ("name", "namespace", "uid")}
        binding = {"kind": "Binding", "metadata": metadata, "target": {"kind": "Node", "name": node}}
        return self.review(
            BINDING_PATH,
            uid="r",
            operation="CREATE",
            resource={"group": "", "version": "v1", "resource": "pods"},
            subResource="binding",
            namespace=pod["metadata"]["namespace"],
            name=pod["metadata"]["name"],
            object=binding,
            **more,
        )

    def create(self, pod: Json) -> tuple[int, Any]:
        """The answer to the creation of a pod."""
        resource = {"group": "", "version": "v1", "resource": "pods"}
        return self.review(POD_PATH, uid="r", operation="CREATE", resource=resource, namespace="default", object=pod)


class Site:
    """An API server, and allocators."""

    def __init__(self, server: ApiServer, folder: Path) -> None:
        self.server = server
        self.folder = folder
        self.clients: list[Client] = []
        self.metrics: dict[int, AllocatorMetrics] = {}
        a_certificate(folder)

    def start(self, identity: str = "one", *, ready: bool = True, linger: float = 0.0, **more: Any) -> Client:
        """One more replica, waited for unless another one is active."""
        told: dict[str, Any] = {
            "listen": {"host": "127.0.0.1", "port": 0},
            "webhooks": {"host": "127.0.0.1", "port": 0},
            "certificate": {"directory": str(self.folder)},
            "service": {"namespace": "default"},
            "lease": LEASE,
            "shutdownDelay": 0,
        }
        metrics = AllocatorMetrics()
        api = replace(connect_to(self.server.url, component="allocator"), on_request=api_requests(metrics.metrics))
        server, own = self.made(told | more, api, metrics=metrics, identity=identity, linger=linger)
        self.metrics[id(server)] = metrics
        ca = self.folder / ("own/ca.crt" if own else "tls.crt")
        client = Client(server, ca, "127.0.0.1" if own else "localhost")
        self.clients.append(client)
        server.start()
        if ready:
            wait_for(lambda: not server.trouble, f"ready: {server.trouble}")
        return client

    def made(
        self, told: dict[str, Any], api: KubeClient, *, metrics: AllocatorMetrics, identity: str, linger: float
    ) -> tuple[AllocatorServer, bool]:
        """A replica with these settings, and whether it makes its own certificates."""
        found = settings(**told)
        server = allocator_server(
            found, api, vendors_of(found), NeuronExtension, metrics=metrics, identity=identity, linger=linger
        )
        return server, found.certificate.bootstrap

    def value(self, client: Client, name: str, **labels: str) -> float:
        """A metric of a replica."""
        return self.metrics[id(client.server)].metrics.value(name, **labels) or 0.0

    def put(self, *objects: Json) -> list[dict[str, Any]]:
        """Objects that are there at once."""
        return [self.server.put(each) for each in objects]

    def end(self, client: Client) -> None:
        """Ends a replica. Its client leaves first: a server waits for those who are connected."""
        client.close()
        client.server.stop()

    def stop(self) -> None:
        """Ends all replicas."""
        for client in self.clients:
            self.end(client)


@contextmanager
def site(folder: Path) -> Iterator[Site]:
    """An embedded cluster with two nodes of two cards."""
    with ApiServer(kinds=VOLCANO) as server:
        made = Site(server, folder)
        made.put(a_node("n1"), a_node("n2"))
        try:
            yield made
        finally:
            made.stop()
