"""The embedded cluster with vendors of HAMi's, the allocator, and their device plugins on the nodes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from hami_plugins.kube.client import connect_to
from hami_plugins.observe.build import version
from hami_plugins.sandbox.fleet import bare_node
from tests import raw_objects
from tests.cluster.api import Api
from tests.device_plugins.base import DevicePlugin, notes_of
from tests.device_plugins.cambricon import CORES, MEMORY, CambriconPlugin
from tests.device_plugins.early import hygon
from tests.device_plugins.hami import ascend, nvidia
from tests.device_plugins.kubelets import Kubelets
from tests.integration.allocator.hami_pods import LOCK, bind, call
from tests.integration.allocator.sites import Site, site
from tests.integration.volcano_vgpu.allocation.servers import Client
from tests.waiting import wait_for

MLU_LOCK = "cambricon.com/dsmlu.lock"
CHIP = "Ascend910B4"
ALLOCATOR = f"hami-plugins/{version()}"
"""The user agent of the allocator's requests; plugins have another one."""

Raw = dict[str, Any]
Plugins = Mapping[str, Mapping[str, DevicePlugin]]

HANDSHAKE = "Requesting_2026-01-01 00:00:00"


def ascend_node(name: str, cards: int = 2) -> Raw:
    """A node of Ascend 910B4."""
    devices = [
        {"id": f"npu-{name}-{at}", "index": at, "count": 4, "devmem": 32_768, "devcore": 20}
        | {"type": CHIP, "numa": 0, "health": True}
        for at in range(cards)
    ]
    notes = {f"hami.io/node-register-{CHIP}": json.dumps(devices), f"hami.io/node-handshake-{CHIP}": HANDSHAKE}
    return bare_node(name, capacity={f"huawei.com/{CHIP}": str(4 * cards)}, annotations=notes)


def dcu_node(name: str, cards: int = 2) -> Raw:
    """A node of Hygon's."""
    register = "".join(f"DCU-{at},10,16384,100,DCU-K100_AI,0,true,{at},:" for at in range(cards))
    notes = {"hami.io/node-dcu-register": register, "hami.io/node-handshake-dcu": HANDSHAKE}
    return bare_node(name, capacity={"hygon.com/dcunum": str(10 * cards)}, annotations=notes)


def mlu_node(name: str, cards: int = 2) -> Raw:
    """A node of Cambricon's, which has no register."""
    return bare_node(name, capacity={CORES: str(100 * cards), MEMORY: str(90 * cards)}, annotations={})


def mthreads_node(name: str, cards: int = 2) -> Raw:
    """A node of Moore Threads', whose plugin looks for no lock."""
    capacity = {"mthreads.com/sgpu-core": str(16 * cards), "mthreads.com/sgpu-memory": str(96 * cards)}
    return bare_node(name, capacity=capacity, annotations={})


def mixed_node(name: str, *nodes: Raw) -> Raw:
    """One node with the devices of several."""
    capacity: dict[str, str] = {}
    notes: dict[str, str] = {}
    for each in nodes:
        capacity |= each["status"]["capacity"]
        notes |= notes_of(each)
    return bare_node(name, capacity=capacity, annotations=notes)


NVIDIA_LIMITS: Mapping[str, str] = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "1000"}
ASCEND_LIMITS: Mapping[str, str] = {f"huawei.com/{CHIP}": "1", f"huawei.com/{CHIP}-memory": "8192"}
DCU_LIMITS: Mapping[str, str] = {"hygon.com/dcunum": "1", "hygon.com/dcumem": "1000", "hygon.com/dcucores": "5"}
MLU_LIMITS: Mapping[str, str] = {"cambricon.com/vmlu": "1", MEMORY: "5", CORES: "5"}


def a_pod(
    name: str,
    *limits: Mapping[str, str],
    init: Sequence[Mapping[str, str]] = (),
    scheduler: str = "",
    annotations: Mapping[str, str] | None = None,
) -> Raw:
    """A pod with a container, or an init container, for each of the limits."""
    asks = [
        raw_objects.container(f"c{at}", limits=each, image="i") for at, each in enumerate(limits or [NVIDIA_LIMITS])
    ]
    before = [raw_objects.container(f"i{at}", limits=each, image="i") for at, each in enumerate(init)]
    metadata = {"namespace": "default", "annotations": dict(annotations or {})}
    return raw_objects.pod(name, *asks, metadata=metadata, init=before, scheduler=scheduler)


