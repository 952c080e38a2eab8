"""A node of the embedded cluster with an agent on it, for tests of the whole agent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from hami_plugins.kube import paths
from hami_plugins.kube.client import KubeClient, connect_to
from hami_plugins.node.kubelet import checkpoint
from hami_plugins.sandbox.apiserver import VOLCANO, ApiServer
from hami_plugins.sandbox.kubelet import EmulatedKubelet, Times
from tests import raw_objects
from tests.waiting import wait_for
from volcano_vgpu.agent import config
from volcano_vgpu.agent.app import Agent
from volcano_vgpu.agent.metrics import AgentMetrics
from volcano_vgpu.core.settings import AgentSettings
from volcano_vgpu.discovery.file import FileDiscovery
from volcano_vgpu.discovery.file_partitions import FilePartitioner

NODE = "node-1"
NUMBER = "volcano.sh/vgpu-number"


def container(
    name: str = "main", *, number: int = 1, memory: int = 1000, cores: int = 0, **more: Any
) -> dict[str, Any]:
    """A container that asks for slices."""
    limits = {NUMBER: str(number), "volcano.sh/vgpu-memory": str(memory)}
    if cores:
        limits["volcano.sh/vgpu-cores"] = str(cores)
    return {"name": name, "image": "x", "resources": {"limits": limits}, **more}


def pod(name: str, *containers: Mapping[str, Any], ids: str | None, node: str = NODE, **more: Any) -> dict[str, Any]:
    """A pod as Volcano binds it, with the cards ``ids`` (none where it is ``None``)."""
    annotations = {"scheduling.k8s.io/group-name": f"podgroup-{name}"}
    if ids is not None:
        annotations |= {
            "volcano.sh/vgpu-ids-new": ids,
            "volcano.sh/devices-to-allocate": ids,
            "volcano.sh/vgpu-node": node,
            "volcano.sh/vgpu-time": "1795246593",
            "volcano.sh/bind-phase": "allocating",
            "volcano.sh/bind-time": "1795246593",
        }
    metadata = {"namespace": "default", "annotations": annotations}
    return raw_objects.pod(name, *containers, metadata=metadata, scheduler="volcano", node=node, **more)


@dataclass(kw_only=True)
class EmulatedNode:
    """A node: its client of the API server, its kubelet, its cards, and agents to be started on it."""

    api: KubeClient
    kubelet: EmulatedKubelet
    root: Path
    cards: Path
    name: str = NODE
    namespace: str = "default"

    def write_cards(self, *cards: Mapping[str, Any]) -> None:
        """What the driver reports from now on."""
        draft = self.cards.with_suffix(".tmp")
        draft.write_text(yaml.safe_dump({"driver": "550.1", "cards": list(cards)}))
        draft.replace(self.cards)

    @contextmanager
    def agent(self, text: str = "") -> Iterator[Agent]:
        """An agent that runs until the end of the block."""
        found = self.start_agent(text)
        try:
            yield found
        finally:
            found.stop()

    def start_agent(self, text: str = "") -> Agent:
        """An agent that the test has to stop."""
        settings = self.settings(text)
        api = replace(self.api, component="agent")
        agent = Agent(
            settings,
            api,
            FileDiscovery(self.cards),
            partitioner=FilePartitioner(self.cards),
            metrics=AgentMetrics(),
            hasty=api.within(5.0),
            collect_seconds=0.1,
            rival_seconds=0.1,
        )
        agent.start()
        return agent

    def settings(self, text: str = "") -> AgentSettings:
        """The settings of an agent on this node."""
        return config.load(
            text,
            {
                "NODE_NAME": self.name,
                "HAMI_PLUGINS__VOLCANO_VGPU__KUBELET_DIRECTORY": str(self.kubelet.plugin_directory),
                "HAMI_PLUGINS__VOLCANO_VGPU__POD_RESOURCES_SOCKET": str(self.kubelet.pod_resources_socket),
                "HAMI_PLUGINS__VOLCANO_VGPU__CDI_DIRECTORY": str(self.kubelet.cdi_directory),
                "HAMI_PLUGINS__VOLCANO_VGPU__HOOK_PATH": str(self.root / "hook"),
                "HAMI_PLUGINS__VOLCANO_VGPU__LOCK_PATH": str(self.root / "lock"),
                "HAMI_PLUGINS__VOLCANO_VGPU__LIBRARY_SOURCE": str(self.root / "image"),
                "HAMI_PLUGINS__VOLCANO_VGPU__START_JITTER": "0",
                "HAMI_PLUGINS__VOLCANO_VGPU__CDI": "always",
                "HAMI_PLUGINS__VOLCANO_VGPU__LISTEN__HOST": "127.0.0.1",
                "HAMI_PLUGINS__VOLCANO_VGPU__LISTEN__PORT": "0",
            },
        )

    def node(self) -> Mapping[str, Any]:
        """The node as the API server has it."""
        return self.api.get(paths.node(self.name))

    def allocatable(self, resource: str = NUMBER) -> int:
        """How many slots the node offers."""
        return int(self.node()["status"].get("allocatable", {}).get(resource, "0"))

    def wait_ready(self, agent: Agent, slots: int, resource: str = NUMBER) -> None:
        """Until the agent serves and the node offers that many slots; a pod that comes earlier never gets any."""
        wait_for(lambda: not agent.trouble, f"the agent is ready, but: {agent.trouble}")
        wait_for(lambda: self.allocatable(resource) == slots, f"the node offers {slots} {resource}")

    def create(self, body: Mapping[str, Any]) -> str:
        """Creates a pod and gives its UID."""
        return str(self.api.create(paths.pods(self.namespace), body)["metadata"]["uid"])

    def pod(self, name: str) -> Mapping[str, Any]:
        """A pod as the API server has it."""
        return self.api.get(paths.pod(self.namespace, name))

    def find_pod(self, name: str) -> Mapping[str, Any] | None:
        """A pod as the API server has it, ``None`` where there is none."""
        return next(
            (each for each in self.api.get(paths.pods(self.namespace))["items"] if each["metadata"]["name"] == name),
            None,
        )

    def slots_of(self, uid: str) -> frozenset[str]:
        """The slots that a pod holds by the kubelet's own record."""
        record = checkpoint.decode(self.kubelet.checkpoint.read_bytes())
        return frozenset(slot for each in record.entries if each.pod_uid == uid for slot in each.device_ids)

    def started(self, uid: str, name: str = "main") -> Mapping[str, str]:
        """The environment of a container once it has started."""
        found = wait_for(lambda: self.kubelet.containers(uid, name), f"container {name} of {uid} starts")
        env: Mapping[str, str] = found[-1].env
        return env

    def waits(self, name: str, container: str = "main") -> str:
        """Why a container waits, in the kubelet's words; empty where it does not."""
        for each in self._statuses(name):
            if each["name"] == container:
                return str((each.get("state", {}).get("waiting") or {}).get("message") or "")
        return ""

    def _statuses(self, name: str) -> Sequence[Mapping[str, Any]]:
        status = self.pod(name).get("status") or {}
        return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]


