"""Volcano's enqueue admission in the current cluster: what every queue may hold, what its pods hold, and which
PodGroups are admitted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Final, NamedTuple

from hami_plugins.engine.intake import OVERCOMMIT, Rules
from hami_plugins.model.cluster import ClusterSnapshot, PodGroup, Queue
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.queueing.queues import (
    EVERYWHERE,
    INQUEUE,
    RUNNING,
    Amounts,
    EnqueueAdmission,
    QueueUsage,
    minus,
    plain,
    plus,
    queue_of,
    summed,
)
from hami_plugins.wire.gang_keys import GROUP_KEY

CAPACITY: Final = "capacity"
PROPORTION: Final = "proportion"
ROOT: Final = "root"
"""The queue above all that name no other."""


class _Group(NamedTuple):
    """A PodGroup (``namespace/name``) and its queue."""

    name: str
    queue: str


class _Held(NamedTuple):
    """What the pods of PodGroups hold, how many there are, and which groups have members that are being deleted."""

    amounts: Mapping[_Group, Amounts]
    members: Mapping[str, int]
    leaving: frozenset[str]


class _Counting(NamedTuple):
    """By PodGroup: what it needs at least, what it waits for, and what its pods hold.

    ``total`` is what the nodes have, ``used`` what anybody holds of it.
    """

    least: Mapping[str, Amounts]
    waiting: Mapping[str, Amounts]
    held: _Held
    total: Amounts
    used: Amounts


class PodGroupUsage(NamedTuple):
    """The amounts that one PodGroup (``namespace/name``) counts for: its pods' usage, and the rest of its admission."""

    group: str
    queue: str
    held: Amounts
    waited_for: Amounts


def claims_of(snapshot: ClusterSnapshot) -> tuple[PodGroupUsage, ...]:
    """Every PodGroup that counts in enqueue admission."""
    counting = _counting(snapshot)
    waiting = dict(counting.waiting)
    if snapshot.queues:
        _, returned = _returned(_standing(snapshot, counting), snapshot, counting)
        waiting |= returned
    amounts_of = counting.held.amounts
    found = [
        PodGroupUsage(name, queue, amounts, waiting.pop(name, {})) for (name, queue), amounts in amounts_of.items()
    ]
    return (
        *found,
        *(PodGroupUsage(name, snapshot.pod_groups[name].queue, {}, least) for name, least in waiting.items()),
    )


def gate_by(snapshot: ClusterSnapshot, rules: Rules) -> EnqueueAdmission | None:
    """The gate of a cluster that has these rules."""
    return gate_of(snapshot, rules.queue_plugin, nested=rules.queue_hierarchy, overcommit=rules.overcommit)


def gate_of(
    snapshot: ClusterSnapshot, plugin: str = "", *, nested: bool | None = None, overcommit: Fraction = OVERCOMMIT
) -> EnqueueAdmission | None:
    """The gate as the cluster is, or ``None`` when the listing has no queues.

    ``plugin`` is the one that divides the cluster among queues, ``proportion`` or ``capacity``; if unset, it is
    ``capacity`` if any queue has something ``deserved``, which ``proportion`` does not read. ``nested``: ``capacity``
    reads parents (``enableHierarchy``, off by default: then a parent's limit does not apply to its children, and
    guarantees of all queues are kept from all others); if unset, it is on if any queue has a parent. ``overcommit`` is
    the share of the cluster that may be held and waited for together.
    """
    if not snapshot.queues:
        return None
    counting = _counting(snapshot)
    return _returned(_standing(snapshot, counting, plugin, nested, overcommit), snapshot, counting)[0]


def usage_by(
    snapshot: ClusterSnapshot, rules: Rules, held: Mapping[str, Amounts], total: Amounts
) -> EnqueueAdmission | None:
    """The gate of a cluster that has these rules as far as running pods decide it: without what is waited for.

    ``held`` is the usage of pods of PodGroups by queue, ``total`` the nodes' resources; usage beyond minima is not
    included.
    """
    if not snapshot.queues:
        return None
    amounts = {_Group("", queue): each for queue, each in held.items()}
    counting = _Counting({}, {}, _Held(amounts, {}, frozenset()), total, summed(amounts.values()))
    return _standing(snapshot, counting, rules.queue_plugin, rules.queue_hierarchy, rules.overcommit)


