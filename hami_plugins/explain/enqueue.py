"""Which pods block a pod's enqueue admission in Volcano, as messages, and which change would admit it, proven by
planning it again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

from hami_plugins.explain.messages import counted
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.decisions import Placed
from hami_plugins.plan import Plan, PodPlan, Stage
from hami_plugins.plan.blockers import Blocker, Blockers, BlockerVerdict
from hami_plugins.queueing import usage
from hami_plugins.queueing.queues import EnqueueAdmission, shown
from hami_plugins.queueing.stages import PlanUnit
from hami_plugins.suggest import enqueue
from hami_plugins.suggest.enqueue import (
    GateChange,
    InTheWay,
    LeftOut,
    Proposal,
    RaisedCapability,
    Shrunk,
)

if TYPE_CHECKING:
    from hami_plugins.plan import Planner

MOST_HOLDERS: Final = 5
"""Holders that are named; the others are counted."""

MOST_TRIALS: Final = 6
"""Proposals that are tried for one pod; each is a plan of its own."""

MOST_PROOFS: Final = 24
LEAST_PROOFS: Final = 4
"""Proposals that are tried for all pods of a plan: the more the smaller the cluster."""

MOST_LOOKS: Final = 160_000
"""PodGroups and pods that all trials together look at."""

MINUTE: Final = 60
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR


@dataclass(frozen=True, slots=True, kw_only=True)
class Freed:
    """Changes of the cluster after which a held pod is let in and placed, and the node that takes it."""

    changes: tuple[GateChange, ...]
    node: str
    cost: float


class EnqueueSuggestions:
    """Examines the pods of one plan that Volcano does not enqueue."""

    def __init__(self, plan: Plan, planner: Planner) -> None:
        self._plan = plan
        self._planner = planner
        self._holders = Blockers(plan, planner)
        self._units = {unit.name: unit for unit in plan.units}
        size = len(plan.standing.pod_groups) + sum(len(entry.pods) for entry in plan.standing.nodes)
        self._proofs = min(max(MOST_LOOKS // max(size, 1), LEAST_PROOFS), MOST_PROOFS)

    def holders(self, pod: PodPlan) -> tuple[Blocker, ...]:
        """The blockers of a pod; empty where a queue takes no pods at all, or nothing blocks it."""
        return () if pod.hold is None else self._holders.of(pod.hold)

    def freed(self, pod: PodPlan, *, limit: int = 3) -> tuple[Freed, ...]:
        """The cheapest changes that let a held pod in and find it a place, one of each kind.

        Each has been planned under the same gate, on the cluster as the plan leaves it.
        """
        unit = self._units.get(pod.unit)
        if pod.hold is None or not pod.hold.shortages or unit is None:
            return ()
        standing = self._standing(unit)
        shortages = self._gate.objections(pod.hold.queue, pod.hold.asked) if self._gate is not None else ()
        blockers = [_in_the_way(each) for each in self.holders(pod) if each.prospect is not BlockerVerdict.KEPT]
        found: dict[str, Freed] = {}
        for proposal in enqueue.proposals(standing, shortages or pod.hold.shortages, blockers)[:MOST_TRIALS]:
            kind = _kind(proposal)
            if len(found) >= limit or kind in found or any(_includes(proposal, each) for each in found.values()):
                continue
            node = self._proven(standing, unit, proposal)
            if node is not None:
                found[kind] = Freed(changes=proposal.changes, node=node, cost=proposal.cost)
        return tuple(found.values())

    @cached_property
    def _gate(self) -> EnqueueAdmission | None:
        """The gate as the plan leaves it."""
        return usage.gate_by(self._plan.standing, self._planner.rules)

    def _standing(self, unit: PlanUnit) -> ClusterSnapshot:
        """The cluster after the plan, the unit's own pods yet to come."""
        standing = self._plan.standing
        own = {pod.full_name for pod in unit.pods}
        return replace(standing, pending=tuple(pod for pod in standing.pending if pod.full_name not in own))

    def _proven(self, standing: ClusterSnapshot, unit: PlanUnit, proposal: Proposal) -> str | None:
        """The first node of the unit, planned again on the changed cluster; ``None`` when it is not placed."""
        if not self._proofs:
            return None
        self._proofs -= 1
        again = self._planner.plan(enqueue.applied(standing, proposal.changes), (unit,))
        placed = [plan.decision for plan in again.pods if plan.unit == unit.name and plan.stage is Stage.PLACED]
        enough = len(placed) >= min(max(unit.min_member, 1), unit.size)
        return placed[0].node if enough and placed and isinstance(placed[0], Placed) else None


