"""Volcano's enqueue admission: which gangs are admitted, and how much a queue may hold (``trials.md`` V18).

Amounts are plain requests in nano units, not what a pod really takes of cards: a pod with two cards counts its memory
once, a pod without memory counts none. So does Volcano 1.14.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from hami_plugins.model.cluster import PodGroup
from hami_plugins.model.pods import Pod, PodRecord
from hami_plugins.model.quantity import NANO
from hami_plugins.queueing.shares import QueueDemand, divided
from hami_plugins.wire import quantity

Amounts = Mapping[str, int]


INQUEUE: Final = "Inqueue"
RUNNING: Final = "Running"
ADMITTED: Final = frozenset({INQUEUE, RUNNING})
"""Phases of enqueued PodGroups."""

EVERYWHERE: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
"""Resources of every real node, even if a listing omits them."""

DEFAULT: Final = "default"
"""The queue of jobs that name none."""


class QueueSortKey(NamedTuple):
    """The sort key of queues: whose turn it is.

    ``parts`` are what a queue holds of its share, and whether it has none; where limits are nested, one pair for each
    queue from the top down to it.
    """

    rank: int = 0
    parts: tuple[tuple[float, bool], ...] = ()
    made_at: int = 0
    queue: str = ""


class QueueShortage(NamedTuple):
    """A resource of which too little is left: what was asked, what is left, and the limit it is left of (nano units).

    ``queue`` is the limited queue; empty for the whole cluster. ``by_weight``: the limit is the queue's share next to
    other requesting queues, and not its capability. Of the limit, pods hold ``allocated``; enqueued gangs wait for
    ``inqueue``; ``elastic`` is held beyond the gangs' needs, and does not count.
    """

    resource: str
    asked: int
    left: int
    limit: int
    queue: str = ""
    by_weight: bool = False
    allocated: int = 0
    inqueue: int = 0
    elastic: int = 0

    @property
    def missing(self) -> int:
        """How much more would have to be left."""
        return self.asked - self.left

    def __str__(self) -> str:
        asked, left, limit = (_grouped(self.resource, nano) for nano in (self.asked, max(self.left, 0), self.limit))
        return f"{self.resource}: asks {asked}, {self.holder} has {left} of {limit} left{self._sums()}"

    @property
    def holder(self) -> str:
        """The name of the limited queue, for messages."""
        whose = f"queue {self.queue}" if self.queue else "the cluster (with overcommit)"
        return f"{whose} (share by weight)" if self.by_weight else whose

    def _sums(self) -> str:
        parts = (("allocated", self.allocated), ("inqueue", self.inqueue), ("of it elastic", self.elastic))
        said = [f"{_grouped(self.resource, amount)} {word}" for word, amount in parts if amount]
        return f" ({', '.join(said)})" if said else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueUsage:
    """One queue: the most it may hold, what its pods hold, what let-in gangs wait for, and what is held above minima.

    ``share`` is the amount it may hold while other queues request as well; ``None`` if not computed. ``deserved``
    decides whose turn it is if queues may borrow. ``parent`` is the queue whose limit also applies; empty for none.
    Queues of higher ``priority`` come first, and among equals those that were ``made_at`` an earlier time (Unix
    seconds).
    """

    queue: str
    weight: int
    guarantee: Amounts
    limit: Amounts
    held: Amounts
    waited_for: Amounts
    elastic: Amounts
    share: Amounts | None = None
    deserved: Amounts
    parent: str
    priority: int
    made_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EnqueueAdmission:
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
    accounts: Mapping[str, QueueUsage]

    def objections(self, queue: str, least: Amounts) -> tuple[QueueShortage, ...]:
        """Why a gang that needs ``least`` is held back: the cluster's reasons, else the queue's."""
        cluster: list[QueueShortage] = []
        for resource, amount in self._judged(least):
            most = self.most.get(resource, 0)
            left = most - self.used.get(resource, 0) - self.waited_for.get(resource, 0)
            if amount > left:
                taken, waiting = self.used.get(resource, 0), self.waited_for.get(resource, 0)
                cluster.append(QueueShortage(resource, amount, left, most, allocated=taken, inqueue=waiting))
        if cluster:
            return tuple(cluster)
        return self._first(queue, self._judged(least), with_waiting=True)

    def let_in(self, queue: str, least: Amounts) -> EnqueueAdmission:
        """The gate after a gang passed it."""
        accounts = {
            account.queue: replace(account, waited_for=plus(account.waited_for, least)) for account in self._line(queue)
        }
        return replace(self, waited_for=plus(self.waited_for, least), accounts={**self.accounts, **accounts})

    def divided(self, asked: Mapping[str, Amounts]) -> EnqueueAdmission:
        """The gate with the shares of queues whose pods ask for so much beyond what they hold."""
        if not self.by_weight:
            return self
        claims = [
            QueueDemand(name, account.weight, plus(account.held, asked.get(name, {})), account.limit, account.guarantee)
            for name, account in self.accounts.items()
            if account.held or asked.get(name)
        ]
        shares = divided(claims, self.total)
        accounts = {name: replace(account, share=shares.get(name)) for name, account in self.accounts.items()}
        return replace(self, accounts=accounts)

    def overdrawn(self, queue: str, requests: Amounts) -> tuple[QueueShortage, ...]:
        """Why a queue may not hold one more pod, whatever was let in."""
        account = self.accounts.get(queue)
        if account is None:
            return ()
        judged = self._judged(requests)
        return self._first(queue, judged, with_waiting=False) or tuple(_beyond_share(account, judged))

    def turn(self, queue: str) -> QueueSortKey:
        """Which queue comes first: its priority, then how much of its share it holds, then age and name.

        That is by the resource of which it holds most; 1 where it has no share of what it holds. Where queues may
        borrow, the share is what they deserve, and a queue that deserves nothing comes as one that holds all of it,
        after those that do (``updateQueueAttrShare`` of the plugin ``capacity``, 1.14.1).
        """
        account = self.accounts.get(queue)
        if account is None:
            return QueueSortKey(queue=queue)
        parts = tuple(self._part(each) for each in reversed(self._line(queue)))
        return QueueSortKey(-account.priority, parts, account.made_at, queue)

    def _part(self, account: QueueUsage) -> tuple[float, bool]:
        if self.by_weight:
            share = account.limit if account.share is None else account.share
        else:
            share = account.deserved
            if not any(share.values()):
                return 1.0, True
        return max((_part(account.held.get(name, 0), amount) for name, amount in share.items()), default=0.0), False

    def given(self, queue: str, requests: Amounts) -> EnqueueAdmission:
        """The gate after a pod of a queue got its place."""
        accounts = {account.queue: replace(account, held=plus(account.held, requests)) for account in self._line(queue)}
        return replace(self, accounts={**self.accounts, **accounts})

    def _line(self, queue: str) -> list[QueueUsage]:
        """The account of a queue and those of the queues above it."""
        line: list[QueueUsage] = []
        account = self.accounts.get(queue)
        while account is not None and account not in line:
            line.append(account)
            account = self.accounts.get(account.parent)
        return line

    def _first(
        self, queue: str, requests: Sequence[tuple[str, int]], *, with_waiting: bool
    ) -> tuple[QueueShortage, ...]:
        """The shortage of the first queue that has too little: the queue itself, else those above it."""
        for account in self._line(queue):
            shortages = tuple(_over(account, requests, with_waiting=with_waiting))
            if shortages:
                return shortages
        return ()

    def _judged(self, requests: Amounts) -> list[tuple[str, int]]:
        """What is compared; of what every real node has, a listing without it says nothing."""
        return [
            (resource, amount)
            for resource, amount in requests.items()
            if amount and (resource in self.most or resource not in EVERYWHERE)
        ]


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


def minus(one: Amounts, other: Amounts) -> dict[str, int]:
    """Of the first what the second leaves; what is used up is not named."""
    return {resource: over for resource, amount in one.items() if (over := amount - other.get(resource, 0)) > 0}


def summed(parts: Iterable[Amounts]) -> dict[str, int]:
    """All amounts together."""
    total: dict[str, int] = {}
    for part in parts:
        for resource, amount in part.items():
            total[resource] = total.get(resource, 0) + amount
    return total


def shown(resource: str, nano: int) -> str:
    """An amount as people write it: whole devices and MiB as they are, the rest as Kubernetes does."""
    if "/" in resource:
        return f"{nano / NANO:g}" if nano % NANO else str(nano // NANO)
    return quantity.canonical(nano, binary=resource != "cpu")


def _grouped(resource: str, nano: int) -> str:
    """The same in a sentence: digits in groups of three."""
    if "/" in resource:
        return f"{nano / NANO:,.2f}".rstrip("0").rstrip(".") if nano % NANO else f"{nano // NANO:,}"
    return shown(resource, nano)


def words(shortages: Sequence[QueueShortage]) -> str:
    """Volcano's event on the PodGroup because of one limit; it does not mention shares."""
    first = shortages[0]
    if first.by_weight:
        return ""
    names = sorted(shortage.resource for shortage in shortages)
    if first.queue:
        return f"queue resource quota insufficient: {', '.join(f'insufficient {name}' for name in names)}"
    return f"resource in cluster is overused: {', '.join(f'overused {name}' for name in names)}"


