"""Places for pods that do not fit, made by evicting others: what a cycle asks, and what it is answered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from hami_plugins.engine.intake import PodInfo
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.decisions import Placed
from hami_plugins.queueing import gangs
from hami_plugins.queueing.jobs import JobMember, QueuedJob
from hami_plugins.queueing.queues import EnqueueAdmission


class RoomRequest(NamedTuple):
    """Pods that start together and do not fit, the cluster on which they do not, and the usage of its queues."""

    snapshot: ClusterSnapshot
    infos: Sequence[PodInfo]
    gate: EnqueueAdmission | None


class MadeRoom(NamedTuple):
    """Where each of the pods goes once others have left, the cluster then, and the usage of its queues."""

    places: tuple[Placed, ...]
    after: ClusterSnapshot
    usage: EnqueueAdmission | None


Evictor: TypeAlias = Callable[[RoomRequest], MadeRoom | None]
"""Finds victims; ``None`` where no allowed eviction makes room for all the pods."""


def needed(job: QueuedJob) -> list[JobMember]:
    """The members without which a gang cannot start, in the order in which they are tried.

    None for a gang that would need some of very many replicas: a search for so many victims would not end.
    """
    have, found = job.have.copy(), list[JobMember]()
    members = list(job.members)
    for turn in gangs.turns([(member.task, member.count) for member in members], job.need, have):
        if not gangs.missing(job.need, have):
            break
        member = members[turn.at]
        if member.count > 1:
            return []
        found.append(member)
        have[member.task] += 1
    return found
