"""The embedded cluster: API server, two nodes with kubelets and fake cards, Volcano's stand-in, and our programs.

Those are an agent for each node, and the allocator.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from hami_plugins import examples
from hami_plugins.cli.live import agents, processes
from hami_plugins.cli.live.allocator import ALLOCATOR, DemoServer
from hami_plugins.cli.live.allocator import NAMESPACE as SYSTEM
from hami_plugins.cli.live.host import direct, stop_all, workplace
from hami_plugins.cli.live.processes import DemoProcess
from hami_plugins.cli.live.signals import DemoError, Ending
from hami_plugins.errors import HamiPluginsError
from hami_plugins.kube.client import KubeClient, connect_to
from hami_plugins.model.units import DeviceId
from hami_plugins.sandbox.apiserver import VOLCANO, ApiServer
from hami_plugins.sandbox.fleet import bare_node
from hami_plugins.sandbox.kubelet import EmulatedKubelet, Times
from hami_plugins.sandbox.volcano import EmulatedVolcano, ExtenderArguments
from hami_plugins.vendors import volcano as vendor
from hami_plugins.wire import volcano
from hami_plugins.wire.fields import Json

NODES: Final = ("gpu-1", "gpu-2")
NAMESPACE: Final = "research"
JOBS: Final = f"/apis/batch.volcano.sh/v1alpha1/namespaces/{NAMESPACE}/jobs"

PATIENCE: Final = 120.0
"""Seconds that any one thing may take. On a machine with nothing else to do everything takes less than three."""

_ROOM: Final = {"cpu": "96", "memory": "1Ti"}
_SETTINGS: Final = {"preemption": {"mode": "full", "priorityClasses": ["urgent"]}}
"""The allocator evicts for pods of this class, such as ``live/outage.yaml``."""

_CALM: Final = 0.05
"""Seconds between two sessions of the scheduler."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """What a node says of its cards: how many are registered, and what pods can have of each resource.

    ``memory`` is in MiB, ``cores`` in percent of a card.
    """

    cards: int
    slots: int
    memory: int
    cores: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoCluster:
    """The cluster while it lives. It is read where the API server keeps it, so that looking costs no request.

    ``volcano`` holds the scheduler of the moment.
    """

    server: ApiServer
    api: KubeClient
    root: Path
    ending: Ending
    kubelets: Mapping[str, EmulatedKubelet]
    allocator: DemoServer
    agents: dict[str, DemoProcess] = field(default_factory=dict)
    volcano: ExitStack = field(default_factory=ExitStack)

    def processes(self) -> list[DemoProcess]:
        """The other processes of the demo."""
        return [*self.agents.values(), self.allocator.process]

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Waits; raises ``DemoError`` where that takes too long or a process is gone, and what a signal asks for."""

        def come_true() -> bool:
            for process in self.processes():
                process.check()
            return condition()

        try:
            self.ending.wait_for(come_true, what, seconds=PATIENCE)
        except DemoError as error:
            said = [f"{process}, last lines:\n{process.last_words()}" for process in self.processes()]
            raise DemoError(
                "\n".join([f"{error} --no-live leaves this part out", *map(_state, self.pods()), *said])
            ) from None

    def schedule(self, *, extender: ExtenderArguments | None = None) -> None:
        """Starts a scheduler in place of the one that there is. Without an extender it does what Volcano 1.14.1 does.

        That is to leave the cards of a try on a gang that has to wait, and to write them back when it is bound.
        """
        self.volcano.close()
        extenders = () if extender is None else (extender,)
        stand_in = EmulatedVolcano(self.api, period=_CALM, extenders=extenders, leaves_tries=not extenders)
        self.volcano.enter_context(stand_in)

    def start_agent(self, node: str) -> DemoProcess:
        """Starts the agent of a node."""
        started = agents.started(self.root, self.server, self.kubelets[node], cards=self._cards_file(node))
        self.agents[node] = started
        return started

    def set_cards(self, node: str, *, failed: Mapping[int, str] | None = None) -> None:
        """Writes the cards file of a node; ``failed`` are cards with what is wrong with them."""
        content = yaml.safe_load(examples.live_text("cards"))
        for at, problem in (failed or {}).items():
            content["cards"][at]["problems"] = [problem]
        draft = self.root / f"{node}.draft"
        draft.write_text(yaml.safe_dump(content | {"seed": node}), encoding="utf-8")
        draft.replace(self._cards_file(node))

    def sums(self, node: str) -> Sums:
        """What a node says now."""
        left = self.server.get("nodes", node)["status"]["allocatable"]
        names = vendor.RESOURCES
        slots, memory, cores = (int(left.get(name, "0")) for name in (names.count, names.memory, names.cores))
        return Sums(cards=len(self.register(node)), slots=slots, memory=memory, cores=cores)

    def register(self, node: str) -> Mapping[DeviceId, str]:
        """The cards that a node has registered, with their models."""
        key = vendor.SPEC.keys.register
        text = self.server.get("nodes", node)["metadata"].get("annotations", {}).get(key, "")
        return {card.id: card.model for card in volcano.decode_register(key, text)}

    def pods(self) -> list[dict[str, Any]]:
        """The pods of the demo, by name."""
        return sorted(self.server.objects("pods", NAMESPACE), key=lambda pod: str(pod["metadata"]["name"]))

    def seen(self, pod: Json) -> Mapping[str, str]:
        """The environment in the newest start of a pod's container; nothing before it has started."""
        spec = pod["spec"]
        kubelet = self.kubelets.get(spec.get("nodeName", ""))
        newest = kubelet.newest(pod["metadata"]["uid"], spec["containers"][0]["name"]) if kubelet else None
        return newest.env if newest else {}

    def starts(self) -> int:
        """How often containers were started."""
        kubelets = self.kubelets.values()
        return sum(container.attempt + 1 for kubelet in kubelets for container in kubelet.running())

    def writes(self, node: str) -> int:
        """How often the agent of a node has written to the API server, also in vain."""
        return self.server.requests.writes(user=agents.user(node))

    def _cards_file(self, node: str) -> Path:
        return self.root / f"{node}.cards.yaml"


