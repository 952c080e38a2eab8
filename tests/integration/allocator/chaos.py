"""Pods of six vendors that come and go while the allocator, the schedulers and the API server are killed.

The allocator runs as two processes behind one address, as a Service has it. The schedulers behave like kube-scheduler
and Volcano; the plugins of nodes that have locks take the pod that the lock names. The judge counts allocations in the
simplest way, from the API server's objects alone.
"""

from __future__ import annotations

import http.client
import json
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from hami_plugins.allocator.handlers import EXTENDER_PATH, SCHEDULER_PATH
from hami_plugins.errors import KubeError
from hami_plugins.kube import paths
from hami_plugins.kube.client import connect_to
from hami_plugins.sandbox.apiserver import VOLCANO, ApiServer
from tests import raw_objects
from tests.cluster.allocator import Front
from tests.cluster.ports import free_port
from tests.device_plugins.cambricon import CORES as MLU_CORES
from tests.device_plugins.cambricon import MEMORY as MLU_MEMORY
from tests.integration.allocator import device_plugin_sites as hami
from tests.integration.allocator.hami_pods import LOCK, PHASE, a_node, notes_of
from tests.integration.allocator.sites import MARK, Site
from tests.integration.neuron_topology.server import servers as neuron
from tests.integration.volcano_vgpu.allocation import servers as vgpu
from tests.unit.volcano_vgpu.allocation.cluster import task

Raw = dict[str, Any]

ROOT: Final = Path(__file__).parents[3]
ALIVE: Final = 60
"""Pods that are there at a time."""

VENDORS: Final = ("NVIDIA", hami.CHIP, "MLU", "DCU", "Volcano-vGPU", "AWSNeuron")
NEURON_IDS: Final = "AWS_NEURON_IDS"
LOCKS: Final = (LOCK, hami.MLU_LOCK)
MLU_LOCK_SECONDS: Final = 120
LEASE: Final = {"duration": 4.0, "deadline": 3.0, "retry": 0.2}

_SHARE: Final = re.compile(r"([^,:;]+),[^,:;]+,(\d+),(-?\d+)")


class Amounts(NamedTuple):
    """The usage of one device."""

    slots: int
    memory: int
    cores: int


DEVICES: Final[Mapping[str, Amounts]] = {
    "hami.io/vgpu-devices-allocated": Amounts(10, 40_960, 100),
    f"hami.io/{hami.CHIP}-devices-allocated": Amounts(4, 32_768, 20),
    "hami.io/cambricon-mlu-devices-allocated": Amounts(100, 90 * 256, 100),
    "hami.io/dcu-devices-allocated": Amounts(10, 16_384, 100),
    vgpu.IDS: Amounts(10, 40_960, 100),
}
"""The annotation of each vendor's allocations, and what one of its devices has."""

ASKS: Final[Mapping[str, tuple[Mapping[str, str], str]]] = {
    "nvidia": ({"nvidia.com/gpu": "1", "nvidia.com/gpumem": "12000", "nvidia.com/gpucores": "20"}, ""),
    "ascend": ({f"huawei.com/{hami.CHIP}": "1", f"huawei.com/{hami.CHIP}-memory": "8192"}, ""),
    "mlu": ({"cambricon.com/vmlu": "1", MLU_MEMORY: "30", MLU_CORES: "30"}, ""),
    "dcu": ({"hygon.com/dcunum": "1", "hygon.com/dcumem": "5000", "hygon.com/dcucores": "20"}, ""),
    "vgpu": ({vgpu.NUMBER: "1", vgpu.MEMORY: "12000"}, "volcano"),
    "neuron": ({"aws.amazon.com/neuron": "4"}, "volcano"),
}
"""What the pods of each vendor ask for, and their scheduler, where they name one."""


def nodes() -> Iterator[Raw]:
    """Two nodes of each vendor."""
    for at in range(2):
        yield a_node(f"nvidia-{at}", cards=3)
        yield hami.ascend_node(f"ascend-{at}", cards=3)
        yield hami.mlu_node(f"mlu-{at}", cards=3)
        yield hami.dcu_node(f"dcu-{at}", cards=3)
        yield vgpu.a_node(f"vgpu-{at}", cards=3)
        yield neuron.a_node(f"neuron-{at}")