class HamiCluster:
    """An allocator of ``vendors`` and what the tests do with its cluster."""

    def __init__(self, place: Site, client: Client, api: Api) -> None:
        self.place, self.client, self.api = place, client, api

    def create(self, *pods: Raw, nodes: Sequence[str] = ()) -> list[Raw]:
        """New pods, which the allocator knows, and the nodes too."""
        made = self.place.create(*pods)
        names = list(nodes or self.nodes())
        for pod in made:
            wait_for(partial(self._fits, pod, names))
        return made

    def _fits(self, pod: Raw, nodes: list[str]) -> bool:
        return bool(call(self.client, "filter", Pod=pod, NodeNames=nodes)["NodeNames"])

    def nodes(self) -> list[str]:
        """The names of all nodes."""
        return [each["metadata"]["name"] for each in self.place.server.objects("nodes")]

    def bind(self, pod: Raw, node: str, client: Client | None = None) -> str:
        """Why the pod was not bound; empty where it was."""
        return bind(client or self.client, pod, node)

    def bind_all(self, pods: Sequence[Raw], nodes: Sequence[str]) -> list[str]:
        """The same for many at once, spread over the nodes."""
        with ThreadPoolExecutor(len(pods)) as calls:
            return list(calls.map(lambda each: self.bind(each[1], nodes[each[0] % len(nodes)]), enumerate(pods)))

    def node(self, name: str) -> Raw:
        """A node as it is."""
        return dict(self.place.server.get("nodes", name))

    def pod(self, name: str) -> Raw:
        """A pod as it is."""
        return dict(self.place.server.get("pods", name, "default"))

    def notes(self, name: str) -> dict[str, str]:
        """A pod's annotations."""
        return notes_of(self.pod(name))

    def lock(self, node: str, key: str = LOCK) -> str | None:
        """A lock of a node."""
        return notes_of(self.place.server.get("nodes", node)).get(key)

    def owner(self, node: str) -> str:
        """The pod that the node's lock names."""
        return (self.lock(node) or "").rpartition(",")[2]

    def lock_writes(self, code: int = 200) -> int:
        """How many patches of nodes were answered so: all of them are about locks."""
        return self.place.server.requests.total(verb="patch", resource="nodes", code=code)

    def annotate_node(self, node: str, **annotations: str | None) -> None:
        """What another client writes: ``lock`` and ``mlu`` are the locks."""
        keys = {"lock": LOCK, "mlu": MLU_LOCK}
        written = {keys.get(key, key): text for key, text in annotations.items()}
        self.api.merge_patch(f"/api/v1/nodes/{node}", {"metadata": {"annotations": written}})

    def annotate_pod(self, name: str, annotations: Mapping[str, str]) -> None:
        """What another client writes on a pod."""
        self.api.merge_patch(f"/api/v1/namespaces/default/pods/{name}", {"metadata": {"annotations": annotations}})

    def events(self, pod: str) -> list[str]:
        """The reasons of a pod's events."""
        found = self.place.server.objects("events")
        return [each["reason"] for each in found if (each.get("regarding") or each["involvedObject"])["name"] == pod]

    def no_locks(self) -> bool:
        """Whether no node has a lock."""
        found = map(notes_of, self.place.server.objects("nodes"))
        return not any(LOCK in each or MLU_LOCK in each for each in found)

    @contextmanager
    def kubelets(self, plugins: Plugins, **more: Any) -> Iterator[Kubelets]:
        """Kubelets with these plugins."""
        watching = connect_to(self.place.server.url, component="kubelets")
        try:
            with Kubelets(watching=watching, api=self.api, plugins=plugins, **more) as running:
                yield running
        finally:
            watching.close()

    def plugins(self, *makers: Callable[[Api, str], Mapping[str, DevicePlugin]]) -> Plugins:
        """These plugins on every node."""
        return {
            node: {resource: each for make in makers for resource, each in make(self.api, node).items()}
            for node in self.nodes()
        }


def with_nvidia(api: Api, node: str) -> dict[str, DevicePlugin]:
    """HAMi 2.10's plugin, by the resource that it offers."""
    return {"nvidia.com/gpu": nvidia(api, node)}


def with_ascend(api: Api, node: str) -> dict[str, DevicePlugin]:
    """The plugin for Ascend 910B4."""
    return {f"huawei.com/{CHIP}": ascend(api, node, CHIP, {f"npu-{node}-{at}": at for at in range(8)})}


def with_hygon(api: Api, node: str) -> dict[str, DevicePlugin]:
    """Hygon's plugin."""
    return {"hygon.com/dcunum": hygon(api, node)}


def with_cambricon(api: Api, node: str) -> dict[str, DevicePlugin]:
    """Cambricon's plugin, which offers cores and memory."""
    plugin = CambriconPlugin(api=api, node=node)
    return {CORES: plugin, MEMORY: plugin}


@contextmanager
def hami(folder: Path, *nodes: Raw, vendors: Sequence[str] = ("NVIDIA",), **settings: Any) -> Iterator[HamiCluster]:
    """The cluster with one allocator, whose webhooks the API server asks."""
    with site(folder, *nodes) as place:
        told = {"vendors": list(vendors), **settings}
        client = place.start(**told)
        place.install(client, **told)
        api = Api(place.server.url)
        try:
            yield HamiCluster(place, client, api)
        finally:
            api.close()
