"""Where one evicted pod lands when its controller makes it anew, in a cluster in which places are held for others.

A place that a pod gets is held in a second snapshot (``MoveState.held``) from then on, although the pods that have to
leave are still there. So a moved pod only goes where there is room when its turn comes, and never where another waits.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from hami_plugins.defrag.movable import MoveRules
from hami_plugins.defrag.per_node import PerNode
from hami_plugins.defrag.values import Move
from hami_plugins.engine import neighbours, quota
from hami_plugins.engine.apply import with_pod, without_pods
from hami_plugins.engine.decide import Decider, PodDemand
from hami_plugins.engine.device_names import allocated
from hami_plugins.engine.intake import PodInfo
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.decisions import Decision, Placed
from hami_plugins.model.devices import AllocatedShare
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.pods import ContainerAllocation, PodRecord
from hami_plugins.model.requests import ContainerKind
from hami_plugins.model.units import NodeName, PodUid, VendorName
from hami_plugins.model.verdicts import Fit


class MoveState(NamedTuple):
    """A cluster during a plan: as it would be after the moves so far, and the same with all promised places held.

    ``pinned`` are the pods that have moved, by ``namespace/name``: each moves once.
    """

    real: ClusterSnapshot
    held: ClusterSnapshot
    pinned: frozenset[str] = frozenset()


class DevicePlace(NamedTuple):
    """A device by its node and its position there."""

    node: NodeName
    at: int


class NewPlaces:
    """Finds new places. With ``sure`` only moves count that end as planned without anything being held.

    ``distant`` says that pods of the cluster keep others away from them (anti-affinity).
    """

    def __init__(self, decider: Decider, rules: MoveRules, *, sure: bool, distant: bool) -> None:
        self._decider = decider
        self._rules = rules
        self._sure = sure
        self._distant = distant
        self._held: dict[str, PerNode[Mapping[VendorName, tuple[int, int]]]] = {}

    def moved(
        self, state: MoveState, record: PodRecord, source: NodeName, onto: DevicePlace | None = None
    ) -> tuple[Move, MoveState] | None:
        """The pod at its new place, the one device of ``onto`` if that is given.

        ``None`` where it has no such place, or (``sure``) would not land there by itself.
        """
        info = self._rules.info(record)
        real, held = without_record(state.real, source, record), without_record(state.held, source, record)
        own = self._decider.decide(real, self.demand_after(real, info), info.policy)
        demand = self.demand_after(held, info)
        placed = self._placed_on(held, demand, info, onto) if onto else self._chosen(held, demand, info, own)
        sure = isinstance(placed, Placed) and isinstance(own, Placed) and _is_equal(placed, own)
        sure = sure and self._lands_while_it_ends(state.real, info, own)
        if not isinstance(placed, Placed) or (self._sure and not sure) or _is_same(record, source, placed):
            return None
        after = replace(record, allocations=placed.containers, strangers=(), unlocated=(), init_finished=False)
        move = Move(record, source, placed, sure)
        pinned = state.pinned | {record.full_name}
        return move, MoveState(with_record(real, placed, after), with_record(held, placed, after), pinned)

    def _lands_while_it_ends(self, real: ClusterSnapshot, info: PodInfo, own: Decision) -> bool:
        """Whether the pod gets the same place, or none, while the old one still holds its devices.

        Controllers such as ReplicaSets create the new pod as soon as the old one begins to end.
        """
        meanwhile = self._decider.decide(real, self.demand_after(real, info), info.policy)
        return not isinstance(meanwhile, Placed) or (isinstance(own, Placed) and _is_equal(meanwhile, own))

    def _chosen(self, held: ClusterSnapshot, demand: PodDemand, info: PodInfo, own: Decision) -> Decision:
        """The place that the pod would choose by itself unless that is held, else the best one that is not."""
        if isinstance(own, Placed) and self._accepts(held, demand, info, own):
            return own
        return self._decider.decide(held, demand, info.policy)

    def _placed_on(self, held: ClusterSnapshot, demand: PodDemand, info: PodInfo, onto: DevicePlace) -> Placed | None:
        """The place of a pod on one device."""
        entry = held.nodes[held.position[onto.node]]
        others = set(range(len(entry.ids))) - {onto.at}
        return self.fitting(with_pod(entry, blocker(entry, others)), demand, info)

    def demand_after(self, snapshot: ClusterSnapshot, info: PodInfo) -> PodDemand:
        """What a pod asks for in a cluster: with what its quota leaves, and away from pods that are there."""
        demand = info.demand
        limits = snapshot.quotas.get(info.pod.namespace)
        if limits is not None:
            headroom = quota.headroom(limits, self._used(snapshot, info.pod.namespace), self._decider.registry)
            demand = replace(demand, headroom=tuple(sorted(headroom)))
        if self._distant or any(info.pod.neighbours):
            barred = neighbours.barred(snapshot, info.pod)
            demand = replace(demand, constraints=replace(demand.constraints, barred=barred))
        return demand

    def _used(self, snapshot: ClusterSnapshot, namespace: str) -> Mapping[VendorName, tuple[int, int]]:
        """What the pods of a namespace hold (``quota.used_by``); what they hold of unchanged nodes is kept."""
        known = self._held.setdefault(namespace, PerNode())
        sums: dict[VendorName, tuple[int, int]] = {}
        for entry in snapshot.nodes:
            for vendor, (memory, cores) in known.of(entry, partial(self._used_on, entry, namespace)).items():
                memory_before, cores_before = sums.get(vendor, (0, 0))
                sums[vendor] = memory_before + memory, cores_before + cores
        return sums

    def _used_on(self, entry: NodeEntry, namespace: str) -> Mapping[VendorName, tuple[int, int]]:
        holders = ((entry, record) for record in entry.pods if record.namespace == namespace)
        return quota.used(holders, self._decider.registry)

    def fitting(self, entry: NodeEntry, demand: PodDemand, info: PodInfo) -> Placed | None:
        """The place of a pod on one node."""
        fit = self._decider.answer(entry, demand, info.policy)
        if not isinstance(fit, Fit):
            return None
        containers = allocated(entry, fit, demand.devices, self._decider.registry)
        return Placed(node=entry.name, containers=containers, fit=fit, candidates=1)

    def _accepts(self, held: ClusterSnapshot, demand: PodDemand, info: PodInfo, placed: Placed) -> bool:
        """Whether a place that was chosen without held places is none of them."""
        entry = held.nodes[held.position[placed.node]]
        if not isinstance(self._decider.answer(entry, demand, info.policy), Fit):
            return False
        return self._decider.accepts(entry, demand, info.policy, placed.containers)


def blocker(entry: NodeEntry, cards: Collection[int]) -> PodRecord:
    """A pod that leaves no room on some devices of a node, even when all of their pods have left."""
    allocations: list[ContainerAllocation] = []
    for at in sorted(cards):
        device = entry.state.shape.devices[at]
        share = AllocatedShare(
            device=entry.ids[at], vendor=device.vendor, word="", memory=device.memory, cores=device.cores
        )
        allocations += [ContainerAllocation(ContainerKind.APP, (share,))] * device.slots
    return PodRecord(namespace="", name="", uid=PodUid(""), allocations=tuple(allocations))


def _is_equal(one: Placed, other: Placed) -> bool:
    return one.node == other.node and one.containers == other.containers


def with_record(snapshot: ClusterSnapshot, placed: Placed, record: PodRecord) -> ClusterSnapshot:
    """The cluster with one more pod."""
    return snapshot.with_node(with_pod(snapshot.nodes[snapshot.position[placed.node]], record))


def without_record(snapshot: ClusterSnapshot, node: NodeName, leaving: PodRecord) -> ClusterSnapshot:
    """The cluster without a pod of a node."""
    entry = snapshot.nodes[snapshot.position[node]]
    return snapshot.with_node(without_pods(entry, lambda record: record is leaving))


def _is_same(record: PodRecord, source: NodeName, placed: Placed) -> bool:
    """Whether a pod would be given the devices that it holds."""
    held = {share.device for allocation in record.allocations for share in allocation.shares}
    return placed.node == source and {share.device for share in placed.shares()} == held
