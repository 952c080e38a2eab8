"""Who would be evicted for the pods of a plan, by which rules, and what becomes of the victims."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Final

from hami_plugins.engine.apply import with_pod
from hami_plugins.engine.bounds import RequestBounds
from hami_plugins.engine.decide import Decider, PodDemand
from hami_plugins.engine.device_names import allocated
from hami_plugins.engine.holdings import demand_again
from hami_plugins.engine.intake import PodInfo
from hami_plugins.inputs.workloads.pods import VOLCANO
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.decisions import Placed
from hami_plugins.model.pods import NodeConstraints, Pod, PodRecord
from hami_plugins.model.policy import DEFAULT_POLICY
from hami_plugins.model.units import NodeName
from hami_plugins.model.verdicts import Fit
from hami_plugins.preemption.grounds import Ground
from hami_plugins.preemption.search import VictimSearch
from hami_plugins.preemption.values import EvictedPod, EvictionPlan, NoVictims
from hami_plugins.queueing.evictions import MadeRoom, RoomRequest
from hami_plugins.queueing.stages import PodPlan
from hami_plugins.wire.gang_keys import GROUP_KEY, QUEUE_KEY

ALONE: Final = (
    "the evictions are those of the allocator: {} alone evicts by sums of a node and not by devices, "
    "so it may evict other pods or none"
)
"""The scheduler's behaviour without the allocator (Volcano 1.14 to 1.16, kube-scheduler 1.34)."""

ENQUEUE: Final = ", and with its action enqueue it evicts none for a gang that is not enqueued"


MOST_FOLLOWED: Final = 64
"""Victims of one plan for which it is worked out whether they find a place again."""


CLAIMED: Final = "for pods with claims no evictions are worked out"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedVictim:
    """A pod that would be evicted: by which rules, and the node that takes it again afterwards, ``None`` for none.

    The latter is known of what it holds alone: its selectors and tolerations are not. It is worked out only for those
    that are ``followed``.
    """

    pod: PodRecord
    node: NodeName
    grounds: tuple[Ground, ...]
    again: NodeName | None = None
    followed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanEvictions:
    """Evictions that make room for one pod, or for a gang.

    ``places`` are the pods with the places that they get. ``ending`` are pods that leave their nodes anyway. ``cut``
    says that the search was given up, so that fewer victims may be enough.
    """

    places: tuple[tuple[Pod, Placed], ...]
    victims: tuple[PlannedVictim, ...]
    ending: tuple[EvictedPod, ...] = ()
    cut: bool

    @property
    def nodes(self) -> tuple[NodeName, ...]:
        """The nodes whose pods change, by name."""
        named = {placed.node for _, placed in self.places}
        return tuple(sorted(named.union(victim.node for victim in self.victims)))


class PlanEvictor:
    """Finds victims in the turns of one plan, and keeps what it found. Equal requests on one cluster are asked once."""

    def __init__(self, search: VictimSearch, decider: Decider) -> None:
        self._search = search
        self._decider = decider
        self._found: list[PlanEvictions] = []
        self._evictors: set[str] = set()
        self._evicted: dict[str, str] = {}
        """The full names of pods for which others leave, and of those that leave with one for which they do."""
        self.in_vain: dict[str, NoVictims] = {}
        """The reason, by full name, for each pod without victims."""
        self._asked_on: ClusterSnapshot | None = None
        self._answers: dict[Hashable, NoVictims] = {}

    def __call__(self, request: RoomRequest) -> MadeRoom | None:
        """The cheapest evictions for these pods, if any are allowed and enough."""
        if request.snapshot is not self._asked_on:
            self._asked_on, self._answers = request.snapshot, {}
        key = tuple(map(_key, request.infos))
        found = self._answers.get(key) or self._find(request)
        if isinstance(found, NoVictims):
            self._answers[key] = found
            self.in_vain.update((info.pod.full_name, found) for info in request.infos)
            return None
        if not found.victims and not found.ending:
            return None  # not for lack of room: enqueue admission, or an order in which a scheduler does not try a gang
        by_pod = {id(pod): placed for pod, placed in found.places}
        places = tuple(by_pod[id(info.pod)] for info in request.infos)
        return MadeRoom(places, found.after, found.usage)

    def noted(self, plan: PodPlan) -> PodPlan:
        """The plan of a pod with notes on what its scheduler does alone, and on evictions that would take its place."""
        notes, name = plan.notes, plan.pod.full_name
        if plan.by_eviction is not None and name in self._evictors:
            notes += (
                ALONE.format("Volcano") + ENQUEUE if plan.pod.scheduler == VOLCANO else ALONE.format("kube-scheduler"),
            )
        if plan.place is not None and name in self._evicted:
            notes += (f"it would be evicted again for {self._evicted[name]}, whose turn comes later",)
        return plan if notes == plan.notes else replace(plan, notes=notes)

    def settled(self, after: ClusterSnapshot) -> tuple[PlanEvictions, ...]:
        """All evictions, in their order, with what becomes of the victims on the cluster after the plan."""
        settled: list[PlanEvictions] = []
        left = MOST_FOLLOWED
        for each in self._found:
            victims = list(each.victims)
            for at, victim in enumerate(victims[:left]):
                after, again = self._again(after, victim.pod)
                victims[at] = replace(victim, again=again, followed=True)
            left = max(left - len(victims), 0)
            settled.append(replace(each, victims=tuple(victims)))
        return tuple(settled)

    def _find(self, request: RoomRequest) -> EvictionPlan | NoVictims:
        snapshot, infos, gate = request
        if any(info.demand.claims is not None and info.demand.claims.claims for info in infos):
            return NoVictims(why=CLAIMED)
        found = self._search.find(snapshot, infos, gate)
        if isinstance(found, EvictionPlan) and (found.victims or found.ending):
            grounds = self._search.grounds(snapshot, infos, found, gate)
            victims = tuple(map(_victim, found.victims, grounds))
            self._found.append(PlanEvictions(places=found.places, victims=victims, ending=found.ending, cut=found.cut))
            self._evictors.update(pod.full_name for pod, _ in found.places if victims)
            self._evicted.update((victim.pod.full_name, infos[0].pod.full_name) for victim in victims)
        return found

    def _again(self, after: ClusterSnapshot, record: PodRecord) -> tuple[ClusterSnapshot, NodeName | None]:
        """The first node that takes a pod like this one, and the cluster with it."""
        devices, registry = demand_again(record), self._decider.registry
        requests = {each for container in devices.containers for each in container.requests}
        gauges = [RequestBounds(registry[each.vendor], each, DEFAULT_POLICY) for each in requests]
        demand = PodDemand(devices, NodeConstraints(requests=record.requests))
        for entry in after.nodes:
            if any(gauge.capable(entry) < gauge.request.count for gauge in gauges):
                continue
            fit = self._decider.answer(entry, demand, DEFAULT_POLICY)
            if isinstance(fit, Fit):
                like = replace(record, allocations=allocated(entry, fit, devices, registry))
                return after.with_node(with_pod(entry, like)), entry.name
        return after, None


def _victim(victim: EvictedPod, grounds: tuple[Ground, ...]) -> PlannedVictim:
    return PlannedVictim(pod=victim.pod, node=victim.node, grounds=grounds)


def _key(info: PodInfo) -> Hashable:
    """All of a pod on which its victims depend, on one cluster."""
    pod = info.pod
    group, queue = pod.annotations.get(GROUP_KEY), pod.annotations.get(QUEUE_KEY)
    rank = pod.priority, pod.priority_class, pod.preempts
    return info.demand, info.policy, pod.namespace, pod.neighbours, rank, pod.scheduler, group, queue
