"""The embedded cluster of a fleet, kept running: API server, kubelets, a scheduler, and our agents and servers.

The fleet decides which processes run: a node agent for each node whose devices are registered for Volcano, the
allocator if there are such nodes or nodes with Neuron devices, and Koordinator's adapter if nodes have Device objects.
Each is a separate process. Everything listens on 127.0.0.1 and uses one temporary directory.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from hami_plugins.cli.live import agents, processes
from hami_plugins.cli.live.allocator import ALLOCATOR, KOORDINATOR, NAMESPACE, DemoServer, ServerProgram
from hami_plugins.cli.live.host import direct, stop_all, workplace
from hami_plugins.cli.live.processes import DemoProcess
from hami_plugins.cli.live.signals import DemoError, Ending
from hami_plugins.errors import HamiPluginsError
from hami_plugins.kube.client import KubeClient, connect_to
from hami_plugins.sandbox import apiserver
from hami_plugins.sandbox.apiserver import ApiServer, ClusterParts
from hami_plugins.sandbox.kubelet import EmulatedKubelet, Times
from hami_plugins.sandbox.volcano import EmulatedVolcano
from hami_plugins.vendors import volcano as vendor
from hami_plugins.wire import volcano
from hami_plugins.wire.fields import Json

MOST_NODES: Final = 32
"""Each node is a kubelet in this process, with a dozen threads, and maybe an agent."""

_PATIENCE: Final = 120.0
_USER: Final = "kubectl"
_DEVICES: Final = ("scheduling.koordinator.sh/v1alpha1", "Device")
_TIMES: Final = Times(status=5.0, retry=1.0, restart=1.0, longest_restart=30.0, sandbox=0.0, create=0.0, start=0.0)
_UNATTENDED: Final = {
    (group, plural): f"the sandbox runs no controller for {plural}, so no pods are created; create pods or Volcano Jobs"
    for group, plurals in {
        "": ("replicationcontrollers",),
        "apps": ("daemonsets", "deployments", "replicasets", "statefulsets"),
        "batch": ("cronjobs", "jobs"),
    }.items()
    for plural in plurals
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxNeeds:
    """What a fleet needs: the nodes that get an agent, and the servers."""

    agents: tuple[str, ...]
    servers: tuple[ServerProgram, ...]

    @classmethod
    def of(cls, objects: Sequence[Json]) -> SandboxNeeds:
        """Looks at the Node and Device objects of a fleet."""
        nodes = [each for each in objects if each["kind"] == "Node"]
        with_agent = tuple(str(node["metadata"]["name"]) for node in nodes if _register(node))
        offered = {name for node in nodes for name in node["status"]["allocatable"]}
        needed = {
            ALLOCATOR: bool(offered & set(ALLOCATOR.managed)),
            KOORDINATOR: any((each["apiVersion"], each["kind"]) == _DEVICES for each in objects),
        }
        return cls(agents=with_agent, servers=tuple(program for program, wanted in needed.items() if wanted))


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxCluster:
    """The cluster while it runs; ``kubeconfig`` reaches it."""

    server: ApiServer
    api: KubeClient
    root: Path
    kubeconfig: Path
    agents: tuple[DemoProcess, ...]
    servers: tuple[DemoServer, ...]

    def check(self) -> None:
        """Raises ``DemoError`` with its last words where a process has ended by itself."""
        for process in (*self.agents, *(each.process for each in self.servers)):
            process.check()


@contextlib.contextmanager
def running(objects: Sequence[Json], *, kubeconfig: Path | None, port: int, ending: Ending) -> Iterator[SandboxCluster]:
    """The cluster of a fleet's objects, ready; at the end processes, threads, sockets and files are gone.

    Raises ``DemoError`` where it cannot be had on this machine.
    """
    with ExitStack() as stack:
        try:
            cluster = _started(stack, objects, kubeconfig=kubeconfig, port=port, ending=ending)
        except (OSError, HamiPluginsError) as error:
            if isinstance(error, DemoError):
                raise
            raise DemoError(f"the sandbox cannot run here: {error}") from error
        yield cluster


def _started(
    stack: ExitStack, objects: Sequence[Json], *, kubeconfig: Path | None, port: int, ending: Ending
) -> SandboxCluster:
    needs = SandboxNeeds.of(objects)
    processes.find({processes.COMMAND for _ in needs.agents} | {each.product for each in needs.servers})
    root = stack.enter_context(workplace())
    kubelets: dict[str, EmulatedKubelet] = {}
    server = _serving(stack, needs, kubelets, port)
    access = kubeconfig or root / "kubeconfig"
    _write_access(stack, server, access)
    with direct():
        api = connect_to(server.url, component="sandbox")
    stack.callback(api.close)
    _fill(server, objects, needs)
    servers = tuple(stack.enter_context(DemoServer(root, server, program)) for program in needs.servers)
    names = [str(each["metadata"]["name"]) for each in objects if each["kind"] == "Node"]
    kubelets.update({name: EmulatedKubelet(api, name, root / str(at), times=_TIMES) for at, name in enumerate(names)})
    for kubelet in kubelets.values():
        stack.enter_context(kubelet)
    stations = _agents(stack, server, root, objects, [kubelets[name] for name in needs.agents])
    cluster = SandboxCluster(server=server, api=api, root=root, kubeconfig=access, agents=stations, servers=servers)
    _until(cluster, ending, lambda: all(_is_registered(server, name) for name in needs.agents), "the agents register")
    _until(cluster, ending, lambda: all(each.ready() for each in servers), "the servers are ready")
    for each in servers:
        each.install(api)
    extenders = [each.extender() for each in servers if each.program.managed]
    stack.enter_context(EmulatedVolcano(api, extenders=extenders, every_scheduler=True))
    return cluster


def _serving(stack: ExitStack, needs: SandboxNeeds, kubelets: Mapping[str, EmulatedKubelet], port: int) -> ApiServer:
    names = [_USER, *(each.user for each in needs.servers), *map(agents.user, needs.agents)]
    server = ApiServer(
        kinds=(*apiserver.VOLCANO, *apiserver.KOORDINATOR),
        users={name: name for name in names},
        around=ClusterParts(logs=_Logs(kubelets).of, unattended=_UNATTENDED),
        port=port,
    )
    try:
        return stack.enter_context(server)
    except OSError as error:
        raise DemoError(
            f"port {port} of 127.0.0.1 cannot be used ({error.strerror}); name another one, or leave out --port"
        ) from error


def _write_access(stack: ExitStack, server: ApiServer, path: Path) -> None:
    """Writes the kubeconfig for its owner alone, in place of no other file."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError as error:
        raise DemoError(f"{path} exists and is left as it is; name another file with --kubeconfig") from error
    except OSError as error:
        raise DemoError(f"{path} cannot be written ({error.strerror}); name another file with --kubeconfig") from error
    stack.callback(lambda: path.unlink(missing_ok=True))
    server.kubeconfig(path, token=_USER)