class Replica:
    """A process of the server; it can be killed and started again on its ports."""

    def __init__(self, api: ApiServer, folder: Path, certificates: Path) -> None:
        folder.mkdir()
        self.port, self.hooks = free_port(), free_port()
        settings = {
            "vendors": list(VENDORS),
            "listen": {"host": "127.0.0.1", "port": self.port},
            "webhooks": {"host": "127.0.0.1", "port": self.hooks},
            "certificate": {"directory": str(certificates)},
            "service": {"namespace": "default"},
            "lease": LEASE,
            "shutdownDelay": 0,
        }
        (folder / "settings.yaml").write_text(yaml.safe_dump(settings))
        self._command = [
            *(sys.executable, "-m", "hami_plugins.cli", "allocator", "run"),
            *("--config", str(folder / "settings.yaml"), "--kubeconfig", str(api.kubeconfig(folder / "kubeconfig"))),
        ]
        self._log = folder / "log"
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def ready(self) -> bool:
        """Whether this is the one that answers."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=2)
        with suppress(OSError, http.client.HTTPException), closing(connection):
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        return False

    def start(self) -> None:
        """Starts it, if it is not running."""
        if self._process is None:
            with self._log.open("ab") as log:
                self._process = subprocess.Popen(self._command, cwd=ROOT, stdout=log, stderr=log)

    def kill(self) -> None:
        """Ends it as a machine does that loses its power."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None


@dataclass(slots=True)
class Judgement:
    """What was wrong, in words; how many pods were bound, by vendor."""

    faults: set[str] = field(default_factory=set)
    bound: Counter[str] = field(default_factory=Counter)