@contextlib.contextmanager
def staged(ending: Ending) -> Iterator[DemoCluster]:
    """The cluster with our programs on their way; at the end processes, threads, sockets and files are gone.

    Raises ``DemoError`` where it cannot be had on this machine.
    """
    with ExitStack() as stack:
        try:
            cluster = _opened(stack, ending)
        except (OSError, HamiPluginsError) as error:
            raise DemoError(f"the live part cannot run here: {error}\n--no-live leaves it out") from error
        yield cluster


def _opened(stack: ExitStack, ending: Ending) -> DemoCluster:
    processes.find([processes.COMMAND])
    root = stack.enter_context(workplace())
    users = [ALLOCATOR.user, *map(agents.user, NODES)]
    server = stack.enter_context(ApiServer(kinds=VOLCANO, users={name: name for name in users}))
    with direct():
        api = connect_to(server.url, component="demo")
    stack.callback(api.close)
    for namespace in (NAMESPACE, SYSTEM):
        server.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    for queue in yaml.safe_load_all(examples.workload_text("01-queues")):
        server.put(queue)
    agents.put_library(root)
    kubelets = {node: EmulatedKubelet(api, node, root / node, times=Times.fast()) for node in NODES}
    allocator = stack.enter_context(DemoServer(root, server, ALLOCATOR, chosen=_SETTINGS))
    cluster = DemoCluster(server=server, api=api, root=root, ending=ending, kubelets=kubelets, allocator=allocator)
    for node, kubelet in kubelets.items():
        server.put(bare_node(node, capacity=_ROOM))
        cluster.set_cards(node)
        stack.enter_context(kubelet)
    stack.callback(lambda: stop_all(cluster.processes()))
    for node in NODES:
        cluster.start_agent(node)
    stack.enter_context(cluster.volcano)
    cluster.schedule()
    return cluster


def _state(pod: Json) -> str:
    """How far a pod has come, for those who look for what went wrong."""
    status = pod.get("status") or {}
    words = [status.get(name, "") for name in ("phase", "reason", "message")]
    return f"pod {pod['metadata']['name']} on {pod['spec'].get('nodeName', 'no node')}: {' '.join(filter(None, words))}"