def _fill(server: ApiServer, objects: Sequence[Json], needs: SandboxNeeds) -> None:
    server.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "default"}}
    server.put({**queue, "spec": {"weight": 1}, "status": {"state": "Open"}})
    for each in objects:
        server.put(_without_devices(each) if each["metadata"]["name"] in needs.agents else each)


def _without_devices(node: Json) -> dict[str, Any]:
    """A node as it is before its agent has registered anything."""
    keys = vendor.SPEC.keys
    metadata = dict(node["metadata"])
    left = {key: text for key, text in metadata["annotations"].items() if key not in (keys.register, keys.handshake)}
    status = dict(node["status"])
    for member in ("capacity", "allocatable"):
        status[member] = {name: n for name, n in status[member].items() if name not in vendor.RESOURCES.all()}
    return {**node, "metadata": {**metadata, "annotations": left}, "status": status}


def _agents(
    stack: ExitStack, server: ApiServer, root: Path, objects: Sequence[Json], kubelets: Sequence[EmulatedKubelet]
) -> tuple[DemoProcess, ...]:
    nodes = {each["metadata"]["name"]: each for each in objects if each["kind"] == "Node"}
    started: list[DemoProcess] = []
    stack.callback(lambda: stop_all(started))
    if kubelets:
        agents.put_library(root)
    for kubelet in kubelets:
        cards = root / f"{kubelet.node}.cards.yaml"
        cards.write_text(yaml.safe_dump(_cards(nodes[kubelet.node])), encoding="utf-8")
        started.append(agents.started(root, server, kubelet, cards=cards))
    return tuple(started)


def _cards(node: Json) -> dict[str, Any]:
    """The cards file of an agent, with the cards that the fleet has registered on its node."""
    cards = [
        {
            "uuid": str(card.id),
            "model": card.model.removeprefix("NVIDIA-"),
            "memory": int(card.memory),
            "numa": card.numa,
            "mig": card.mode == vendor.MIG_MODE,
            "problems": [] if card.healthy else ["declared unhealthy by the fleet"],
        }
        for card in volcano.decode_register(vendor.SPEC.keys.register, _register(node))
    ]
    return {"seed": node["metadata"]["name"], "cards": cards}


def _register(node: Json) -> str:
    return str((node["metadata"].get("annotations") or {}).get(vendor.SPEC.keys.register, ""))


def _is_registered(server: ApiServer, name: str) -> bool:
    """Whether the agent has registered the cards, and the kubelet offers all that goes with them."""
    node = server.get("nodes", name)
    left = node["status"]["allocatable"]
    return bool(_register(node)) and all(left.get(each, "0") != "0" for each in vendor.RESOURCES.all() if each in left)


def _until(cluster: SandboxCluster, ending: Ending, condition: Callable[[], bool], what: str) -> None:
    def come_true() -> bool:
        cluster.check()
        return condition()

    ending.wait_for(come_true, what, seconds=_PATIENCE)


@dataclass(frozen=True, slots=True)
class _Logs:
    """Logs of containers that run nothing: what each was given."""

    kubelets: Mapping[str, EmulatedKubelet]

    def of(self, pod: Json, container: str) -> str | None:
        """What a container was given at its newest start; nothing before."""
        kubelet = self.kubelets.get(pod["spec"].get("nodeName", ""))
        newest = kubelet.newest(pod["metadata"]["uid"], container) if kubelet else None
        if newest is None:
            return None
        lines = ["The sandbox runs no image. This container was given:"]
        lines += [f"{name}={text}" for name, text in sorted(newest.env.items())]
        lines += [f"mount {each.host} at {each.container}" for each in newest.mounts]
        return "\n".join(lines) + "\n"