class Chaos:
    """The cluster. ``seed`` decides what comes, goes and is killed."""

    def __init__(self, api: ApiServer, folder: Path, seed: int) -> None:
        self.api = api
        self.found = Judgement()
        self.takeovers: list[float] = []
        self._draw = random.Random(seed)
        place = Site(api, folder)
        place.put(*nodes())
        self.replicas = [Replica(api, folder / name, folder) for name in ("one", "two")]
        self._calls = Front(lambda: [("127.0.0.1", each.port) for each in self.replicas if each.ready])
        self._hooks = Front(lambda: [("127.0.0.1", each.hooks) for each in self.replicas if each.ready])
        place.install_at(f"https://localhost:{self._hooks.port}", vendors=list(VENDORS))
        self._names = [str(each["metadata"]["name"]) for each in nodes()]
        self._written: dict[str, dict[str, str]] = {}
        self._kinds: dict[str, str] = {}
        self._numbers = count()
        self._stop = threading.Event()
        self._epoch = 0
        self._threads = [
            threading.Thread(target=each, daemon=True)
            for each in (self._churn, self._serve, self._schedule, self._judge)
        ]

    def run(self, binds: int, kills: int) -> Judgement:
        """Until so many pods were bound and so many kills made; then all pods end, and nothing may be held."""
        self._wait(lambda: any(each.ready for each in self.replicas), "a replica answers")
        for each in self._threads:
            each.start()
        acts = (self._kill_allocator, self._kill_scheduler, self._kill_api)
        for at in range(kills):
            self._wait_bound(binds * at // kills)
            acts[at % len(acts)]()
        self._wait_bound(binds)
        self._end()
        return self.found

    def close(self) -> None:
        """Ends all of it."""
        self._stop.set()
        for each in self._threads:
            if each.is_alive():
                each.join(10)
        for front in (self._calls, self._hooks):
            front.close()
        for replica in self.replicas:
            replica.kill()

    # What is killed

    def _kill_allocator(self) -> None:
        active = next((each for each in self.replicas if each.ready), self.replicas[0])
        began = time.monotonic()
        active.kill()
        self._wait(lambda: any(each.ready for each in self.replicas if each is not active), "the standby takes over")
        self.takeovers.append(time.monotonic() - began)
        active.start()

    def _kill_scheduler(self) -> None:
        """What it is about to do is done or not; the next one knows only what the API server shows."""
        self._epoch += 1

    def _kill_api(self) -> None:
        self.api.pause()
        time.sleep(self._draw.uniform(0.2, 1.0))
        self.api.resume()

    # Who does what

    def _churn(self) -> None:
        """Pods come, and of those that run any go, so that there is room for every kind again."""
        api = connect_to(self.api.url, component="user")
        while not self._stop.wait(0.01):
            pods = self.api.objects("pods")
            for each in pods:
                if MARK not in notes_of(each):  # it came while no webhook answered; its user tries again
                    with suppress(KubeError):
                        api.delete(paths.pod("default", each["metadata"]["name"]), body={"gracePeriodSeconds": 0})
            running = [each for each in pods if each["spec"].get("nodeName") and self._served(each)]
            if len(running) > ALIVE // 2 or len(pods) >= ALIVE:
                for each in self._draw.sample(running, min(len(running), 2)):
                    with suppress(KubeError):
                        api.delete(paths.pod("default", each["metadata"]["name"]), body={"gracePeriodSeconds": 0})
            if len(pods) >= ALIVE:
                continue
            kind = self._draw.choice(list(ASKS))
            limits, scheduler = ASKS[kind]
            name = f"{kind}-{next(self._numbers)}"
            made = raw_objects.pod(
                name, raw_objects.container(limits=limits, image="i"), metadata={"namespace": "default"}
            )
            if scheduler:
                made["spec"]["schedulerName"] = scheduler
            with suppress(KubeError):
                api.create(paths.pods("default"), made)

    @staticmethod
    def _served(pod: Raw) -> bool:
        return notes_of(pod).get(PHASE, "success") == "success"

    def _serve(self) -> None:
        """The plugins of HAMi: the pod that the lock names has its devices, and the lock is removed."""
        while not self._stop.wait(0.01):
            for node in self.api.objects("nodes"):
                for key in LOCKS:
                    if key in notes_of(node):
                        self._take(str(node["metadata"]["name"]), key)

    def _take(self, node: str, key: str) -> None:
        with self.api.store.lock:
            raw = self.api.get("nodes", node)
            text = notes_of(raw).get(key, "")
            waiting = [
                each
                for each in self.api.objects("pods")
                if each["spec"].get("nodeName") == node and notes_of(each).get(PHASE) == "allocating"
            ]
            # The lock of Cambricon's names no pod: its plugin takes the one that waits.
            named = [each for each in waiting if "," not in text or text.endswith(f",{each['metadata']['name']}")]
            if not text or not named:
                return
            pod = named[0]
            notes_of(pod)[PHASE] = "success"
            self.api.put(pod)
            del notes_of(raw)[key]
            self.api.put(raw)

    def _schedule(self) -> None:
        """Both schedulers, one pod after another; Bindings go their own ways, as in both."""
        with ThreadPoolExecutor(16) as ways:
            busy: dict[str, int] = {}
            while not self._stop.wait(0.01):
                epoch = self._epoch
                for pod in self.api.objects("pods"):
                    uid = str(pod["metadata"]["uid"])
                    if (
                        MARK not in notes_of(pod)
                        or pod["spec"].get("nodeName")
                        or busy.get(uid, -1) == epoch
                        or self._stop.is_set()
                    ):
                        continue
                    busy[uid] = epoch
                    ways.submit(self._tried, pod, epoch, busy)

    def _tried(self, pod: Raw, epoch: int, busy: dict[str, int]) -> None:
        uid = str(pod["metadata"]["uid"])
        try:
            (self._of_volcano if pod["spec"]["schedulerName"] == "volcano" else self._of_kube_scheduler)(pod, epoch)
        except (OSError, http.client.HTTPException, ValueError, KubeError):
            pass
        finally:
            time.sleep(0.05)
            if busy.get(uid) == epoch:
                del busy[uid]

    def _of_kube_scheduler(self, pod: Raw, epoch: int) -> None:
        found = self._call(f"{SCHEDULER_PATH}/filter", Pod=pod, NodeNames=self._names)
        if found["Error"] or not found["NodeNames"] or epoch != self._epoch:
            return
        metadata = pod["metadata"]
        who = {"PodName": metadata["name"], "PodNamespace": "default", "PodUID": metadata["uid"]}
        self._call(f"{SCHEDULER_PATH}/bind", **who, Node=random.choice(found["NodeNames"]))

    def _of_volcano(self, pod: Raw, epoch: int) -> None:
        names = [each for each in self._names if each.startswith(("vgpu", "neuron"))]
        for name in random.sample(names, len(names)):
            if not self._call(f"{EXTENDER_PATH}/predicate", task=task(pod), node={"Name": name, "Node": {}})["status"]:
                break
        else:
            return
        error = self._call(f"{EXTENDER_PATH}/allocate", task=task(pod, name))["errorMessage"]
        if error or epoch != self._epoch:
            return
        metadata = {key: pod["metadata"][key] for key in ("name", "namespace", "uid", "annotations")}
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": metadata,
            "target": {"kind": "Node", "name": name},
        }
        api = connect_to(self.api.url, component="volcano")
        try:
            api.create(paths.pod_binding("default", pod["metadata"]["name"]), binding)
        finally:
            api.close()

    def _call(self, path: str, **body: Any) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self._calls.port, timeout=25)
        with closing(connection):
            connection.request("POST", path, json.dumps(body))
            answer = connection.getresponse()
            if answer.status != 200:
                raise ValueError(f"{path}: {answer.status}")
            return json.loads(answer.read())

    # Who judges

    def _judge(self) -> None:
        while not self._stop.wait(0.02):
            self._look()

    def _look(self) -> None:
        with self.api.store.lock:
            pods = [each for each in self.api.objects("pods") if each["spec"].get("nodeName")]
        held: dict[tuple[str, str, str], list[tuple[int, int]]] = defaultdict(list)
        for pod in pods:
            self._known(pod)
            for key, device, memory, cores in shares(pod):
                held[str(pod["spec"]["nodeName"]), key, device].append((memory, cores))
        for (node, key, device), given in held.items():
            most = DEVICES.get(key, Amounts(1, 0, 0))
            sums = Amounts(len(given), sum(memory for memory, _ in given), sum(cores for _, cores in given))
            if any(has > may for has, may in zip(sums, most, strict=True)):
                self.found.faults.add(f"{node}: {device} of {most} has {sums}")

    def _known(self, pod: Raw) -> None:
        """Each pod is bound once, with devices, and keeps them."""
        uid, name = str(pod["metadata"]["uid"]), str(pod["metadata"]["name"])
        now = {key: text for key, text in notes_of(pod).items() if key in DEVICES or key == NEURON_IDS}
        before = self._written.setdefault(uid, {**now, "node": pod["spec"]["nodeName"]})
        if before != {**now, "node": pod["spec"]["nodeName"]}:
            self.found.faults.add(f"{name}: had {before}, has {now}")
        if uid not in self._kinds:
            self._kinds[uid] = name.partition("-")[0]
            self.found.bound[self._kinds[uid]] += 1
            if not list(shares(pod)):
                self.found.faults.add(f"{name} is bound without devices: {notes_of(pod)}")

    def _end(self) -> None:
        """All pods go; then there is room for as many as at the beginning, and no lock is left."""
        self._stop.set()
        for each in self._threads:
            each.join(30)
        self._look()
        for pod in self.api.objects("pods"):
            self.api.delete("pods", pod["metadata"]["name"], "default", grace=0)
        self._wait(self._empty, "everything is free and no lock blocks a node", MLU_LOCK_SECONDS + 30)

    def _empty(self) -> bool:
        whole = raw_objects.pod(
            "whole",
            raw_objects.container(limits={"nvidia.com/gpu": "3", "nvidia.com/gpucores": "100"}, image="i"),
            metadata={"namespace": "default"},
            scheduler="hami-scheduler",
        )
        with suppress(OSError, http.client.HTTPException, ValueError):
            found = self._call(f"{SCHEDULER_PATH}/filter", Pod=whole, NodeNames=self._names)["NodeNames"]
            notes = [note for node in self.api.objects("nodes") for note in notes_of(node).items()]
            return sorted(found or ()) == ["nvidia-0", "nvidia-1"] and not any(blocks(*note) for note in notes)
        return False

    def _wait_bound(self, number: int) -> None:
        self._wait(lambda: self.found.bound.total() >= number, f"{number} pods are bound")

    def _wait(self, done: Callable[[], bool], what: str, seconds: float = 240.0) -> None:
        end = time.monotonic() + seconds
        while not done():
            if time.monotonic() > end:
                raise AssertionError(f"not within {seconds:g} s: {what}; bound {self.found.bound}, {self.found.faults}")
            time.sleep(0.02)


def blocks(key: str, text: str) -> bool:
    """Whether an annotation is a lock that pods wait for.

    Cambricon's names no pod: what a killed allocator wrote before its Binding counts as left behind by its age alone.
    """
    if key != hami.MLU_LOCK:
        return key in LOCKS
    return (datetime.now(UTC) - datetime.fromisoformat(text)).total_seconds() < MLU_LOCK_SECONDS


def shares(pod: Raw) -> Iterator[tuple[str, str, int, int]]:
    """The key, the device, memory and cores of each share that a pod's annotations name."""
    notes = notes_of(pod)
    for key in DEVICES:
        for device, memory, cores in _SHARE.findall(notes.get(key, "")):
            yield key, device, int(memory), max(0, int(cores))
    for number in filter(None, notes.get(NEURON_IDS, "").split(",")):
        yield NEURON_IDS, number, 0, 0


@contextmanager
def chaos(folder: Path, *, seed: int = 1) -> Iterator[Chaos]:
    """A cluster to be run."""
    with ApiServer(kinds=VOLCANO) as api:
        made = Chaos(api, folder, seed)
        try:
            yield made
        finally:
            made.close()
