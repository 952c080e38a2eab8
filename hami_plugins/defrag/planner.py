"""Defragmentation of a cluster: for waiting pods, or so that stranded memory is of use again.

Not looked for are moves that only a waiting pod's anti-affinity needs, and moves of a pod that has moved before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from hami_plugins.defrag.movable import MoveRules
from hami_plugins.defrag.new_places import MoveState, NewPlaces
from hami_plugins.defrag.room import FreedPlace, FreedPlaces, RoomSearch
from hami_plugins.defrag.stranded import StrandedMoves
from hami_plugins.defrag.values import DefragPlan, Move, MoveOptions, NoMoves, RunningCluster, Staying, StayRule
from hami_plugins.engine import neighbours
from hami_plugins.engine.decide import Decider
from hami_plugins.engine.intake import PodInfo, Rules
from hami_plugins.explain.messages import counted
from hami_plugins.model.decisions import Placed
from hami_plugins.model.pods import Pod
from hami_plugins.occupancy.stranded import PlannedRequest, StrandedRule
from hami_plugins.preemption.costs import CostScale
from hami_plugins.preemption.values import Rule


class Defragmenter:
    """Plans moves in one cluster."""

    def __init__(self, cluster: RunningCluster, decider: Decider, rules: Rules, options: MoveOptions) -> None:
        self._cluster = cluster
        self._snapshot = cluster.snapshot
        self._decider = decider
        self._rules = rules
        self._options = options

    def for_pods(self, infos: Sequence[PodInfo]) -> DefragPlan | NoMoves:
        """The fewest moves that are found after which all these pods have a place.

        For several pods the places of all are chosen first; where that does not work, or takes more moves, each pod
        gets its place after the moves for the one before.
        """
        rules = self._move_rules(infos)
        search = self._search(rules, infos)
        refused = next((info for info in infos if info.refusal), None)
        if refused is not None:
            return NoMoves(why=f"{refused.pod.full_name} gets no devices anywhere: {refused.refusal}")
        start = MoveState(self._snapshot, self._snapshot)
        one_by_one = self._one_by_one(search, start, infos)
        together = search.find_all(start, infos, self._options.most) if len(infos) > 1 else None
        complete = [each for each in (one_by_one, together) if each is not None and len(each[0]) == len(infos)]
        if not complete:
            placed = len(one_by_one[0])
            staying, movable = self._staying(rules)
            most = counted(self._options.most, "move")
            why = f"at most {most}: no room is found for {infos[placed].pod.full_name}"
            return NoMoves(why=why, staying=staying, movable=movable, placed=placed)
        rooms, state = min(complete, key=lambda each: _moves(each[0]))
        places = [(room.pod, room.placed) for room in rooms]
        moves = [move for room in rooms for move in room.moves]
        stranded = StrandedMoves(search, StrandedRule(self._decider.registry))
        return self._plan(rules, stranded, moves, state, places)

    def move_of(self, name: str) -> Move | Staying | None:
        """Where a running pod (``namespace/name``) lands if it is evicted now, or why it may not be.

        ``None`` if the pod does not exist, has no other place, or would be allocated the same devices again.
        """
        rules = self._move_rules(())
        search = self._search(rules, ())
        for entry in self._snapshot.nodes:
            for record in entry.pods:
                if record.full_name == name:
                    if staying := rules.staying(record):
                        return staying
                    step = search.places.moved(MoveState(self._snapshot, self._snapshot), record, entry.name)
                    return None if step is None else step[0]
        return None

    def _one_by_one(self, search: RoomSearch, state: MoveState, infos: Sequence[PodInfo]) -> FreedPlaces:
        """Room for one pod after another, until one gets none."""
        rooms: list[FreedPlace] = []
        for info in infos:
            room = search.find(state, info, self._options.most - _moves(rooms))
            if room is None:
                break
            rooms.append(room)
            state = room.state
        return rooms, state

    def for_stranded(self, waiting: Iterable[PodInfo] = ()) -> DefragPlan | NoMoves:
        """The moves that make most of the memory usable that no request can get.

        The requests that count are those of pods that wait, else the smallest ones that can be written.
        """
        rules = self._move_rules(())
        search = self._search(rules, ())
        asked = dict.fromkeys(
            PlannedRequest(request, info.policy)
            for info in waiting
            for container in info.demand.devices.containers
            for request in container.requests
        )
        stranded = StrandedMoves(search, StrandedRule(self._decider.registry, asked))
        moves, state = stranded.find(MoveState(self._snapshot, self._snapshot), self._options.most)
        plan = self._plan(rules, stranded, moves, state, ())
        if moves:
            return plan
        lost, _ = plan.stranded
        why = f"no move makes any of {lost:,} MiB of stranded memory usable" if lost else "no memory is stranded"
        return NoMoves(why=why, staying=plan.staying, movable=plan.movable)

    def _move_rules(self, waiting: Collection[PodInfo]) -> MoveRules:
        registry, alone = self._decider.registry, self._options.alone
        return MoveRules(self._cluster, registry, self._rules, waiting=waiting, alone=alone)

    def _search(self, rules: MoveRules, waiting: Iterable[PodInfo]) -> RoomSearch:
        priorities = {rules.priority_of(record) for entry in self._snapshot.nodes for record in entry.pods}
        distant = neighbours.matter(self._snapshot) or any(info.pod.neighbours.apart for info in waiting)
        places = NewPlaces(self._decider, rules, sure=self._options.sure, distant=distant)
        return RoomSearch(self._decider, rules, CostScale(priorities), places, most=self._options.most)

    def _plan(
        self,
        rules: MoveRules,
        stranded: StrandedMoves,
        moves: Sequence[Move],
        state: MoveState,
        places: Sequence[tuple[Pod, Placed]],
    ) -> DefragPlan:
        staying, movable = self._staying(rules)
        lost = [sum(map(stranded.lost, each.nodes)) for each in (self._snapshot, state.real)]
        return DefragPlan(
            moves=tuple(moves),
            before=self._snapshot,
            after=state.real,
            places=tuple(places),
            stranded=(lost[0], lost[1]),
            staying=staying,
            movable=movable,
        )

    def _staying(self, rules: MoveRules) -> tuple[tuple[tuple[Staying, int], ...], int]:
        """One pod with devices for each rule that forbids a move, how many it forbids, and how many pods may move."""
        holders = [record for entry in self._snapshot.nodes for record in entry.pods if record.allocations]
        staying: dict[Rule | StayRule, list[Staying]] = {}
        for found in filter(None, map(rules.staying, holders)):
            staying.setdefault(found.rule, []).append(found)
        first = (min(staying[rule], key=lambda each: each.pod.full_name) for rule in sorted(staying, key=str))
        return tuple((each, len(staying[each.rule])) for each in first), len(holders) - sum(map(len, staying.values()))


def _moves(rooms: Iterable[FreedPlace]) -> int:
    return sum(len(room.moves) for room in rooms)
