"""Moves that make the most stranded memory usable again: greedy, by what each move gains.

What is stranded, ``occupancy.stranded`` says: the free part of a card in use that no request can get.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from heapq import heapify, heappop, heappush, nsmallest
from typing import Final, NamedTuple

from hami_plugins.defrag.candidates import Leaver, minimal_sets
from hami_plugins.defrag.room import DevicePlace, MoveState, RoomSearch, blocker
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

    ``turn`` is that of the try that found the gain; 0 for one that was not tried: it is no less than a try would find.
    """

    rank: tuple[float, bool, int]
    turn: int
    node: NodeName
    at: int
    names: tuple[str, ...]


class _Try(NamedTuple):
    """Moves, and the cluster after them."""

    moves: tuple[Move, ...]
    state: MoveState


class StrandedMoves:
    """Searches for such moves."""

    def __init__(self, search: RoomSearch, rule: StrandedRule) -> None:
        self._search = search
        self._rule = rule
        self._known: dict[NodeName, tuple[NodeEntry, tuple[int, ...]]] = {}

    def lost(self, entry: NodeEntry) -> int:
        """The stranded memory of a node, in MiB; of nodes and cards that take pods."""
        return sum(_free(entry, at) for at in self._stranded(entry))

    def find(self, state: MoveState, most: int) -> tuple[tuple[Move, ...], MoveState]:
        """At most so many moves, and the cluster after them."""
        moves: list[Move] = []
        waiting = [gain for entry in state.real.nodes for gain in self._possible(state, entry, most)]
        heapify(waiting)
        turn, tries = 1, MOST_TRIES
        while waiting and len(moves) < most:
            best = heappop(waiting)
            if len(best.names) > most - len(moves) or (not best.turn and tries <= 0):
                continue
            tries -= not best.turn
            found = self._tried(state, best)
            if found is None:
                continue
            exact = self._exact(state, best, found)._replace(turn=turn)
            if best.turn != turn and waiting and exact > waiting[0]:
                heappush(waiting, exact)
                continue
            if exact.rank[0] >= 0:
                break
            moves += found.moves
            state, turn = found.state, turn + 1
            for name in sorted({name for move in found.moves for name in (move.source, move.placed.node)}):
                entry = state.real.nodes[state.real.position[name]]
                for gain in self._possible(state, entry, most - len(moves)):
                    heappush(waiting, gain)
        return tuple(moves), state

    def _stranded(self, entry: NodeEntry) -> tuple[int, ...]:
        """The cards of a node whose free part no request can get."""
        known = self._known.get(entry.name)
        if known is None or known[0] is not entry:
            takes_pods = entry.facts.ready and not entry.facts.unschedulable
            cards = range(len(entry.ids)) if takes_pods else ()
            found = tuple(at for at in cards if _is_open(entry, at) and self._rule.why(entry.state, at))
            known = self._known[entry.name] = entry, found
        return known[1]

    def _possible(self, state: MoveState, entry: NodeEntry, most: int) -> Iterator[_Gain]:
        """Sets of pods of the cards of a node, with what their moves gain at most.

        From a stranded card pods leave such that it is of use again. From other cards single pods leave, which may fill
        stranded parts.
        """
        stranded = self._stranded(entry)
        leavers = [each for each in self._search.leavers(entry) if each.record.full_name not in state.pinned]
        for at in range(len(entry.ids)):
            sets = minimal_sets(leavers, at, self._is_of_use(entry, at, leavers), min(most, MOST_TOGETHER))
            if at not in stranded:
                sets = [frozenset({number}) for number, each in enumerate(leavers) if at in each.frees]
            free = _free(entry, at) if at in stranded else 0
            for each in sets:
                members = [leavers[member] for member in sorted(each)]
                freed = sum(member.frees[at][1] for member in members)
                rank = -(free + freed) / len(members), False, sum(member.cost for member in members)
                yield _Gain(rank, 0, entry.name, at, tuple(member.record.full_name for member in members))

    def _is_of_use(self, entry: NodeEntry, at: int, leavers: Sequence[Leaver]) -> Callable[[tuple[int, ...]], bool]:
        """Says of some pods whether a request can get the free part of a card without them."""
        holders = [record for record in entry.pods if _holds(record, entry.ids[at])]
        shape, usage = entry.state.shape, entry.state.usage

        def is_of_use(chosen: tuple[int, ...]) -> bool:
            gone = {id(leavers[each].record) for each in chosen}
            left = usage_of((record for record in holders if id(record) not in gone), entry.ids[at : at + 1])
            return not self._rule.why(NodeState(shape, (*usage[:at], *left, *usage[at + 1 :])), at)

        return is_of_use

    def _tried(self, state: MoveState, gain: _Gain) -> _Try | None:
        """The pods at new places, none of which is on their card; ``None`` where they have moved or find no place.

        A single pod goes where that gains most: to its own choice, or to one of a few other cards.
        """
        entry = state.real.nodes[state.real.position[gain.node]]
        records = [record for record in entry.pods if record.full_name in gain.names]
        if len(records) < len(gain.names) or not state.pinned.isdisjoint(gain.names):
            return None
        current = state._replace(held=state.held.with_node(with_pod(entry, blocker(entry, {gain.at}))))
        if len(records) == 1:
            places = (None, *self._places(state, records[0], gain))
            steps = (self._search.moved(current, records[0], entry.name, place) for place in places)
            tries = [_Try((move,), after._replace(held=after.real)) for move, after in filter(None, steps)]
            return max(tries, key=lambda each: (self._gained(state, each), each.moves[0].sure), default=None)
        moves: list[Move] = []
        for record in records:
            step = self._search.moved(current, record, entry.name)
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
        stranded: list[tuple[int, NodeName, int]] = []
        roomy: tuple[int, DevicePlace] | None = None
        for entry in state.real.nodes:
            lost = self._stranded(entry)
            for at in range(len(entry.ids)):
                left = _free(entry, at) - memory
                if left < 0 or (entry.name, at) == (gain.node, gain.at):
                    continue
                if at in lost:
                    stranded.append((left, entry.name, at))
                elif roomy is None or left > roomy[0]:
                    roomy = left, DevicePlace(entry.name, at)
        yield from (DevicePlace(name, at) for _, name, at in nsmallest(MOST_FILLED, stranded))
        if roomy is not None:
            yield roomy[1]

    def _exact(self, state: MoveState, gain: _Gain, found: _Try) -> _Gain:
        """The gain of moves that were tried."""
        sure = all(move.sure for move in found.moves)
        return gain._replace(rank=(-self._gained(state, found) / len(found.moves), not sure, gain.rank[2]))

    def _gained(self, state: MoveState, found: _Try) -> int:
        """How much less memory is stranded on the nodes that moves change."""
        names = {name for move in found.moves for name in (move.source, move.placed.node)}
        nodes = [state.real.position[name] for name in names]
        before, after = state.real.nodes, found.state.real.nodes
        return sum(self.lost(before[at]) - self.lost(after[at]) for at in nodes)


def _free(entry: NodeEntry, at: int) -> int:
    return entry.state.shape.devices[at].memory - entry.state.usage[at].memory


def _is_open(entry: NodeEntry, at: int) -> bool:
    """Whether a card takes pods and has memory left."""
    device = entry.state.shape.devices[at]
    return device.healthy and not device.cordoned and _free(entry, at) > 0


def _holds(record: PodRecord, device: DeviceId) -> bool:
    return any(share.device == device for allocation in record.allocations for share in allocation.shares)
