"""Would these workloads fit, where, and with which annotations: the main job, without a cluster.

Pods are decided one after another, each on the snapshot that the ones before left; gangs are all or nothing. What
happens before a decision (quotas, gates, the order of turns) is in ``turns``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from hami_plugins.engine.decide import Decider
from hami_plugins.engine.intake import Rules
from hami_plugins.engine.registry import Registry
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.pods import Pod
from hami_plugins.plan import completeness
from hami_plugins.plan.completeness import Gap
from hami_plugins.plan.preemption import PlanEvictions, PlanEvictor
from hami_plugins.plan.remarks import remarked
from hami_plugins.preemption.search import VictimSearch
from hami_plugins.preemption.values import NoVictims
from hami_plugins.queueing.context import PlanContext
from hami_plugins.queueing.cycle import SchedulingCycle
from hami_plugins.queueing.evaluator import PodEvaluator
from hami_plugins.queueing.releases import differences, ranked
from hami_plugins.queueing.stages import PlanUnit, PodPlan, Stage
from hami_plugins.vendors.volcano_releases import DeviceAssigner, Version

__all__ = ["Plan", "PlanUnit", "Planner", "PodPlan", "Stage"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The whole answer: the pods in the order in which they were decided, and the cluster before and after.

    ``units`` are the planned units; ``standing`` is the cluster afterwards as its scheduler sees it, with the PodGroups
    of the plan and the pods that wait. ``evictions`` make room for the pods that have a place by eviction; ``in_vain``
    is the reason, by full name, why none helps the others. Both are empty unless requested.
    """

    before: ClusterSnapshot
    after: ClusterSnapshot
    pods: tuple[PodPlan, ...]
    units: tuple[PlanUnit, ...] = ()
    standing: ClusterSnapshot = field(default_factory=ClusterSnapshot)
    evictions: tuple[PlanEvictions, ...] = ()
    in_vain: Mapping[str, NoVictims] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """How many pods it is about."""
        return sum(pod.count for pod in self.pods)

    @property
    def complete(self) -> bool:
        """Whether every pod found a place."""
        return all(pod.stage is Stage.PLACED for pod in self.pods)

    def evictions_for(self, pod: Pod) -> PlanEvictions | None:
        """The evictions that make room for a pod, or for its gang."""
        of_pod = (each for each in self.evictions if any(one.full_name == pod.full_name for one, _ in each.places))
        return next(of_pod, None)

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """What the listing of the cluster lacks for this plan."""
        pods = [each.pod for each in self.pods]
        return completeness.gaps(self.before, pods, evicting=bool(self.evictions or self.in_vain))


class Planner:
    """Plans units on snapshots. Keeps a decider, so that planning again on a similar snapshot is fast.

    With ``release`` it orders cards as that release of Volcano does, and notes where the release will do otherwise;
    what ``assigner`` puts right it does not. Without them it is what the mark on each pod says. ``now`` is when the
    pods would begin (Unix seconds), for rules about time; without it, that is when the snapshot was taken.
    """

    def __init__(  # noqa: PLR0913 - what every plan of it depends on
        self,
        registry: Registry,
        rules: Rules | None = None,
        decider: Decider | None = None,
        *,
        release: Version | None = None,
        assigner: DeviceAssigner | None = None,
        now: float | None = None,
    ) -> None:
        self.registry = registry
        self.release = release
        self.assigner = assigner
        self.rules = ranked(rules or Rules(), release, assigner)
        self.decider = decider or Decider(registry)
        self._now = now

    def moment(self, snapshot: ClusterSnapshot) -> float:
        """When pods would begin that are planned on a snapshot (Unix seconds)."""
        return float(snapshot.taken_at or 0) if self._now is None else self._now

    def plan(
        self,
        snapshot: ClusterSnapshot,
        units: Iterable[PlanUnit],
        *,
        now_ns: int = 0,
        progress: Callable[[int], None] | None = None,
        preemption: bool = False,
    ) -> Plan:
        """Decide every unit in its turn. ``now_ns`` is the time that goes into annotations (Unix nanoseconds).

        ``progress`` gets 1 for each pod that is decided; members of a gang may be decided twice. With ``preemption``
        victims are looked for in the turn of each pod or gang that does not fit.
        """
        wanted = tuple(units)
        evaluator = PodEvaluator(self.registry, self.rules, self.decider, now_ns=now_ns, moment=self.moment(snapshot))
        evictor = PlanEvictor(self._victims, self.decider) if preemption else None
        turns = SchedulingCycle(evaluator, snapshot, wanted, progress, evictor)
        turns.take()
        told = differences(PlanContext(snapshot, turns.plans, wanted, self.registry), self.release, self.assigner)
        noted = [
            replace(plan, notes=tuple(each.words for each in found), differences=found) if found else plan
            for plan, found in zip(turns.plans, told, strict=True)
        ]
        if evictor is not None:
            noted = [evictor.noted(plan) for plan in noted]
        return Plan(
            before=snapshot,
            after=turns.snapshot,
            pods=tuple(remarked(noted, wanted, snapshot, self.registry)),
            units=wanted,
            standing=turns.standing(),
            evictions=() if evictor is None else evictor.settled(turns.snapshot),
            in_vain={} if evictor is None else evictor.in_vain,
        )

    @cached_property
    def _victims(self) -> VictimSearch:
        """Kept, because it remembers what it found out of nodes."""
        return VictimSearch(self.registry, self.rules, uncounted=self.decider.uncounted)
