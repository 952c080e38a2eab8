"""Who may be evicted for a pod of another queue: what a queue holds above its share, and keeps of its guarantee.

The rules of Volcano 1.14's action ``reclaim`` with the plugins ``capacity`` and ``proportion``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from hami_plugins.engine.intake import Rules
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.pods import PodRecord
from hami_plugins.preemption.preemptor import Preemptor
from hami_plugins.preemption.running import RunningPodIndex
from hami_plugins.preemption.values import Rule, Spared
from hami_plugins.queueing import queues
from hami_plugins.queueing.queues import Amounts, EnqueueAdmission, QueueUsage, plus, requests_of, shown, summed
from hami_plugins.queueing.usage import usage_by
from hami_plugins.wire.gang_keys import GROUP_KEY


class ReclaimRules:
    """The rules between the queue of one preemptor and others. ``gate`` holds queue usage, with shares worked out."""

    def __init__(self, snapshot: ClusterSnapshot, preemptor: Preemptor, gate: EnqueueAdmission | None) -> None:
        self._preemptor = preemptor
        self._groups = snapshot.pod_groups
        self._queues = snapshot.queues
        self._gate = gate if preemptor.queue else None
        self._asked = () if self._gate is None else tuple(_divided(preemptor.requests, self._gate))
        self._reclaims = self._may_reclaim()

    @property
    def reclaimed_queues(self) -> frozenset[str]:
        """The queues of which pods may be evicted."""
        queues_known = self._gate.accounts if self._gate is not None else ()
        return frozenset(name for name in queues_known if self._objection_to(name) is None)

    @property
    def judges(self) -> bool:
        """Whether usage of queues is known, so that what several victims hold matters."""
        return self._gate is not None

    def queue_of(self, record: PodRecord) -> str:
        """The queue of a pod that Volcano schedules."""
        return queues.queue_of(record, self._groups)

    def ground(self, record: PodRecord) -> str:
        """By how much the queue of a pod is above its share, in words."""
        usage = self._gate.accounts.get(self.queue_of(record)) if self._gate is not None else None
        return "" if usage is None else self._within(usage)

    def usage_after(self, leaving: Iterable[PodRecord]) -> EnqueueAdmission | None:
        """Queue usage when these have left, for a preemptor of Volcano's; pods being deleted do not count anyway."""
        gate = self._gate
        for record in leaving if gate is not None else ():
            if gate is not None and record.group and not record.terminating:
                gate = gate.given(self.queue_of(record), {name: -amount for name, amount in record.requests})
        return gate

    def objection(self, record: PodRecord) -> tuple[Rule, str] | None:
        """Why a pod of another queue may not be evicted whatever else is, or ``None``."""
        return self._objection_to(self.queue_of(record))

    def _objection_to(self, name: str) -> tuple[Rule, str] | None:
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
        queue = self._preemptor.queue
        usage = self._gate.accounts.get(queue) if self._gate is not None else None
        if usage is None:
            return f"it is in another queue, and nothing is known of queue {queue}" if queue else ""
        share = self._share(usage)
        for resource, amount in self._asked:
            wanted, deserved = _of(usage.held, resource) + amount, _of(share, resource)
            if wanted > deserved:
                return (
                    f"it is in another queue, and queue {queue} would hold {shown(resource, wanted)} {resource} "
                    f"of the {shown(resource, deserved)} it deserves"
                )
        return ""

    def is_reclaimed(self, record: PodRecord) -> bool:
        """Whether a pod is in another queue than the preemptor, so that shares decide and not priorities."""
        queue = self._preemptor.queue
        return bool(queue and record.group) and self.queue_of(record) != queue

    def _share(self, usage: QueueUsage) -> Amounts:
        by_weight = self._gate is not None and self._gate.by_weight
        return (usage.share or {}) if by_weight else usage.deserved

    def _exceeds(self, usage: QueueUsage, freed: Amounts) -> bool:
        """Whether a queue holds more than its share of anything that is asked for, when so much has been freed."""
        share = self._share(usage)
        return any(_of(usage.held, name) - _of(freed, name) > _of(share, name) for name, _ in self._asked)

    def _within(self, usage: QueueUsage) -> str:
        share = self._share(usage)
        parts = [
            f"{shown(name, _of(usage.held, name))} of the {shown(name, _of(share, name))} {name} it deserves"
            for name, _ in self._asked
        ]
        return f"its queue {usage.queue} holds {', '.join(parts)}"

    def broken(self, records: Sequence[PodRecord]) -> Spared | None:
        """A queue must exceed its share before each eviction, and keep its guarantee after the last one.

        The order of evictions is free, so the last one is the one that leaves the queue with the most.
        """
        gate = self._gate
        if gate is None:
            return None
        taken: dict[str, list[PodRecord]] = {}
        for record in filter(self.is_reclaimed, records):
            taken.setdefault(self.queue_of(record), []).append(record)
        for name, members in taken.items():
            usage = gate.accounts[name]
            freed = summed(dict(record.requests) for record in members)
            before_last = (
                {key: amount - _of(dict(last.requests), key) for key, amount in freed.items()} for last in members
            )
            if not any(self._exceeds(usage, each) for each in before_last):
                return Spared(members[-1], Rule.SHARE, f"{self._within(usage)}, and {len(members)} pods would leave")
            for resource, kept in usage.guarantee.items():
                left = _of(usage.held, resource) - _of(freed, resource)
                if left < kept:
                    why = f"its queue {name} would hold {shown(resource, left)} of {shown(resource, kept)} guaranteed"
                    return Spared(members[-1], Rule.SHARE, f"{why} {resource}")
        return None


def _of(amounts: Amounts, resource: str) -> int:
    return amounts.get(resource, 0)


def _divided(requests: Amounts, gate: EnqueueAdmission) -> Iterator[tuple[str, int]]:
    """What counts between queues: all that the preemptor asks for and that is divided among them.

    A listing may lack what every real node has. Of what no queue deserves anything each would hold too much.
    """
    deserved = {name for usage in gate.accounts.values() for name, amount in usage.deserved.items() if amount}
    for name, amount in requests.items():
        known = name in gate.total or name not in queues.EVERYWHERE
        if amount and known and (gate.by_weight or name in deserved):
            yield name, amount


def divided_gate(
    snapshot: ClusterSnapshot, preemptor: Preemptor, rules: Rules, running: RunningPodIndex
) -> EnqueueAdmission | None:
    """Queue usage with the shares for all pods that wait, the preemptor's among them; ``None`` without queues."""
    gate = usage_by(snapshot, rules, running.held, running.total)
    if gate is None or not gate.by_weight:
        return gate
    asked = {preemptor.queue: preemptor.requests}
    named = {info.pod.full_name for info in preemptor.infos}
    for pod in snapshot.pending:
        group = snapshot.pod_groups.get(f"{pod.namespace}/{pod.annotations.get(GROUP_KEY, '')}")
        if group is not None and pod.full_name not in named:
            asked[group.queue] = plus(asked.get(group.queue, {}), requests_of(pod))
    return gate.divided(asked)
