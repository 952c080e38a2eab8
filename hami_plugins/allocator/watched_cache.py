"""What the watches show, taken into the cache of allocations, behind its lock.

Of an object nothing is kept but what an answer needs: of a node its cards, of a pod that waits what it asks for, of a
pod that is bound what it holds, of all others that they are there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import structlog

from hami_plugins.allocations import writers
from hami_plugins.allocations.assigned import foreign_assignment
from hami_plugins.allocations.cache import HOLD, AllocationCache
from hami_plugins.allocations.known_answers import AnswersByDemand
from hami_plugins.allocations.product import Product
from hami_plugins.allocator.refusal_texts import RefusalTexts, Unfitting
from hami_plugins.engine.decide import Decider
from hami_plugins.engine.intake import PodInfo, take_in
from hami_plugins.errors import WireError
from hami_plugins.kube.reflector import ObjectChange
from hami_plugins.model.pods import FINISHED
from hami_plugins.model.units import NodeName, PodUid
from hami_plugins.wire import lenient, objects, pods
from hami_plugins.wire.fields import Json
from hami_plugins.wire.scheduler_extender import Unfit

_MOST_VERDICTS = 60_000
"""Verdicts of states that are remembered: a node's changes with each of its pods, so that most are of no use again."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class WatchedPod:
    """A pod as the watch shows it.

    ``intake`` is what it asks for, while it waits; ``None`` for one that asks for no cards, and for one that is bound
    or has finished. ``fault`` is why it cannot be read.
    """

    uid: PodUid
    intake: PodInfo | None = None
    fault: str = ""


