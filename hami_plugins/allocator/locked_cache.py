"""The cache behind its lock, kept up to date by the watches of nodes and pods.

Of an object nothing is kept but what an answer needs: of a node its cards, of a pod that waits what it asks for, of a
pod that is bound what it holds, of all others that they are there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import structlog

from hami_plugins.allocations import writers
from hami_plugins.allocations.answers import (
    AllocationSource,
    Assumption,
    AuditFinding,
    DeclineCode,
    Declined,
    PodAllocation,
    Statistics,
)
from hami_plugins.allocations.cache import HOLD, AllocationCache
from hami_plugins.allocations.product import Product
from hami_plugins.allocator.refusal_texts import NodeRefusal, RefusalTexts
from hami_plugins.allocator.time_slices import BUDGET, listed, slices
from hami_plugins.engine.decide import Decider
from hami_plugins.engine.intake import PodInfo, take_in
from hami_plugins.errors import WireError
from hami_plugins.kube.reflector import ObjectChange
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.decisions import Refusal
from hami_plugins.model.pods import FINISHED
from hami_plugins.model.policy import NodePolicy
from hami_plugins.model.units import NodeName, PodUid
from hami_plugins.model.verdicts import Fit
from hami_plugins.wire import lenient, objects, pods
from hami_plugins.wire.fields import Json

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


class LockedAllocationCache:
    """Safe to call from any thread. ``keep`` and ``hold`` are as in ``AllocationCache``, ``clock`` gives the time."""

    def __init__(self, product: Product, *, keep: float, hold: float = HOLD, clock: Callable[[], float]) -> None:
        self.product = product
        self.problems = 0
        self._named: dict[str, tuple[str, ...]] = {}
        self._clock = clock
        self._registry = product.registry
        self._empty: Callable[[], AllocationCache] = lambda: AllocationCache(
            Decider(self._registry), keep=keep, hold=hold
        )
        self._cache, self._planner = self._empty(), product.planner()
        self._lock = threading.Lock()
        self._nodes: dict[str, NodeName] = {}
        self._unreadable: dict[str, tuple[object, str]] = {}
        self._pods: dict[tuple[str, str], WatchedPod] = {}
        self._names: dict[str, tuple[str, str]] = {}
        self._groups: dict[str, tuple[str, str]] = {}
        self._texts = RefusalTexts(product, self._registry)

    # What the watches show

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

    def _read(self, raw: Json, uid: PodUid) -> WatchedPod:
        if not self._concerns(raw):
            return WatchedPod(uid)
        try:
            pod = objects.pod(raw)
        except WireError as error:
            self._malformed("pod_unreadable", uid, [str(error)])
            return self._unread(raw, uid, str(error))
        if pod.node is None and pod.phase not in FINISHED:
            intake = take_in(pod, self._registry, self.product.rules)
            with self._lock:
                self._cache.see_pod(pod, self._clock())
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
            for known in (self._nodes, self._pods, self._names, self._groups, self._named):
                known.clear()

    # What is asked

    def nodes_with_cards(self) -> tuple[NodeName, ...]:
        """The nodes that have registered cards."""
        with self._lock:
            entries = [self._cache.entry(name) for name in self._nodes.values()]
        return tuple(entry.name for entry in entries if entry is not None and entry.ids)

    def seen(self, namespace: str, name: str) -> WatchedPod | None:
        """The pod of that name, as the watch has it."""
        with self._lock:
            return self._pods.get((namespace, name))

    def intake(self, raw: Json) -> PodInfo:
        """What a pod asks for. Raises ``WireError`` where it cannot be read."""
        return take_in(objects.pod(raw), self._registry, self.product.rules)

    def blocking_reason(self, intake: PodInfo) -> str:
        """Why a pod gets no cards whatever is free; empty where nothing is in its way."""
        return intake.refusal or self.product.blocking_reason(intake.pod)

    def answer(self, node: NodeName, intake: PodInfo) -> str:
        """Why the node's cards cannot hold the pod, with numbers; empty where they can.

        A scheduler that asks so begins anew with the pod: see ``AllocationCache.look_again``.
        """
        with self._lock:
            self._cache.look_again(intake.pod.uid)
            found = self._refusal(node, intake, self._cache.answer(node, intake))
        return self._text(found, intake)

    def refusals(self, nodes: Iterable[NodeName], intake: PodInfo) -> dict[NodeName, str]:
        """The nodes that cannot hold the pod, each with the reason; see ``answer`` and ``slices``."""
        asked = listed(nodes, self._nodes.values())
        unchecked = f"{self.product.word(intake.demand.devices)}: not checked within {BUDGET:.0f} s; try again"
        found: dict[NodeName, NodeRefusal | str] = dict.fromkeys(asked, unchecked)
        for answers in self._answers(asked, intake):
            found |= {node: self._refusal(node, intake, each) for node, each in answers.items()}
        known = self._texts.remembered(intake)
        return {
            node: each if isinstance(each, str) else self._texts.text(each, intake, known)
            for node, each in found.items()
            if each
        }

    def scores(self, nodes: Iterable[NodeName], intake: PodInfo) -> dict[NodeName, float]:
        """How well the pod fits on each node that can hold it, by the policy for cards: the highest is the best."""
        asked = listed(nodes, self._nodes.values())
        fits: dict[NodeName, float] = {}
        for answers in self._answers(asked, intake):
            fits |= {node: answer.score for node, answer in answers.items() if isinstance(answer, Fit)}
        with self._lock:
            bonus = self._planner.bonus(asked, intake, self._cache)
        sign = -1.0 if intake.policy.node is NodePolicy.SPREAD else 1.0
        return {node: sign * score + bonus.get(node, 0.0) for node, score in fits.items()}

    def _answers(self, nodes: tuple[NodeName, ...], intake: PodInfo) -> Iterator[Mapping[NodeName, Fit | Refusal]]:
        return slices(nodes, lambda some: self._cache.answers(some, intake), self._lock)

    def reserve(self, node: NodeName, intake: PodInfo, *, job: str = "") -> PodAllocation | Declined:
        """See ``AllocationCache``."""
        with self._lock:
            if why := self._planner.objection(node, intake, self._cache):
                return Declined(uid=intake.pod.uid, node=node, code=DeclineCode.NODE, text=f"node {node}: {why}")
            preferred = self._planner.preferred(node, intake, self._cache)
            return self._cache.reserve(node, intake, self._clock(), preferred=preferred, job=job)

    def release(self, uid: PodUid) -> bool:
        """See ``AllocationCache``."""
        with self._lock:
            return self._cache.release(uid)

    def allocate(
        self, node: NodeName, intake: PodInfo, *, carried: Mapping[str, str] | None, dry: bool, now_ns: int
    ) -> tuple[PodAllocation, dict[str, str]] | Declined:
        """What a Binding is answered with, and the annotations that say so; see ``AllocationCache``."""
        with self._lock:
            if why := self._planner.objection(node, intake, self._cache):
                return Declined(uid=intake.pod.uid, node=node, code=DeclineCode.NODE, text=f"node {node}: {why}")
            preferred = self._planner.preferred(node, intake, self._cache)
            found = self._cache.allocate(node, intake, self._clock(), carried=carried, dry=dry, preferred=preferred)
            if isinstance(found, Declined):
                return found
            if found.source is AllocationSource.NOTHING:
                return found, {}
            written = self._cache.annotations(found, intake.pod, now_ns=now_ns)
            return found, written | self.product.bookkeeping(intake.demand.devices, now_ns=now_ns)

    def words(self, declined: Declined, intake: PodInfo) -> str:
        """Why nothing was given, in words with numbers."""
        if declined.refusal is None:
            return declined.text
        with self._lock:
            found = self._refused(declined.node, intake, declined.refusal)
        return f"node {declined.node}: {self._text(found, intake)}"

    def expire(self, shown: float) -> tuple[Assumption, ...]:
        """End what was promised too long ago, and say what that was; ``shown`` as in ``AllocationCache``."""
        with self._lock:
            return self._cache.expire(self._clock(), shown=shown)

    def overdue(self, after: float) -> tuple[Assumption, ...]:
        """See ``AllocationCache``."""
        with self._lock:
            return self._cache.overdue(self._clock(), after=after)

    def fail(self, assumption: Assumption) -> bool:
        """See ``AllocationCache``."""
        with self._lock:
            return self._cache.fail(assumption)

    def answered(self, uid: PodUid) -> bool:
        """Whether a Binding of the pod was answered that may be in effect, or come into effect still."""
        with self._lock:
            return any(each.answered for each in self._cache.assumptions(uid))

    def undo(self, uid: PodUid, node: NodeName) -> bool:
        """A Binding was refused: what it was answered with is free again."""
        with self._lock:
            answered = (each for each in self._cache.assumptions(uid) if each.node == node and each.answered)
            return any(self._cache.fail(each) for each in answered)

    def findings(self) -> tuple[AuditFinding, ...]:
        """What is wrong with what bound pods hold; see ``AllocationCache``. Nobody waits while it is looked for."""
        with self._lock:
            sheet = self._cache.sheet()
        return sheet.findings()

    def snapshot(self) -> ClusterSnapshot:
        """All nodes, with devices and who holds them; see ``AllocationCache``."""
        with self._lock:
            return self._cache.snapshot()

    @property
    def statistics(self) -> Statistics:
        """Sizes, for metrics."""
        with self._lock:
            return self._cache.statistics()

    def __len__(self) -> int:
        """How many pods are known, whatever they ask for."""
        return len(self._pods)

    def _refusal(self, node: NodeName, intake: PodInfo, answer: Fit | Refusal) -> NodeRefusal | str:
        """Why the pod does not go to the node; empty where it may."""
        why = self._planner.objection(node, intake, self._cache)
        if not why and not isinstance(answer, Fit):
            return self._refused(node, intake, answer)
        why = why or self._planner.blocking_reason(intake, self._cache)
        return f"{self.product.word(intake.demand.devices)}: {why}" if why else ""

    def _refused(self, node: NodeName, intake: PodInfo, refusal: Refusal) -> NodeRefusal:
        entry = self._cache.entry(node)
        if entry is None:
            unreadable = next((why for name, why in tuple(self._unreadable.values()) if name == node), "")
            return NodeRefusal(refusal, None, None, unreadable)
        return NodeRefusal(refusal, entry, self._cache.entry_without(node, intake.pod.uid))

    def _text(self, found: NodeRefusal | str, intake: PodInfo) -> str:
        return found if isinstance(found, str) else self._texts.text(found, intake, self._texts.remembered(intake))
