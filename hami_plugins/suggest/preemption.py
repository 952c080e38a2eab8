"""Which pods a person may delete so that another fits: the fewest and smallest, by the search for victims.

A person may delete what no scheduler evicts: budgets, gangs and queues do not matter here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import partial
from heapq import nsmallest
from typing import Final

from hami_plugins.engine.apply import without_pods
from hami_plugins.engine.eligibility import objection
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.pods import PodRecord
from hami_plugins.model.verdicts import Reason
from hami_plugins.preemption.bounds import RoomBounds
from hami_plugins.preemption.costs import NEVER, SizeScale
from hami_plugins.preemption.node_search import NodeSearch, units_of
from hami_plugins.preemption.preemptor import Preemptor
from hami_plugins.preemption.rows import rows_of
from hami_plugins.preemption.rules import SYSTEM_CRITICAL, EvictionRules
from hami_plugins.suggest.changes import Counterfactual, Removed
from hami_plugins.suggest.refusals import Refusals
from hami_plugins.suggest.search import Search

TAKEN: Final = frozenset(
    {
        Reason.SLOTS,
        Reason.COMPUTE,
        Reason.MEMORY,
        Reason.CORES,
        Reason.HEALTH,
        Reason.EXCLUSIVE,
        Reason.VENDOR_RULE,
        Reason.PARTITION,
        Reason.QOS,
        Reason.APP_CLASS,
        Reason.GROUP,
        Reason.MODE,
        Reason.TOPOLOGY,
    }
)
"""Objections to a device that can be there because of who uses it."""

MOST_SEARCHED: Final = 64
"""Nodes that are searched, those first on which the fewest and smallest pods could be enough."""

MOST_TOGETHER: Final = 8
"""Pods that are suggested together."""

_SCALE: Final = SizeScale()
_NO_RULES: Final = EvictionRules(
    ClusterSnapshot(), Preemptor(infos=(), priority=SYSTEM_CRITICAL, group="", queue="", requests={}), None
)


def without_victims(search: Search, refusals: Refusals, may_go: Callable[[PodRecord], bool]) -> Counterfactual | None:
    """The question answered without the fewest and smallest pods of one node that may go and are enough."""
    question = refusals.question
    bounds = RoomBounds(question.demand, question.policy, refusals.registry, refusals.uncounted)
    waiting: list[tuple[int, int, NodeEntry]] = []
    for number, entry in enumerate(filter(bounds.may_serve, _nodes(refusals))):
        rows = rows_of(entry, ((record, record.priority) for record in entry.pods if may_go(record)), _SCALE)
        (least,) = bounds.costs(entry, rows, 1)
        waiting.append((least, number, entry))
    best = NEVER
    found: tuple[NodeEntry, list[PodRecord]] | None = None
    for least, _, entry in nsmallest(MOST_SEARCHED, waiting):
        if least < best:
            takes = partial(_is_proven, search, entry)
            units = units_of(entry, may_go, _NO_RULES, _SCALE, whole_cost=False)
            cost, chosen = NodeSearch(entry, units, bounds, _NO_RULES, takes).cheapest(1)
            if cost < best and len(chosen) <= MOST_TOGETHER:
                best, found = cost, (entry, [unit.records[0] for unit in chosen])
    return None if found is None else _without(search, *found)


def _nodes(refusals: Refusals) -> Iterator[NodeEntry]:
    """Nodes that refuse for what others hold: of their devices, or of their sums alone."""
    yield from refusals.lifted_by(TAKEN)
    constraints = replace(refusals.question.demand.constraints, requests=())
    for entry in refusals.objecting:
        if objection(replace(entry, requested={}), constraints, refusals.uncounted) is None:
            yield entry


def _is_proven(search: Search, entry: NodeEntry, leaving: Collection[PodRecord], _copies: int) -> bool:
    return _without(search, entry, leaving) is not None


def _without(search: Search, entry: NodeEntry, leaving: Collection[PodRecord]) -> Counterfactual | None:
    gone = set(map(id, leaving))
    left = without_pods(entry, lambda record: id(record) in gone)
    return search.proven(tuple(Removed(pod=pod, node=entry.name) for pod in leaving), left)
