"""How long a burst of pods takes to get its devices from HAMi's device plugins, with our lock rule and with HAMi's.

One embedded API server, the same plugins (peers that follow HAMi 2.10's for NVIDIA), kubelets and scheduler for both.
The scheduler is kube-scheduler's queue: one pod at a time is placed, Bindings go on in parallel, and a pod whose
Binding failed is tried again after 1 s, doubled each time up to 10 s, at the next full second (kube-scheduler 1.34:
``Bind`` that fails is an error, so that the pod waits in the back-off queue and not five minutes among the
unschedulable ones). Each pod stays with its node, in turn. HAMi's rule: a Binding that finds the lock of another pod
fails. Ours: the call waits in the allocator, a process of its own, whose webhooks are not asked here. Times are from
the first pod that has its devices to the last. On a machine that does other work as well, compare processor time: ours
keeps the machine busy, and HAMi's sleeps.
"""

from __future__ import annotations

import heapq
import itertools
import json
import math
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final, NamedTuple

from hami_plugins.allocator.handlers import SCHEDULER_PATH
from hami_plugins.kube.client import connect_to
from hami_plugins.sandbox.apiserver import VOLCANO, ApiServer
from tests.bench.hami_allocator import a_node, a_pod
from tests.bench.measuring import Figure, figure
from tests.bench.neuron_allocator import Server
from tests.bench.processes import load
from tests.cluster.api import Api, ApiError
from tests.device_plugins.hami import nvidia
from tests.device_plugins.kubelets import Kubelets
from tests.device_plugins.scheduler import HamiScheduler

PODS: Final = 200
NODES: Final = ("n0", "n1", "n2", "n3")
CARDS: Final = 8
LISTED: Final = ("hami.io/vgpu-devices-to-allocate", "hami.io/vgpu-devices-allocated")
FIRST, MOST, TICK = 1.0, 10.0, 1.0
PATIENCE: Final = 600.0

Raw = dict[str, Any]
Try = Callable[[Raw, str], str]
"""Places a pod on a node and binds it; why that failed, or empty."""


def figures() -> Iterator[Figure]:
    """Ours three times, HAMi's once: it takes minutes."""
    ours = [burst(with_allocator) for _ in range(3)]
    theirs = burst(with_hami)
    what = f"device plugins: {PODS} pods at once on {len(NODES)} nodes, first to last allocated"
    ratios = [each.seconds / theirs.seconds for each in ours]
    yield figure(f"{what}, allocator", [each.seconds for each in ours], unit="s")
    yield figure(f"{what}, HAMi's lock rule", [theirs.seconds], unit="s")
    yield figure(f"{what}, allocator : HAMi", ratios, unit="", at_most=0.2)
    for name, found, most in (("allocator", ours, 2.0), ("HAMi's lock rule", [theirs], None)):
        yield figure(f"device plugins: tries of a pod, {name}", [each.tries for each in found], unit="")
        writes = [each.writes for each in found]
        yield figure(f"device plugins: writes of nodes for a pod, {name}", writes, unit="", at_most=most)
    yield figure("device plugins: allocator, processor time for a pod", [each.allocator for each in ours], at_most=10)
    others = [each.others for each in ours]
    yield figure("device plugins: API server, plugins and scheduler, processor time for a pod", others)


class LockRule(NamedTuple):
    """How pods are placed and bound, and the process that does it, unless this one does."""

    place: Try
    bind: Try
    pid: int | None = None

    def used(self) -> tuple[float, float]:
        """Processor time of that process and of this one, in seconds."""
        return 0.0 if self.pid is None else load(self.pid).cpu_seconds, time.process_time()


class Burst(NamedTuple):
    """What came of one; all but ``seconds`` for a pod. ``allocator`` and ``others`` are processor time in ms."""

    seconds: float
    tries: float
    writes: float
    allocator: float
    others: float


