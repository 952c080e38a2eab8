"""Who may be evicted for whom: rules for single pods, and for several pods together.

The rules of Volcano 1.14 and of kube-scheduler, with two that are ours: a gang keeps its minimum or is evicted as a
whole, and a PodDisruptionBudget is never broken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from hami_plugins.engine.intake import PodInfo, Rules
from hami_plugins.engine.neighbours import meets
from hami_plugins.inputs.list_reader import SYSTEM_PRIORITIES
from hami_plugins.inputs.workloads.pods import VOLCANO
from hami_plugins.model.cluster import ClusterSnapshot, DisruptionBudget
from hami_plugins.model.pods import EVERYWHERE, Pod, PodRecord
from hami_plugins.preemption.values import EvictedPod, Rule, Spared
from hami_plugins.queueing import gangs, queues
from hami_plugins.queueing.gangs import Need
from hami_plugins.queueing.queues import (
    DEFAULT,
    Amounts,
    EnqueueAdmission,
    QueueUsage,
    plus,
    requests_of,
    shown,
    summed,
)
from hami_plugins.queueing.usage import gate_by
from hami_plugins.wire.gang_keys import GROUP_KEY, QUEUE_KEY

SYSTEM_NAMESPACE: Final = "kube-system"
SYSTEM_CRITICAL: Final = SYSTEM_PRIORITIES["system-cluster-critical"]
"""Pods of this priority and above are never evicted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preemptor:
    """The pods that need places, all of one gang or one alone; ``queue`` is empty where Volcano does not schedule them.

    ``requests`` are what they ask of node sums together (nano units), ``group`` is ``namespace/name`` of their
    PodGroup, empty for none. ``never`` is why no pod may be evicted for them whatever it is, empty where some may.
    """

    infos: tuple[PodInfo, ...]
    priority: int
    group: str
    queue: str
    requests: Amounts
    never: str = ""

    @classmethod
    def of(cls, snapshot: ClusterSnapshot, infos: Sequence[PodInfo]) -> Preemptor:
        """The preemptor as its cluster sees it. A gang's priority is its PodGroup's, as in Volcano."""
        pod = infos[0].pod
        name = pod.annotations.get(GROUP_KEY, "")
        group = f"{pod.namespace}/{name}" if name else ""
        known = snapshot.pod_groups.get(group)
        priority = max(info.pod.priority for info in infos)
        if known is not None and known.priority_class:
            priority = snapshot.priorities.get(known.priority_class, priority)
        queue = ""
        if pod.scheduler == VOLCANO:
            queue = known.queue if known is not None else pod.annotations.get(QUEUE_KEY, DEFAULT)
        requests = summed(dict(info.pod.constraints.requests) for info in infos)
        never = next(filter(None, (_never(info.pod, snapshot) for info in infos)), "")
        return cls(infos=tuple(infos), priority=priority, group=group, queue=queue, requests=requests, never=never)


