"""Who may be evicted for whom: rules for single pods, and for several pods together.

The rules of Volcano 1.14 and of kube-scheduler, with two that are ours: a gang keeps its minimum or is evicted as a
whole, and a PodDisruptionBudget is never broken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from hami_plugins.engine.neighbours import meets
from hami_plugins.inputs.list_reader import SYSTEM_PRIORITIES
from hami_plugins.model.cluster import ClusterSnapshot, DisruptionBudget
from hami_plugins.model.pods import EVERYWHERE, PodRecord
from hami_plugins.preemption.preemptor import Preemptor
from hami_plugins.preemption.reclaim import ReclaimRules
from hami_plugins.preemption.values import EvictedPod, Rule, Spared
from hami_plugins.queueing import gangs
from hami_plugins.queueing.gangs import Need
from hami_plugins.queueing.queues import EnqueueAdmission

SYSTEM_NAMESPACE: Final = "kube-system"
SYSTEM_CRITICAL: Final = SYSTEM_PRIORITIES["system-cluster-critical"]
"""Pods of this priority and above are never evicted."""


class RunningGang(NamedTuple):
    """A gang with a minimum: its running members, and how many count for the minimum by task."""

    need: Need
    have: Mapping[str, int]
    members: tuple[EvictedPod, ...]

    def spares(self, leaving: Iterable[PodRecord]) -> bool:
        """Whether enough members stay when these leave."""
        left = Counter(self.have)
        left.subtract(record.task for record in leaving)
        return not gangs.missing(self.need, left)


class EvictionRules:
    """The rules as they apply to one preemptor in one cluster. ``gate`` holds queue usage, with shares worked out."""

    def __init__(self, snapshot: ClusterSnapshot, preemptor: Preemptor, gate: EnqueueAdmission | None) -> None:
        self.preemptor = preemptor
        self.gangs = _gangs(snapshot)
        self._groups = snapshot.pod_groups
        self._priorities = snapshot.priorities
        self._budgets: dict[str, list[DisruptionBudget]] = {}
        for budget in snapshot.budgets:
            self._budgets.setdefault(budget.namespace, []).append(budget)
        self.reclaim = ReclaimRules(snapshot, preemptor, gate)
        self._near = tuple(term for info in preemptor.infos for term in info.pod.neighbours.near)
        self._judges_groups = bool(self._groups or preemptor.group or preemptor.queue)
        self._judges_labels = bool(self._budgets or self._near)
        self._judged: dict[Hashable, tuple[int | None, Mapping[str, str]]] = {}

    def objection(self, record: PodRecord) -> Spared | None:
        """Why one pod may not be evicted whatever else is, or ``None``."""
        found = self._by_class(record) or self._by_mark(record) or self._by_budget(record)
        return None if found is None else Spared(record, *found)

    def ground(self, record: PodRecord) -> tuple[Rule, str]:
        """The rule by which a pod may be evicted that no other rule protects, and its numbers."""
        if self.reclaim.is_reclaimed(record):
            return Rule.SHARE, self.reclaim.ground(record)
        return Rule.PRIORITY, f"priority {self.priority_of(record)} < {self.preemptor.priority}"

    def evictable_at(self, record: PodRecord) -> int | None:
        """The priority that a pod counts with, ``None`` where it may not be evicted; equal pods are judged once."""
        key: Hashable = record.priority, record.namespace, record.preemptable
        if self._judges_groups:
            key = key, record.group, record.queue
        if self._judges_labels:
            key = key, id(record.labels)
        found = self._judged.get(key)
        if found is None:
            priority = None if self.objection(record) else self.priority_of(record)
            found = self._judged[key] = priority, record.labels  # kept, so that no others get their id
        return found[0]

    @property
    def priorities(self) -> set[int]:
        """The priorities of the evictable pods that have been judged."""
        return {priority for priority, _ in self._judged.values() if priority is not None}

    def recall(self, earlier: EvictionRules) -> None:
        """Take over the judgements of rules with the same context."""
        self._judged = earlier._judged

    @property
    def context(self) -> Hashable:
        """All that ``objection`` and ``conflict`` depend on, besides pods; ``None`` where pods on other nodes count."""
        if self.gangs or self.reclaim.judges or (self.preemptor.queue and self._groups):
            return None
        budgets = tuple(each for listed in self._budgets.values() for each in listed)
        return self.preemptor.priority, self.preemptor.group, self.preemptor.queue, self._near, budgets

    def conflict(self, records: Sequence[PodRecord], whole: Iterable[str] = ()) -> Spared | None:
        """Why these pods may not be evicted together, or ``None``; ``whole`` are the gangs that go as a whole."""
        of_gangs = self._gangs_broken(records, frozenset(whole))
        return self._budgets_broken(records) or of_gangs or self.reclaim.broken(records)

    def is_bound(self, record: PodRecord) -> bool:
        """Whether evicting a pod depends on which others are evicted."""
        return bool(self.gang_of(record) or self.budgets_of(record) or self.reclaim.is_reclaimed(record))

    def gang_of(self, record: PodRecord) -> str:
        """The gang with a minimum that a pod is of; empty for none."""
        name = record.full_group
        return name if name in self.gangs else ""

    def budgets_of(self, record: PodRecord) -> list[DisruptionBudget]:
        """The budgets that cover a pod."""
        budgets = self._budgets.get(record.namespace, ())
        return [budget for budget in budgets if meets(budget.requirements, record.labels)]

    def priority_of(self, record: PodRecord) -> int:
        """What a running pod is worth: under Volcano its PodGroup's priority."""
        if self.preemptor.queue and record.group:
            known = self._groups.get(record.full_group)
            if known is not None and known.priority_class:
                return self._priorities.get(known.priority_class, record.priority)
        return record.priority

    def _by_class(self, record: PodRecord) -> tuple[Rule, str] | None:
        preemptor = self.preemptor
        if preemptor.group and record.full_group == preemptor.group:
            return Rule.SAME_GANG, "it is a member of the same gang"
        if preemptor.queue and not record.group:
            return Rule.SCHEDULER, "it has no PodGroup, so Volcano does not evict it"
        priority = self.priority_of(record)
        if record.namespace == SYSTEM_NAMESPACE or priority >= SYSTEM_CRITICAL:
            return Rule.CRITICAL, f"it belongs to the system (namespace {record.namespace}, priority {priority})"
        if self.reclaim.is_reclaimed(record):
            return self.reclaim.objection(record)
        if priority >= preemptor.priority:
            return Rule.PRIORITY, f"its priority {priority} is not below {preemptor.priority}"
        return None

    def _by_mark(self, record: PodRecord) -> tuple[Rule, str] | None:
        if not record.preemptable:
            return Rule.MARKED, 'volcano.sh/preemptable is "false"'
        for term in self._near:
            namespaces = term.namespaces
            if (record.namespace in namespaces or EVERYWHERE in namespaces) and meets(term.requirements, record.labels):
                return Rule.AFFINITY, "the waiting pod has to be near it (podAffinity)"
        return None

    def _by_budget(self, record: PodRecord) -> tuple[Rule, str] | None:
        budgets = self.budgets_of(record)
        if len(budgets) > 1:
            names = ", ".join(sorted(budget.name for budget in budgets))
            return (
                Rule.BUDGET,
                f"it has {len(budgets)} PodDisruptionBudgets ({names}), and then no eviction is possible",
            )
        if budgets and not budgets[0].allowed:
            return Rule.BUDGET, f"its PodDisruptionBudget {budgets[0].name} allows 0 more"
        return None

    def _budgets_broken(self, records: Sequence[PodRecord]) -> Spared | None:
        used: Counter[tuple[str, str]] = Counter()
        for record in records if self._budgets else ():
            for budget in self.budgets_of(record):
                key = budget.namespace, budget.name
                used[key] += 1
                if used[key] > budget.allowed:
                    why = f"its PodDisruptionBudget {budget.name} allows {budget.allowed} of {used[key]} evictions"
                    return Spared(record, Rule.BUDGET, why)
        return None

    def _gangs_broken(self, records: Sequence[PodRecord], whole: frozenset[str]) -> Spared | None:
        leaving: dict[str, list[PodRecord]] = {}
        for record in records if self.gangs else ():
            name = self.gang_of(record)
            if name and name not in whole:
                leaving.setdefault(name, []).append(record)
        for name, members in leaving.items():
            gang = self.gangs[name]
            if not gang.spares(members):
                have, need = sum(gang.have.values()), gang.need.members
                why = f"its gang {name} needs {need} of its {have} members, and {len(members)} would leave"
                return Spared(members[-1], Rule.GANG, why)
        return None


def _gangs(snapshot: ClusterSnapshot) -> dict[str, RunningGang]:
    """The gangs with a minimum that have running members."""
    needs = {
        name: Need(group.min_member, tuple(sorted(group.min_by_task.items())))
        for name, group in snapshot.pod_groups.items()
        if group.min_member > 1 or group.min_by_task
    }
    members: dict[str, list[EvictedPod]] = {}
    for entry in snapshot.nodes if needs else ():
        for record in entry.pods:
            name = record.full_group
            if name in needs and not record.terminating:
                members.setdefault(name, []).append(EvictedPod(record, entry.name))
    return {name: _gang(needs[name], found, snapshot.succeeded.get(name, {})) for name, found in members.items()}


def _gang(need: Need, members: Sequence[EvictedPod], succeeded: Mapping[str, int]) -> RunningGang:
    have = Counter(victim.pod.task for victim in members)
    have.update(succeeded)
    return RunningGang(need, have, tuple(members))
