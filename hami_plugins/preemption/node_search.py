"""The cheapest victims on one node: exact, by best-first search between lower bounds and the decision function."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final, NamedTuple

from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.pods import PodRecord
from hami_plugins.model.units import DeviceId
from hami_plugins.preemption.bounds import RoomBounds
from hami_plugins.preemption.costs import NEVER, Scale
from hami_plugins.preemption.rows import Amount, Row, added, freed_by
from hami_plugins.preemption.rules import EvictionRules
from hami_plugins.preemption.values import EvictedPod
from hami_plugins.queueing.queues import requests_of, summed

MOST_STEPS: Final = 20_000
"""Steps of one search; after them the best set that is known counts, which may be larger than the smallest."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Unit:
    """Pods of a node that leave together: one pod, or a gang that cannot lose a member and keep its minimum.

    ``elsewhere`` are the members of such a gang on other nodes. Units of equal ``effect`` are worth the same to any
    pod that needs room.
    """

    row: Row
    records: tuple[PodRecord, ...]
    effect: Hashable
    bound: bool
    elsewhere: tuple[EvictedPod, ...] = ()
    gang: str = ""

    @property
    def name(self) -> str:
        """What identifies the unit on any node: its gang, or its pod."""
        return name_of_gang(self.gang) if self.gang else name_of(self.records[0])


def name_of(record: PodRecord) -> str:
    """What identifies a pod in any search."""
    return record.uid or record.full_name


def name_of_gang(gang: str) -> str:
    """What identifies a gang that leaves as a whole in any search."""
    return f"gang {gang}"


class Branch(NamedTuple):
    """A branch of a search: units that stay, by their names, and gangs that have left as a whole."""

    spared: frozenset[str] = frozenset()
    left: frozenset[str] = frozenset()


def units_of(
    entry: NodeEntry,
    may_go: Callable[[PodRecord], bool],
    rules: EvictionRules,
    scale: Scale,
    *,
    whole_cost: bool,
) -> list[Unit]:
    """What may leave a node, the cheapest first. With ``whole_cost`` a gang also costs its members elsewhere."""
    position = {device: at for at, device in enumerate(entry.ids)}
    found: list[Unit] = []
    by_gang: dict[str, list[PodRecord]] = {}
    for record in filter(may_go, entry.pods):
        gang = rules.gang_of(record)
        if gang:
            by_gang.setdefault(gang, []).append(record)
        if not gang or rules.gang(gang).spares([record]):
            row = _row([record], position, scale, rules)
            found.append(Unit(row=row, records=(record,), effect=_effect(record, rules), bound=rules.is_bound(record)))
    for name, records in by_gang.items():
        members = rules.gang(name).members
        if not all(may_go(member.pod) for member in members):
            continue
        elsewhere = tuple(member for member in members if member.node != entry.name)
        extra = sum(scale.of(member.pod, rules.priority_of(member.pod)) for member in elsewhere) if whole_cost else 0
        row = _row(records, position, scale, rules)
        row = row._replace(cost=row.cost + extra)
        found.append(Unit(row=row, records=tuple(records), elsewhere=elsewhere, gang=name, effect=name, bound=True))
    return sorted(found, key=lambda unit: (unit.row.cost, unit.name))


def _row(records: Sequence[PodRecord], position: Mapping[DeviceId, int], scale: Scale, rules: EvictionRules) -> Row:
    frees: dict[int, Amount] = {}
    for record in records:
        for at, amount in freed_by(record, position):
            frees[at] = added(frees.get(at), amount)
    requests = summed(map(requests_of, records))
    cost = sum(scale.of(record, rules.priority_of(record)) for record in records)
    return Row(cost, tuple(frees.items()), tuple(requests.items()), len(records))


def _effect(record: PodRecord, rules: EvictionRules) -> Hashable:
    """All of a pod that the decision about another pod depends on, and the rules about several victims."""
    bound = rules.is_bound(record)
    return (
        record.allocations,
        record.requests,
        record.init_finished,
        record.namespace,
        record.group if bound else "",
        record.task if bound else "",
        record.queue,
        tuple(record.labels.items()) if bound else (),
    )


