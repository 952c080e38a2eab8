"""Who holds a pod back at Volcano's gate: the PodGroups that count there, and whether they can ever run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Final

from hami_plugins.engine import accounts, gangs
from hami_plugins.engine.accounts import Claim
from hami_plugins.engine.queues import Lack
from hami_plugins.model.cluster import ClusterSnapshot, PodGroup
from hami_plugins.model.nodes import NodeState
from hami_plugins.model.pods import Pod
from hami_plugins.report.plan.desk import Desk
from hami_plugins.report.plan.stages import Hold, Stage, Unit
from hami_plugins.report.plan.turns import Turns
from hami_plugins.wire.gang_keys import GROUP_KEY, TASK_KEY

if TYPE_CHECKING:
    from hami_plugins.report.plan.planner import Plan, Planner

MOST_TRIED: Final = 64
"""PodGroups of one plan of which it is worked out whether they can ever fit, those that take most first."""


class Prospect(StrEnum):
    """What is to become of a PodGroup that counts at the gate.

    ``NEVER``: its pods were decided on the cluster without any other pod, and do not fit. ``LACKING``: pods of it have
    yet to be made. ``WAITS``: it would fit if others left, or nobody has worked it out. ``KEPT`` is no group but what
    another queue is guaranteed. ``RUNS``: its pods hold what it counts for.
    """

    NEVER = "never"
    LACKING = "lacking"
    WAITS = "waits"
    KEPT = "kept"
    RUNS = "runs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """One PodGroup (or, with ``KEPT``, a queue) that takes ``takes`` of ``limit`` of a resource (nano units).

    ``pods`` are the members that wait; ``age`` is how long it has been there (seconds), ``None`` where nobody knows;
    ``planned`` says that it is of the plan itself; ``minimum`` is how many pods it needs.
    """

    name: str
    prospect: Prospect
    resource: str
    takes: int
    limit: int
    phase: str = ""
    pods: tuple[str, ...] = ()
    age: int | None = None
    planned: bool = False
    minimum: int = 0


class Holders:
    """Finds who holds the pods of one plan."""

    def __init__(self, plan: Plan, planner: Planner) -> None:
        self._plan = plan
        self._planner = planner
        self._prospects: dict[str, Prospect] = {}

    def of(self, hold: Hold) -> tuple[Holder, ...]:
        """Who takes what a gang lacks: those first that can never run, last those that run."""
        if not hold.lacks:
            return ()
        found = [
            holder
            for claim in self._claims
            if (holder := self._holder(claim, [lack for lack in hold.lacks if self._is_of(claim, lack)])) is not None
        ]
        found += self._kept(hold.lacks)
        order = list(Prospect)
        return tuple(sorted(found, key=lambda holder: (order.index(holder.prospect), -holder.takes, holder.name)))

    @cached_property
    def _claims(self) -> tuple[Claim, ...]:
        claims = accounts.claims_of(self._plan.standing)
        return tuple(sorted(claims, key=lambda claim: -max(claim.waited_for.values(), default=0)))

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

    def _is_of(self, claim: Claim, lack: Lack) -> bool:
        """Whether a group counts for the limit of which too little is left: its queue's, or one above that."""
        if not lack.queue:
            return True
        name, seen = claim.queue, set[str]()
        while name not in seen and name != lack.queue:
            seen.add(name)
            queue = self._plan.standing.queues.get(name)
            name = "" if queue is None else queue.parent
        return name == lack.queue

    def _holder(self, claim: Claim, lacks: Sequence[Lack]) -> Holder | None:
        """A group by the resource of which it takes the largest part; ``None`` when it takes of none."""
        parts = [
            (takes / max(lack.limit, 1), takes, lack)
            for lack in lacks
            if (takes := claim.held.get(lack.resource, 0) + claim.waited_for.get(lack.resource, 0)) > 0
        ]
        if not parts:
            return None
        _, takes, lack = max(parts, key=lambda part: part[0])
        group = self._plan.standing.pod_groups.get(claim.group)
        members = self._members.get(claim.group, [])
        return Holder(
            name=claim.group,
            prospect=self._prospect(claim, group, members, lack),
            resource=lack.resource,
            takes=takes,
            limit=lack.limit,
            phase="" if group is None else group.phase,
            pods=tuple(pod.full_name for pod in members),
            age=self._age(group),
            planned=claim.group not in self._plan.before.pod_groups,
            minimum=0 if group is None else group.min_member,
        )

    def _age(self, group: PodGroup | None) -> int | None:
        now = self._plan.standing.taken_at
        made = None if group is None else group.made_at
        return None if now is None or made is None else max(now - made, 0)

    def _prospect(self, claim: Claim, group: PodGroup | None, members: Sequence[Pod], lack: Lack) -> Prospect:
        if group is None or not claim.waited_for.get(lack.resource, 0):
            return Prospect.RUNS
        known = self._prospects.get(claim.group)
        if known is None:
            known = self._prospects[claim.group] = self._tried(group, members, bool(claim.held))
        return known

    def _tried(self, group: PodGroup, members: Sequence[Pod], holds: bool) -> Prospect:
        """Decide the group's pods on the empty cluster.

        Members that run already, and pods that want to be near others, would make that say too much.
        """
        if holds or len(self._prospects) >= MOST_TRIED or any(pod.neighbours.near for pod in members):
            return Prospect.WAITS
        tasks = tuple(pod.annotations.get(TASK_KEY, "") for pod in members)
        need = gangs.Need(group.min_member, tuple(sorted(group.min_by_task.items())))
        have = {task: tasks.count(task) for task in tasks}
        if not members or gangs.missing(need, have):
            return Prospect.LACKING if members else Prospect.WAITS
        unit = Unit(
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
        turns = Turns(Desk(planner.registry, planner.rules, planner.decider, now_ns=0), alone, (unit,))
        turns.take()
        fits = any(plan.stage is Stage.PLACED for plan in turns.plans)
        return Prospect.WAITS if fits else Prospect.NEVER

    def _kept(self, lacks: Sequence[Lack]) -> Iterator[Holder]:
        """Queues that are guaranteed something of what a queue lacks."""
        for lack in lacks:
            queue = self._plan.standing.queues.get(lack.queue)
            if queue is None or lack.by_weight or lack.limit >= queue.capability.get(lack.resource, lack.limit + 1):
                continue
            for other in self._plan.standing.queues.values():
                if other.name != queue.name and other.guarantee.get(lack.resource, 0) > 0:
                    yield Holder(
                        name=other.name,
                        prospect=Prospect.KEPT,
                        resource=lack.resource,
                        takes=other.guarantee[lack.resource],
                        limit=lack.limit,
                    )
