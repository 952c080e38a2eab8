"""What the Neuron allocator costs over sockets: a process of its own, asked as schedulers and API servers do."""

from __future__ import annotations

import base64
import http.client
import json
import os
import random
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from hami_plugins.allocations.manifests.webhooks import BINDING_PATH
from hami_plugins.allocator.handlers import EXTENDER_PATH, SCHEDULER_PATH
from hami_plugins.sandbox.apiserver import VOLCANO, ApiServer
from hami_plugins.vendors.awsneuron import IDS_KEY
from hami_plugins.wire.gang_keys import GROUP_KEY
from neuron_topology.core.names import DEVICES
from tests.bench.allocator import review
from tests.bench.measuring import Figure, figure, timed
from tests.bench.processes import ROOT
from tests.bench.workload import as_the_server_shows
from tests.cluster.ports import free_port
from tests.integration.neuron_topology.server.servers import a_node, a_pod
from tests.integration.web.certificates import a_certificate
from tests.unit.allocator.products import MARK

HERE = Path(__file__).parent
NODES = 1_000
MEMBERS = 12
A_SECOND = 200
SECONDS = 60
CALLERS = 8
BUSY_NODES = 100
LASTING = 300
"""Bindings after which a pod is deleted again."""

Raw = dict[str, Any]


def figures(repeats: int = 3) -> Iterator[Figure]:
    """Every case with a server that has just started."""
    yield from ranking()
    gangs = [gang() for _ in range(repeats)]
    name = f"neuron: Volcano's gang of {MEMBERS} whole nodes, its {gangs[0][1]} extender calls one after another"
    yield figure(name, [each[0] for each in gangs], at_most=60)
    took, double = binding()
    yield figure(f"neuron: a Binding over TLS, {A_SECOND}/s for {SECONDS} s, {CALLERS} callers", took, p99_at_most=20)
    yield figure("neuron: devices allocated twice in that time", [float(double)], unit="", at_most=0)


def ranking(rounds: int = 300) -> Iterator[Figure]:
    """Half of the nodes are in use in several ways, as in a cluster that works."""
    with ApiServer(kinds=VOLCANO) as api:
        for at in range(NODES):
            api.put(a_node(f"n{at:04}"))
            if at % 2:
                ids = ",".join(map(str, range(4 * (at % 4))))
                api.put(a_pod(f"runs-{at}", 4 * (at % 4), node=f"n{at:04}", annotations={IDS_KEY: ids}))
        with Server(api) as server:
            names = [f"n{at:04}" for at in range(NODES)]
            both: list[float] = []
            for turn in range(rounds):
                pod = shown(f"asks-{turn}", (1, 2, 4, 8, 16)[turn % 5])
                body = json.dumps({"Pod": pod, "Nodes": None, "NodeNames": names}).encode()
                first, filtered = timed(server.post, f"{SCHEDULER_PATH}/filter", body)
                left = json.loads(filtered)["NodeNames"]
                body = json.dumps({"Pod": pod, "Nodes": None, "NodeNames": left}).encode()
                second, _ = timed(server.post, f"{SCHEDULER_PATH}/prioritize", body)
                both.append(first + second)
    yield figure(f"neuron: filter and prioritize {NODES:,} trn1 nodes over HTTP", both[20:], p99_at_most=12)


def gang() -> tuple[float, int]:
    """Milliseconds for all calls of one session, and how many these are."""
    with ApiServer(kinds=VOLCANO) as api:
        nodes = [api.put(a_node(f"n{at}")) for at in range(MEMBERS)]
        group = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup"}
        api.put({**group, "metadata": {"name": "train", "namespace": "default"}, "spec": {"minMember": MEMBERS}})
        pods = [api.put(shown(f"w{at}", 16, annotations={GROUP_KEY: "train"})) for at in range(MEMBERS)]
        with Server(api) as server:
            server.post(f"{EXTENDER_PATH}/predicate", predicate(shown("first", 1), nodes[0]))
            calls = session(pods, nodes)
            took, _ = timed(lambda: [server.post(path, body) for path, body in calls])
            return took, len(calls)


