"""Which pods may be evicted for which: rules for single pods, and for several pods together.

The rules of Volcano 1.14 and of kube-scheduler, with two that are ours: a gang keeps its minimum or is evicted as a
whole, and a PodDisruptionBudget is never broken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Final, NamedTuple

from hami_plugins.engine.neighbours import meets
from hami_plugins.inputs.list_reader import SYSTEM_PRIORITIES
from hami_plugins.model.cluster import ClusterSnapshot, DisruptionBudget
from hami_plugins.model.pods import EVERYWHERE, PodRecord
from hami_plugins.preemption.preemptor import Preemptor
from hami_plugins.preemption.reclaim import ReclaimRules
from hami_plugins.preemption.running import PodKind, RunningGang, RunningOnNode, RunningPodIndex
from hami_plugins.preemption.values import Rule, Spared
from hami_plugins.queueing.queues import EnqueueAdmission

SYSTEM_NAMESPACE: Final = "kube-system"
SYSTEM_CRITICAL: Final = SYSTEM_PRIORITIES["system-cluster-critical"]
"""Pods of this priority and above are never evicted."""


MOST_JUDGED: Final = 100_000
"""Kinds of pods whose verdicts are remembered."""

_likeness: Final = attrgetter("priority", "namespace", "preemptable")
"""What counts of a running pod for a preemptor that no queue of Volcano's has."""


class _Verdict(NamedTuple):
    """The priority with which pods of one kind may be evicted, or the rule that forbids it with its numbers in words.

    ``labels`` are kept so that no others get their identity.
    """

    priority: int | None
    spared: tuple[Rule, str] | None
    labels: Mapping[str, str]


class EvictionRules:
    """The rules as they apply to one preemptor in one cluster.

    ``gate`` holds queue usage, with shares worked out; ``running`` are the running pods of the snapshot.
    """

    def __init__(
        self,
        snapshot: ClusterSnapshot,
        preemptor: Preemptor,
        gate: EnqueueAdmission | None,
        running: RunningPodIndex | None = None,
    ) -> None:
        self.preemptor = preemptor
        self.running = RunningPodIndex.of(snapshot) if running is None else running
        self._groups = snapshot.pod_groups
        self._priorities = snapshot.priorities
        self.budgets = snapshot.budgets
        self._budgets: dict[str, list[DisruptionBudget]] = {}
        for budget in snapshot.budgets:
            self._budgets.setdefault(budget.namespace, []).append(budget)
        self.reclaim = ReclaimRules(snapshot, preemptor, gate)
        self._near = tuple(term for info in preemptor.infos for term in info.pod.neighbours.near)
        self._judges_labels = bool(self._budgets or self._near)
        self._queued = bool(preemptor.queue)
        self._own = preemptor.group.partition("/")[::2]
        self._judged: dict[Hashable, _Verdict] = {}
        self.priorities: set[int] = set()
        """The priorities of the evictable pods that have been judged, by these rules or by those before."""

    def objection(self, record: PodRecord) -> Spared | None:
        """Why one pod may not be evicted whatever else is, or ``None``."""
        found = self._verdict(record, self.running.kind_of(record)).spared
        return None if found is None else Spared(record, *found)

    def ground(self, record: PodRecord) -> tuple[Rule, str]:
        """The rule by which a pod may be evicted that no other rule protects, and its numbers."""
        if self.reclaim.is_reclaimed(record):
            return Rule.SHARE, self.reclaim.ground(record)
        return Rule.PRIORITY, f"priority {self.priority_of(record)} < {self.preemptor.priority}"

    def evictable_at(self, record: PodRecord) -> int | None:
        """The priority that a pod counts with, ``None`` where it may not be evicted."""
        return self._verdict(record, self.running.kind_of(record)).priority

    def evictable_on(
        self, pods: RunningOnNode, records: Iterable[PodRecord], highest: int
    ) -> list[tuple[PodRecord, int]]:
        """Those of a node's pods that may be evicted and count with a priority up to ``highest``, and that priority.

        ``records`` are some of the pods that are not being deleted.
        """
        verdict, kinds, judged = self._verdict, pods.kinds, self._judged
        found: list[tuple[PodRecord, int]] = []
        for record in records:
            if record.group:
                priority = verdict(record, kinds[id(record)]).priority
            else:  # nearly all pods, of few kinds: the call would take longer than the look
                known = judged.get(_likeness(record))
                priority = (verdict(record, None) if known is None else known).priority
            if priority is not None and priority <= highest:
                found.append((record, priority))
        return found

    def _verdict(self, record: PodRecord, kind: PodKind | None) -> _Verdict:
        """What ``objection`` says of a pod and of all that are equal to it in what counts: these are judged once."""
        key: Hashable = kind if self._queued else _likeness(record)
        if record.group == self._own[1] and record.namespace == self._own[0]:
            key = key, True
        if self._judges_labels:
            key = key, id(record.labels)
        found = self._judged.get(key)
        if found is None:
            if len(self._judged) >= MOST_JUDGED:
                self._judged.clear()
            spared = self._by_class(record) or self._by_mark(record) or self._by_budget(record)
            priority = None if spared else self.priority_of(record)
            found = self._judged[key] = _Verdict(priority, spared, record.labels)
            if priority is not None:
                self.priorities.add(priority)
        return found

    def recall(self, earlier: EvictionRules) -> None:
        """Take over what rules with the same context know of single pods."""
        self.priorities = earlier.priorities
        if not self.reclaim.judges:  # else an objection names what queues held then
            self._judged = earlier._judged

    @property
    def context(self) -> Hashable:
        """All that decides, besides pods and their PodGroups, which single pods may be evicted.

        Members of the preemptor's own PodGroup may not, which is not part of it.
        """
        budgets = tuple(replace(each, allowed=min(each.allowed, 1)) for each in self.budgets)
        return self.preemptor.priority, self.preemptor.queue, self._near, budgets, self.reclaim.reclaimed_queues

    @property
    def span_nodes(self) -> bool:
        """Whether it depends on pods of other nodes who may be evicted together on one."""
        return self.running.has_gangs or self.reclaim.judges

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
        return name if name and self.running.gang(name) is not None else ""

    def gang(self, name: str) -> RunningGang:
        """A running gang with a minimum. Raises ``KeyError`` where there is none of that name."""
        found = self.running.gang(name)
        if found is None:
            raise KeyError(name)
        return found

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
        for record in records if self.running.has_gangs else ():
            name = self.gang_of(record)
            if name and name not in whole:
                leaving.setdefault(name, []).append(record)
        for name, members in leaving.items():
            gang = self.gang(name)
            if not gang.spares(members):
                have, need = sum(gang.have.values()), gang.need.members
                why = f"its gang {name} needs {need} of its {have} members, and {len(members)} would leave"
                return Spared(members[-1], Rule.GANG, why)
        return None
