"""Allocators that take the locks of nodes on the embedded API server, and what others do to their pods and nodes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

from hami_plugins.allocations.lock_demand import EXPIRY, LockDemand, LockPod
from hami_plugins.allocations.node_locks import ANSWER
from hami_plugins.allocator.metrics import NodeLockMetrics
from hami_plugins.allocator.node_lock_calls import NodeLocking
from hami_plugins.kube import paths
from hami_plugins.kube.client import connect_to
from hami_plugins.kube.port import Selection
from hami_plugins.kube.reflector import Backoff, Reflector
from hami_plugins.model.units import NodeName, PodUid
from hami_plugins.observe.metrics import Metrics
from hami_plugins.sandbox.apiserver import ApiServer
from hami_plugins.vendors import BUILTIN
from tests import raw_objects
from tests.waiting import PATIENCE, wait_for

SHARED, MLU = "hami.io/mutex.lock", "cambricon.com/dsmlu.lock"
PHASE = "hami.io/bind-phase"
MARKER: Final = ("example.com/allocator", "hami")
ONE, BOTH = LockDemand((SHARED,)), LockDemand((MLU, SHARED))
N1 = NodeName("n1")


class LockCluster:
    """An API server with one node; ``replicas`` run against it."""

    def __init__(self, server: ApiServer) -> None:
        self.server = server
        server.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
        self.put_node()

    def put_node(self, **annotations: str) -> None:
        """The node with these annotations, ``shared`` and ``mlu`` for locks, and no others."""
        named = {{"shared": SHARED, "mlu": MLU}.get(key, key): text for key, text in annotations.items()}
        self.server.put({"apiVersion": "v1", "kind": "Node", "metadata": {"name": N1, "annotations": named}})

    def annotate(self, kind: str, name: str, **annotations: str | None) -> None:
        """What a device plugin or another scheduler writes; ``None`` removes."""
        keys = {"shared": SHARED, "mlu": MLU, "phase": PHASE}
        with self.server.store.lock:
            raw = self.server.get(kind, name, "" if kind == "nodes" else "team")
            told = raw["metadata"].setdefault("annotations", {})
            for key, text in annotations.items():
                told.pop(keys.get(key, key), None)
                if text is not None:
                    told[keys.get(key, key)] = text
            self.server.put(raw)

    def pod(self, name: str, *, ours: bool = True) -> LockPod:
        """A new pod that waits for its node."""
        metadata = {"namespace": "team", "annotations": dict((MARKER,)) if ours else {}}
        made = self.server.put(raw_objects.pod(name, raw_objects.container(image="i"), metadata=metadata))
        return LockPod(PodUid(made["metadata"]["uid"]), "team", name)

    def bind(self, pod: LockPod, node: str = N1, phase: str = "allocating") -> None:
        """The pod is on the node, and its plugin has not answered."""
        with self.server.store.lock:
            raw = self.server.get("pods", pod.name, "team")
            raw["spec"]["nodeName"] = node
            raw["metadata"].setdefault("annotations", {})[PHASE] = phase
            self.server.put(raw)

    def run(self, pod: LockPod, phase: str = "Running") -> None:
        """The kubelet has started the pod, or ended it."""
        with self.server.store.lock:
            raw = self.server.get("pods", pod.name, "team")
            self.server.put({**raw, "status": {"phase": phase}})

    def serve(self, pod: LockPod) -> None:
        """What HAMi's plugin does at the end: it writes the phase, and removes the lock if it names the pod."""
        self.annotate("pods", pod.name, phase="success")
        if (self.lock() or "").endswith(f",{pod.namespace},{pod.name}"):
            self.annotate("nodes", N1, shared=None)

    def delete(self, pod: LockPod) -> None:
        """The pod is gone at once."""
        self.server.delete("pods", pod.name, "team", grace=0)

    def lock(self, key: str = SHARED) -> str | None:
        """A lock of the node as it is."""
        found: dict[str, str] = self.server.get("nodes", N1)["metadata"].get("annotations", {})
        return found.get(key)

    def owner(self) -> str:
        """The pod that the node's lock names."""
        return (self.lock() or "").rpartition(",")[2]

    def writes(self, code: int = 200) -> int:
        """How many patches of nodes were answered so."""
        return self.server.requests.total(verb="patch", resource="nodes", code=code)


