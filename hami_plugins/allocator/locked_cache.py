"""The cache behind its lock, kept up to date by the watches: what schedulers and the API server ask of it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import filterfalse
from types import MappingProxyType
from typing import Final, TypeVar

from hami_plugins.allocations.answers import (
    AllocationSource,
    Assumption,
    AuditFinding,
    DeclineCode,
    Declined,
    PodAllocation,
    Statistics,
)
from hami_plugins.allocations.cache import UNKNOWN_NODE
from hami_plugins.allocations.findings import AuditSnapshot
from hami_plugins.allocations.known_answers import KnownAnswers
from hami_plugins.allocations.node_answers import NodeAnswers
from hami_plugins.allocator.nominating_cache import NominatingCache
from hami_plugins.allocator.refusal_texts import NodeRefusal, Unfitting, demand_key, is_of_quota
from hami_plugins.allocator.time_slices import BUDGET, listed, slices
from hami_plugins.allocator.watched_cache import WatchedPod
from hami_plugins.engine.intake import PodInfo, take_in
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.decisions import Refusal
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.policy import NodePolicy
from hami_plugins.model.units import MiB, NodeName, PodUid, VendorName
from hami_plugins.model.vendor import Headroom
from hami_plugins.model.verdicts import Fit
from hami_plugins.wire import objects
from hami_plugins.wire.fields import Json
from hami_plugins.wire.resizes import WRITTEN_KEYS, Amounts
from hami_plugins.wire.scheduler_extender import Unfit

Value = TypeVar("Value")

NodesKnown = KnownAnswers[Unfitting, Unfit]

_NONE_GIVEN: Final[Mapping[NodeName, Json]] = MappingProxyType({})


NodeAnswer = tuple[NodeEntry, Fit | Refusal]
"""A node as it was asked, and what it says."""


class LockedAllocationCache(NominatingCache):
    """Safe to call from any thread, as all of it."""

    @property
    def changes(self) -> int:
        """How often what is held or to be had has changed."""
        with self._lock:
            return self._cache.changes

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
        """What a pod of the API server's asks for. Raises ``WireError`` where it cannot be read."""
        return take_in(objects.pod(raw), self._registry, self.product.rules, admitted=True)

    def blocking_reason(self, intake: PodInfo) -> str:
        """Why a pod gets no cards whatever is free; empty where nothing is in its way."""
        return intake.refusal or self.product.blocking_reason(intake.pod)

    def answer(self, node: NodeName, intake: PodInfo) -> str:
        """Why the node's cards cannot hold the pod, with numbers; empty where they can.

        A scheduler that asks so begins anew with the pod: see ``AllocationCache.look_again``.
        """
        with self._lock:
            self._cache.look_again(intake.pod.uid)
            intake = self._cache.within_quota(intake)
            found = self._refusal(node, intake, self._cache.answer(node, intake))
        return self._text(found, intake)

    def refusals(
        self, nodes: Sequence[NodeName], intake: PodInfo, given: Mapping[NodeName, Json] = _NONE_GIVEN
    ) -> dict[NodeName, Unfit]:
        """The nodes that cannot hold the pod, each with the reason; see ``answer`` and ``slices``.

        ``given`` are nodes that came whole, by their names: see ``NodeAnswers``.
        """
        asked = listed(nodes, self._nodes.values())
        of_call = self._of_call(intake, given)
        refused, rest = self._told(self._up_to_date(of_call), asked, of_call)
        for node in rest:
            refused.pop(node, None)
        unchecked = f"{self.product.word(intake.demand.devices)}: not checked within {BUDGET:.0f} s; try again"
        found = dict.fromkeys(rest, Unfitting(unchecked, lasting=False))
        for answers in slices(rest, of_call.answers, self._lock):
            found |= {node: self._unfit(node, of_call, each) for node, each in answers.items()}
        with self._lock:
            why = self._of_no_use(of_call.intake)
        if why:
            found |= {
                node: Unfitting(why, lasting=False) for node in asked if node not in found and node not in refused
            }
        if len(asked) < len(nodes):
            unknown = Unfitting(NodeRefusal(UNKNOWN_NODE, None, None), lasting=True)
            found |= dict.fromkeys(set(nodes).difference(asked), unknown)
        if found:
            texts = self._texts.remembered(of_call.intake)
            refused |= {node: self._worded(each, of_call.intake, texts) for node, each in found.items() if each.why}
        return refused

    def node_answers(self, nodes: Sequence[NodeName], intake: PodInfo) -> tuple[PodInfo, list[NodeAnswer]]:
        """The answers of the known nodes to the pod, and the pod as evaluated, with its remaining quota."""
        of_call = self._of_call(intake, _NONE_GIVEN)
        found: list[NodeAnswer] = []
        for answers in slices(listed(nodes, self._nodes.values()), of_call.answers, self._lock):
            found += [(entry, each) for node, each in answers.items() if (entry := of_call.asked(node)) is not None]
        return of_call.intake, found

    def scores(
        self, nodes: Iterable[NodeName], intake: PodInfo, given: Mapping[NodeName, Json] = _NONE_GIVEN
    ) -> dict[NodeName, float]:
        """How well the pod fits on each node that can hold it, by the policy for cards: the highest is the best."""
        asked = listed(nodes, self._nodes.values())
        of_call = self._of_call(intake, given)
        known = self._up_to_date(of_call)
        with self._lock:
            fits = _of_nodes(known.scores, asked)
            rest = self._rest(known, asked, of_call)
        for node in rest:
            fits.pop(node, None)
        for answers in slices(rest, of_call.answers, self._lock):
            fits |= {node: answer.score for node, answer in answers.items() if isinstance(answer, Fit)}
        with self._lock:
            bonus = self._planner.bonus(asked, intake, self._cache)
        sign = -1.0 if intake.policy.node is NodePolicy.SPREAD else 1.0
        return {node: sign * score + bonus.get(node, 0.0) for node, score in fits.items()}

    def _up_to_date(self, of_call: NodeAnswers) -> NodesKnown:
        """What the devices of the nodes say to such a pod.

        Only nodes that have changed since such a pod was asked about last are asked.
        """
        with self._lock:
            known = self._answers.of((demand_key(of_call.intake), of_call.left and of_call.intake.pod.namespace))
            known.catch_up(self._cache.log, lambda: self._cache.names, of_call.left)
            stale = tuple(known.stale)

        def renewed(nodes: Iterable[NodeName]) -> Mapping[NodeName, None]:
            done = dict[NodeName, None]()
            for node in nodes:
                self._renew(known, node, of_call)
                done[node] = None
            return done

        for _ in slices(stale, renewed, self._lock):
            pass
        return known

    def _renew(self, known: NodesKnown, node: NodeName, of_call: NodeAnswers) -> None:
        entry = self._cache.entry(node)
        if entry is None:
            known.forget(node)
            return
        answer = of_call.ask(entry)
        known.range = known.range.both(of_call.ask.range)
        if isinstance(answer, Fit):
            known.renew(node, answer.score, None)
        else:
            refusal = Unfitting(NodeRefusal(answer, entry, entry), of_call.lasts(node))
            known.renew(node, None, refusal, of_quota=is_of_quota(answer))

    def _told(
        self, known: NodesKnown, nodes: tuple[NodeName, ...], of_call: NodeAnswers
    ) -> tuple[dict[NodeName, Unfit], tuple[NodeName, ...]]:
        """Those of the nodes that refuse, in words; and the ``_rest``, whatever was said of them."""
        with self._lock:
            told, untold = known.told.copy(), tuple(known.untold.items())
            rest = self._rest(known, nodes, of_call)
        if untold:
            texts = self._texts.remembered(of_call.intake)
            worded = [(node, each, self._worded(each, of_call.intake, texts)) for node, each in untold]
            with self._lock:
                known.tell(worded, of_call.left)
            told.update((node, text) for node, _, text in worded)
        return _of_nodes(told, nodes), rest

    def _rest(self, known: NodesKnown, nodes: tuple[NodeName, ...], of_call: NodeAnswers) -> tuple[NodeName, ...]:
        """The nodes that have to be asked for this call alone: unknown ones, those where the pod has something, and
        those whose notes matter to it.

        All of them where another call of the namespace, for which more or less is left, has begun meanwhile.
        """
        if not known.hold(of_call.left):
            return nodes
        rest = nodes
        for answers in (known.scores, known.told, known.untold):
            rest = tuple(filterfalse(answers.__contains__, rest))
        own = {*self._cache.nodes_of(of_call.intake.pod.uid), *known.stale}
        if self._planner.reads_notes(of_call.intake):
            own.update(node for node in nodes if self._notes(node))
        if own:
            rest = tuple(filter(own.union(rest).__contains__, nodes))
        return rest

    def _of_call(self, intake: PodInfo, given: Mapping[NodeName, Json]) -> NodeAnswers:
        with self._lock:
            return NodeAnswers(self._cache, intake, given, self.product.described)

    def left(self, namespace: str) -> Mapping[VendorName, Headroom]:
        """What the quotas of a namespace leave now, per vendor; nothing where it has none."""
        with self._lock:
            return dict(self._cache.left(namespace))

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
            # A pod that brings these from its creation has them from its author, or from a copy of a pod that ran.
            written |= {key: "" for key in WRITTEN_KEYS if key in intake.pod.annotations}
            notes = self._notes(node)
            return found, written | self.product.bookkeeping(intake.demand.devices, notes, now_ns=now_ns)

    def notes(self, node: NodeName) -> tuple[tuple[str, str], ...]:
        """See ``NodeEntry.notes``."""
        with self._lock:
            return self._notes(node)

    def _notes(self, node: NodeName) -> tuple[tuple[str, str], ...]:
        entry = self._cache.entry(node)
        return () if entry is None else entry.notes

    def words(self, declined: Declined, intake: PodInfo) -> str:
        """Why nothing was given, in words with numbers."""
        if declined.refusal is None:
            return declined.text
        with self._lock:
            intake = self._cache.within_quota(intake)
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
            return any(each.state == "answered" for each in self._cache.assumptions(uid))

    def undo(self, uid: PodUid, node: NodeName) -> bool:
        """A Binding was refused: what it was answered with is free again."""
        with self._lock:
            answered = (each for each in self._cache.assumptions(uid) if each.node == node and each.answered)
            return any(self._cache.fail(each) for each in answered)

    def findings(self) -> tuple[AuditFinding, ...]:
        """Defects in the allocations of bound pods; see ``AllocationCache``. The check blocks no other call."""
        return self.sheet().findings()

    def resizable(self, uid: PodUid) -> Mapping[str, MiB | str]:
        """See ``AllocationCache``."""
        with self._lock:
            return self._cache.resizable(uid)

    def book(self, uid: PodUid, container: str, memory: MiB) -> tuple[Amounts, str]:
        """See ``AllocationCache``."""
        with self._lock:
            return self._cache.book(uid, container, memory)

    def unbook(self, uid: PodUid) -> None:
        """See ``AllocationCache``."""
        with self._lock:
            self._cache.unbook(uid)

    def sheet(self) -> AuditSnapshot:
        """What is held now, to be looked through while the cache goes on."""
        with self._lock:
            return self._cache.sheet()

    @property
    def freed(self) -> int:
        """Changes with another value after each change by which more may be had."""
        return self._cache.freed

    def waiting(self) -> tuple[PodInfo, ...]:
        """The marked pods that wait for kube-scheduler to place them, and hold nothing yet."""
        marker, volcano = self.product.marker[0], self.product.schedulers
        with self._lock:
            known = tuple(self._waiting.values())
            held = {
                each.pod.uid for each in known if any(held.answered for held in self._cache.assumptions(each.pod.uid))
            }
        return tuple(
            each
            for each in known
            if marker in each.pod.annotations
            and each.pod.scheduler not in volcano
            and each.demand.devices.wants_devices
            and not each.pod.gated
            and each.pod.uid not in held
            and not self.blocking_reason(each)
        )

    def fitting(self, intake: PodInfo, nodes: Sequence[NodeName] | None) -> list[NodeEntry]:
        """Those of these nodes (``None``: of all) that can hold the pod, the best first, without what it has there."""
        scores = self.scores(tuple(self._nodes.values()) if nodes is None else nodes, intake)
        best = sorted(scores, key=lambda name: (-scores[name], name))
        with self._lock:
            return [entry for name in best if (entry := self._cache.entry_without(name, intake.pod.uid)) is not None]

    def allows(self, node: NodeName, intake: PodInfo) -> bool:
        """Whether nothing but devices is in the pod's way on a node."""
        with self._lock:
            return not self._planner.objection(node, intake, self._cache)

    def unplaced(self) -> tuple[PodInfo, ...]:
        """All pods that ask for devices and have no node, whatever their scheduler."""
        with self._lock:
            return tuple(self._waiting.values())

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

    def _unfit(self, node: NodeName, asked: NodeAnswers, answer: Fit | Refusal) -> Unfitting:
        """Why the pod does not go to the node; nothing where it may."""
        if isinstance(answer, Fit) or node not in asked.given or self._cache.entry(node) is not None:
            why = self._refusal(node, asked.intake, answer)
        else:
            entry = asked.entry(node)
            why = NodeRefusal(answer, entry, entry, asked.unreadable.get(node, ""))
        return Unfitting(why, lasting=isinstance(why, NodeRefusal) and asked.lasts(node))

    def _worded(self, found: Unfitting, intake: PodInfo, texts: dict[Hashable, str] | None) -> Unfit:
        why = found.why
        return Unfit(why if isinstance(why, str) else self._texts.text(why, intake, texts), found.lasting)

    def _refusal(self, node: NodeName, intake: PodInfo, answer: Fit | Refusal) -> NodeRefusal | str:
        """Why the pod does not go to the node; empty where it may."""
        why = self._planner.objection(node, intake, self._cache)
        if not why and not isinstance(answer, Fit):
            return self._refused(node, intake, answer)
        return f"{self.product.word(intake.demand.devices)}: {why}" if why else self._of_no_use(intake)

    def _of_no_use(self, intake: PodInfo) -> str:
        """Why the pod goes to no node that could hold it; empty where it may."""
        why = self._planner.blocking_reason(intake, self._cache)
        return f"{self.product.word(intake.demand.devices)}: {why}" if why else ""

    def _refused(self, node: NodeName, intake: PodInfo, refusal: Refusal) -> NodeRefusal:
        entry = self._cache.entry(node)
        if entry is None:
            unreadable = next((why for name, why in tuple(self._unreadable.values()) if name == node), "")
            return NodeRefusal(refusal, None, None, unreadable)
        return NodeRefusal(refusal, entry, self._cache.entry_without(node, intake.pod.uid))

    def _text(self, found: NodeRefusal | str, intake: PodInfo) -> str:
        return found if isinstance(found, str) else self._texts.text(found, intake, self._texts.remembered(intake))


def _of_nodes(values: Mapping[NodeName, Value], nodes: tuple[NodeName, ...]) -> dict[NodeName, Value]:
    """Those of the values that are of these nodes. A call may be about thousands: no node takes a step of Python's."""
    found = tuple(filter(values.__contains__, nodes))
    return dict(zip(found, map(values.__getitem__, found), strict=True))
