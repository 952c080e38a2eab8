"""Moves that make the most stranded memory usable again: greedy, by what each move gains.

What is stranded, ``occupancy.stranded`` says: the free part of a card in use that no request can get.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush, nsmallest
from typing import Final, NamedTuple

from hami_plugins.defrag.candidates import Leaver, minimal_sets
from hami_plugins.defrag.new_places import DevicePlace, MoveState, blocker
from hami_plugins.defrag.per_node import PerNode
from hami_plugins.defrag.room import RoomSearch
from hami_plugins.defrag.values import Move
from hami_plugins.engine.apply import with_pod
from hami_plugins.engine.usage import usage_of
from hami_plugins.model.nodes import NodeEntry, NodeState
from hami_plugins.model.pods import PodRecord
from hami_plugins.model.units import DeviceId, NodeName
from hami_plugins.occupancy.stranded import StrandedRule

MOST_TOGETHER: Final = 3
"""Pods of one card that move together."""

MOST_FILLED: Final = 3
"""Stranded parts that are tried for one pod."""

MOST_TRIES: Final = 250
"""Sets of pods that are tried before the best known ones count."""


class _Gain(NamedTuple):
    """Pods of a card that could leave, sorted by what that gains: memory (MiB) a move, sure moves, cheap ones.

    A ``new`` one was not tried: it is at least what a try would find.
    """

    rank: tuple[float, bool, int]
    new: bool
    node: NodeName
    at: int
    names: tuple[str, ...]

    def exact(self, moves: Sequence[Move], gained: int) -> _Gain:
        """The gain of moves that were tried."""
        return self._replace(
            rank=(-gained / len(moves), not all(move.sure for move in moves), self.rank[-1]), new=False
        )


class _Try(NamedTuple):
    """Moves, and the cluster after them."""

    moves: tuple[Move, ...]
    state: MoveState


class StrandedMoves:
    """Searches for such moves."""

    def __init__(self, search: RoomSearch, rule: StrandedRule) -> None:
        self._search = search
        self._rule = rule
        self._known = PerNode[tuple[int, ...]]()

    def lost(self, entry: NodeEntry) -> int:
        """The stranded memory of a node, in MiB; of nodes and cards that take pods."""
        return sum(_free(entry, at) for at in self._stranded(entry))

    def find(self, state: MoveState, most: int) -> tuple[tuple[Move, ...], MoveState]:
        """At most so many moves, and the cluster after them."""
        moves: list[Move] = []
        waiting = sorted(gain for entry in state.real.nodes for gain in self._possible(state, entry))
        tries = MOST_TRIES
        while waiting:
            best = heappop(waiting)
            if len(best.names) > most - len(moves) or (best.new and not tries):
                continue
            tries -= best.new
            found = self._tried(state, best)
            if found is None or self._gained(state, found) <= 0:
                continue
            exact = best.exact(found.moves, self._gained(state, found))
            heappush(waiting, exact)
            if waiting[0] == exact:  # it stays there, and is skipped from now on: its pods have moved
                moves += found.moves
                state = found.state
                for name in sorted({name for move in found.moves for name in (move.source, move.placed.node)}):
                    for gain in self._possible(state, state.real.nodes[state.real.position[name]]):
                        heappush(waiting, gain)
        return tuple(moves), state

    def _stranded(self, entry: NodeEntry) -> tuple[int, ...]:
        """The cards of a node whose free part no request can get."""
        return self._known.of(entry, lambda: tuple(self._stranded_of(entry)))

    def _stranded_of(self, entry: NodeEntry) -> Iterator[int]:
        takes_pods = entry.facts.ready and not entry.facts.unschedulable
        for at, device in enumerate(entry.state.shape.devices if takes_pods else ()):
            if device.healthy and not device.cordoned and self._rule.why(entry.state, at):
                yield at

    def _possible(self, state: MoveState, entry: NodeEntry) -> Iterator[_Gain]:
        """Sets of pods of the cards of a node, with what their moves gain at most.

        From a stranded card pods leave such that it is of use again. From other cards single pods leave, which may fill
        stranded parts.
        """
        stranded = self._stranded(entry)
        leavers = [each for each in self._search.leavers(entry) if each.record.full_name not in state.pinned]
        for at in range(len(entry.ids)):
            sets = minimal_sets(leavers, at, self._is_of_use(entry, at, leavers), MOST_TOGETHER)
            if at not in stranded:
                sets = [frozenset({number}) for number, each in enumerate(leavers) if at in each.frees]
            free = _free(entry, at) * (at in stranded)
            for each in sets:
                members = [leavers[member] for member in sorted(each)]
                freed = sum(member.frees[at][1] for member in members)
                rank = -(free + freed) / len(members), False, sum(member.cost for member in members)
                yield _Gain(rank, True, entry.name, at, tuple(member.record.full_name for member in members))

    def _is_of_use(self, entry: NodeEntry, at: int, leavers: Sequence[Leaver]) -> Callable[[tuple[int, ...]], bool]:
        """Says of some pods whether a request can get the free part of a card without them."""
        holders = [record for record in entry.pods if _holds(record, entry.ids[at])]
        shape, usage = entry.state.shape, entry.state.usage

        def is_of_use(chosen: tuple[int, ...]) -> bool:
            gone = {id(leavers[each].record) for each in chosen}
            after = list(usage)
            (after[at],) = usage_of((record for record in holders if id(record) not in gone), (entry.ids[at],))
            return not self._rule.why(NodeState(shape, tuple(after)), at)

        return is_of_use

    def _tried(self, state: MoveState, gain: _Gain) -> _Try | None:
        """The pods at new places, none of which is on their card; ``None`` where they have moved or find no place.

        A single pod goes where that gains most: to its own choice, or to one of a few other cards.
        """
        entry = state.real.nodes[state.real.position[gain.node]]
        records = [record for record in entry.pods if record.full_name in gain.names]
        if not state.pinned.isdisjoint(gain.names):
            return None
        current = state._replace(held=state.held.with_node(with_pod(entry, blocker(entry, {gain.at}))))
        if len(records) == 1:
            places = (None, *self._places(state, records[0], gain))
            steps = (self._search.places.moved(current, records[0], entry.name, place) for place in places)
            tries = [_Try((move,), after._replace(held=after.real)) for move, after in filter(None, steps)]
            return max(tries, key=lambda each: (self._gained(state, each), each.moves[0].sure), default=None)
        moves: list[Move] = []
        for record in records:
            step = self._search.places.moved(current, record, entry.name)
            if step is None:
                return None
            moves.append(step[0])
            current = step[1]
        return _Try(tuple(moves), current._replace(held=current.real))

    def _places(self, state: MoveState, record: PodRecord, gain: _Gain) -> Iterator[DevicePlace]:
        """The stranded cards of which the least is left with the pod on it, and the card with most room of the others.

        The one gains what the pod fills, the other stays of use.
        """
        memory = sum(share.memory for allocation in record.allocations for share in allocation.shares)
        own = DevicePlace(gain.node, gain.at)
        stranded, others = list[tuple[int, DevicePlace]](), list[tuple[int, DevicePlace]]()
        for entry in state.real.nodes:
            lost = self._stranded(entry)
            for at in range(len(entry.ids)):
                left, place = _free(entry, at) - memory, DevicePlace(entry.name, at)
                if left >= 0 and place != own:
                    (stranded if at in lost else others).append((left, place))
        yield from (place for _, place in nsmallest(MOST_FILLED, stranded))
        if others:
            _, roomiest = max(others)
            yield roomiest

    def _gained(self, state: MoveState, found: _Try) -> int:
        """How much less memory is stranded on the nodes that moves change."""
        names = {name for move in found.moves for name in (move.source, move.placed.node)}
        nodes = [state.real.position[name] for name in names]
        before, after = state.real.nodes, found.state.real.nodes
        return sum(self.lost(before[at]) - self.lost(after[at]) for at in nodes)


def _free(entry: NodeEntry, at: int) -> int:
    return entry.state.shape.devices[at].memory - entry.state.usage[at].memory


def _holds(record: PodRecord, device: DeviceId) -> bool:
    return any(share.device == device for allocation in record.allocations for share in allocation.shares)
