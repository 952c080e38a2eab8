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
from hami_plugins.allocator.victim_planner import PlannedEvictions, VictimPlanner
from hami_plugins.engine.intake import PodInfo
from hami_plugins.model.pods import PodRecord
from hami_plugins.model.units import NodeName, PodUid
from hami_plugins.preemption.values import NoVictims
from hami_plugins.wire import pods
from hami_plugins.wire.fields import Json

Victims = Mapping[NodeName, Sequence[PodUid]]

LONGEST: Final = 7_200.0
"""Seconds for which the room is kept at most while victims leave: longer than any grace period that is usual."""

_TRIES: Final = 3
"""Searches where nodes have changed meanwhile."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class KubePreemption:
    """Safe to call from any thread."""

    cache: LockedAllocationCache
    planner: VictimPlanner

    def chosen(self, intake: PodInfo, raw: Json, candidates: Victims) -> Victims:
        """The pods to evict on one of these nodes; empty if no pod is to be evicted now.

        A pod for which room is kept waits for that. Victims that hold no devices are known to the scheduler alone, and
        stay named on their node; so do all where it may have chosen them for another reason than sums. ``raw`` is the
        pod as the scheduler sent it.
        """
        if self.cache.nomination(intake.pod.uid) is not None:
            return {}
        for _ in range(_TRIES):
            records = self.cache.records(candidates)
            known = {node: [records[uid] for uid in uids if uid in records] for node, uids in candidates.items()}
            stays = _counts_more_than_sums(intake, raw, records.values())
            found = self._planned(intake, known, fixed=stays)
            if isinstance(found, NoVictims):
                _log.info("no_victims", pod=intake.pod.full_name, why=found.why)
                return {}
            node = found.plan.places[0][1].node
            named = [uid for uid in candidates[node] if stays or uid not in records]
            uids = [victim.pod.uid for victim in found.plan.victims]
            if not (uids or named):
                return {}
            if self.planner.nominate(found, lasting=LONGEST):
                return {node: [*uids, *named]}
        return {}

    def _planned(
        self, intake: PodInfo, known: Mapping[NodeName, Sequence[PodRecord]], *, fixed: bool
    ) -> PlannedEvictions | NoVictims:
        """With ``fixed`` the known victims leave in any case; otherwise others that give back as much are as good."""
        if fixed:
            gone = frozenset(record.uid for records in known.values() for record in records)
            return self.planner.plan([intake], known, gone=gone)
        return self.planner.plan([intake], known, idle={node: _idle(intake, each) for node, each in known.items()})


def _idle(intake: PodInfo, victims: Iterable[PodRecord]) -> dict[str, int]:
    """Resources that the scheduler must keep free on a node, given that its own victims free the rest (nano units)."""
    freed: dict[str, int] = {}
    for record in victims:
        for name, amount in record.requests:
            freed[name] = freed.get(name, 0) + amount
    return {name: max(amount - freed.get(name, 0), 0) for name, amount in intake.pod.constraints.requests}


def _counts_more_than_sums(intake: PodInfo, raw: Json, records: Iterable[PodRecord]) -> bool:
    """Whether other pods of a node matter to the scheduler for more than what they request."""
    return any(intake.pod.neighbours) or pods.takes_host_ports(raw) or any(record.apart for record in records)
