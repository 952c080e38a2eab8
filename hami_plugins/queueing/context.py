"""A plan as the rules about a scheduler's releases look at it: one pod, and what is true of the plan as a whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from hami_plugins.engine.registry import Registry
from hami_plugins.inputs.workloads.pods import VOLCANO
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.decisions import Placed
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.pods import Pod
from hami_plugins.model.requests import DeviceRequest
from hami_plugins.model.units import NodeName
from hami_plugins.queueing.jobs import turn_of
from hami_plugins.queueing.queues import INQUEUE
from hami_plugins.queueing.stages import PlanUnit, PodPlan, Stage
from hami_plugins.wire.gang_keys import GROUP_KEY, TASK_KEY


class PlanContext:
    """A plan as far as rules need to know it beyond a single pod: made once, asked for every pod."""

    def __init__(
        self, snapshot: ClusterSnapshot, plans: Sequence[PodPlan], units: Iterable[PlanUnit], registry: Registry
    ) -> None:
        self.snapshot = snapshot
        self.plans = plans
        self.units: Mapping[str, PlanUnit] = {unit.name: unit for unit in units}
        self.specs = tuple(spec for spec in registry if spec.dialect is Dialect.VOLCANO)

    @cached_property
    def mute(self) -> NodeName | None:
        """A node that offers slots of cards and has registered none."""
        for entry in self.snapshot.nodes:
            for spec in self.specs:
                slots = entry.facts.allocatable.get(spec.resources.count)
                if slots is not None and slots.nano > 0 and spec.name not in entry.state.shape.positions:
                    return entry.name
        return None

    @cached_property
    def advertised(self) -> frozenset[str]:
        """Every resource that any node has."""
        return frozenset(name for entry in self.snapshot.nodes for name in entry.facts.allocatable)

    @cached_property
    def blocked(self) -> str:
        """A gang that was let in and finds no place, of the plan or of the cluster; empty for none."""
        for name in self.tried_in_vain:
            unit = self.units[name]
            if unit.gang and unit.min_member > 1:
                return unit.group or unit.name
        planned = {unit.group for unit in self.units.values()}
        waiting = {f"{pod.namespace}/{pod.annotations.get(GROUP_KEY, '')}" for pod in self.snapshot.pending}
        for name, group in self.snapshot.pod_groups.items():
            if group.phase == INQUEUE and group.min_member > 1 and name in waiting and name not in planned:
                return name
        return ""

    @cached_property
    def tried_in_vain(self) -> tuple[str, ...]:
        """The units of which a member that asks for cards was looked at, and found no place."""
        return tuple(dict.fromkeys(plan.unit for plan in self.plans if waits_for_room(plan) and asks_for_cards(plan)))

    @cached_property
    def first_on(self) -> Mapping[NodeName, str]:
        """The first pod that the plan gives cards of each node."""
        first: dict[NodeName, str] = {}
        for plan in self.plans:
            if isinstance(plan.decision, Placed) and plan.stage is Stage.PLACED and plan.decision.shares():
                first.setdefault(plan.decision.node, plan.pod.full_name)
        return first

    @cached_property
    def rivals(self) -> tuple[str, ...]:
        """The queues whose pods ask for cards at once, where not all of them get some."""
        asking = [plan for plan in self.plans if plan.pod.scheduler == VOLCANO and asks_for_cards(plan)]
        names = tuple(sorted({self.queue_of(plan) for plan in asking}))
        return names if len(names) > 1 and any(waits_for_room(plan) or self._shares(plan) for plan in asking) else ()

    def _shares(self, plan: PodPlan) -> bool:
        """Whether a pod is held because of other queues' requests, and not because its own queue is at its limit."""
        queue = self.snapshot.queues.get(plan.hold.queue) if plan.hold is not None else None
        shortages = plan.hold.shortages if plan.hold is not None else ()
        return queue is not None and any(shortage.resource not in queue.capability for shortage in shortages)

    @cached_property
    def starved(self) -> frozenset[str]:
        """The gangs that start here because what their tasks need is tried first, and do not by priority and number."""
        placed = Counter(plan.unit for plan in self.plans if plan.stage is Stage.PLACED)
        gangs: dict[str, list[Pod]] = {}
        # among equals the order is random; members beyond the minimum were planned last
        for plan in reversed(self.plans):
            if self.units[plan.unit].min_by_task and placed[plan.unit]:
                gangs.setdefault(plan.unit, []).append(plan.pod)
        found: set[str] = set()
        for name, pods in gangs.items():
            first = sorted(pods, key=turn_of)[: placed[name]]
            tasks = Counter(pod.annotations.get(TASK_KEY, "") for pod in first)
            if any(tasks[task] < least for task, least in self.units[name].min_by_task):
                found.add(name)
        return frozenset(found)

    @cached_property
    def cut_short(self) -> frozenset[str]:
        """Volcano Jobs of which a quota keeps pods out, but not all."""
        stages: dict[str, set[bool]] = {}
        for plan in self.plans:
            if self.units[plan.unit].made_late:
                stages.setdefault(plan.unit, set()).add(plan.stage is Stage.QUOTA)
        return frozenset(name for name, found in stages.items() if len(found) > 1)

    @cached_property
    def leaving(self) -> bool:
        """Whether any pod that is being deleted still holds cards."""
        names = {spec.name for spec in self.specs}
        return any(
            share.vendor in names
            for entry in self.snapshot.nodes
            for record in entry.pods
            if record.terminating
            for allocation in record.allocations
            for share in allocation.shares
        )

    @cached_property
    def kept(self) -> frozenset[str]:
        """The pods that find a place on a node with pods that are going, behind one that waits."""
        going = {entry.name for entry in self.snapshot.nodes if any(record.terminating for record in entry.pods)}
        found: set[str] = set()
        waits = False
        for plan in self.plans if going else ():
            waits = waits or plan.stage is Stage.NODES
            if waits and isinstance(plan.decision, Placed) and plan.decision.node in going:
                found.add(plan.pod.full_name)
        return frozenset(found)

    def queue_of(self, plan: PodPlan) -> str:
        """The queue of a planned pod."""
        unit = self.units[plan.unit]
        known = self.snapshot.pod_groups.get(unit.group)
        return (known.queue if known is not None else unit.queue) or "default"


class PodContext(NamedTuple):
    """One pod of a plan."""

    plan: PodPlan
    course: PlanContext

    @property
    def unit(self) -> PlanUnit:
        """What it was submitted as."""
        return self.course.units[self.plan.unit]

    @property
    def placed(self) -> Placed | None:
        """Where it goes, with its cards."""
        decision = self.plan.decision
        return decision if self.plan.stage is Stage.PLACED and isinstance(decision, Placed) else None

    def requests(self) -> Iterator[DeviceRequest]:
        """What its containers ask of cards."""
        for container in self.plan.intake.demand.devices.containers:
            yield from container.requests


def is_volcanos(plan: PodPlan) -> bool:
    return plan.intake.dialect is Dialect.VOLCANO or plan.pod.scheduler == VOLCANO


def asks_for_cards(plan: PodPlan) -> bool:
    return plan.intake.dialect is Dialect.VOLCANO


def waits_for_room(plan: PodPlan) -> bool:
    """Whether a pod was let in and looked at, and finds no node, or its queue may hold no more."""
    return plan.stage is Stage.NODES or (plan.hold is not None and plan.hold.inside)


def was_tried(plan: PodPlan) -> bool:
    """Whether the scheduler came to look at a pod at all."""
    return plan.stage in {Stage.PLACED, Stage.GANG} or waits_for_room(plan)