def _in_the_way(holder: Blocker) -> InTheWay:
    return InTheWay(
        group=holder.name,
        never=holder.prospect is BlockerVerdict.NEVER,
        runs=holder.prospect is BlockerVerdict.RUNS,
        takes=holder.counts,
        part=holder.takes / max(holder.limit, 1),
    )


def _kind(proposal: Proposal) -> str:
    """The kind of change of a proposal: of several running pods, naming the first is enough."""
    first = proposal.changes[0]
    return f"{type(first).__name__} {first.never} {first.runs}" if isinstance(first, LeftOut) else type(first).__name__


def _includes(proposal: Proposal, found: Freed) -> bool:
    """Whether something that works already is part of a proposal, which then changes more than it has to."""
    return len(found.changes) < len(proposal.changes) and set(found.changes) <= set(proposal.changes)


def holder_lines(holders: Sequence[Blocker]) -> Iterator[str]:
    """Who holds a pod, the most important ones each in a sentence."""
    for holder in holders[:MOST_HOLDERS]:
        yield holder_words(holder)
    if len(holders) > MOST_HOLDERS:
        yield "and others that take less"


def holder_words(holder: Blocker) -> str:
    """One holder in a sentence."""
    amount = f"{shown(holder.resource, holder.takes)} of {shown(holder.resource, holder.limit)} {holder.resource}"
    match holder.prospect:
        case BlockerVerdict.KEPT:
            kept = shown(holder.resource, holder.takes)
            return f"queue {holder.name} is guaranteed {kept} {holder.resource}, which other queues cannot use"
        case BlockerVerdict.NEVER:
            return f"{_title(holder)} can never fit and reserves {amount}"
        case BlockerVerdict.LACKING:
            have = f"has {len(holder.pods)} of the {counted(holder.minimum, 'pod')} it needs"
            return f"{_title(holder)} {have} and reserves {amount}"
        case BlockerVerdict.WAITS:
            return f"{_title(holder)} also waits and reserves {amount}"
        case _:
            return f"{_title(holder)} holds {amount}"


def age_words(seconds: int) -> str:
    """How long something has been there, in the largest unit of which there is a whole one."""
    for unit, name in ((DAY, "d"), (HOUR, "h"), (MINUTE, "min")):
        if seconds >= unit:
            return f"{seconds // unit} {name}"
    return f"{seconds} s"


def _title(holder: Blocker) -> str:
    single = f" of pod {holder.pods[0]}" if len(holder.pods) == 1 and "/podgroup-" in holder.name else ""
    since = "" if holder.age is None else f" for {age_words(holder.age)}"
    phase = "placed" if holder.planned and holder.prospect is BlockerVerdict.RUNS else holder.phase
    about = f"of this plan, {phase}" if holder.planned else f"{phase}{since}"
    return f"PodGroup {holder.name}{single}{f' ({about})' if about else ''}"


def freed_words(found: Freed) -> str:
    """The whole advice as one sentence."""
    return f"fits {' and '.join(map(change_words, found.changes))} (on {found.node})"


def change_words(change: GateChange) -> str:
    """One change, to stand after "fits"."""
    match change:
        case LeftOut(group=group, never=True):
            return f"without PodGroup {group}, which can never fit"
        case LeftOut(group=group, runs=True):
            return f"without PodGroup {group}, which runs"
        case LeftOut(group=group):
            return f"without PodGroup {group}, which also waits"
        case Shrunk(group=group, resource=resource, before=had, after=after):
            less = f"{shown(resource, after)} instead of {shown(resource, had)} {resource}"
            return f"with PodGroup {group} asking for {less}"
        case RaisedCapability(queue=queue, resource=resource, before=had, after=after):
            more = f"{shown(resource, after)} instead of {shown(resource, had)} {resource}"
            return f"with queue {queue} capable of {more}"
        case _:
            resource = change.resource
            less = f"{shown(resource, change.after)} instead of {shown(resource, change.before)} {resource}"
            return f"with queue {change.queue} guaranteed {less}"
