"""Room for one waiting pod by the fewest moves: best-first over sets of pods that leave a node, each placed again.

A place that a pod gets is held in a second snapshot (``MoveState.held``) from then on, although the pods that have to
leave are still there. So a moved pod only goes where there is room when its turn comes, and never where another waits.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

from hami_plugins.defrag.candidates import Leaver, LeavingSet, LeavingSets, leavers_of
from hami_plugins.defrag.movable import MoveRules
from hami_plugins.defrag.values import Move
from hami_plugins.engine import neighbours, quota
from hami_plugins.engine.apply import record_of, with_pod, without_pods
from hami_plugins.engine.decide import Decider, PodDemand, allocated
from hami_plugins.engine.intake import PodInfo
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.decisions import Decision, Placed
from hami_plugins.model.devices import AllocatedShare
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.pods import ContainerAllocation, PodRecord
from hami_plugins.model.requests import ContainerKind
from hami_plugins.model.units import NodeName, PodUid, VendorName
from hami_plugins.model.verdicts import Fit
from hami_plugins.preemption.costs import CostScale

MOST_TRIES: Final = 2_000
"""Sets of pods that are tried for one waiting pod."""

MOST_CHAINED: Final = 30
"""Sets that are tried with other pods moving first, and sets of such others that are tried for each moved pod."""

MOST_CHOICES: Final = 100
"""Choices of places for several pods that are tried."""

MOST_TOGETHER: Final = 100
"""Pods whose places are chosen together."""

MORE_TRIES: Final = 40
"""Sets of equally many pods that are tried for one whose moves are all sure."""


class MoveState(NamedTuple):
    """A cluster during a plan: as it would be after the moves so far, and the same with all promised places held.

    ``pinned`` are the pods that have moved, by ``namespace/name``: each moves once.
    """

    real: ClusterSnapshot
    held: ClusterSnapshot
    pinned: frozenset[str] = frozenset()


class FreedPlace(NamedTuple):
    """The moves that make room, the place of the pod, and the cluster afterwards with that place held."""

    moves: tuple[Move, ...]
    placed: Placed
    state: MoveState
    holder: PodRecord

    @property
    def sure(self) -> bool:
        """Whether every moved pod lands as planned by itself."""
        return all(move.sure for move in self.moves)


class DevicePlace(NamedTuple):
    """A device by its node and its position there."""

    node: NodeName
    at: int


class _Leaving(NamedTuple):
    """A pod that has to leave a node."""

    record: PodRecord
    node: NodeName


class _Sets(NamedTuple):
    """The sets of at most so many pods of a node."""

    entry: NodeEntry
    most: int
    sets: tuple[LeavingSet, ...]


class _Known(NamedTuple):
    """What is known of nodes for one demand."""

    candidates: LeavingSets
    nodes: dict[NodeName, _Sets]


FreedPlaces: TypeAlias = tuple[list[FreedPlace], MoveState]
"""Room for several pods, and the cluster after all moves."""

CarriedOut: TypeAlias = tuple[tuple[Move, ...], MoveState]
"""Moves, and the cluster after them."""


class RoomSearch:
    """Searches for room. With ``sure`` only moves count that end as planned without anything being held.

    ``distant`` says that pods of the cluster keep others away from them (anti-affinity).
    """

    def __init__(
        self, decider: Decider, rules: MoveRules, scale: CostScale, *, sure: bool = False, distant: bool = False
    ) -> None:
        self._decider = decider
        self._rules = rules
        self._scale = scale
        self._sure = sure
        self._distant = distant
        self._leavers: dict[NodeName, tuple[NodeEntry, list[Leaver]]] = {}
        self._known: dict[Hashable, _Known] = {}
        self._held: dict[tuple[NodeName, str], tuple[NodeEntry, Mapping[VendorName, tuple[int, int]]]] = {}

    def find(self, state: MoveState, info: PodInfo, most: int) -> FreedPlace | None:
        """Room for a pod by at most so many moves."""
        demand = self.demand_after(state.held, info)
        decision = self._decider.decide(state.held, demand, info.policy)
        if isinstance(decision, Placed):
            return _room((), info, decision, state)
        sets = self._sets(state, demand, info, most)
        best = self._directly(state, demand, info, sets[:MOST_TRIES])
        most = most if best is None else len(best.moves) - 1
        few = [each for each in sets if len(each.records) < most][:MOST_CHAINED]
        for each in few:
            found = self._tried(state, demand, info, each, most - len(each.records))
            if found is not None and len(found.moves) <= most:
                return found
        return best

    def find_all(self, state: MoveState, infos: Sequence[PodInfo], most: int) -> FreedPlaces | None:
        """Room for several pods: all their places are chosen before any pod is placed again.

        So no pod moves to where a later one needs room. ``None`` where no choice of places that is tried works; one
        pod after another may.
        """
        if len(infos) > MOST_TOGETHER:
            return None
        for choice in islice(self._choices(state, infos, most), MOST_CHOICES):
            if choice is None:
                continue
            rooms, leaving = choice
            held = state.held
            for room in rooms:
                held = _with(held, room.placed, room.holder)
            found = self._placed_again(state._replace(held=held), leaving, most - len(leaving))
            if found is not None:
                first, *others = rooms
                return [first._replace(moves=found[0]), *others], found[1]
        return None

    def _choices(
        self, free: MoveState, infos: Sequence[PodInfo], most: int
    ) -> Iterator[tuple[tuple[FreedPlace, ...], tuple[_Leaving, ...]] | None]:
        """Places for all pods, and the pods that leave for them; ``None`` where those for the first leave none.

        ``free`` is the cluster without the pods that leave.
        """
        if not infos:
            yield (), ()
            return
        info, *others = infos
        demand = self.demand_after(free.held, info)
        decision = self._decider.decide(free.held, demand, info.policy)
        options: Iterable[tuple[tuple[_Leaving, ...], Placed | None]]
        if isinstance(decision, Placed):
            options = [((), decision)]
        else:
            sets = self._sets(free, demand, info, most)
            options = ((_leaving(each), self._place(info, demand, each)) for each in sets)
        ends = True
        for leaving, placed in options:
            if placed is None:
                continue
            ends, state = False, free
            for each in leaving:
                state = state._replace(held=_without(state.held, each.node, each.record))
            room = _room((), info, placed, state)
            for choice in self._choices(room.state, others, most - len(leaving)):
                yield None if choice is None else ((room, *choice[0]), (*leaving, *choice[1]))
        if ends:
            yield None

    def moved(
        self, state: MoveState, record: PodRecord, source: NodeName, onto: DevicePlace | None = None
    ) -> tuple[Move, MoveState] | None:
        """The pod at its new place, the one device of ``onto`` if that is given.

        ``None`` where it has no such place, or (``sure``) would not land there by itself.
        """
        info = self._rules.info(record)
        real, held = _without(state.real, source, record), _without(state.held, source, record)
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
        return move, MoveState(_with(real, placed, after), _with(held, placed, after), pinned)

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
        return self._fitting(with_pod(entry, blocker(entry, others)), demand, info)

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
        sums: dict[VendorName, tuple[int, int]] = {}
        for entry in snapshot.nodes:
            known = self._held.get((entry.name, namespace))
            if known is None or known[0] is not entry:
                holders = ((entry, record) for record in entry.pods if record.namespace == namespace)
                known = self._held[entry.name, namespace] = entry, quota.used(holders, self._decider.registry)
            for vendor, (memory, cores) in known[1].items():
                before = sums.get(vendor, (0, 0))
                sums[vendor] = before[0] + memory, before[1] + cores
        return sums

    def leavers(self, entry: NodeEntry) -> list[Leaver]:
        """The pods of a node that may move, whatever has moved already."""
        known = self._leavers.get(entry.name)
        if known is None or known[0] is not entry:
            rules = self._rules
            found = leavers_of(entry, lambda record: rules.staying(record) is None, self.cost)
            known = self._leavers[entry.name] = entry, found
        return known[1]

    def cost(self, record: PodRecord) -> int:
        """What moving a pod costs: pods count first, then priorities, then the work that is lost."""
        return self._scale.of(record, self._rules.priority_of(record))

    def _sets(self, state: MoveState, demand: PodDemand, info: PodInfo, most: int) -> list[LeavingSet]:
        """Sets of pods that may leave, from all nodes, the cheapest first. What is known of unchanged nodes is kept."""
        key = demand.devices, demand.constraints, info.policy
        known = self._known.get(key)
        if known is None:
            decider = self._decider
            candidates = LeavingSets(demand, info.policy, decider.registry, decider.uncounted)
            known = self._known[key] = _Known(candidates, {})
        found: list[LeavingSet] = []
        for entry in state.held.nodes:
            before = known.nodes.get(entry.name)
            if before is None or before.entry is not entry or before.most < most:
                # A node with a pod that has moved there is another entry, so what is known has no such pods in it.
                leavers = [each for each in self.leavers(entry) if each.record.full_name not in state.pinned]
                sets = tuple(known.candidates.of(entry, leavers, most))
                before = known.nodes[entry.name] = _Sets(entry, most, sets)
            found += [each for each in before.sets if len(each.records) <= most]
        return sorted(found, key=lambda each: (each.cost, each.entry.name))

    def _directly(
        self, state: MoveState, demand: PodDemand, info: PodInfo, sets: Sequence[LeavingSet]
    ) -> FreedPlace | None:
        """Room by moves of one set alone; among those of equally few pods one that is sure, if it is found soon."""
        best: FreedPlace | None = None
        more = MORE_TRIES
        for each in sets:
            if best is not None:
                more -= 1
                if best.sure or not more or len(each.records) > len(best.moves):
                    break
            found = self._tried(state, demand, info, each, 0)
            if found is not None and (best is None or found.sure):
                best = found
        return best

    def _tried(
        self, state: MoveState, demand: PodDemand, info: PodInfo, chosen: LeavingSet, more: int
    ) -> FreedPlace | None:
        """Room on one node when a set of its pods is placed again, with at most ``more`` moves of others before."""
        placed = self._place(info, demand, chosen)
        if placed is None:
            return None
        room = _room((), info, placed, state)
        found = self._placed_again(room.state, _leaving(chosen), more)
        return None if found is None else room._replace(moves=found[0], state=found[1])

    def _place(self, info: PodInfo, demand: PodDemand, chosen: LeavingSet) -> Placed | None:
        """The place of a pod on a node without a set of its pods."""
        leaving = set(map(id, chosen.records))
        return self._fitting(without_pods(chosen.entry, lambda record: id(record) in leaving), demand, info)

    def _fitting(self, entry: NodeEntry, demand: PodDemand, info: PodInfo) -> Placed | None:
        """The place of a pod on one node."""
        fit = self._decider.answer(entry, demand, info.policy)
        if not isinstance(fit, Fit):
            return None
        containers = allocated(entry, fit, demand.devices, self._decider.registry)
        return Placed(node=entry.name, containers=containers, fit=fit, candidates=1)

    def _placed_again(self, state: MoveState, leaving: Sequence[_Leaving], more: int) -> CarriedOut | None:
        """Moves of all these pods, with at most ``more`` moves of others before."""
        moves: list[Move] = []
        waiting = sorted(leaving, key=lambda each: _size(each.record), reverse=True)
        while waiting:
            for each in waiting:
                step = self.moved(state, each.record, each.node)
                if step is not None:
                    moves.append(step[0])
                    state = step[1]
                    waiting.remove(each)
                    break
            else:
                chained = self._chained(state, [each.record for each in waiting], more)
                if chained is None:
                    return None
                others, state = chained
                moves += others
                more -= len(others)
        return tuple(moves), state

    def _chained(self, state: MoveState, waiting: Sequence[PodRecord], most: int) -> CarriedOut | None:
        """Moves of others after which the first of some pods that gets a place has one."""
        kept = set(map(id, waiting))
        for record in waiting if most > 0 else ():
            info = self._rules.info(record)
            demand = self.demand_after(state.held, info)
            sets = [each for each in self._sets(state, demand, info, most) if kept.isdisjoint(map(id, each.records))]
            found = self._directly(state, demand, info, sets[:MOST_CHAINED])
            if found is not None:
                held = _without(found.state.held, found.placed.node, found.holder)
                return found.moves, found.state._replace(held=held)
        return None

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
        allocations += [ContainerAllocation(ContainerKind.APP, (share,))] * max(device.slots, 1)
    return PodRecord(namespace="", name="", uid=PodUid(""), allocations=tuple(allocations))


def _leaving(chosen: LeavingSet) -> tuple[_Leaving, ...]:
    return tuple(_Leaving(record, chosen.entry.name) for record in chosen.records)


def _is_equal(one: Placed, other: Placed) -> bool:
    return one.node == other.node and one.containers == other.containers


def _room(moves: tuple[Move, ...], info: PodInfo, placed: Placed, state: MoveState) -> FreedPlace:
    """Room with the place held."""
    holder = record_of(info.pod, placed)
    return FreedPlace(moves, placed, state._replace(held=_with(state.held, placed, holder)), holder)


def _with(snapshot: ClusterSnapshot, placed: Placed, record: PodRecord) -> ClusterSnapshot:
    return snapshot.with_node(with_pod(snapshot.nodes[snapshot.position[placed.node]], record))


def _without(snapshot: ClusterSnapshot, node: NodeName, leaving: PodRecord) -> ClusterSnapshot:
    entry = snapshot.nodes[snapshot.position[node]]
    return snapshot.with_node(without_pods(entry, lambda record: record is leaving))


def _is_same(record: PodRecord, source: NodeName, placed: Placed) -> bool:
    """Whether a pod would be given the devices that it holds."""
    held = {share.device for allocation in record.allocations for share in allocation.shares}
    return placed.node == source and {share.device for share in placed.shares()} == held


def _size(record: PodRecord) -> tuple[int, int, str]:
    """Large pods are placed first: they have the fewest places."""
    shares = [share for allocation in record.allocations for share in allocation.shares]
    return sum(share.memory for share in shares), sum(share.cores for share in shares), record.full_name
