"""Changes with which Volcano would enqueue a gang, each the least of its kind.

The cheapest come first. What a change costs:

* a PodGroup that can never run goes: 0.25, because nothing is lost;
* a PodGroup asks for less: 0.5 and the part of it that is given up;
* a queue's capability is raised, or another's guarantee lowered: 1, and up to 1 more by how much;
* a PodGroup that waits goes: 1.5;
* one that runs goes: 2, and up to 1 more by how much of the limit it holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias, assert_never

from hami_plugins.engine.apply import without_pods
from hami_plugins.model.cluster import ClusterSnapshot, Queue
from hami_plugins.model.quantity import NANO
from hami_plugins.queueing.queues import QueueShortage
from hami_plugins.suggest.cost import GOING, QUOTA, VICTIM, WISH
from hami_plugins.wire.gang_keys import GROUP_KEY

WAITING: Final = 1.5
"""What it costs that a PodGroup goes which waits and could run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InTheWay:
    """A PodGroup that takes part of what a gang lacks; ``never`` says that it can never run, ``runs`` that it does.

    ``takes`` is what it counts for, by resource (nano units), whether its pods hold it or wait for it; ``part`` is how
    much of the limit that is.
    """

    group: str
    never: bool
    runs: bool
    takes: tuple[tuple[str, int], ...]
    part: float

    def gives(self, shortages: Sequence[QueueShortage]) -> bool:
        """Whether it takes as much of everything as is missing."""
        return _give([self], shortages)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A PodGroup goes, with its pods."""

    group: str
    never: bool
    runs: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrunk:
    """A PodGroup is let in for less of a resource (nano units)."""

    group: str
    resource: str
    before: int
    after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RaisedCapability:
    """A queue may hold more of a resource (nano units)."""

    queue: str
    resource: str
    before: int
    after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LoweredGuarantee:
    """A queue is guaranteed less of a resource (nano units)."""

    queue: str
    resource: str
    before: int
    after: int


GateChange: TypeAlias = LeftOut | Shrunk | RaisedCapability | LoweredGuarantee


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """Changes that may be enough together, and what they cost."""

    changes: tuple[GateChange, ...]
    cost: float


def proposals(
    snapshot: ClusterSnapshot, shortages: Sequence[QueueShortage], holders: Sequence[InTheWay]
) -> tuple[Proposal, ...]:
    """What may help a gang that lacks so much, the cheapest first. Nothing of it has been tried yet.

    Where no single PodGroup is enough, as many as it takes go together: those first that can never run.
    """
    found = [*_raised(snapshot, shortages), *_lowered(snapshot, shortages)]
    for holder in holders:
        if holder.gives(shortages):
            found.append(_left_out([holder]))
        if not holder.runs:
            found += _shrunk(holder, shortages)
    found += _several(holders, shortages)
    return tuple(sorted(found, key=lambda proposal: (proposal.cost, len(proposal.changes))))


def applied(snapshot: ClusterSnapshot, changes: Iterable[GateChange]) -> ClusterSnapshot:
    """The cluster after these changes."""
    for change in changes:
        match change:
            case LeftOut():
                snapshot = _without(snapshot, change.group)
            case Shrunk(group=name, resource=resource, after=after):
                group = snapshot.pod_groups[name]
                least = {**(group.min_resources or {}), resource: after}
                snapshot = replace(
                    snapshot, pod_groups={**snapshot.pod_groups, name: replace(group, min_resources=least)}
                )
            case RaisedCapability(queue=name, resource=resource, after=after):
                queue = snapshot.queues[name]
                snapshot = _with(snapshot, replace(queue, capability={**queue.capability, resource: after}))
            case LoweredGuarantee(queue=name, resource=resource, after=after):
                queue = snapshot.queues[name]
                snapshot = _with(snapshot, replace(queue, guarantee={**queue.guarantee, resource: after}))
            case _ as unreachable:
                assert_never(unreachable)
    return snapshot


def _with(snapshot: ClusterSnapshot, queue: Queue) -> ClusterSnapshot:
    return replace(snapshot, queues={**snapshot.queues, queue.name: queue})


def _without(snapshot: ClusterSnapshot, name: str) -> ClusterSnapshot:
    namespace, _, short = name.partition("/")
    return replace(
        snapshot,
        nodes=tuple(
            without_pods(entry, lambda record: (record.namespace, record.group) == (namespace, short))
            for entry in snapshot.nodes
        ),
        pending=tuple(
            pod for pod in snapshot.pending if (pod.namespace, pod.annotations.get(GROUP_KEY)) != (namespace, short)
        ),
        pod_groups={key: group for key, group in snapshot.pod_groups.items() if key != name},
    )


def _several(holders: Sequence[InTheWay], shortages: Sequence[QueueShortage]) -> Iterator[Proposal]:
    """As many of those that do not run as it takes, those first that can never run."""
    ordered = [each for each in holders if each.never] + [each for each in holders if not each.never and not each.runs]
    for count in range(2, len(ordered) + 1):
        if _give(ordered[:count], shortages):
            yield _left_out(ordered[:count])
            return


def _give(holders: Sequence[InTheWay], shortages: Sequence[QueueShortage]) -> bool:
    taken = [dict(holder.takes) for holder in holders]
    return all(sum(each.get(shortage.resource, 0) for each in taken) >= shortage.missing for shortage in shortages)


def _left_out(holders: Sequence[InTheWay]) -> Proposal:
    costs = (GOING if each.never else VICTIM + min(each.part, 1) if each.runs else WAITING for each in holders)
    return Proposal(
        changes=tuple(LeftOut(group=each.group, never=each.never, runs=each.runs) for each in holders),
        cost=sum(costs),
    )


def _shrunk(holder: InTheWay, shortages: Sequence[QueueShortage]) -> Iterator[Proposal]:
    """The group asks for just so much less of what is lacking, whole devices where devices are counted."""
    takes = dict(holder.takes)
    changes: list[GateChange] = []
    given_up = 0.0
    for shortage in shortages:
        before = takes.get(shortage.resource, 0)
        after = before - _whole(shortage.resource, shortage.missing)
        if after <= 0:
            return
        changes.append(Shrunk(group=holder.group, resource=shortage.resource, before=before, after=after))
        given_up = max(given_up, 1 - after / before)
    yield Proposal(changes=tuple(changes), cost=WISH + given_up)


def _raised(snapshot: ClusterSnapshot, shortages: Sequence[QueueShortage]) -> Iterator[Proposal]:
    """The capability of the queue that lacks something, if that is what limits it."""
    changes: list[GateChange] = []
    grown = 0.0
    for shortage in shortages:
        queue = snapshot.queues.get(shortage.queue)
        before = None if queue is None or shortage.by_weight else queue.capability.get(shortage.resource)
        if before is None:
            return
        after = before + _whole(shortage.resource, shortage.missing)
        changes.append(RaisedCapability(queue=shortage.queue, resource=shortage.resource, before=before, after=after))
        grown = max(grown, 1 - before / after)
    yield Proposal(changes=tuple(changes), cost=QUOTA + grown)


def _lowered(snapshot: ClusterSnapshot, shortages: Sequence[QueueShortage]) -> Iterator[Proposal]:
    """What one other queue is guaranteed of what the queue lacks."""
    for other in snapshot.queues.values():
        changes: list[GateChange] = []
        lost = 0.0
        for shortage in shortages:
            before = other.guarantee.get(shortage.resource, 0)
            after = before - _whole(shortage.resource, shortage.missing)
            if not shortage.queue or shortage.by_weight or other.name == shortage.queue or after < 0:
                break
            changes.append(LoweredGuarantee(queue=other.name, resource=shortage.resource, before=before, after=after))
            lost = max(lost, 1 - after / before)
        else:
            yield Proposal(changes=tuple(changes), cost=QUOTA + lost)


def _whole(resource: str, amount: int) -> int:
    """An amount rounded up to whole devices or MiB."""
    return -(-amount // NANO) * NANO if "/" in resource else amount
