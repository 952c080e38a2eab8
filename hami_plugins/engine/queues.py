"""Volcano's gate before the cards: which gangs are let in, and how much a queue may hold (``peers.md`` 8.1).

Amounts are plain requests in nano units, not what a pod really takes of cards: a pod with two cards counts its memory
once, a pod without memory counts none. So does Volcano 1.14.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final, NamedTuple

from hami_plugins.engine.shares import Claim, divided
from hami_plugins.model.cluster import ClusterSnapshot, Queue
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.pods import Pod, PodRecord
from hami_plugins.model.quantity import NANO
from hami_plugins.wire import quantity

Amounts = Mapping[str, int]

OVERCOMMIT: Final = Fraction(12, 10)
"""Of the cluster, the part that may be held and waited for together (plugin ``overcommit``)."""

INQUEUE: Final = "Inqueue"
ADMITTED: Final = frozenset({INQUEUE, "Running"})
"""Phases of PodGroups that have passed the gate."""

_EVERYWHERE: Final = frozenset({"cpu", "memory", "ephemeral-storage"})


DEFAULT: Final = "default"
"""The queue of whoever names none."""


class _Group(NamedTuple):
    name: str
    queue: str


class Lack(NamedTuple):
    """A resource of which too little is left: what was asked, what is left, and the limit it is left of (nano units).

    ``queue`` is whose limit it is; empty for the whole cluster's. ``by_weight`` says that it is the queue's share
    beside other queues that ask, too, and not its capability.
    """

    resource: str
    asked: int
    left: int
    limit: int
    queue: str = ""
    by_weight: bool = False

    def __str__(self) -> str:
        asked, left, limit = (_shown(self.resource, nano) for nano in (self.asked, max(self.left, 0), self.limit))
        holder = f"queue {self.queue}" if self.queue else "the cluster"
        holder = f"{holder} (share by weight)" if self.by_weight else holder
        return f"{self.resource}: asks {asked}, {holder} has {left} of {limit} left"


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """One queue: the most it may hold, what its pods hold, what let-in gangs wait for, and what is held above minima.

    ``share`` is what it may hold while other queues ask, too; ``None`` where nobody has worked it out.
    """

    queue: str
    weight: int
    guarantee: Amounts
    limit: Amounts
    held: Amounts
    waited_for: Amounts
    elastic: Amounts
    share: Amounts | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """Who has been let in.

    ``most`` is what the whole cluster may give and promise together, ``used`` what anybody holds, ``waited_for``
    what gangs that were let in still wait for. ``by_weight`` says that queues are held to shares by weight (plugin
    ``proportion``); otherwise they may borrow what others leave (plugin ``capacity``).
    """

    by_weight: bool
    total: Amounts
    most: Amounts
    used: Amounts
    waited_for: Amounts
    accounts: Mapping[str, Account]

    def objections(self, queue: str, least: Amounts) -> tuple[Lack, ...]:
        """Why a gang that needs ``least`` is held back: the cluster's reasons, else the queue's."""
        cluster: list[Lack] = []
        for resource, amount in self._judged(least):
            most = self.most.get(resource, 0)
            left = most - self.used.get(resource, 0) - self.waited_for.get(resource, 0)
            if amount > left:
                cluster.append(Lack(resource, amount, left, most))
        account = self.accounts.get(queue)
        if cluster or account is None:
            return tuple(cluster)
        return tuple(_over(account, self._judged(least), with_waiting=True))

    def let_in(self, queue: str, least: Amounts) -> Gate:
        """The gate after a gang passed it."""
        account = self.accounts.get(queue)
        accounts = self.accounts
        if account is not None:
            accounts = {**accounts, queue: replace(account, waited_for=plus(account.waited_for, least))}
        return replace(self, waited_for=plus(self.waited_for, least), accounts=accounts)

    def divided(self, asked: Mapping[str, Amounts]) -> Gate:
        """The gate with the shares of queues whose pods ask for so much beyond what they hold."""
        if not self.by_weight:
            return self
        claims = [
            Claim(name, account.weight, plus(account.held, asked.get(name, {})), account.limit, account.guarantee)
            for name, account in self.accounts.items()
            if account.held or asked.get(name)
        ]
        shares = divided(claims, self.total)
        accounts = {name: replace(account, share=shares.get(name)) for name, account in self.accounts.items()}
        return replace(self, accounts=accounts)

    def overdrawn(self, queue: str, requests: Amounts) -> tuple[Lack, ...]:
        """Why a queue may not hold one more pod, whatever was let in."""
        account = self.accounts.get(queue)
        if account is None:
            return ()
        judged = self._judged(requests)
        return tuple(_over(account, judged, with_waiting=False)) or tuple(_beyond_share(account, judged))

    def portion(self, queue: str) -> float:
        """How much of its share a queue holds, by the resource of which it holds most; 1 where it has none of it."""
        account = self.accounts.get(queue)
        if account is None:
            return 0.0
        share = account.limit if account.share is None else account.share
        return max((_part(account.held.get(resource, 0), amount) for resource, amount in share.items()), default=0.0)

    def given(self, queue: str, requests: Amounts) -> Gate:
        """The gate after a pod of a queue got its place."""
        account = self.accounts.get(queue)
        if account is None:
            return self
        return replace(self, accounts={**self.accounts, queue: replace(account, held=plus(account.held, requests))})

    def _judged(self, requests: Amounts) -> Iterable[tuple[str, int]]:
        """What is compared; of what every real node has, a listing without it says nothing."""
        return [
            (resource, amount)
            for resource, amount in requests.items()
            if amount > 0 and (resource in self.most or resource not in _EVERYWHERE)
        ]


def gate_of(snapshot: ClusterSnapshot) -> Gate | None:
    """The gate as the cluster is, or ``None`` when the listing has no queues, so that nobody knows of one."""
    if not snapshot.queues:
        return None
    total = _total(snapshot.nodes)
    held = _held_by_group(snapshot)
    waiting = [group for group in snapshot.pod_groups.values() if group.phase == INQUEUE and group.min_resources]
    return Gate(
        by_weight=not any(amount > 0 for queue in snapshot.queues.values() for amount in queue.deserved.values()),
        total=total,
        most={resource: int(amount * OVERCOMMIT) for resource, amount in total.items()},
        used=_sum(entry.requested for entry in snapshot.nodes),
        waited_for=_sum(plain(group.min_resources or {}) for group in waiting),
        accounts={queue.name: _account(queue, snapshot, total, held) for queue in snapshot.queues.values()},
    )


def plain(requests: Amounts) -> dict[str, int]:
    """Of a PodGroup's ``minResources`` what is compared: the list repeats itself under the names of quotas."""
    return {
        resource: amount
        for resource, amount in requests.items()
        if resource != "pods" and not resource.startswith(("count/", "requests.", "limits."))
    }


