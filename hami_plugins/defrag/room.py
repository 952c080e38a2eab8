"""Room for waiting pods by the fewest moves: best-first over sets of pods that leave a node, each placed again."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from typing import Final, NamedTuple, TypeAlias

from hami_plugins.defrag.candidates import Leaver, LeavingSet, LeavingSets, leavers_of
from hami_plugins.defrag.movable import MoveRules
from hami_plugins.defrag.new_places import MoveState, NewPlaces, with_record, without_record
from hami_plugins.defrag.per_node import PerNode
from hami_plugins.defrag.values import Move
from hami_plugins.engine.apply import record_of, without_pods
from hami_plugins.engine.decide import Decider, PodDemand
from hami_plugins.engine.intake import PodInfo
from hami_plugins.model.decisions import Placed
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.pods import Pod, PodRecord
from hami_plugins.model.units import NodeName
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


class FreedPlace(NamedTuple):
    """The moves that make room, the place of the pod, and the cluster afterwards with that place held."""

    moves: tuple[Move, ...]
    pod: Pod
    placed: Placed
    state: MoveState
    holder: PodRecord

    @property
    def sure(self) -> bool:
        """Whether every moved pod lands as planned by itself."""
        return all(move.sure for move in self.moves)


class _Leaving(NamedTuple):
    """A pod that has to leave a node."""

    record: PodRecord
    node: NodeName


class _Known(NamedTuple):
    """What is known of nodes for one demand: the sets of their pods."""

    candidates: LeavingSets
    sets: PerNode[tuple[LeavingSet, ...]]


FreedPlaces: TypeAlias = tuple[list[FreedPlace], MoveState]
"""Room for several pods, and the cluster after all moves."""

CarriedOut: TypeAlias = tuple[tuple[Move, ...], MoveState]
"""Moves, and the cluster after them."""


class RoomSearch:
    """Searches for room; ``places`` are where moved pods land. No search makes more than ``most`` moves."""

    def __init__(self, decider: Decider, rules: MoveRules, scale: CostScale, places: NewPlaces, *, most: int) -> None:
        self._decider = decider
        self._rules = rules
        self._scale = scale
        self._most = most
        self.places = places
        self._leavers = PerNode[list[Leaver]]()
        self._known: dict[Hashable, _Known] = {}

    def find(self, state: MoveState, info: PodInfo, most: int) -> FreedPlace | None:
        """Room for a pod by at most so many moves."""
        demand = self.places.demand_after(state.held, info)
        decision = self._decider.decide(state.held, demand, info.policy)
        if isinstance(decision, Placed):
            return _room((), info, decision, state)
        sets = self._sets(state, demand, info, most)
        best = self._directly(state, demand, info, sets[:MOST_TRIES])
        most = most if best is None else len(best.moves) - 1
        few = [each for each in sets if len(each.records) < most][:MOST_CHAINED]
        for each in few:
            found = self._tried(state, demand, info, each, most - len(each.records))
            if found is not None:
                return found
        return best

    def find_all(self, state: MoveState, infos: Sequence[PodInfo], most: int) -> FreedPlaces | None:
        """Room for several pods: all their places are chosen before any pod is placed again.

        So no pod moves to where a later one needs room. ``None`` where no choice of places that is tried works; one
        pod after another may.
        """
        if len(infos) > MOST_TOGETHER:
            return None
        for rooms, leaving in filter(None, islice(self._choices(state, infos, most), MOST_CHOICES)):
            held = state.held
            for room in rooms:
                held = with_record(held, room.placed, room.holder)
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
        rooms = self._rooms(free, info, most)
        cheapest = next(rooms, None)
        if cheapest is None:
            yield None
            return
        for room, leaving in chain((cheapest,), rooms):
            for choice in self._choices(room.state, others, most - len(leaving)):
                yield None if choice is None else ((room, *choice[0]), (*leaving, *choice[1]))

    def _rooms(self, free: MoveState, info: PodInfo, most: int) -> Iterator[tuple[FreedPlace, tuple[_Leaving, ...]]]:
        """The places of a pod, the cheapest first, and the pods that leave for them, which have no new places yet."""
        demand = self.places.demand_after(free.held, info)
        decision = self._decider.decide(free.held, demand, info.policy)
        if isinstance(decision, Placed):
            yield _room((), info, decision, free), ()
            return
        for each in self._sets(free, demand, info, most):
            placed = self._place(info, demand, each)
            if placed is not None:
                held = free.held
                for record in each.records:
                    held = without_record(held, each.entry.name, record)
                yield _room((), info, placed, free._replace(held=held)), _leaving(each)

    def leavers(self, entry: NodeEntry) -> list[Leaver]:
        """The pods of a node that may move, whatever has moved already."""
        rules = self._rules
        return self._leavers.of(
            entry, lambda: leavers_of(entry, lambda record: rules.staying(record) is None, self.cost)
        )

    def cost(self, record: PodRecord) -> int:
        """What moving a pod costs: pods count first, then priorities, then the work that is lost."""
        return self._scale.of(record, self._rules.priority_of(record))

    def _sets(self, state: MoveState, demand: PodDemand, info: PodInfo, most: int) -> list[LeavingSet]:
        """Sets of pods that may leave, from all nodes, the cheapest first. Results of unchanged nodes are kept."""
        key = demand.devices, demand.constraints, info.policy
        known = self._known.get(key)
        if known is None:
            decider = self._decider
            candidates = LeavingSets(demand, info.policy, decider.registry, decider.uncounted)
            known = self._known[key] = _Known(candidates, PerNode())
        found: list[LeavingSet] = []
        for entry in state.held.nodes:
            sets = known.sets.of(entry, partial(self._sets_of, entry, known.candidates, state.pinned))
            found += [each for each in sets if len(each.records) <= most]
        return sorted(found, key=lambda each: (each.cost, each.entry.name))

    def _sets_of(self, entry: NodeEntry, candidates: LeavingSets, pinned: Collection[str]) -> tuple[LeavingSet, ...]:
        """The sets of a node. One with a pod that has moved there is another entry: what is known has no such pods."""
        leavers = [each for each in self.leavers(entry) if each.record.full_name not in pinned]
        return tuple(candidates.of(entry, leavers, self._most))

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
        return self.places.fitting(without_pods(chosen.entry, lambda record: id(record) in leaving), demand, info)

    def _placed_again(self, state: MoveState, leaving: Sequence[_Leaving], more: int) -> CarriedOut | None:
        """Moves of all these pods, with at most ``more`` moves of others before."""
        moves: list[Move] = []
        waiting = sorted(leaving, key=lambda each: _size(each.record), reverse=True)
        while waiting:
            for each in waiting:
                step = self.places.moved(state, each.record, each.node)
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
            demand = self.places.demand_after(state.held, info)
            sets = [each for each in self._sets(state, demand, info, most) if kept.isdisjoint(map(id, each.records))]
            found = self._directly(state, demand, info, sets[:MOST_CHAINED])
            if found is not None:
                held = without_record(found.state.held, found.placed.node, found.holder)
                return found.moves, found.state._replace(held=held)
        return None


def _leaving(chosen: LeavingSet) -> tuple[_Leaving, ...]:
    return tuple(_Leaving(record, chosen.entry.name) for record in chosen.records)


def _room(moves: tuple[Move, ...], info: PodInfo, placed: Placed, state: MoveState) -> FreedPlace:
    """Room with the place held."""
    holder = record_of(info.pod, placed)
    return FreedPlace(moves, info.pod, placed, state._replace(held=with_record(state.held, placed, holder)), holder)


def _size(record: PodRecord) -> tuple[int, int, str]:
    """Large pods are placed first: they have the fewest places."""
    shares = [share for allocation in record.allocations for share in allocation.shares]
    return sum(share.memory for share in shares), sum(share.cores for share in shares), record.full_name