class NodeSearch:
    """Finds the cheapest units of one node without which it takes some copies of a pod.

    ``takes`` is the decision function: whether the node takes so many copies when these pods have left.
    """

    def __init__(
        self,
        entry: NodeEntry,
        units: Sequence[Unit],
        bounds: RoomBounds,
        rules: EvictionRules,
        takes: Callable[[Collection[PodRecord], int], bool],
    ) -> None:
        self._entry = entry
        self._units = units
        self._bounds = bounds
        self._rules = rules
        self._takes = takes
        self.cut = False
        """Whether a search was given up after ``MOST_STEPS``."""
        latest: dict[Hashable, int] = {}
        self._before: list[int | None] = []
        for at, unit in enumerate(units):
            self._before.append(latest.get(unit.effect))
            latest[unit.effect] = at

    def cheapest(self, copies: int) -> tuple[int, tuple[Unit, ...]]:
        """The cost and the units; ``NEVER`` and none where no allowed set is enough."""
        turn = count()
        tested: set[tuple[int, ...]] = set()
        first = self._bound((), 0, copies), len(self._units), next(turn), tuple[int, ...]()
        waiting = [first]
        for _ in range(MOST_STEPS):
            if not waiting:
                return NEVER, ()
            least, left, _, chosen = heapq.heappop(waiting)
            if least == self._cost(chosen) and chosen not in tested:
                tested.add(chosen)
                if self._enough(chosen, copies):
                    return least, tuple(self._units[each] for each in chosen)
            at = len(self._units) - left
            for successor in ((*chosen, at), chosen) if left else ():
                if len(successor) > len(chosen) and not self._may_join(chosen, at):
                    continue
                bound = self._bound(successor, at + 1, copies)
                if bound < NEVER:
                    heapq.heappush(waiting, (bound, left - 1, next(turn), successor))
        self.cut = True
        return self._reduced(copies)

    def _cost(self, chosen: Iterable[int]) -> int:
        return sum(self._units[at].row.cost for at in chosen)

    def _bound(self, chosen: tuple[int, ...], at: int, copies: int) -> int:
        """At least what any set costs that has these units, and of the others only those from ``at`` on."""
        gone = [self._units[each].row for each in chosen]
        rows = [unit.row for unit in self._units[at:]]
        return self._cost(chosen) + self._bounds.costs(self._entry, rows, copies, gone)[-1]

    def _may_join(self, chosen: tuple[int, ...], at: int) -> bool:
        """Whether a unit may go with others: of equal ones the cheapest go first, and the rules allow all together."""
        unit, before = self._units[at], self._before[at]
        if before is not None and before not in chosen:
            return False
        if not unit.bound:
            return True
        together = [self._units[each] for each in (*chosen, at)]
        return allowed_together(together, self._rules)

    def _reduced(self, copies: int) -> tuple[int, tuple[Unit, ...]]:
        """All that may leave together, without what need not leave, the dearest given back first."""
        chosen: list[int] = []
        for at in range(len(self._units)):
            if allowed_together([self._units[each] for each in (*chosen, at)], self._rules):
                chosen.append(at)
        if not self._enough(chosen, copies):
            return NEVER, ()
        for at in reversed(tuple(chosen)):
            fewer = [each for each in chosen if each != at]
            chosen = fewer if self._enough(fewer, copies) else chosen
        return self._cost(chosen), tuple(self._units[at] for at in chosen)

    def _enough(self, chosen: Sequence[int], copies: int) -> bool:
        return self._takes([record for each in chosen for record in self._units[each].records], copies)


def allowed_together(units: Sequence[Unit], rules: EvictionRules, left: Iterable[str] = ()) -> bool:
    """Whether the rules about several victims allow all these units, when the gangs in ``left`` go as well."""
    whole = {unit.gang for unit in units if unit.gang}.union(left)
    singles = [unit.records[0] for unit in units if not unit.gang]
    if any(rules.gang_of(record) in whole for record in singles):
        return False
    members = [member.pod for name in sorted(whole) for member in rules.gang(name).members]
    return rules.conflict([*singles, *members], whole) is None