class LockReplica:
    """One allocator's locks, fed by watches of nodes and pods; ``skew`` is by how many seconds its clock is wrong."""

    def __init__(
        self,
        cluster: LockCluster,
        name: str = "replica",
        *,
        answer: float = ANSWER,
        expiry: float = EXPIRY,
        skew: float = 0.0,
        deadline: float = 10.0,
    ) -> None:
        self.api = replace(connect_to(cluster.server.url, component=name), deadline=deadline)
        self.metrics = Metrics("test")
        self.reports: list[tuple[str, str]] = []
        self.decisions = 0
        self._skew = timedelta(seconds=skew)
        self.locking = NodeLocking(
            self.api,
            BUILTIN,
            marker=MARKER,
            metrics=NodeLockMetrics(self.metrics),
            report=lambda pod, _node, text: self.reports.append((pod.name, text)),
            answer=answer,
            expiry=expiry,
            wall=self._wall,
        )
        self._calls = ThreadPoolExecutor(16, thread_name_prefix=f"{name}-calls")
        self._begun: list[Future[str]] = []
        wanted = (
            (Selection(paths.NODES, "Node"), self.locking.node_changed, f"{name}-nodes"),
            (Selection(paths.PODS, "Pod"), self.locking.pod_changed, f"{name}-pods"),
        )
        backoff = Backoff(first=0.05, most=0.2)
        self._watches = [
            Reflector(self.api, selection, on_change=heard, name=called, backoff=backoff)
            for selection, heard, called in wanted
        ]

    def _wall(self) -> datetime:
        """Asked for with each decision, and with each change of a node."""
        self.decisions += 1
        return datetime.now(UTC) + self._skew

    def start(self) -> None:
        """It leads, and knows the cluster."""
        for watch in self._watches:
            watch.start()
        self.locking.start()
        for watch in self._watches:
            assert watch.synced.wait(PATIENCE)

    def stop(self) -> None:
        """It ends, as one that is killed: it releases nothing."""
        for watch in self._watches:
            watch.stop()
        self.locking.stop()
        self._calls.shutdown()
        self.api.close()

    def acquire(self, pod: LockPod, demand: LockDemand = ONE, *, timeout: float = PATIENCE) -> str:
        """The answer to a call that binds a pod."""
        return self.locking.acquire(N1, pod, demand, timeout=timeout)

    def begin(self, pod: LockPod, demand: LockDemand = ONE) -> Future[str]:
        """The same in another thread, once it waits or is through. It is more patient than a test, and has to be woken.

        A call that nothing wakes finds its lock free all the same when its own time is over.
        """
        asked = self._calls.submit(self.acquire, pod, demand, timeout=2 * PATIENCE)
        self._begun.append(asked)
        wait_for(lambda: self.value("node_lock_waiting") == sum(not each.done() for each in self._begun))
        return asked

    def value(self, name: str, **labels: str) -> float:
        """One of its metrics."""
        return self.metrics.value(name, **labels) or 0.0

    def released(self, reason: str) -> float:
        """How many locks it saw end for a reason."""
        return self.value("node_lock_releases_total", reason=reason)


@contextmanager
def lock_cluster() -> Iterator[LockCluster]:
    """The API server, and no thread left behind at the end."""
    before = set(threading.enumerate())
    with ApiServer() as server:
        yield LockCluster(server)
    left = [thread.name for thread in threading.enumerate() if thread not in before]
    assert left == []


@contextmanager
def leading(replica: LockReplica) -> Iterator[LockReplica]:
    """The replica leads for as long as the statement lasts."""
    replica.start()
    try:
        yield replica
    finally:
        replica.stop()


def a_lock(pod: LockPod | None = None, *, age: float = 0.0) -> str:
    """The text of a lock as HAMi writes it."""
    stamp = (datetime.now(UTC) - timedelta(seconds=age)).isoformat(timespec="seconds").replace("+00:00", "Z")
    return stamp if pod is None else f"{stamp},{pod.namespace},{pod.name}"