def session(pods: list[Raw], nodes: list[Raw]) -> list[tuple[str, bytes]]:
    """What Volcano asks: each pod on each node that is left, the nodes in order while there are several, then one."""
    calls: list[tuple[str, bytes]] = []
    left = list(nodes)
    for pod in pods:
        calls += [(f"{EXTENDER_PATH}/predicate", predicate(pod, node)) for node in left]
        if len(left) > 1:
            body = {"task": task(pod), "nodes": [{"Name": name_of(each), "Node": each} for each in left]}
            calls.append((f"{EXTENDER_PATH}/prioritize", compact(body)))
        calls.append((f"{EXTENDER_PATH}/allocate", compact({"task": task(pod, name_of(left.pop(0)))})))
    return calls


def binding() -> tuple[list[float], int]:
    """Milliseconds of each answer, and how many devices were given to two pods at a time.

    Several callers at once, as an API server is, bind sets of different sizes to few nodes; what was bound some
    seconds ago is deleted again, so that the same devices are given on and on.
    """
    draw = random.Random(5)
    sizes = [draw.choice((1, 1, 2, 4, 4, 8)) for _ in range(A_SECOND * SECONDS)]
    with ApiServer(kinds=VOLCANO) as api:
        for at in range(BUSY_NODES):
            api.put(a_node(f"n{at:04}"))
        notes = {MARK: "extender"}
        waiting = [api.put(shown(f"p{at}", size, annotations=notes)) for at, size in enumerate(sizes)]
        with Server(api) as server, ThreadPoolExecutor(CALLERS) as callers:
            held = Held(api)
            began = time.perf_counter()
            asked = []
            for at, pod in enumerate(waiting):
                time.sleep(max(0.0, began + at / A_SECOND - time.perf_counter()))
                asked.append(callers.submit(_bound, server, held, pod, f"n{draw.randrange(BUSY_NODES):04}"))
                if at >= LASTING:
                    held.ends(waiting[at - LASTING])
            took = [each.result() for each in asked]
    if len(held.allocated) < len(took) / 2:
        raise ValueError(f"of {len(took)} Bindings {len(held.allocated)} were allocated: the workload no longer fits")
    return took, held.double


def _bound(server: Server, held: Held, pod: Raw, node: str) -> float:
    """One Binding, carried out if it is allocated; milliseconds of the answer.

    Where the callers are late a pod is deleted before its Binding is asked for, which is then let through as it is.
    """
    each, answer = timed(server.bind, review(pod, node))
    response = json.loads(answer)["response"]
    if "patch" in response:
        held.begins(pod, node, said(response))
    return each


class Held:
    """Who holds what according to the Bindings that the embedded API server has carried out."""

    def __init__(self, api: ApiServer) -> None:
        self.double = 0
        self.allocated: set[str] = set()
        self._api = api
        self._lock = threading.Lock()
        self._given: dict[tuple[str, str], str] = {}
        self._of: dict[str, list[tuple[str, str]]] = {}

    def begins(self, pod: Raw, node: str, written: dict[str, str]) -> None:
        """A Binding is carried out."""
        name = name_of(pod)
        devices = [(node, number) for number in written[IDS_KEY].split(",")]
        with self._lock:
            self.allocated.add(name)
            self._of[name] = devices
            self.double += sum(self._given.setdefault(device, name) != name for device in devices)
        metadata = {**pod["metadata"], "annotations": {**pod["metadata"]["annotations"], **written}}
        self._api.put({**pod, "metadata": metadata, "spec": {**pod["spec"], "nodeName": node}})

    def ends(self, pod: Raw) -> None:
        """A pod is deleted: what it held may be given on from now on."""
        name = name_of(pod)
        with self._lock:
            for device in self._of.pop(name, ()):
                if self._given.get(device) == name:
                    del self._given[device]
        self._api.delete("pods", name, "default", grace=0)


