"""What the decision function says of nodes and of the cluster when some pods have left: the proof of a search."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from hami_plugins.engine import neighbours, quota
from hami_plugins.engine.apply import record_of, record_with, with_pod, without_pods
from hami_plugins.engine.decide import Decider, PodDemand
from hami_plugins.engine.device_names import allocated
from hami_plugins.engine.intake import PodInfo
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.decisions import Placed, Refusal
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.pods import Pod, PodRecord
from hami_plugins.model.units import NodeName, VendorName
from hami_plugins.model.vendor import Headroom
from hami_plugins.model.verdicts import Fit
from hami_plugins.preemption.rules import EvictionRules
from hami_plugins.preemption.values import EvictedPod
from hami_plugins.queueing.queues import requests_of


class Solution(NamedTuple):
    """Pods to evict, and pods that leave the same nodes anyway; ``copies`` are how many pods go to which node."""

    victims: tuple[EvictedPod, ...] = ()
    ending: tuple[EvictedPod, ...] = ()
    copies: tuple[tuple[NodeName, int], ...] = ()


class PlacedPods(NamedTuple):
    """Where the pods go, and the cluster afterwards."""

    places: tuple[tuple[Pod, Placed], ...]
    after: ClusterSnapshot


class Proof:
    """Asks the decision function about pods with equal demands.

    With ``devices_only`` pods may go to any node, whatever other pods and labels are there.
    """

    def __init__(
        self,
        decider: Decider,
        snapshot: ClusterSnapshot,
        rules: EvictionRules,
        members: Sequence[PodInfo],
        *,
        devices_only: bool,
    ) -> None:
        self._decider = decider
        self._snapshot = snapshot
        self._rules = rules
        self._members = members
        self._info = members[0]
        self._devices_only = devices_only
        self._neighbours_matter = rules.running.keep_apart or any(any(info.pod.neighbours) for info in members)
        limited = bool(self._info.demand.headroom)
        self._left = quota.left_in(snapshot, self._info.pod.namespace, decider.registry) if limited else None

    def takes(self, entry: NodeEntry, leaving: Collection[PodRecord], copies: int, gone: Collection[PodRecord]) -> bool:
        """Whether a node takes so many copies, one after another, when these pods have left besides those gone."""
        info, registry = self._info, self._decider.registry
        chosen = set(map(id, leaving))
        after = without_pods(entry, lambda record: id(record) in chosen) if chosen else entry
        gate = self._rules.reclaim.usage_after([*leaving, *gone])
        demand = info.demand
        returned = self._counted(entry, (*leaving, *gone))
        placed: list[PodRecord] = []
        fit: Fit | Refusal | None = None
        for _ in range(copies):
            if isinstance(fit, Fit):
                record = record_with(info.pod, allocated(after, fit, demand.devices, registry))
                after = with_pod(after, record)
                placed.append(record)
                gate = None if gate is None else gate.given(self._rules.preemptor.queue, requests_of(info.pod))
            if gate is not None and gate.overdrawn(self._rules.preemptor.queue, requests_of(info.pod)):
                return False
            if self._left is not None:
                taken = self._counted(after, placed)
                demand = replace(demand, headroom=_headroom(self._left, returned, taken))
            fit = self._decider.answer(after, demand, info.policy)
            if not isinstance(fit, Fit):
                return False
        return True

    def _counted(self, entry: NodeEntry, records: Iterable[PodRecord]) -> Mapping[VendorName, tuple[int, int]]:
        """What pods of the namespace hold of its quota."""
        namespace = self._info.pod.namespace
        held = ((entry, record) for record in records if record.namespace == namespace)
        return {} if self._left is None else quota.used(held, self._decider.registry)

    def placed(self, solution: Solution) -> PlacedPods | None:
        """The proof: the pods are decided one after another on the cluster without the victims; ``None`` where not."""
        gone = {id(victim.pod) for victim in (*solution.victims, *solution.ending)}
        after = self._snapshot
        for name in {victim.node for victim in (*solution.victims, *solution.ending)}:
            entry = without_pods(after.nodes[after.position[name]], lambda record: id(record) in gone)
            after = after.with_node(entry)
        places: list[tuple[Pod, Placed]] = []
        members = iter(self._members)
        for name, copies in solution.copies:
            for _ in range(copies):
                info = next(members)
                one = replace(after, nodes=(after.nodes[after.position[name]],))
                decision = self._decider.decide(one, self._demand_after(after, info), info.policy)
                if not isinstance(decision, Placed):
                    return None
                places.append((info.pod, decision))
                after = after.with_node(with_pod(one.nodes[0], record_of(info.pod, decision)))
        return PlacedPods(tuple(places), after)

    def _demand_after(self, after: ClusterSnapshot, info: PodInfo) -> PodDemand:
        """What a member asks for when the victims have left: with its quota, and away from pods that are left."""
        demand = info.demand
        if demand.headroom:
            left = quota.left_in(after, info.pod.namespace, self._decider.registry) or {}
            demand = replace(demand, headroom=tuple(sorted(left.items())))
        if not self._devices_only and self._neighbours_matter:
            barred = neighbours.barred(after, info.pod)  # no node is asked that was barred before
            demand = replace(demand, constraints=replace(demand.constraints, barred=barred))
        return demand


def _headroom(
    left: Mapping[VendorName, Headroom],
    returned: Mapping[VendorName, tuple[int, int]],
    taken: Mapping[VendorName, tuple[int, int]],
) -> tuple[tuple[VendorName, Headroom], ...]:
    """What a quota leaves when some pods have returned what they hold, and others have taken theirs."""
    return tuple(
        sorted(
            quota.less(
                quota.less(left, taken), {vendor: (-memory, -cores) for vendor, (memory, cores) in returned.items()}
            ).items()
        )
    )