def burst(maker: Callable[[ApiServer, Api], AbstractContextManager[LockRule]]) -> Burst:
    """All pods are there at once; each has to be served with its own devices, and no lock may be left."""
    with ApiServer(kinds=VOLCANO) as server:
        api, watching = Api(server.url), connect_to(server.url, component="kubelets")
        for name in NODES:
            server.put(a_node(name))
        pods = [dict(server.put(a_pod(f"p{at}", 1_000, {}))) for at in range(PODS)]
        plugins = {name: {"nvidia.com/gpu": nvidia(api, name)} for name in NODES}
        kubelets = Kubelets(watching=watching, api=api, plugins=plugins, runs=False)
        with maker(server, api) as rule, kubelets:
            server.requests.clear()
            before = rule.used()
            tries = BackOffQueue(pods, rule.place, rule.bind).run()
            end = time.monotonic() + PATIENCE
            while len(kubelets.served) < PODS and time.monotonic() < end:
                time.sleep(0.01)
            allocator, others = (1000 * (now - then) / PODS for now, then in zip(rule.used(), before, strict=True))
        writes = server.requests.writes(resource="nodes", code=200)
        locked = [each for each in server.objects("nodes") if "hami.io/mutex.lock" in each["metadata"]["annotations"]]
        watching.close()
        api.close()
    if len(kubelets.served) != PODS or not all(each.right for each in kubelets.served) or locked:
        raise ValueError(f"{len(kubelets.served)} of {PODS} pods served, {kubelets.refused}, locks left: {len(locked)}")
    times = [each.at for each in kubelets.served]
    return Burst(max(times) - min(times), tries / PODS, writes / PODS, allocator, others)


class BackOffQueue:
    """kube-scheduler's queue: ``place`` runs for one pod at a time, ``bind`` in parallel."""

    def __init__(self, pods: list[Raw], place: Try, bind: Try) -> None:
        self._place, self._bind = place, bind
        self._order = itertools.count()
        self._began = time.monotonic()
        self._ready = [(0.0, next(self._order), pod, NODES[at % len(NODES)], 0) for at, pod in enumerate(pods)]
        self._left = len(pods)
        self._tries = 0
        self._changed = threading.Condition()

    def run(self) -> int:
        """Until all are bound; how many tries that took."""
        with ThreadPoolExecutor(PODS) as binding:
            while (found := self._next()) is not None:
                _, _, pod, node, tries = found
                self._place(pod, node)
                binding.submit(self._bound, pod, node, tries + 1)
        return self._tries

    def _next(self) -> tuple[float, int, Raw, str, int] | None:
        with self._changed:
            end = self._began + PATIENCE
            while self._left and time.monotonic() < end:
                due = self._ready[0][0] + self._began if self._ready else math.inf
                if due <= time.monotonic():
                    self._tries += 1
                    return heapq.heappop(self._ready)
                self._changed.wait(min(due - time.monotonic(), 1.0))
        return None

    def _bound(self, pod: Raw, node: str, tries: int) -> None:
        try:
            why = self._bind(pod, node)
        except ApiError as error:
            why = str(error)
        # A call that was given up may have been carried out.
        failed = bool(why) and "is bound" not in why
        with self._changed:
            if failed:
                pause = min(FIRST * 2 ** (tries - 1), MOST)
                due = math.ceil((time.monotonic() - self._began + pause) / TICK) * TICK
                heapq.heappush(self._ready, (due, next(self._order), pod, node, tries))
            else:
                self._left -= 1
            self._changed.notify_all()


@contextmanager
def with_allocator(server: ApiServer, _api: Api) -> Iterator[LockRule]:
    """``filter`` and ``bind`` of the allocator."""
    with Server(server, ("allocator", "run"), vendors=["NVIDIA"]) as running:
        calls = Api(running.url)

        def place(pod: Raw, _node: str) -> str:
            body = {"Pod": pod, "Nodes": None, "NodeNames": NODES}
            return str(json.loads(calls.request("POST", f"{SCHEDULER_PATH}/filter", body))["Error"])

        def bind(pod: Raw, node: str) -> str:
            metadata = pod["metadata"]
            body = {"PodName": metadata["name"], "PodNamespace": metadata["namespace"], "PodUID": metadata["uid"]}
            return str(json.loads(calls.request("POST", f"{SCHEDULER_PATH}/bind", {**body, "Node": node}))["Error"])

        yield LockRule(place, bind, running.pid)
        calls.close()


@contextmanager
def with_hami(_server: ApiServer, api: Api) -> Iterator[LockRule]:
    """HAMi's scheduler, which gives every card in turn."""
    scheduler, cards = HamiScheduler(api), itertools.count()

    def place(pod: Raw, node: str) -> str:
        text = f"GPU-{node}-{next(cards) % CARDS},NVIDIA,1000,0:;"
        scheduler.filter(pod, node, dict.fromkeys(LISTED, text))
        return ""

    yield LockRule(place, scheduler.bind)
