"""The pods that kube-scheduler evicts: it counts node sums, and the devices of its victims may be the wrong ones.

It asks about nodes on which its own victims would be enough for the sums, and evicts exactly what the answer names
(Kubernetes 1.34 ``pkg/scheduler/framework/preemption``, ``extender.go``). The answer has one node, so that its room can
be kept before anybody is evicted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from hami_plugins.allocator.locked_cache import LockedAllocationCache
from hami_plugins.allocator.victim_planner import VictimPlanner
from hami_plugins.engine.intake import PodInfo
from hami_plugins.model.pods import PodRecord
from hami_plugins.model.units import NodeName, PodUid
from hami_plugins.preemption.values import NoVictims

Victims = Mapping[NodeName, Sequence[PodUid]]

LONGEST: Final = 7_200.0
"""Seconds for which the room is kept at most while victims leave: longer than any grace period that is usual."""

_TRIES: Final = 3
"""Searches where nodes have changed meanwhile."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class KubePreemption:
    """Safe to call from any thread."""

    books: LockedAllocationCache
    planner: VictimPlanner

    def chosen(self, intake: PodInfo, candidates: Victims) -> Victims:
        """The pods to evict on one of these nodes; nothing where nobody is to be evicted now.

        A pod for which room is kept waits for that. Victims that hold no devices are known to the scheduler alone, and
        stay named on their node.
        """
        if self.books.nomination(intake.pod.uid) is not None:
            return {}
        for _ in range(_TRIES):
            records = self.books.records(candidates)
            idle: dict[NodeName, Mapping[str, int]] = {}
            for node, uids in candidates.items():
                known = [records[uid] for uid in uids if uid in records]
                if not known or _gives_back(known, intake):
                    idle[node] = _idle(intake, known)
            found = self.planner.plan([intake], idle, idle)
            if isinstance(found, NoVictims):
                _log.info("no_victims", pod=intake.pod.full_name, why=found.why)
                return {}
            node = found.plan.places[0][1].node
            uids = [victim.pod.uid for victim in found.plan.victims]
            unknown = [uid for uid in candidates[node] if uid not in records]
            if not (uids or unknown):
                return {}
            if self.planner.nominate(found, lasting=LONGEST):
                return {node: [*uids, *unknown]}
        return {}


def _idle(intake: PodInfo, victims: Iterable[PodRecord]) -> dict[str, int]:
    """What the scheduler must have left of a node, as it gets the rest from its own victims (nano units).

    Others that give back as much are as good to it.
    """
    freed = _freed(victims)
    return {name: max(amount - freed.get(name, 0), 0) for name, amount in intake.pod.constraints.requests}


def _gives_back(victims: Iterable[PodRecord], intake: PodInfo) -> bool:
    """Whether victims are named for what the pod requests, and not for another reason (a port, anti-affinity)."""
    freed = _freed(victims)
    return any(freed.get(name) for name, amount in intake.pod.constraints.requests if amount)


def _freed(victims: Iterable[PodRecord]) -> dict[str, int]:
    freed: dict[str, int] = {}
    for record in victims:
        for name, amount in record.requests:
            freed[name] = freed.get(name, 0) + amount
    return freed