class Server:
    """One process of a server's command with an embedded API server, until the end of the block."""

    def __init__(self, api: ApiServer, command: tuple[str, ...] = ("allocator", "run"), **more: Any) -> None:
        self._folder = tempfile.TemporaryDirectory()
        folder = Path(self._folder.name)
        self._port, self._hooks = free_port(), free_port()
        a_certificate(folder)
        settings = {
            "listen": {"host": "127.0.0.1", "port": self._port},
            "webhooks": {"host": "127.0.0.1", "port": self._hooks},
            "certificate": {"directory": str(folder)},
            "service": {"namespace": "default"},
            "shutdownDelay": 0,
            **more,
        }
        (folder / "settings.yaml").write_text(yaml.safe_dump(settings))
        kubeconfig = api.kubeconfig(folder / "kubeconfig")
        with (folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "hami_plugins.cli", *command),
                    *("--config", str(folder / "settings.yaml"), "--kubeconfig", str(kubeconfig)),
                ],
                cwd=ROOT,
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )
        self._ca = folder / "tls.crt"
        self._connection: http.client.HTTPConnection | None = None
        self._tls = threading.local()

    def __enter__(self) -> Self:
        end = time.monotonic() + 120
        while time.monotonic() < end:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/readyz", timeout=5):
                    break
            except (urllib.error.URLError, OSError):
                time.sleep(0.1)
        else:
            raise TimeoutError((Path(self._folder.name) / "log").read_text())
        self._connection = http.client.HTTPConnection("127.0.0.1", self._port)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._connection is not None:
            self._connection.close()
        self._process.terminate()
        self._process.wait(30)
        self._folder.cleanup()

    @property
    def url(self) -> str:
        """Where schedulers call it."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    def post(self, path: str, body: bytes) -> bytes:
        """A scheduler's call."""
        return _posted(self._connection, path, body)

    def bind(self, body: bytes) -> bytes:
        """The API server's; each thread has a connection of its own."""
        if not hasattr(self._tls, "connection"):
            context = ssl.create_default_context(cafile=str(self._ca))
            context.check_hostname = False
            self._tls.connection = http.client.HTTPSConnection("127.0.0.1", self._hooks, context=context)
        return _posted(self._tls.connection, f"{BINDING_PATH}?timeout=10s", body)


def _posted(connection: http.client.HTTPConnection | None, path: str, body: bytes) -> bytes:
    if connection is None:
        raise ValueError("the server has not been started")
    connection.request("POST", path, body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    text = answer.read()
    if answer.status != 200:
        raise ValueError(f"{path}: {answer.status} {text.decode()}")
    return text


def shown(name: str, devices: int, **more: Any) -> Raw:
    """A pod that waits, as large as API servers show them."""
    like = json.loads((HERE / "scheduled-pod-api.json").read_text())
    made = as_the_server_shows(a_pod(name, devices, **more), like)
    made["spec"].pop("nodeName", None)
    made["spec"]["containers"][0]["resources"] = {
        "limits": {DEVICES: str(devices)},
        "requests": {DEVICES: str(devices)},
    }
    made["metadata"] |= {"uid": f"uid-{name}", "annotations": made["metadata"].get("annotations") or {}}
    made["status"] = {"phase": "Pending"}
    return made


def task(pod: Raw, node: str = "") -> Raw:
    metadata = pod["metadata"]
    names = {"UID": metadata["uid"], "Name": metadata["name"], "Namespace": metadata["namespace"]}
    return {**names, "NodeName": node, "Pod": pod}


def predicate(pod: Raw, node: Raw) -> bytes:
    return compact({"task": task(pod), "node": {"Name": name_of(node), "Node": node, "Tasks": {}}})


def compact(body: Raw) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode()


def name_of(raw: Raw) -> str:
    return str(raw["metadata"]["name"])


def said(answer: Raw) -> dict[str, str]:
    """The annotations of a webhook's response."""
    found: dict[str, str] = {}
    for operation in json.loads(base64.b64decode(answer["patch"])):
        head, _, last = operation["path"].rpartition("/")
        if last == "annotations":
            found |= operation["value"]
        elif head == "/metadata/annotations":
            found[last.replace("~1", "/")] = operation["value"]
    return found