def plus(one: Amounts, other: Amounts) -> dict[str, int]:
    """Both amounts together."""
    return {resource: one.get(resource, 0) + other.get(resource, 0) for resource in (*one, *other)}


def words(lacks: Iterable[Lack]) -> str:
    """Volcano's event on the PodGroup; it says nothing of shares."""
    listed = list(lacks)
    if any(lack.by_weight for lack in listed):
        return ""
    names = sorted(lack.resource for lack in listed)
    if listed and listed[0].queue:
        return f"queue resource quota insufficient: {', '.join(f'insufficient {name}' for name in names)}"
    return f"resource in cluster is overused: {', '.join(f'overused {name}' for name in names)}"


def _total(nodes: Iterable[NodeEntry]) -> dict[str, int]:
    """What the nodes have in all; of what every node has, only if every node says so."""
    listed = list(nodes)
    total: dict[str, int] = {}
    for entry in listed:
        for resource, amount in entry.facts.allocatable.items():
            total[resource] = total.get(resource, 0) + amount.nano
    for resource in _EVERYWHERE:
        if not all(resource in entry.facts.allocatable for entry in listed):
            total.pop(resource, None)
    return total


def _account(queue: Queue, snapshot: ClusterSnapshot, total: Amounts, held: Mapping[_Group, Amounts]) -> Account:
    """A queue as it is. It may hold the cluster less what others are guaranteed, and at most its own capability."""
    others = _sum(other.guarantee for other in snapshot.queues.values() if other.name != queue.name)
    limit: dict[str, int] = {}
    for resource, amount in total.items():
        left = max(amount - others.get(resource, 0), queue.guarantee.get(resource, 0))
        limit[resource] = min(left, _cap(queue, resource, amount))
    groups = {name: group for name, group in snapshot.pod_groups.items() if group.queue == queue.name}
    of_queue = {group.name: amounts for group, amounts in held.items() if group.queue == queue.name}
    least = {name: plain(group.min_resources or {}) for name, group in groups.items()}
    return Account(
        queue=queue.name,
        weight=max(queue.weight, 1),
        guarantee=queue.guarantee,
        limit=limit,
        held=_sum(of_queue.values()),
        waited_for=_sum(least[name] for name, group in groups.items() if group.phase == INQUEUE),
        elastic=_sum(_above(amounts, least[name]) for name, amounts in of_queue.items() if name in least),
    )