def reads_parents(rules: Rules) -> bool:
    """Whether the cluster is configured to hold queues to the limits of those above them."""
    return bool(rules.queue_hierarchy) and rules.queue_plugin != PROPORTION


def below(queues: Iterable[Queue], name: str) -> list[str]:
    """The names of the child queues of one, sorted."""
    return sorted(queue.name for queue in queues if queue.parent == name)


def _counting(snapshot: ClusterSnapshot) -> _Counting:
    held, least = _held(snapshot), _least(snapshot)
    used = summed(entry.requested for entry in snapshot.nodes)
    return _Counting(least, _waiting(snapshot, least, held), held, total_of(snapshot.nodes), used)


def _standing(
    snapshot: ClusterSnapshot,
    counting: _Counting,
    plugin: str = "",
    nested: bool | None = None,
    overcommit: Fraction = OVERCOMMIT,
) -> EnqueueAdmission:
    """The gate before groups come back to it whose pods are being deleted."""
    by_weight = plugin == PROPORTION if plugin else not _has_deserved(snapshot.queues.values())
    accounts = _Accounts(snapshot, counting, nested=not by_weight and nested is not False)
    return EnqueueAdmission(
        by_weight=by_weight,
        total=counting.total,
        most={resource: int(amount * overcommit) for resource, amount in counting.total.items()},
        used=counting.used,
        waited_for=summed(counting.waiting.values()),
        accounts={name: accounts.account(queue) for name, queue in snapshot.queues.items()},
    )


def _returned(
    gate: EnqueueAdmission, snapshot: ClusterSnapshot, counting: _Counting
) -> tuple[EnqueueAdmission, dict[str, Amounts]]:
    """The gate with the groups that it lets in again, and what these count for.

    A group is re-evaluated when too few of its pods stay because others are being deleted. It enters enqueue admission
    like any other, the oldest first, and is admitted if there is room for it on top of the pods that are leaving.
    """
    least, held = counting.least, counting.held
    found: dict[str, Amounts] = {}
    groups = [group for name, group in snapshot.pod_groups.items() if name in held.leaving and least[name]]
    for group in sorted(groups, key=lambda group: (group.made_at or 0, group.full_name)):
        if group.phase == INQUEUE or _enough(group, held) or gate.objections(group.queue, least[group.full_name]):
            continue
        found[group.full_name] = least[group.full_name]
        gate = gate.let_in(group.queue, least[group.full_name])
    return gate, found


def _enough(group: PodGroup, held: _Held) -> bool:
    return held.members.get(group.full_name, 0) >= max(group.min_member, 1)


def _least(snapshot: ClusterSnapshot) -> dict[str, dict[str, int]]:
    """What every PodGroup needs at least."""
    return {name: plain(group.min_resources or {}) for name, group in snapshot.pod_groups.items()}


def _waiting(snapshot: ClusterSnapshot, least: Mapping[str, Amounts], held: _Held) -> dict[str, Amounts]:
    """The amounts that PodGroups count for besides their pods' usage, for those that do; pods with scheduling gates do
    not.
    """
    found = {
        name: amounts
        for name, group in snapshot.pod_groups.items()
        if (amounts := _waited_for(group, least[name], held))
    }
    for pod in snapshot.pending:
        name = f"{pod.namespace}/{pod.annotations.get(GROUP_KEY, '')}"
        if pod.gated and name in found:
            found[name] = minus(found[name], dict(pod.constraints.requests))
    return {name: amounts for name, amounts in found.items() if amounts}


def _has_deserved(queues: Iterable[Queue]) -> bool:
    return any(amount > 0 for queue in queues for amount in queue.deserved.values())


def _waited_for(group: PodGroup, least: Amounts, held: _Held) -> Amounts:
    """The amount that an admitted PodGroup still counts for besides its pods' usage.

    Volcano never withdraws its admission: it counts until its pods run, whether they ever can or not. A running one
    counts for the missing part of its minimum.
    """
    if not least:
        return {}
    if group.phase == INQUEUE:
        return least
    if group.phase == RUNNING and _enough(group, held):
        return minus(least, held.amounts.get(_Group(group.full_name, group.queue), {}))
    return {}


