"""The embedded cluster with Trainium nodes, and Neuron allocators."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hami_plugins.allocator.handlers import EXTENDER_PATH
from hami_plugins.kube.client import connect_to
from hami_plugins.sandbox.apiserver import VOLCANO, ApiServer
from hami_plugins.sandbox.fleet import bare_node
from hami_plugins.sandbox.volcano import EmulatedVolcano, ExtenderArguments
from hami_plugins.vendors.awsneuron import IDS_KEY
from neuron_topology.core.vendor import SPEC
from tests.integration.volcano_vgpu.allocation.servers import Client
from tests.integration.volcano_vgpu.allocation.servers import Site as Shared
from tests.unit.allocator.products import target, webhooks
from tests.unit.neuron_topology.server import cluster as objects

JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"


class Site(Shared):
    """An API server, and Neuron allocators."""

    def install(self, client: Client, **more: Any) -> None:
        """Has the API server ask this replica."""
        address = client.server.webhook_address
        assert address is not None
        authority = base64.b64encode((self.folder / "tls.crt").read_bytes()).decode()
        where = target(namespace="allocator-system", url=f"https://localhost:{address[1]}", ca=authority)
        self.put(webhooks(where, **more))

    @contextmanager
    def volcano(self, client: Client) -> Iterator[None]:
        """Volcano's scheduler, which asks this replica about Neuron devices."""
        queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "default"}}
        self.put({**queue, "spec": {"weight": 1}, "status": {"state": "Open"}})
        extender = ExtenderArguments(url=client.plain(EXTENDER_PATH), managed=SPEC.resources.all())
        api = connect_to(self.server.url, component="volcano")
        with EmulatedVolcano(api, period=0.02, extenders=(extender,)):
            yield
        api.close()

    def pods(self, prefix: str = "") -> list[dict[str, Any]]:
        """The pods whose names begin so."""
        return [each for each in self.server.objects("pods") if each["metadata"]["name"].startswith(prefix)]

    def bound(self, prefix: str, count: int) -> list[dict[str, Any]]:
        """Those pods, once there are so many and all are bound."""
        found = self.pods(prefix)
        return found if len(found) == count and all(each["spec"].get("nodeName") for each in found) else []

    def wrong(self) -> list[str]:
        """Devices that were given to two pods of a node, and pods that were bound without any."""
        found, taken = [], dict[tuple[str, str], str]()
        for each in self.pods():
            node, name = each["spec"].get("nodeName"), each["metadata"]["name"]
            if node is None or not each["spec"]["containers"][0].get("resources"):
                continue
            ids = [number for number in ids_of(each) if number]
            found += [] if ids else [f"{name}: no devices"]
            for number in ids:
                if (other := taken.setdefault((node, number), name)) != name:
                    found.append(f"{node} {number}: {other} and {name}")
        return found


def ids_of(pod: Mapping[str, Any]) -> list[str]:
    """The numbers for AWS's plugin."""
    return str((pod["metadata"].get("annotations") or {}).get(IDS_KEY, "")).split(",")


def a_node(name: str, kind: str = objects.TRN1, *, family: str = "linked", **labels: str) -> dict[str, Any]:
    """A ready node of an instance type."""
    like = objects.a_node(name, kind, family=family, labels=labels)
    return bare_node(name, capacity=like["status"]["capacity"], labels=like["metadata"]["labels"])


def a_pod(name: str, devices: int = 4, **more: Any) -> dict[str, Any]:
    """A pod that asks for devices."""
    made = objects.a_pod(name, devices, **more)
    metadata = {name: value for name, value in made["metadata"].items() if name != "uid"}
    return {**made, "metadata": {**metadata, "namespace": "default"}}


def a_gang(name: str, replicas: int, devices: int) -> dict[str, Any]:
    """A Volcano Job whose pods start together."""
    template = {"spec": {**a_pod("unused", devices)["spec"], "restartPolicy": "Never"}}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minAvailable": replicas, "tasks": [{"name": "w", "replicas": replicas, "template": template}]},
    }


@contextmanager
def site(folder: Path, *nodes: dict[str, Any]) -> Iterator[Site]:
    """An embedded cluster with these nodes."""
    with ApiServer(kinds=VOLCANO) as server:
        made = Site(server, folder)
        made.put(*nodes)
        try:
            yield made
        finally:
            made.stop()
