"""Sets of pods of one node whose leaving could make room for a request, by arithmetic; the cheapest first.

The arithmetic is that of ``engine.bounds`` and ``preemption.bounds``: it knows slots, memory and cores of devices, sets
of devices that go together, and node sums. Whether a set is enough, the decision function says.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from heapq import nsmallest
from itertools import combinations, product
from typing import Final, NamedTuple, TypeAlias

from hami_plugins.engine.bounds import RequestBounds
from hami_plugins.engine.decide import PodDemand
from hami_plugins.engine.eligibility import objection, shortages
from hami_plugins.engine.registry import Registry
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.pods import PodRecord
from hami_plugins.model.policy import Policy
from hami_plugins.model.quantity import NANO
from hami_plugins.model.requests import DeviceRequest
from hami_plugins.preemption.rows import Amount, freed_by

MOST_OF_DEVICE: Final = 12
"""Pods of one device that are combined, those that hold most."""

MOST_SETS: Final = 64
"""Sets of one node that are tried for one demand."""

_SPARE: Final = 3
"""Devices beyond the requested number, the cheapest ones, among which devices are chosen."""

PodSet: TypeAlias = frozenset[int]
"""Positions among the leavers of a node."""

_NONE: Final[PodSet] = frozenset()


class Leaver(NamedTuple):
    """A pod that may leave its node, what that costs, and what it gives back by device."""

    record: PodRecord
    cost: int
    frees: Mapping[int, Amount]


class LeavingSet(NamedTuple):
    """Pods of a node that would leave together, and what that costs."""

    cost: int
    entry: NodeEntry
    records: tuple[PodRecord, ...]


class LeavingSets:
    """The sets for one demand. ``leavers`` are the pods of a node that may leave it now."""

    def __init__(self, demand: PodDemand, policy: Policy, registry: Registry, uncounted: Collection[str]) -> None:
        self._constraints = demand.constraints
        self._uncounted = uncounted
        self._wanted: dict[DeviceRequest, int] = {}
        for container in demand.devices.containers:
            for request in container.requests:
                self._wanted[request] = self._wanted.get(request, 0) + request.count
        self._bounds = {each: RequestBounds(registry[each.vendor], each, policy) for each in self._wanted}

    def of(self, entry: NodeEntry, leavers: Sequence[Leaver], most: int) -> Iterator[LeavingSet]:
        """The sets of at most so many pods; none for a node that the pod may not use, whichever pods leave."""
        why = objection(entry, self._constraints, self._uncounted)
        if why is not None and not why.resource:
            return
        of_requests: list[Sequence[PodSet]] = []
        for request, count in self._wanted.items():
            of_requests.append(self._of_request(entry, leavers, request, count, most))
        found = {_NONE.union(*parts) for parts in product(*of_requests)}
        lacking = self._short(entry)
        enough = filter(None, (_with_sums(each, leavers, lacking) for each in found) if lacking else found)
        usable = {each for each in enough if len(each) <= most}
        for each in nsmallest(MOST_SETS, usable, key=lambda one: (_cost(one, leavers), sorted(one))):
            yield LeavingSet(_cost(each, leavers), entry, tuple(leavers[at].record for at in sorted(each)))

    def _short(self, entry: NodeEntry) -> dict[str, int]:
        """What of the node's sums has to be given back, in nano units."""
        return {each.resource: each.asked - each.free for each in shortages(entry, self._constraints, self._uncounted)}

    def _of_request(
        self, entry: NodeEntry, leavers: Sequence[Leaver], request: DeviceRequest, count: int, most: int
    ) -> Sequence[PodSet]:
        """The sets that make enough devices hold the request."""
        bounds = self._bounds[request]
        options: dict[int, list[PodSet]] = {}
        for at, slots, memory, cores, _, _ in bounds.limits(entry):
            used = entry.state.usage[at]
            short = used.slots - slots, used.memory - memory, used.cores - cores
            found = minimal_sets(leavers, at, partial(_covers, leavers, at, short), most)
            if found == [_NONE]:
                found += _others(leavers, at, most)
            if found:
                options[at] = found
        chosen = nsmallest(MOST_SETS, _together(bounds, entry, options, leavers, count))
        return [each for _, _, each in chosen]