@dataclass(kw_only=True)
class Machine(EmulatedNode):
    """A node of the embedded cluster."""

    server: ApiServer


CARDS = (
    {"uuid": "GPU-aaaaaaaa-1", "model": "NVIDIA A100-SXM4-40GB", "memory": 40960, "numa": 0},
    {"uuid": "GPU-bbbbbbbb-2", "model": "NVIDIA A100-SXM4-40GB", "memory": 40960, "numa": 1},
)


@contextmanager
def machine(root: Path) -> Iterator[Machine]:
    """A node with two cards and a kubelet, without an agent."""
    with ApiServer(kinds=VOLCANO) as server:
        api = connect_to(server.url, component="test")
        with _kubelet(api, NODE, root) as kubelet:
            built = Machine(server=server, api=api, kubelet=kubelet, root=root, cards=root / "cards.yaml")
            built.write_cards(*CARDS)
            yield built
        api.close()


@contextmanager
def emulated_node(api: KubeClient, name: str, namespace: str, root: Path) -> Iterator[EmulatedNode]:
    """A node without an agent in a cluster that is there already."""
    with _kubelet(api, name, root) as kubelet:
        cards = root / "cards.yaml"
        yield EmulatedNode(api=api, kubelet=kubelet, root=root, cards=cards, name=name, namespace=namespace)


@contextmanager
def _kubelet(api: KubeClient, name: str, root: Path) -> Iterator[EmulatedKubelet]:
    image = root / "image"
    image.mkdir()
    (image / "libvgpu.so").write_bytes(b"library")
    with EmulatedKubelet(api, name, root / "k", times=Times.fast()) as kubelet:
        yield kubelet
