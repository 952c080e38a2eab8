"""Would these workloads fit, where, and with which annotations: the main job, without a cluster.

Pods are decided one after another, each on the snapshot that the ones before left; gangs are all or nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from hami_plugins.engine import quota
from hami_plugins.engine.annotate import annotations_of, labels_of
from hami_plugins.engine.apply import assigned
from hami_plugins.engine.decide import Decider
from hami_plugins.engine.intake import Intake, Rules, take_in
from hami_plugins.engine.registry import Registry
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.decisions import Decision, Placed, Refused
from hami_plugins.model.pods import Pod


class Stage(StrEnum):
    """How far a pod gets."""

    PLACED = "placed"
    ADMISSION = "admission"
    REQUEST = "request"
    QUOTA = "quota"
    GATE = "gate"
    GANG = "gang"
    NODES = "nodes"
    ELSEWHERE = "elsewhere"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """Pods that are planned together. ``min_member`` of them (and ``min_by_task`` of each task) start, or none does.

    ``name`` is the workload's ``kind/namespace/name``; ``tasks`` names each pod's task, where there are tasks.
    """

    name: str
    pods: tuple[Pod, ...]
    min_member: int = 1
    gang: bool = False
    group: str = ""
    queue: str = ""
    tasks: tuple[str, ...] = ()
    min_by_task: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PodPlan:
    """What happens to one pod.

    ``before`` is the snapshot it was decided on; ``decision`` is ``None`` when it never came to one; ``words`` is the
    reason as the upstream scheduler spells it (empty when placed), ``why`` the reason in ours.
    """

    unit: str
    intake: Intake
    stage: Stage
    before: ClusterSnapshot
    decision: Decision | None = None
    why: str = ""
    words: str = ""
    annotations: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)

    @property
    def pod(self) -> Pod:
        """The pod as admitted."""
        return self.intake.pod


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The whole answer: the pods in the order in which they were decided, and the cluster before and after."""

    before: ClusterSnapshot
    after: ClusterSnapshot
    pods: tuple[PodPlan, ...]

    @property
    def complete(self) -> bool:
        """Whether every pod found a place."""
        return all(pod.stage is Stage.PLACED for pod in self.pods)


class Planner:
    """Plans units on snapshots. Keeps a decider, so that planning again on a similar snapshot is fast."""

    def __init__(self, registry: Registry, rules: Rules | None = None, decider: Decider | None = None) -> None:
        self.registry = registry
        self.rules = rules or Rules()
        self.decider = decider or Decider(registry)

    def plan(self, snapshot: ClusterSnapshot, units: Iterable[Unit], *, now_ns: int = 0) -> Plan:
        """Decide every unit in turn. ``now_ns`` is the time that goes into annotations (Unix nanoseconds)."""
        current = snapshot
        plans: list[PodPlan] = []
        for unit in units:
            current, decided = self._unit(current, unit, now_ns)
            plans.extend(decided)
        return Plan(before=snapshot, after=current, pods=tuple(plans))

    def _unit(self, snapshot: ClusterSnapshot, unit: Unit, now_ns: int) -> tuple[ClusterSnapshot, Sequence[PodPlan]]:
        current = snapshot
        plans: list[PodPlan] = []
        for pod in unit.pods:
            decided = self._pod(current, pod, unit.name, now_ns)
            if isinstance(decided.decision, Placed):
                current = assigned(current, decided.pod, decided.decision)
            plans.append(decided)
        placed = sum(1 for each in plans if each.stage is Stage.PLACED)
        if not unit.gang or placed >= unit.min_member:
            return current, plans
        why = f"its gang needs {unit.min_member} pods at once and {placed} of {len(plans)} would fit"
        return snapshot, [_held_back(each, why) for each in plans]

    def _pod(self, snapshot: ClusterSnapshot, pod: Pod, unit: str, now_ns: int) -> PodPlan:
        intake = take_in(pod, self.registry, self.rules, quota.left_in(snapshot, pod.namespace, self.registry))
        if not intake.admission.allowed or intake.refusal:
            stage = Stage.REQUEST if intake.admission.allowed else Stage.ADMISSION
            return PodPlan(
                unit=unit, intake=intake, stage=stage, before=snapshot, why=intake.refusal, words=intake.words
            )
        decision = self.decider.decide(snapshot, intake.demand, intake.policy)
        if isinstance(decision, Refused):
            return PodPlan(
                unit=unit,
                intake=intake,
                stage=Stage.NODES,
                before=snapshot,
                decision=decision,
                words=_hami_words(decision),
            )
        entry = snapshot.nodes[snapshot.position[decision.node]]
        written = annotations_of(intake.pod, decision, entry, self.registry, now_ns=now_ns)
        return PodPlan(
            unit=unit,
            intake=intake,
            stage=Stage.PLACED,
            before=snapshot,
            decision=decision,
            annotations=written,
            labels=labels_of(written),
        )


def _held_back(plan: PodPlan, why: str) -> PodPlan:
    """A gang member that would have fitted, or not, but must wait for the others either way."""
    if plan.stage is not Stage.PLACED:
        return plan
    return PodPlan(unit=plan.unit, intake=plan.intake, stage=Stage.GANG, before=plan.before, why=why)


def _hami_words(refused: Refused) -> str:
    """HAMi's event texts: how many nodes gave each reason."""
    return "; ".join(f"{count} nodes {words}" for words, count in refused.counted())