class _Accounts:
    """Computes the usage of all queues. ``nested``: a queue's limit applies to the queues under it as well."""

    def __init__(
        self,
        snapshot: ClusterSnapshot,
        counting: _Counting,
        *,
        nested: bool,
    ) -> None:
        self._queues = snapshot.queues
        self._total = counting.total
        self._nested = nested and any(queue.parent not in {"", ROOT} for queue in snapshot.queues.values())
        self._least = counting.least
        self._waits: dict[str, list[Amounts]] = {}
        for name, amounts in counting.waiting.items():
            self._waits.setdefault(snapshot.pod_groups[name].queue, []).append(amounts)
        self._amounts: dict[str, list[tuple[str, Amounts]]] = {}
        for (name, queue), amounts in counting.held.amounts.items():
            self._amounts.setdefault(queue, []).append((name, amounts))

    def account(self, queue: Queue) -> QueueUsage:
        """One queue as it is, with what the queues under it hold where these are its own."""
        names = self._family(queue)
        amounts = [each for name in names for each in self._amounts.get(name, ())]
        limit = self._limit(queue)
        return QueueUsage(
            queue=queue.name,
            weight=max(queue.weight, 1),
            guarantee=queue.guarantee,
            limit=limit,
            held=summed(each for _, each in amounts),
            waited_for=summed(each for name in names for each in self._waits.get(name, ())),
            elastic=summed(
                above for name, each in amounts if name in self._least and (above := minus(each, self._least[name]))
            ),
            deserved=_deserved(queue, limit),
            priority=queue.priority,
            made_at=queue.made_at or 0,
            parent=queue.parent if self._nested and queue.parent in self._queues else "",
        )

    def _family(self, queue: Queue) -> list[str]:
        """The queue and, where limits are nested, all under it; a ring of queues is walked once."""
        names = [queue.name]
        for name in names if self._nested else ():
            names += [each.name for each in self._queues.values() if each.parent == name and each.name not in names]
        return names

    def _limit(self, queue: Queue) -> Amounts:
        """What a queue may hold: the cluster less what others are guaranteed, and at most its own capability."""
        others = summed(
            other.guarantee
            for other in self._queues.values()
            if other.name != queue.name and (not self._nested or _above(other) == _above(queue))
        )
        limit: dict[str, int] = {}
        for resource, amount in self._total.items():
            left = max(amount - others.get(resource, 0), queue.guarantee.get(resource, 0))
            limit[resource] = min(left, _cap(queue, resource, amount))
        return limit


def _deserved(queue: Queue, limit: Amounts) -> Amounts:
    """What a queue deserves, and at most what it may hold."""
    return {resource: min(amount, limit.get(resource, amount)) for resource, amount in queue.deserved.items()}


def _above(queue: Queue) -> str:
    return queue.parent or ("" if queue.name == ROOT else ROOT)


def _cap(queue: Queue, resource: str, amount: int) -> int:
    """A capability of 0 CPU or memory means none is set; one that does not name a resource leaves it open."""
    cap = queue.capability.get(resource)
    return amount if cap is None or (cap <= 0 and resource in {"cpu", "memory"}) else cap


def total_of(nodes: Iterable[NodeEntry]) -> dict[str, int]:
    """The nodes' resources in total; basic resources only if every node reports them."""
    listed = list(nodes)
    total = summed({name: amount.nano for name, amount in entry.facts.allocatable.items()} for entry in listed)
    for resource in EVERYWHERE:
        if not all(resource in entry.facts.allocatable for entry in listed):
            total.pop(resource, None)
    return total


def _held(snapshot: ClusterSnapshot) -> _Held:
    """What the pods of each PodGroup hold; a pod that is being deleted holds nothing for it."""
    amounts: dict[_Group, dict[str, int]] = {}
    members: Counter[str] = Counter()
    leaving: set[str] = set()
    for entry in snapshot.nodes:
        for record in entry.pods:
            if not record.group:
                continue
            name = record.full_group
            if record.terminating:
                leaving.add(name)
                continue
            group = _Group(name, queue_of(record, snapshot.pod_groups))
            before = amounts.get(group)
            amounts[group] = dict(record.requests) if before is None else plus(before, dict(record.requests))
            members[name] += 1
    return _Held(amounts, members, frozenset(leaving))