class WatchedAllocationCache:
    """Safe to call from any thread. ``keep`` and ``hold`` are as in ``AllocationCache``, ``clock`` gives the time."""

    def __init__(self, product: Product, *, keep: float, hold: float = HOLD, clock: Callable[[], float]) -> None:
        self.product = product
        self.problems = 0
        self._named: dict[str, tuple[str, ...]] = {}
        self._clock = clock
        self._registry = product.registry
        self._empty: Callable[[], AllocationCache] = lambda: AllocationCache(
            Decider(self._registry, verdicts=_MOST_VERDICTS), keep=keep, hold=hold
        )
        self._cache, self._planner = self._empty(), product.planner()
        self._lock = threading.Lock()
        self._nodes: dict[str, NodeName] = {}
        self._unreadable: dict[str, tuple[object, str]] = {}
        self._pods: dict[tuple[str, str], WatchedPod] = {}
        self._waiting: dict[tuple[str, str], PodInfo] = {}
        self._names: dict[str, tuple[str, str]] = {}
        self._groups: dict[str, tuple[str, str]] = {}
        self._texts = RefusalTexts(product, self._registry)
        self._answers: AnswersByDemand[Unfitting, Unfit] = AnswersByDemand()

    def node_changed(self, change: ObjectChange) -> None:
        """A node came, changed or went."""
        if change.kind == "deleted":
            self._named.pop(change.uid, None)
            self._unreadable.pop(change.uid, None)
            with self._lock:
                name = self._nodes.pop(change.uid, None)
                if name is not None and name not in self._nodes.values():
                    self._cache.forget_node(name)
            return
        if change.object is None:
            return
        try:
            node = objects.node_object(change.object)
        except WireError as error:
            self._malformed("node_unreadable", change.uid, [str(error)])
            self._unreadable[change.uid] = lenient.inside(change.object, "metadata").get("name"), str(error)
            return
        self._unreadable.pop(change.uid, None)
        try:
            with self._lock:
                self._nodes[change.uid] = node.name
                problems = self._cache.see_node(node)
        except Exception as error:  # noqa: BLE001 - a bug that one node meets is not to end all the others' allocations
            with self._lock:
                self._cache.forget_node(node.name)
            self._broken("node_not_taken_in", f"node {node.name}", error)
            return
        self._malformed("node_problem", change.uid, [f"{problem.place}: {problem.what}" for problem in problems])

    def pod_changed(self, change: ObjectChange) -> None:
        """A pod came, changed or went."""
        if change.kind == "deleted":
            self._named.pop(change.uid, None)
            name = self._names.pop(change.uid, ("", ""))
            with self._lock:
                if (seen := self._pods.get(name)) is not None and seen.uid == change.uid:
                    del self._pods[name]
                    self._waiting.pop(name, None)
                self._cache.forget_pod(PodUid(change.uid), self._clock())
                self._planner.pod_gone(PodUid(change.uid))
            return
        if change.object is None:
            return
        metadata = lenient.inside(change.object, "metadata")
        name = (str(metadata.get("namespace")), str(metadata.get("name")))
        uid = PodUid(change.uid)
        try:
            seen = self._read(change.object, uid)
        except Exception as error:  # noqa: BLE001 - a bug that one pod meets is not to free what it holds
            self._broken("pod_not_taken_in", f"pod {'/'.join(name)}", error)
            seen = self._unread(change.object, uid, repr(error))
        with self._lock:
            self._pods[name] = seen
            self._waiting.pop(name, None)
            if seen.intake is not None:
                self._waiting[name] = seen.intake
        self._names[change.uid] = name

    def group_changed(self, change: ObjectChange) -> None:
        """A PodGroup came, changed or went."""
        if change.kind == "deleted":
            self._named.pop(change.uid, None)
            if (key := self._groups.pop(change.uid, None)) is not None:
                with self._lock:
                    self._planner.group_gone(*key)
            return
        if change.object is None:
            return
        try:
            group, wrong = objects.readable_pod_group(change.object)
        except WireError as error:
            self._malformed("group_unreadable", change.uid, [str(error)])
            return
        self._malformed("group_problem", change.uid, map(str, wrong))
        self._groups[change.uid] = (group.namespace, group.name)
        with self._lock:
            self._planner.group_seen(group)

    def quota_changed(self, change: ObjectChange) -> None:
        """A ResourceQuota came, changed or went. One that cannot be read keeps the limits that it had."""
        if change.kind == "deleted":
            self._named.pop(change.uid, None)
            with self._lock:
                self._cache.forget_quota(change.uid)
            return
        if change.object is None:
            return
        try:
            quota = objects.resource_quota(change.object)
        except WireError as error:
            self._malformed("quota_unreadable", change.uid, [str(error)])
            return
        self._malformed("quota_unreadable", change.uid, [])
        with self._lock:
            self._cache.see_quota(change.uid, quota)

    def _read(self, raw: Json, uid: PodUid) -> WatchedPod:
        if not self._concerns(raw):
            return WatchedPod(uid)
        try:
            pod = objects.pod(raw)
        except WireError as error:
            self._malformed("pod_unreadable", uid, [str(error)])
            return self._unread(raw, uid, str(error))
        if pod.node is None and pod.phase not in FINISHED:
            intake = take_in(pod, self._registry, self.product.rules, admitted=True)
            assigned = foreign_assignment(pod, self._registry, marker=self.product.marker[0])
            with self._lock:
                self._cache.see_pod(pod, self._clock())
                self._cache.see_assigned(pod, assigned, self._clock())
                self._cache.confirm(intake)
                self._planner.pod_seen(pod, intake)
            return WatchedPod(uid, intake)
        edited = writers.written_later(raw, self.product.held)
        with self._lock:
            problems = self._cache.see_pod(pod, self._clock(), edited=edited)
            if pod.phase in FINISHED:
                self._planner.pod_gone(uid)
            else:
                self._planner.pod_seen(pod, None)
        self._malformed("pod_problem", uid, [f"{problem.place}: {problem.what}" for problem in problems])
        return WatchedPod(uid)

    def _unread(self, raw: Json, uid: PodUid, fault: str) -> WatchedPod:
        """A pod of which nothing can be told but its node and its annotations."""
        with self._lock:
            self._cache.see_pod(pods.certain(raw, uid, self.product.containers_of), self._clock(), fault=fault)
        return WatchedPod(uid, fault=fault)

    def _concerns(self, raw: Json) -> bool:
        """Whether a pod asks for cards, or is bound with some; most pods of a cluster do neither."""
        annotations = lenient.inside(raw, "metadata", "annotations")
        if pods.node_of(raw) and any(key in annotations for key in self.product.held):
            return True
        return any(
            not self.product.resources.isdisjoint(pods.written(container, kind))
            for container, _ in pods.containers_of(raw)
            for kind in ("limits", "requests")
        )

    def _malformed(self, event: str, uid: str, reasons: Iterable[str]) -> None:
        """All that is wrong with an object now: counted each time, and named once, however often the object says so."""
        before, now = self._named.pop(uid, ()), tuple(reasons)
        if not now:
            return
        self._named[uid] = now
        with self._lock:
            self.problems += len(now)
        for reason in dict.fromkeys(now):
            if reason not in before:
                _log.warning(event, reason=reason)

    def _broken(self, event: str, subject: str, error: Exception) -> None:
        """A mistake of this program: with its trace, so that it can be reported."""
        with self._lock:
            self.problems += 1
        _log.error(event, subject=subject, exc_info=error)

    def forget(self) -> None:
        """Nothing is known any more, even by those that still use this."""
        with self._lock:
            self._cache, self._planner = self._empty(), self.product.planner()
            self._texts = RefusalTexts(self.product, self._registry)
            self._answers = AnswersByDemand()
            for known in (self._nodes, self._pods, self._waiting, self._names, self._groups, self._named):
                known.clear()