def minimal_sets(
    leavers: Sequence[Leaver], device: int, enough: Callable[[tuple[int, ...]], bool], most: int
) -> list[PodSet]:
    """The sets of pods of one device that are enough and from which no pod can be left out; the empty one alone, where
    nothing has to leave. ``enough`` is asked about positions among the leavers."""
    holders = [at for at, each in enumerate(leavers) if device in each.frees]
    holders = sorted(holders, key=lambda at: leavers[at].frees[device], reverse=True)[:MOST_OF_DEVICE]
    found: list[PodSet] = []
    for size in range(most + 1):
        for chosen in combinations(holders, size):
            members = frozenset(chosen)
            if not any(each.issubset(members) for each in found) and enough(chosen):
                found.append(members)
    return found


def _others(leavers: Sequence[Leaver], device: int, most: int) -> list[PodSet]:
    """The pods of a device one by one, and all of them: for a vendor's rule that no arithmetic knows."""
    holders = [at for at, each in enumerate(leavers) if device in each.frees]
    found = [frozenset({at}) for at in holders]
    return list(dict.fromkeys([*found, frozenset(holders)])) if len(holders) <= most else found


def leavers_of(
    entry: NodeEntry, may_leave: Callable[[PodRecord], bool], cost_of: Callable[[PodRecord], int]
) -> list[Leaver]:
    """The pods of a node that may leave."""
    position = {device: at for at, device in enumerate(entry.ids)}
    return [
        Leaver(record, cost_of(record), dict(freed_by(record, position))) for record in entry.pods if may_leave(record)
    ]


def _covers(leavers: Sequence[Leaver], device: int, short: Amount, chosen: Iterable[int]) -> bool:
    """Whether some pods give back of a device what is short."""
    freed = [leavers[each].frees[device] for each in chosen]
    return all(sum(amount[part] for amount in freed) >= lacking for part, lacking in enumerate(short))


def _together(
    bounds: RequestBounds,
    entry: NodeEntry,
    options: Mapping[int, Sequence[PodSet]],
    leavers: Sequence[Leaver],
    count: int,
) -> Iterator[tuple[int, list[int], PodSet]]:
    """The sets of so many devices, each with its cost."""
    spec, shape = bounds.spec, entry.state.shape
    together = None if spec.topology.together is None else spec.topology.together(bounds.request, shape)
    groups: Iterable[Sequence[int]]
    if together is not None:
        groups = [each for each in together.sets if all(at in options for at in each)]
    else:
        cheapest = {at: min(_cost(each, leavers) for each in sets) for at, sets in options.items()}
        times = {limit.at: limit.times for limit in bounds.limits(entry)}
        ranked = sorted(options, key=lambda at: (cheapest[at], at))
        ranked = ranked if count == 1 else [at for at in ranked for _ in range(times[at])][: count + _SPARE]
        groups = dict.fromkeys(combinations(ranked, count))
    for devices in groups:
        alone = len(devices) == 1
        sets = [options[at] if alone else _best(options[at], leavers) for at in devices]
        for parts in product(*sets):
            union = _NONE.union(*parts)
            yield _cost(union, leavers), sorted(union), union


def _best(sets: Sequence[PodSet], leavers: Sequence[Leaver]) -> Sequence[PodSet]:
    return [min(sets, key=lambda each: _cost(each, leavers))]


def _with_sums(chosen: PodSet, leavers: Sequence[Leaver], lacking: Mapping[str, int]) -> PodSet | None:
    """The set with further pods, the cheapest that give most, until the node's sums are enough as well."""
    found = set(chosen)
    for resource, short in lacking.items():
        gives = {at: _gives(each.record, resource) for at, each in enumerate(leavers)}
        left = short - sum(gives[at] for at in found)
        for at in sorted(gives.keys() - found, key=lambda one: (-gives[one], leavers[one].cost)):
            if left > 0:
                found.add(at)
                left -= gives[at]
        if left > 0:
            return None
    return frozenset(found)


def _gives(record: PodRecord, resource: str) -> int:
    return NANO if resource == "pods" else dict(record.requests).get(resource, 0)


def _cost(chosen: Iterable[int], leavers: Sequence[Leaver]) -> int:
    return sum(leavers[at].cost for at in chosen)