def requests_of(pod: Pod | PodRecord) -> dict[str, int]:
    """What a pod counts for; how many pods there are does not matter to queues."""
    return dict(pod.requests if isinstance(pod, PodRecord) else pod.constraints.requests)


def queue_of(record: PodRecord, pod_groups: Mapping[str, PodGroup]) -> str:
    """The queue of a pod that Volcano schedules: its PodGroup's, where that is known."""
    known = pod_groups.get(record.full_group)
    return known.queue if known is not None else record.queue or DEFAULT


def _over(account: QueueUsage, requests: Iterable[tuple[str, int]], *, with_waiting: bool) -> Iterable[QueueShortage]:
    for resource, amount in requests:
        limit, held = account.limit.get(resource, 0), account.held.get(resource, 0)
        waiting = account.waited_for.get(resource, 0) if with_waiting else 0
        elastic = account.elastic.get(resource, 0) if with_waiting else 0
        left = limit - held - waiting + elastic
        if amount > left:
            yield QueueShortage(
                resource,
                amount,
                left,
                limit,
                account.queue,
                allocated=held,
                inqueue=waiting,
                elastic=elastic,
            )


def _part(held: int, share: int) -> float:
    return held / share if share else float(bool(held))


def _beyond_share(account: QueueUsage, requests: Iterable[tuple[str, int]]) -> Iterable[QueueShortage]:
    """The shortages of the share, for requests within the limit: a share names every resource of a limit."""
    if account.share is None:
        return
    for resource, amount in requests:
        share, held = account.share[resource], account.held.get(resource, 0)
        if amount + held > share:
            yield QueueShortage(resource, amount, share - held, share, account.queue, by_weight=True, allocated=held)
