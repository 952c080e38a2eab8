"""The cache of allocations: one place that knows who holds what, and that answers, reserves and allocates from it.

It is fed what a watch shows (``facts``) and what a scheduler asks. Everything is keyed by pod UID, so that a pod that
was created again is another one.

One process owns a cache, and one thread at a time uses it. Times are any clock that only goes forward, in seconds.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final

from hami_plugins.allocations.answers import (
    AllocationSource,
    Assumption,
    DeclineCode,
    Declined,
    Nomination,
    PodAllocation,
)
from hami_plugins.allocations.nominations import NominatingState
from hami_plugins.allocations.resizes import as_written, of_amounts, shortage_of
from hami_plugins.engine import quota
from hami_plugins.engine.annotate import annotations_with
from hami_plugins.engine.apply import record_with, without_pods
from hami_plugins.engine.decide import Decider, DecisionRequest, DeviceAsker, PodDemand
from hami_plugins.engine.device_names import allocated
from hami_plugins.engine.holdings import flaws_of
from hami_plugins.engine.intake import PodInfo
from hami_plugins.engine.registry import Registry
from hami_plugins.engine.resizes import obstacle
from hami_plugins.engine.shortfall import WhyNot, why_not
from hami_plugins.model.decisions import FilterReason, Refusal
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.inventory import OWN_AGENT
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.pods import ContainerAllocation, Pod
from hami_plugins.model.units import MiB, NodeName, PodUid
from hami_plugins.model.verdicts import Fit, NoFit
from hami_plugins.wire.resizes import Amounts

KEEP: Final = 90.0
"""Seconds that an answer is believed to come true: the API server may carry out a request for 60 s."""

HOLD: Final = 15.0
"""Seconds that a reservation lasts for which no Binding has come: a scheduler that died gives nothing back."""

UNKNOWN_NODE: Final = FilterReason("node is not known")


class AllocationCache(NominatingState):
    """Who holds what, and what else can be had. ``decider`` decides, with the registry that it was made with.

    What nothing else ends lasts ``hold`` seconds after it was last asked for, and ``keep`` seconds after a Binding was
    answered with it. ``changes`` counts the changes of what is held or to be had.
    """

    def __init__(self, decider: Decider, *, keep: float = KEEP, hold: float = HOLD) -> None:
        super().__init__(decider.registry, keep=keep)
        self.decider = decider
        self.hold = hold

    def answer(self, node: NodeName, intake: PodInfo) -> Fit | Refusal:
        """Whether the node's devices can hold the pod; what it is assumed to hold there itself does not count.

        Labels, taints and plain resources are the scheduler's own matter. ``intake.refusal`` must be empty.
        """
        entry = self.entry_without(node, intake.pod.uid)
        if entry is None:
            return UNKNOWN_NODE
        return self.decider.answer(entry, _devices_only(self.within_quota(intake)), intake.policy)

    def asking(self, intake: PodInfo) -> DeviceAsker:
        """What the devices of nodes say to the pod, for one call about many; ``intake`` says what its quota leaves."""
        return self.decider.asking(_devices_only(intake), intake.policy)

    def within_quota(self, intake: PodInfo) -> PodInfo:
        """The same with what the quotas of its namespace leave now, as plans have it."""
        left = self.left(intake.pod.namespace, intake.pod.uid)
        return replace(intake, demand=replace(intake.demand, headroom=left)) if left else intake

    def why_not(self, node: NodeName, intake: PodInfo, refusal: Refusal) -> WhyNot | None:
        """The numbers behind a node's refusal: asked, largest free, total; ``None`` where cards are not the reason."""
        entry = self.entry_without(node, intake.pod.uid)
        return shortage(entry, self.within_quota(intake), refusal, self._registry)

    def reserve(
        self, node: NodeName, intake: PodInfo, now: float, *, preferred: PodDemand | None = None, job: str = ""
    ) -> PodAllocation | Declined:
        """Hold what the pod would get on the node, instead of any reservation that it has elsewhere.

        Asked again for the same node, the pod keeps what it has there, if that is still right. With ``preferred`` the
        node is asked that in its name; it has to be a narrower demand for the same. ``job`` as in ``Assumption``.
        """
        return self._allocate(node, intake, now, preferred=preferred, job=job, answered=False, dry=False)

    def nominate_without(
        self, node: NodeName, intake: PodInfo, leaving: Collection[PodUid], now: float, *, until: float
    ) -> Nomination | Declined:
        """Keep what the pod would get on the node when these pods have left, and those that leave it anyway.

        Pods that are being deleted leave anyway, and so do the victims of all nominations.
        """
        declined = self._out_of_question(node, intake)
        if declined is not None:
            return declined
        entry = self.strict_entry(node, intake.pod.uid)
        if entry is None:
            return self._unknown(node, intake.pod.uid)
        gone = {victim for each in self.nominations for victim in each.victims}.union(leaving)
        victims = frozenset(record.uid for record in entry.pods if record.terminating or record.uid in gone)
        after = without_pods(entry, lambda record: record.uid in victims)
        demand = _devices_only(self.within_quota(intake))
        answer = self.decider.answer(after, demand, intake.policy)
        if not isinstance(answer, Fit):
            return self._refused(after, intake, answer)
        record = record_with(intake.pod, allocated(after, answer, demand.devices, self._registry))
        found = Nomination(node=node, record=record, devices=demand.devices, victims=victims, made=now, until=until)
        self.nominate(found)
        return found

    def release(self, uid: PodUid) -> bool:
        """Give up a pod's reservation, and say whether there was one.

        What a Binding was answered with stays, because it may be in effect: the watch or the time ends it.
        """
        held = self._assumed.get(uid, {})
        waiting = [each.node for each in held.values() if not each.answered]
        for node in waiting:
            self._end(uid, node)
        return bool(waiting)

    def look_again(self, uid: PodUid) -> None:
        """A scheduler looks for a node for the pod once more: what it reserved before has come to nothing.

        The same is true of what it reserved later for others of the job, because it binds them together or not at all.
        Volcano gives nothing back where it leaves one of them to wait for a pod that is ending (a task that is
        *pipelined*), and then asks about the first of them again, for which the cards of the others look taken.
        """
        own = next((each for each in self.assumptions(uid) if not each.answered), None)
        if own is None:
            return
        void = [
            each
            for held in self._assumed.values()
            for each in held.values()
            if not each.answered and (each is own or (own.job and each.job == own.job and each.made >= own.made))
        ]
        for each in void:
            self._end(each.record.uid, each.node)

    def allocate(  # noqa: PLR0913 - one question with all that may go with it
        self,
        node: NodeName,
        intake: PodInfo,
        now: float,
        *,
        carried: Mapping[str, str] | None = None,
        dry: bool = False,
        preferred: PodDemand | None = None,
    ) -> PodAllocation | Declined:
        """The answer to a Binding: what is reserved there, else what ``carried`` annotations name if that is right,
        else the pod is placed on that node anew. It is refused only if the node cannot hold it at all.

        A ``dry`` run gets the same answer, and nothing is kept of it. ``preferred`` as in ``reserve``.
        """
        return self._allocate(node, intake, now, carried=carried, preferred=preferred, answered=True, dry=dry)

    def annotations(self, allocated: PodAllocation, pod: Pod, *, now_ns: int) -> dict[str, str]:
        """What is to be written on the pod for an allocation of this cache, in its scheduler's words.

        ``now_ns`` is the time to write, in Unix nanoseconds.
        """
        entry = self.entry(allocated.node)
        if entry is None:
            return {}
        return annotations_with(pod, allocated.containers, entry, self._registry, now_ns=now_ns)

    def resizable(self, uid: PodUid) -> Mapping[str, MiB | str]:
        """The memory of each container of a bound pod without resizes; a text where its memory cannot be changed.

        The node agents that can change it are ours. Empty for a pod that holds nothing, or whose node is not known.
        """
        bound = self._bound.get(uid)
        entry = None if bound is None else self.entry(bound.node)
        if bound is None or entry is None:
            return {}
        found: dict[str, MiB | str] = {}
        for name, each in zip(self._nodes[bound.node].record(uid).containers, bound.plain, strict=True):
            why = obstacle(each)
            spec = None if why else self._registry.get(each.shares[0].vendor)
            if spec is not None and spec.dialect is not Dialect.VOLCANO and (OWN_AGENT, spec.name) not in entry.notes:
                why = f"no node agent of this project gives devices of {spec.name} to containers on {entry.name}"
            found[name] = why or each.shares[0].memory
        return found

    def book(self, uid: PodUid, container: str, memory: MiB) -> tuple[Amounts, str]:
        """Count another amount of memory for a container of a bound pod: what to write on the pod, or why not.

        Growth has to fit on the same card, together with everything allocated and assumed there, and within the quotas.
        Until the watch shows what was written, the larger one of both amounts counts. ``container`` is one of
        ``resizable``.
        """
        bound = self._bound[uid]
        before = self._nodes[bound.node].record(uid)
        amounts = {**dict(bound.memory.booked), container: memory}
        booked = bound.memory._replace(pending=of_amounts(amounts))
        after = replace(before, allocations=booked.held(bound.plain, before.containers))
        entry = self.entry_without(bound.node, uid)
        why = "its node is not known" if entry is None else shortage_of(before, after, entry)
        if not why and entry is not None and before.allocations != after.allocations:
            held, left = quota.used([(entry, after)], self._registry), dict(self.left(before.namespace, uid))
            why = "; ".join(each.words(self._registry[each.vendor]) for each in quota.excesses(held, left))
        if why:
            return {}, why
        self._bound[uid] = bound._replace(memory=booked)
        self._put(bound.node, after)
        return amounts, ""

    def unbook(self, uid: PodUid) -> None:
        """Withdraws a pending write to the pod that never reached it; only the pod's current annotations count."""
        bound = self._bound.get(uid)
        if bound is None or bound.memory.pending is None:
            return
        self._bound[uid] = bound._replace(memory=bound.memory._replace(pending=None))
        record = self._nodes[bound.node].record(uid)
        allocations = self._bound[uid].memory.held(bound.plain, record.containers)
        self._put(bound.node, replace(record, allocations=allocations))
        self._room()

    def _allocate(  # noqa: PLR0913 - one question in its two forms
        self,
        node: NodeName,
        intake: PodInfo,
        now: float,
        *,
        carried: Mapping[str, str] | None = None,
        preferred: PodDemand | None,
        job: str = "",
        answered: bool,
        dry: bool,
    ) -> PodAllocation | Declined:
        pod = intake.pod
        declined = self._out_of_question(node, intake)
        if declined is not None:
            return declined
        demand = _devices_only(self.within_quota(intake))
        if not demand.devices.wants_devices:
            nothing = tuple(ContainerAllocation(container.kind) for container in pod.containers)
            return PodAllocation(uid=pod.uid, node=node, containers=nothing, source=AllocationSource.NOTHING)
        found = self._chosen(node, intake, demand, carried, preferred or demand)
        if isinstance(found, Declined) or dry:
            return found
        held = self._assumed.get(pod.uid, {})
        for other in [each.node for each in held.values() if each.node != node and not each.answered]:
            self._end(pod.uid, other)
        made, until, before = now, now + (self.keep if answered else self.hold), held.get(node)
        if before is not None and before.state == "answered" and not answered:
            # Who tries again after a Binding does not make that one last longer.
            made, until, answered = before.made, before.until, True
        record = record_with(pod, found.containers)
        self._assume(
            Assumption(
                node=node, record=record, devices=demand.devices, made=made, until=until, answered=answered, job=job
            )
        )
        return found

    def _out_of_question(self, node: NodeName, intake: PodInfo) -> Declined | None:
        """Why the pod gets nothing at all, whatever is free."""
        uid = intake.pod.uid
        if not uid:
            return Declined(uid=uid, node=node, code=DeclineCode.REQUEST, text=f"pod {intake.pod.full_name} has no UID")
        if uid in self._gone:
            text = f"pod {intake.pod.full_name} (UID {uid}) is gone; nothing to do"
            return Declined(uid=uid, node=node, code=DeclineCode.GONE, text=text)
        bound = self.bound_to(uid)
        if bound is not None:
            text = f"pod {intake.pod.full_name} is bound to {bound} already and keeps what it holds there"
            return Declined(uid=uid, node=node, code=DeclineCode.BOUND, text=text)
        if intake.refusal:
            return Declined(uid=uid, node=node, code=DeclineCode.REQUEST, text=intake.refusal)
        return None

    def _chosen(
        self,
        node: NodeName,
        intake: PodInfo,
        demand: PodDemand,
        carried: Mapping[str, str] | None,
        preferred: PodDemand,
    ) -> PodAllocation | Declined:
        """Reserved, else carried, else placed anew, else refused.

        Room that is kept for others of the pod's PodGroup is the last that is taken: those would need the pod's own.
        """
        uid = intake.pod.uid
        kept = self._kept(node, uid, demand)
        if kept is not None:
            return PodAllocation(
                uid=uid, node=node, containers=kept.record.allocations, source=AllocationSource.RESERVED
            )
        entry = self.entry_without(node, uid)
        if entry is None:
            return self._unknown(node, uid)
        if carried is not None:
            _, unresized = as_written(replace(intake.pod, annotations=carried))
            allocations = self._records.record(unresized)[0].allocations
            if self.decider.accepts(entry, demand, intake.policy, allocations):
                return PodAllocation(uid=uid, node=node, containers=allocations, source=AllocationSource.CARRIED)
        asked = replace(preferred, headroom=demand.headroom)
        own = (self.strict_entry(node, uid) if self.shared_with(uid) else None) or entry
        answer = self.decider.answer(own, asked, intake.policy)
        if own is not entry and not isinstance(answer, Fit):
            own, answer = entry, self.decider.answer(entry, asked, intake.policy)
        if not isinstance(answer, Fit):
            return self._refused(entry, intake, answer)
        allocations = allocated(own, answer, demand.devices, self._registry)
        return PodAllocation(uid=uid, node=node, containers=allocations, source=AllocationSource.PLACED)

    @staticmethod
    def _unknown(node: NodeName, uid: PodUid) -> Declined:
        text = f"node {node} is not known; it has no devices to allocate"
        return Declined(uid=uid, node=node, code=DeclineCode.NODE, text=text, refusal=UNKNOWN_NODE)

    def _refused(self, entry: NodeEntry, intake: PodInfo, refusal: Refusal) -> Declined:
        problems = "; ".join(problem.what for problem in entry.problems)
        return Declined(
            uid=intake.pod.uid,
            node=entry.name,
            code=DeclineCode.CARDS if isinstance(refusal, NoFit) else DeclineCode.NODE,
            text=f"node {entry.name}: {refusal.words}{f' ({problems})' if problems else ''}",
            refusal=refusal,
            why=self.why_not(entry.name, intake, refusal),
        )

    def _kept(self, name: NodeName, uid: PodUid, demand: PodDemand) -> Assumption | None:
        """The pod's assumed allocation on the node, if it matches the request and is valid."""
        assumed = self._assumed.get(uid, {}).get(name)
        entry = self.held_entry(name)
        if assumed is None or entry is None or assumed.devices != demand.devices:
            return None
        record = next(record for record in entry.pods if record.uid == uid)
        return None if flaws_of(record, entry) else assumed


def shortage(entry: NodeEntry | None, intake: PodInfo, refusal: Refusal, registry: Registry) -> WhyNot | None:
    """The numbers behind the refusal of a node; ``None`` where its devices are not the reason."""
    if entry is None or not isinstance(refusal, NoFit):
        return None
    return why_not(DecisionRequest(_devices_only(intake), intake.policy), [(entry, refusal)], registry)


def _devices_only(intake: PodInfo) -> PodDemand:
    return PodDemand(intake.demand.devices, headroom=intake.demand.headroom)