def _cap(queue: Queue, resource: str, amount: int) -> int:
    """A capability of 0 CPU or memory means none is set; one that does not name a resource leaves it open."""
    cap = queue.capability.get(resource)
    return amount if cap is None or (cap <= 0 and resource in {"cpu", "memory"}) else cap


def _held_by_group(snapshot: ClusterSnapshot) -> dict[_Group, dict[str, int]]:
    """What the pods of each PodGroup hold; a pod that is being deleted holds nothing for it."""
    held: dict[_Group, dict[str, int]] = {}
    for entry in snapshot.nodes:
        for record in entry.pods:
            if record.group and not record.terminating:
                name = f"{record.namespace}/{record.group}"
                known = snapshot.pod_groups.get(name)
                group = _Group(name, known.queue if known is not None else record.queue or DEFAULT)
                held[group] = plus(held.get(group, {}), requests_of(record))
    return held


def requests_of(pod: Pod | PodRecord) -> dict[str, int]:
    """What a pod counts for; how many pods there are does not matter to queues."""
    return dict(pod.requests if isinstance(pod, PodRecord) else pod.constraints.requests)


def _shown(resource: str, nano: int) -> str:
    """An amount as people write it: whole devices and MiB as they are, the rest as Kubernetes does."""
    if "/" in resource:
        return f"{nano / NANO:g}" if nano % NANO else str(nano // NANO)
    return quantity.canonical(nano, binary=resource != "cpu")


def _over(account: Account, requests: Iterable[tuple[str, int]], *, with_waiting: bool) -> Iterable[Lack]:
    for resource, amount in requests:
        limit = account.limit.get(resource, 0)
        taken = account.held.get(resource, 0)
        if with_waiting:
            taken += account.waited_for.get(resource, 0) - account.elastic.get(resource, 0)
        if amount + taken > limit:
            yield Lack(resource, amount, limit - taken, limit, account.queue)


def _part(held: int, share: int) -> float:
    return held / share if share else float(held > 0)


def _beyond_share(account: Account, requests: Iterable[tuple[str, int]]) -> Iterable[Lack]:
    if account.share is None:
        return
    for resource, amount in requests:
        share, held = account.share.get(resource, 0), account.held.get(resource, 0)
        if amount + held > share:
            yield Lack(resource, amount, share - held, share, account.queue, by_weight=True)


def _above(held: Amounts, least: Amounts) -> dict[str, int]:
    return {resource: over for resource, amount in held.items() if (over := amount - least.get(resource, 0)) > 0}


def _sum(parts: Iterable[Amounts]) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        total = plus(total, part)
    return total
