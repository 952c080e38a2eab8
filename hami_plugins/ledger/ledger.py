"""The ledger of grants: one place that knows who holds what, and that answers, reserves and grants from it.

It is fed what a watch shows (nodes, pods) and what a scheduler asks. Everything is keyed by pod UID, so that a pod that
was created again is another one. A pod that the watch shows on a node holds what its annotations say there and then,
whatever was assumed before; until then an ``Assumption`` holds its place. What they say later frees nothing: whoever
may write a pod's annotations does not end what runs on its cards.

One process owns a ledger, and one thread at a time uses it. Times are any clock that only goes forward, in seconds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from hami_plugins.engine.annotate import annotations_with
from hami_plugins.engine.apply import record_with
from hami_plugins.engine.decide import Decider, PodDemand, granted
from hami_plugins.engine.holdings import flaws_of
from hami_plugins.engine.intake import Intake
from hami_plugins.engine.inventory import NodeBuilder, RecordReader
from hami_plugins.engine.relax.changes import Question
from hami_plugins.engine.shortfall import WhyNot, why_not
from hami_plugins.ledger.answers import Assumption, Code, Declined, Found, Granted, Source, Statistics
from hami_plugins.ledger.findings import Bound, Sheet, wanting
from hami_plugins.ledger.nodes import LedgerNode
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.decisions import NodeObjection, Refusal
from hami_plugins.model.nodes import NodeEntry, NodeFacts, NodeState, Problem
from hami_plugins.model.pods import FINISHED, ContainerGrant, Pod, PodRecord
from hami_plugins.model.units import NodeName, PodUid
from hami_plugins.model.vendor import NodeObject
from hami_plugins.model.verdicts import Fit, NoFit

KEEP: Final = 90.0
"""Seconds that an answer is believed to come true: the API server may carry out a request for 60 s."""

HOLD: Final = 15.0
"""Seconds that a reservation lasts for which no Binding has come: a scheduler that died gives nothing back."""

UNKNOWN_NODE: Final = NodeObjection("node is not known")


class Ledger:
    """Who holds what, and what else can be had. ``decider`` decides, with the registry that it was made with.

    What nothing else ends lasts ``hold`` seconds after it was last asked for, and ``keep`` seconds after a Binding was
    answered with it. ``changes`` grows with every change of what is held or to be had.
    """

    def __init__(self, decider: Decider, *, keep: float = KEEP, hold: float = HOLD) -> None:
        self.decider = decider
        self.keep = keep
        self.hold = hold
        self._registry = decider.registry
        self._builder = NodeBuilder(self._registry)
        self._records = RecordReader(self._registry)
        self._nodes: dict[NodeName, LedgerNode] = {}
        self._bound: dict[PodUid, Bound] = {}
        self._assumed: dict[PodUid, dict[NodeName, Assumption]] = {}
        self._gone: dict[PodUid, float] = {}
        self.changes = 0

    # What a watch shows

    def see_node(self, node: NodeObject) -> tuple[Problem, ...]:
        """The node as it is now. What cannot be read of it is a problem, and then it has none of those devices."""
        bare = self._builder.entry(node, NodeFacts())
        self.changes += self._node(node.name).see(bare)
        return bare.problems

    def forget_node(self, name: NodeName) -> None:
        """The node is gone. Pods that hold something there do so until they are gone, too."""
        self.changes += self._node(name).see(None)
        self._tidy(name)

    def see_pod(self, pod: Pod, now: float, *, fault: str = "", edited: str = "") -> tuple[Problem, ...]:
        """The pod as it is now: on a node it holds what it said when it got there, and nothing else, and nowhere else.

        Who had nothing there may be given something. A pod without a node changes nothing, one that has finished holds
        nothing. What cannot be read is a problem, and so is what was changed. With a ``fault`` (why the pod cannot be
        read) nothing but its grant is known, and that counts until the pod can be read. ``edited`` is who wrote its
        grant after it was bound; where the pod comes bound, that is a finding.
        """
        if pod.phase in FINISHED:
            self.forget_pod(pod.uid, now)
            return ()
        self._gone.pop(pod.uid, None)
        if pod.node is None:
            return ()
        record, problems = self._records.record(pod)
        unreadable = "; ".join(problem.what for problem in problems)
        first = self._first_grants(pod.uid, pod.node, fault)
        if first and fault:
            return problems
        changed = bool(first) and first != record.grants
        if changed:
            record = replace(record, grants=first, unlocated=())
            what = "the grant in its annotations was changed after it was bound; it keeps what it was bound with"
            problems = (*problems, Problem(f"pod {pod.full_name}", what))
        before = self._bound.get(pod.uid)
        told = edited if before is None or before.edited else ""
        bound = Bound(pod.node, unreadable, wanting(pod, record, self._registry), changed, fault, told)
        holds = bool(
            bound.unreadable
            or fault
            or bound.wanting
            or record.unlocated
            or any(grant.shares for grant in record.grants)
        )
        self._drop(pod.uid, but=pod.node if holds else None)
        if holds:
            self._bound[pod.uid] = bound
            self._put(pod.node, record)
        return problems

    def forget_pod(self, uid: PodUid, now: float) -> None:
        """The pod is gone, and with it all that it held. For a while it is remembered, so that it gets nothing new."""
        self._drop(uid)
        self._gone[uid] = now + self.keep

    def expire(self, now: float, *, shown: float = math.inf) -> tuple[Assumption, ...]:
        """End the assumptions whose time is up, and say which.

        ``shown`` is up to when the watch has told all that happened: what a Binding was answered with may have come
        true since, so that its time is up only by then.
        """
        assumed = [each for held in self._assumed.values() for each in held.values()]
        ended = [each for each in assumed if each.until <= (min(now, shown) if each.answered else now)]
        for each in ended:
            self._end(each.record.uid, each.node)
        self._gone = {uid: until for uid, until in self._gone.items() if until > now}
        return tuple(ended)

    def overdue(self, now: float, *, after: float) -> tuple[Assumption, ...]:
        """What Bindings were answered with ``after`` seconds ago or earlier, and no watch has shown since."""
        assumed = (each for held in self._assumed.values() for each in held.values())
        return tuple(each for each in assumed if each.answered and each.made + after <= now)

    def fail(self, assumption: Assumption) -> bool:
        """A Binding is known to have failed: what it was answered with ends, unless it was answered again since."""
        uid, node = assumption.record.uid, assumption.node
        now = self._assumed.get(uid, {}).get(node)
        if now is None or not now.answered or now.made != assumption.made:
            return False
        self._end(uid, node)
        return True

    # What a scheduler asks

    def answer(self, node: NodeName, intake: Intake) -> Fit | Refusal:
        """Whether the node's devices can hold the pod; what it is assumed to hold there itself does not count.

        Labels, taints and plain resources are the scheduler's own matter. ``intake.refusal`` must be empty.
        """
        entry = self.entry_without(node, intake.pod.uid)
        if entry is None:
            return UNKNOWN_NODE
        return self.decider.answer(entry, _devices_only(intake), intake.policy)

    def answers(self, nodes: Iterable[NodeName], intake: Intake) -> dict[NodeName, Fit | Refusal]:
        """What ``answer`` says of each of many nodes. Nodes in one state fit alike, unless names of cards matter."""
        demand = _devices_only(intake)
        named = any(request.selector.names_ids for each in demand.devices.containers for request in each.requests)
        fits: dict[NodeState, Fit] = {}
        found: dict[NodeName, Fit | Refusal] = {}
        for node in nodes:
            entry = self.entry_without(node, intake.pod.uid)
            if entry is None:
                found[node] = UNKNOWN_NODE
                continue
            known = fits.get(entry.state)
            found[node] = answer = known or self.decider.answer(entry, demand, intake.policy)
            if known is None and not named and isinstance(answer, Fit):
                fits[entry.state] = answer
        return found

    def why_not(self, node: NodeName, intake: Intake, refusal: Refusal) -> WhyNot | None:
        """The numbers behind a node's refusal: asked, largest free, total; ``None`` where cards are not the reason."""
        entry = self.entry_without(node, intake.pod.uid)
        if entry is None or not isinstance(refusal, NoFit):
            return None
        return why_not(Question(_devices_only(intake), intake.policy), [(entry, refusal)], self._registry)

    def reserve(
        self, node: NodeName, intake: Intake, now: float, *, wish: PodDemand | None = None
    ) -> Granted | Declined:
        """Hold what the pod would get on the node, instead of any reservation that it has elsewhere.

        Asked again for the same node, the pod keeps what it has there, if that is still right. With a ``wish`` the node
        is asked that in its name; it has to be a narrower demand for the same.
        """
        return self._grant(node, intake, now, wish=wish, answered=False, dry=False)

    def release(self, uid: PodUid) -> bool:
        """Give up a pod's reservation, and say whether there was one.

        What a Binding was answered with stays, because it may be in effect: the watch or the time ends it.
        """
        held = self._assumed.get(uid, {})
        waiting = [each.node for each in held.values() if not each.answered]
        for node in waiting:
            self._end(uid, node)
        return bool(waiting)

    def grant(  # noqa: PLR0913 - one question with all that may go with it
        self,
        node: NodeName,
        intake: Intake,
        now: float,
        *,
        carried: Mapping[str, str] | None = None,
        dry: bool = False,
        wish: PodDemand | None = None,
    ) -> Granted | Declined:
        """The answer to a Binding: what is reserved there, else what ``carried`` annotations name if that is right,
        else the pod is placed on that node anew. It is refused only if the node cannot hold it at all.

        A ``dry`` run gets the same answer, and nothing is kept of it. ``wish`` as in ``reserve``.
        """
        return self._grant(node, intake, now, carried=carried, wish=wish, answered=True, dry=dry)

    def annotations(self, granted: Granted, pod: Pod, *, now_ns: int) -> dict[str, str]:
        """What is to be written on the pod for a grant of this ledger, in its scheduler's words.

        ``now_ns`` is the time to write, in Unix nanoseconds.
        """
        entry = self.entry(granted.node)
        if entry is None:
            return {}
        return annotations_with(pod, granted.containers, entry, self._registry, now_ns=now_ns)

    # What it knows

    def entry(self, name: NodeName) -> NodeEntry | None:
        """The node with everybody who holds something there, or ``None``."""
        node = self._nodes.get(name)
        return None if node is None else node.entry()

    def entry_without(self, name: NodeName, uid: PodUid) -> NodeEntry | None:
        """The same as if one pod held nothing there."""
        node = self._nodes.get(name)
        return None if node is None else node.entry_without(uid)

    def holdings(self, uid: PodUid) -> tuple[tuple[NodeName, tuple[ContainerGrant, ...]], ...]:
        """What a pod holds, or is assumed to hold, and on which nodes."""
        bound = self._bound.get(uid)
        names = (*self._assumed.get(uid, ()), *(() if bound is None else (bound.node,)))
        return tuple((name, self._nodes[name].held_by(uid)) for name in names)

    def snapshot(self) -> ClusterSnapshot:
        """All nodes, with devices and who holds them, and nothing else of the cluster."""
        return ClusterSnapshot(
            nodes=tuple(entry for node in self._nodes.values() if (entry := node.entry()) is not None)
        )

    def assumptions(self, uid: PodUid) -> tuple[Assumption, ...]:
        """What a pod is assumed to hold."""
        return tuple(self._assumed.get(uid, {}).values())

    def bound_to(self, uid: PodUid) -> NodeName | None:
        """The node on which the watch has shown the pod, if it holds devices there or asks for some."""
        bound = self._bound.get(uid)
        return None if bound is None else bound.node

    def findings(self) -> tuple[Found, ...]:
        """What is wrong with what bound pods hold, node by node; see ``Sheet``."""
        return self.sheet().findings()

    def sheet(self) -> Sheet:
        """What is held now, to be looked through while the ledger goes on."""
        return Sheet(self.snapshot().nodes, dict(self._bound))

    def statistics(self) -> Statistics:
        """Sizes, for metrics."""
        assumed = [each for held in self._assumed.values() for each in held.values()]
        known = [node.entry() for node in self._nodes.values()]
        answered = sum(each.answered for each in assumed)
        return Statistics(
            nodes=sum(entry is not None for entry in known),
            devices=sum(len(entry.ids) for entry in known if entry is not None),
            holders=len(self._bound),
            reservations=len(assumed) - answered,
            answered=answered,
        )

    def _grant(  # noqa: PLR0913 - one question in its two forms
        self,
        node: NodeName,
        intake: Intake,
        now: float,
        *,
        carried: Mapping[str, str] | None = None,
        wish: PodDemand | None,
        answered: bool,
        dry: bool,
    ) -> Granted | Declined:
        pod = intake.pod
        declined = self._out_of_question(node, intake)
        if declined is not None:
            return declined
        demand = _devices_only(intake)
        if not demand.devices.wants_devices:
            nothing = tuple(ContainerGrant(container.kind) for container in pod.containers)
            return Granted(uid=pod.uid, node=node, containers=nothing, source=Source.NOTHING)
        found = self._chosen(node, intake, demand, carried, wish or demand)
        if isinstance(found, Declined) or dry:
            return found
        held = self._assumed.get(pod.uid, {})
        for other in [each.node for each in held.values() if each.node != node and not each.answered]:
            self._end(pod.uid, other)
        made, until, before = now, now + (self.keep if answered else self.hold), held.get(node)
        if before is not None and before.answered and not answered:
            # Who tries again after a Binding does not make that one last longer.
            made, until, answered = before.made, before.until, True
        record = record_with(pod, found.containers)
        self._assume(
            Assumption(node=node, record=record, devices=demand.devices, made=made, until=until, answered=answered)
        )
        return found

    def _out_of_question(self, node: NodeName, intake: Intake) -> Declined | None:
        """Why the pod gets nothing at all, whatever is free."""
        uid = intake.pod.uid
        if not uid:
            return Declined(uid=uid, node=node, code=Code.REQUEST, text=f"pod {intake.pod.full_name} has no UID")
        if uid in self._gone:
            text = f"pod {intake.pod.full_name} (UID {uid}) is gone; nothing to do"
            return Declined(uid=uid, node=node, code=Code.GONE, text=text)
        bound = self.bound_to(uid)
        if bound is not None:
            text = f"pod {intake.pod.full_name} is bound to {bound} already and keeps what it holds there"
            return Declined(uid=uid, node=node, code=Code.BOUND, text=text)
        if intake.refusal:
            return Declined(uid=uid, node=node, code=Code.REQUEST, text=intake.refusal)
        return None

    def _chosen(
        self, node: NodeName, intake: Intake, demand: PodDemand, carried: Mapping[str, str] | None, wish: PodDemand
    ) -> Granted | Declined:
        """Reserved, else carried, else placed anew, else refused."""
        uid = intake.pod.uid
        kept = self._kept(node, uid, demand)
        if kept is not None:
            return Granted(uid=uid, node=node, containers=kept.record.grants, source=Source.RESERVED)
        entry = self.entry_without(node, uid)
        if entry is None:
            text = f"node {node} is not known; it has no devices to give"
            return Declined(uid=uid, node=node, code=Code.NODE, text=text, refusal=UNKNOWN_NODE)
        if carried is not None:
            grants = self._records.record(replace(intake.pod, annotations=carried))[0].grants
            if self.decider.accepts(entry, demand, intake.policy, grants):
                return Granted(uid=uid, node=node, containers=grants, source=Source.CARRIED)
        answer = self.decider.answer(entry, wish, intake.policy)
        if not isinstance(answer, Fit):
            return self._refused(entry, intake, answer)
        grants = granted(entry, answer, demand.devices, self._registry)
        return Granted(uid=uid, node=node, containers=grants, source=Source.PLACED)

    def _refused(self, entry: NodeEntry, intake: Intake, refusal: Refusal) -> Declined:
        problems = "; ".join(problem.what for problem in entry.problems)
        return Declined(
            uid=intake.pod.uid,
            node=entry.name,
            code=Code.CARDS if isinstance(refusal, NoFit) else Code.NODE,
            text=f"node {entry.name}: {refusal.words}{f' ({problems})' if problems else ''}",
            refusal=refusal,
            why=self.why_not(entry.name, intake, refusal),
        )

    def _kept(self, name: NodeName, uid: PodUid, demand: PodDemand) -> Assumption | None:
        """What the pod is assumed to hold on the node, if that is what it asks for and nothing is wrong with it."""
        assumed = self._assumed.get(uid, {}).get(name)
        entry = self.entry(name)
        if assumed is None or entry is None or assumed.devices != demand.devices:
            return None
        record = next(record for record in entry.pods if record.uid == uid)
        return None if flaws_of(record, entry) else assumed

    def _assume(self, assumption: Assumption) -> None:
        self._assumed.setdefault(assumption.record.uid, {})[assumption.node] = assumption
        self._put(assumption.node, assumption.record)

    def _end(self, uid: PodUid, name: NodeName) -> None:
        """End what a pod is assumed to hold on a node."""
        held = self._assumed[uid]
        del held[name]
        if not held:
            del self._assumed[uid]
        self._take(name, uid)

    def _first_grants(self, uid: PodUid, name: NodeName, fault: str) -> tuple[ContainerGrant, ...]:
        """What the pod has held since the watch showed it on the node; nothing for one that had no devices there.

        What was taken from a pod that could not be read counts for as long as it cannot.
        """
        bound = self._bound.get(uid)
        if bound is None or bound.node != name or (bound.fault and not fault):
            return ()
        grants = self._nodes[name].held_by(uid)
        return grants if any(grant.shares for grant in grants) else ()

    def _drop(self, uid: PodUid, but: NodeName | None = None) -> None:
        """The pod is neither bound nor assumed anywhere; what it holds on one node can be left there for now."""
        bound = self._bound.pop(uid, None)
        for name in {*self._assumed.pop(uid, ()), *(() if bound is None else (bound.node,))}:
            if name != but:
                self._take(name, uid)

    def _put(self, name: NodeName, record: PodRecord) -> None:
        self._node(name).put(record)
        self.changes += 1

    def _take(self, name: NodeName, uid: PodUid) -> None:
        self._nodes[name].take(uid)
        self.changes += 1
        self._tidy(name)

    def _node(self, name: NodeName) -> LedgerNode:
        node = self._nodes.get(name)
        if node is None:
            node = self._nodes[name] = LedgerNode()
        return node

    def _tidy(self, name: NodeName) -> None:
        """Forget a node that does not exist and on which nobody is."""
        if self._nodes[name].idle:
            del self._nodes[name]


def _devices_only(intake: Intake) -> PodDemand:
    return PodDemand(intake.demand.devices)
