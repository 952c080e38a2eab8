"""Which PodGroups block a pod's enqueue admission in Volcano, and whether they can ever run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from heapq import nsmallest
from typing import TYPE_CHECKING, Final, NamedTuple

from hami_plugins.model.cluster import ClusterSnapshot, PodGroup
from hami_plugins.model.nodes import NodeState
from hami_plugins.model.pods import Pod
from hami_plugins.queueing import gangs, usage
from hami_plugins.queueing.cycle import SchedulingCycle
from hami_plugins.queueing.evaluator import PodEvaluator
from hami_plugins.queueing.queues import QueueShortage, plus
from hami_plugins.queueing.stages import EnqueueBlock, PlanUnit, Stage
from hami_plugins.queueing.usage import PodGroupUsage
from hami_plugins.wire.gang_keys import GROUP_KEY, TASK_KEY

if TYPE_CHECKING:
    from hami_plugins.plan.planner import Plan, Planner

MOST_TRIED: Final = 64
"""PodGroups of one plan of which it is worked out whether they can ever fit."""

MOST_LISTED: Final = 64
"""Most PodGroups of each kind (waiting, running) that are listed for one pod, those that take most."""


class BlockerVerdict(StrEnum):
    """The prospect of a PodGroup that counts in enqueue admission.

    ``NEVER``: its pods were decided on the cluster without any other pod, and do not fit. ``LACKING``: pods of it have
    not been created. ``WAITS``: it would fit if others left, or that was not computed. ``KEPT`` is not a group but
    another queue's guarantee. ``RUNS``: its pods hold the amount it counts for.
    """

    NEVER = "never"
    LACKING = "lacking"
    WAITS = "waits"
    KEPT = "kept"
    RUNS = "runs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocker:
    """One PodGroup (or, with ``KEPT``, a queue) that takes ``takes`` of ``limit`` of a resource (nano units).

    ``pods`` are the members that wait; ``age`` is its age (seconds), ``None`` if unknown; ``planned``: it belongs to
    the plan itself; ``minimum`` is how many pods it needs, ``counts`` the amounts it counts for, by resource.
    """

    name: str
    prospect: BlockerVerdict
    resource: str
    takes: int
    limit: int
    phase: str = ""
    pods: tuple[str, ...] = ()
    age: int | None = None
    planned: bool = False
    minimum: int = 0
    counts: tuple[tuple[str, int], ...] = ()


class _Part(NamedTuple):
    """The part of a limit that a PodGroup takes."""

    share: float
    takes: int
    shortage: QueueShortage
    claim: PodGroupUsage


class Blockers:
    """Finds who holds the pods of one plan."""

    def __init__(self, plan: Plan, planner: Planner) -> None:
        self._plan = plan
        self._planner = planner
        self._prospects: dict[str, BlockerVerdict] = {}
        self._found: dict[tuple[QueueShortage, ...], tuple[Blocker, ...]] = {}

    def of(self, hold: EnqueueBlock) -> tuple[Blocker, ...]:
        """Who takes what a gang lacks: those first that can never run, last those that run."""
        known = self._found.get(hold.shortages)
        if known is None:
            known = self._found[hold.shortages] = self._of(hold.shortages) if hold.shortages else ()
        return known

    def _of(self, shortages: tuple[QueueShortage, ...]) -> tuple[Blocker, ...]:
        found = list(self._kept(shortages))
        for claims in (self._waiting, self._running):
            parts = [part for claim in claims if (part := self._part(claim, shortages)) is not None]
            largest = nsmallest(MOST_LISTED, parts, key=lambda part: (-part.share, part.claim.group))
            found += [self._holder(part) for part in largest]
        order = list(BlockerVerdict)
        return tuple(sorted(found, key=lambda holder: (order.index(holder.prospect), -holder.takes, holder.name)))

    @cached_property
    def _claims(self) -> tuple[PodGroupUsage, ...]:
        return usage.claims_of(self._plan.standing)

    @cached_property
    def _waiting(self) -> tuple[PodGroupUsage, ...]:
        return tuple(claim for claim in self._claims if claim.waited_for)

    @cached_property
    def _running(self) -> tuple[PodGroupUsage, ...]:
        return tuple(claim for claim in self._claims if not claim.waited_for)

    @cached_property
    def _empty(self) -> ClusterSnapshot:
        """The cluster without any pod, quota or queue."""
        standing = self._plan.standing
        nodes = tuple(
            replace(entry, pods=(), requested={}, state=NodeState.idle(entry.state.shape)) for entry in standing.nodes
        )
        return replace(standing, nodes=nodes, pending=(), quotas={}, queues={}, pod_groups={})

    @cached_property
    def _members(self) -> dict[str, list[Pod]]:
        found: dict[str, list[Pod]] = {}
        for pod in self._plan.standing.pending:
            group = pod.annotations.get(GROUP_KEY)
            if group and not pod.terminating:
                found.setdefault(f"{pod.namespace}/{group}", []).append(pod)
        return found

    def _is_of(self, claim: PodGroupUsage, shortage: QueueShortage) -> bool:
        """Whether a group counts for the limit of which too little is left: its queue's, or one above that."""
        if not shortage.queue:
            return True
        name, seen = claim.queue, set[str]()
        while name not in seen and name != shortage.queue:
            seen.add(name)
            queue = self._plan.standing.queues.get(name)
            name = "" if queue is None else queue.parent
        return name == shortage.queue

    def _part(self, claim: PodGroupUsage, shortages: Sequence[QueueShortage]) -> _Part | None:
        """The resource of which a group takes the largest part; ``None`` when it takes of none."""
        parts = [
            _Part(takes / max(shortage.limit, 1), takes, shortage, claim)
            for shortage in shortages
            if (takes := claim.held.get(shortage.resource, 0) + claim.waited_for.get(shortage.resource, 0)) > 0
            and self._is_of(claim, shortage)
        ]
        return max(parts, key=lambda part: part.share, default=None)

    def _holder(self, part: _Part) -> Blocker:
        claim, shortage = part.claim, part.shortage
        group = self._plan.standing.pod_groups.get(claim.group)
        members = self._members.get(claim.group, [])
        return Blocker(
            name=claim.group,
            prospect=self._prospect(claim, group, members, shortage),
            resource=shortage.resource,
            takes=part.takes,
            limit=shortage.limit,
            phase="" if group is None else group.phase,
            pods=tuple(pod.full_name for pod in members),
            age=self._age(group),
            planned=claim.group not in self._plan.before.pod_groups,
            minimum=0 if group is None else group.min_member,
            counts=tuple(plus(claim.held, claim.waited_for).items()),
        )

    def _age(self, group: PodGroup | None) -> int | None:
        now = self._plan.standing.taken_at
        made = None if group is None else group.made_at
        return None if now is None or made is None else max(now - made, 0)

    def _prospect(
        self, claim: PodGroupUsage, group: PodGroup | None, members: Sequence[Pod], shortage: QueueShortage
    ) -> BlockerVerdict:
        if group is None or not claim.waited_for.get(shortage.resource, 0):
            return BlockerVerdict.RUNS
        known = self._prospects.get(claim.group)
        if known is None:
            known = self._prospects[claim.group] = self._tried(group, members, bool(claim.held))
        return known

    def _tried(self, group: PodGroup, members: Sequence[Pod], holds: bool) -> BlockerVerdict:
        """Decide the group's pods on the empty cluster.

        Members that run already, and pods that want to be near others, would make that say too much.
        """
        if holds or len(self._prospects) >= MOST_TRIED or any(pod.neighbours.near for pod in members):
            return BlockerVerdict.WAITS
        tasks = tuple(pod.annotations.get(TASK_KEY, "") for pod in members)
        need = gangs.Need(group.min_member, tuple(sorted(group.min_by_task.items())))
        have = {task: tasks.count(task) for task in tasks}
        if not members or gangs.missing(need, have):
            return BlockerVerdict.LACKING if members else BlockerVerdict.WAITS
        unit = PlanUnit(
            name=group.full_name,
            pods=tuple(members),
            gang=True,
            group=group.full_name,
            min_member=group.min_member,
            min_by_task=need.by_task,
            tasks=tasks,
        )
        alone = replace(self._empty, pod_groups={group.full_name: group})
        planner = self._planner
        evaluator = PodEvaluator(
            planner.registry, planner.rules, planner.decider, now_ns=0, moment=planner.moment(alone)
        )
        turns = SchedulingCycle(evaluator, alone, (unit,))
        turns.take()
        fits = any(plan.stage is Stage.PLACED for plan in turns.plans)
        return BlockerVerdict.WAITS if fits else BlockerVerdict.NEVER

    def _kept(self, shortages: Sequence[QueueShortage]) -> Iterator[Blocker]:
        """Queues that are guaranteed something of what a queue lacks."""
        for shortage in shortages:
            queue = self._plan.standing.queues.get(shortage.queue)
            if (
                queue is None
                or shortage.by_weight
                or shortage.limit >= queue.capability.get(shortage.resource, shortage.limit + 1)
            ):
                continue
            for other in self._plan.standing.queues.values():
                if other.name != queue.name and other.guarantee.get(shortage.resource, 0) > 0:
                    yield Blocker(
                        name=other.name,
                        prospect=BlockerVerdict.KEPT,
                        resource=shortage.resource,
                        takes=other.guarantee[shortage.resource],
                        limit=shortage.limit,
                    )