def _never(pod: Pod, snapshot: ClusterSnapshot) -> str:
    """Why no pod is evicted for this one. The API server copies the policy of its class when it creates a pod."""
    if not pod.preempts:
        return "its preemptionPolicy is Never"
    if pod.priority_class in snapshot.never_preempting:
        return f"the preemptionPolicy of its PriorityClass {pod.priority_class} is Never"
    return ""


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
        self._gate = gate if preemptor.queue else None
        self._reclaims = self._may_reclaim()
        self._queues = snapshot.queues
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
        usage = self._gate.accounts.get(self.queue_of(record)) if self._gate is not None else None
        if usage is not None and self._is_reclaimed(record):
            return Rule.SHARE, self._within(usage)
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
        if self.gangs or self._gate is not None or (self.preemptor.queue and self._groups):
            return None
        budgets = tuple(each for listed in self._budgets.values() for each in listed)
        return self.preemptor.priority, self.preemptor.group, self.preemptor.queue, self._near, budgets

    def conflict(self, records: Sequence[PodRecord], whole: Iterable[str] = ()) -> Spared | None:
        """Why these pods may not be evicted together, or ``None``; ``whole`` are the gangs that go as a whole."""
        of_gangs = self._gangs_broken(records, frozenset(whole))
        return self._budgets_broken(records) or of_gangs or self._shares_broken(records)

    def is_bound(self, record: PodRecord) -> bool:
        """Whether evicting a pod depends on which others are evicted."""
        return bool(self.gang_of(record) or self.budgets_of(record) or self._is_reclaimed(record))

    def gang_of(self, record: PodRecord) -> str:
        """The gang with a minimum that a pod is of; empty for none."""
        name = record.full_group
        return name if name in self.gangs else ""

    def budgets_of(self, record: PodRecord) -> list[DisruptionBudget]:
        """The budgets that cover a pod."""
        budgets = self._budgets.get(record.namespace, ())
        return [budget for budget in budgets if meets(budget.requirements, record.labels)]

    def queue_of(self, record: PodRecord) -> str:
        """The queue of a pod that Volcano schedules."""
        return queues.queue_of(record, self._groups)

    def priority_of(self, record: PodRecord) -> int:
        """What a running pod is worth: under Volcano its PodGroup's priority."""
        if self.preemptor.queue and record.group:
            known = self._groups.get(record.full_group)
            if known is not None and known.priority_class:
                return self._priorities.get(known.priority_class, record.priority)
        return record.priority

    def usage_after(self, leaving: Iterable[PodRecord]) -> EnqueueAdmission | None:
        """Queue usage when these have left, for a preemptor of Volcano's; pods being deleted do not count anyway."""
        gate = self._gate
        for record in leaving if gate is not None else ():
            if gate is not None and record.group and not record.terminating:
                gate = gate.given(self.queue_of(record), {name: -amount for name, amount in record.requests})
        return gate

    def _by_class(self, record: PodRecord) -> tuple[Rule, str] | None:
        preemptor = self.preemptor
        if preemptor.group and record.full_group == preemptor.group:
            return Rule.SAME_GANG, "it is a member of the same gang"
        if preemptor.queue and not record.group:
            return Rule.SCHEDULER, "it has no PodGroup, so Volcano does not evict it"
        priority = self.priority_of(record)
        if record.namespace == SYSTEM_NAMESPACE or priority >= SYSTEM_CRITICAL:
            return Rule.CRITICAL, f"it belongs to the system (namespace {record.namespace}, priority {priority})"
        if self._is_reclaimed(record):
            return self._by_queue(self.queue_of(record))
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

    def _by_queue(self, name: str) -> tuple[Rule, str] | None:
        queue = self._queues.get(name)
        if queue is not None and not queue.reclaimable:
            return Rule.QUEUE, f"its queue {name} is not reclaimable"
        if self._reclaims:
            return Rule.QUEUE, self._reclaims
        usage = self._gate.accounts.get(name) if self._gate is not None else None
        if usage is None:
            return Rule.QUEUE, f"nothing is known of its queue {name}"
        return None if self._exceeds(usage, {}) else (Rule.SHARE, self._within(usage))

    def _may_reclaim(self) -> str:
        """Why the preemptor's queue may take nothing from other queues; empty where it may."""
        queue = self.preemptor.queue
        usage = self._gate.accounts.get(queue) if self._gate is not None else None
        if usage is None:
            return f"it is in another queue, and nothing is known of queue {queue}" if queue else ""
        share = self._share(usage)
        for resource, amount in self._asked():
            wanted, deserved = usage.held.get(resource, 0) + amount, share.get(resource, 0)
            if wanted > deserved:
                return (
                    f"it is in another queue, and queue {queue} would hold {shown(resource, wanted)} {resource} "
                    f"of the {shown(resource, deserved)} it deserves"
                )
        return ""

    def _is_reclaimed(self, record: PodRecord) -> bool:
        queue = self.preemptor.queue
        return bool(queue and record.group) and self.queue_of(record) != queue

    def _asked(self) -> Iterator[tuple[str, int]]:
        """What counts between queues: all that the preemptor asks for and that is divided among them.

        A listing may lack what every real node has. Of what no queue deserves anything each would hold too much.
        """
        gate = self._gate
        unknown = queues.EVERYWHERE - gate.total.keys() if gate is not None else queues.EVERYWHERE
        divided: set[str] | None = None
        if gate is not None and not gate.by_weight:
            divided = {name for usage in gate.accounts.values() for name, amount in usage.deserved.items() if amount}
        return (
            (name, amount)
            for name, amount in self.preemptor.requests.items()
            if amount and name not in unknown and (divided is None or name in divided)
        )

    def _share(self, usage: QueueUsage) -> Amounts:
        by_weight = self._gate is not None and self._gate.by_weight
        return (usage.share or {}) if by_weight else usage.deserved

    def _exceeds(self, usage: QueueUsage, freed: Amounts) -> bool:
        """Whether a queue holds more than its share of anything that is asked for, when so much has been freed."""
        share = self._share(usage)
        return any(usage.held.get(name, 0) - freed.get(name, 0) > share.get(name, 0) for name, _ in self._asked())

    def _within(self, usage: QueueUsage) -> str:
        share = self._share(usage)
        parts = [
            f"{shown(name, usage.held.get(name, 0))} of the {shown(name, share.get(name, 0))} {name} it deserves"
            for name, _ in self._asked()
        ]
        return f"its queue {usage.queue} holds {', '.join(parts)}"

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

    def _shares_broken(self, records: Sequence[PodRecord]) -> Spared | None:
        """A queue must exceed its share before each eviction, and keep its guarantee after the last one.

        The order of evictions is free, so the last one is the one that leaves the queue with the most.
        """
        gate = self._gate
        if gate is None:
            return None
        taken: dict[str, list[PodRecord]] = {}
        for record in filter(self._is_reclaimed, records):
            taken.setdefault(self.queue_of(record), []).append(record)
        for name, members in taken.items():
            usage = gate.accounts[name]
            freed = summed(dict(record.requests) for record in members)
            before_last = (
                {key: amount - dict(last.requests).get(key, 0) for key, amount in freed.items()} for last in members
            )
            if not any(self._exceeds(usage, each) for each in before_last):
                return Spared(members[-1], Rule.SHARE, f"{self._within(usage)}, and {len(members)} pods would leave")
            for resource, kept in usage.guarantee.items():
                left = usage.held.get(resource, 0) - freed.get(resource, 0)
                if left < kept:
                    why = f"its queue {name} would hold {shown(resource, left)} of {shown(resource, kept)} guaranteed"
                    return Spared(members[-1], Rule.SHARE, f"{why} {resource}")
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


def divided_gate(snapshot: ClusterSnapshot, preemptor: Preemptor, rules: Rules) -> EnqueueAdmission | None:
    """Queue usage with the shares for all pods that wait, the preemptor's among them; ``None`` without queues."""
    gate = gate_by(snapshot, rules)
    if gate is None:
        return None
    asked = {preemptor.queue: preemptor.requests}
    named = {info.pod.full_name for info in preemptor.infos}
    for pod in snapshot.pending:
        group = snapshot.pod_groups.get(f"{pod.namespace}/{pod.annotations.get(GROUP_KEY, '')}")
        if group is not None and pod.full_name not in named:
            asked[group.queue] = plus(asked.get(group.queue, {}), requests_of(pod))
    return gate.divided(asked)
