"""How little could be enough on one node: lower bounds of what room for some copies of a pod costs, by arithmetic.

The bounds look at slots, memory and cores of devices, at sets of devices that go together, and at node sums. Rules of
single vendors can only make room dearer.

There are two, ``costs`` and the faster ``quick_cost``, which does not look up what each pod holds of which device. The
devices of the node say how many pods have to leave at least, if each gave back the largest amounts that any of them
holds. In truth no fewer leave, and those that make room on one device share it. So the quick bound, the cheapest set of
so many pods with those of one device among them, is never above ``costs``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain
from typing import NamedTuple, TypeAlias

from hami_plugins.engine.bounds import RequestBounds
from hami_plugins.engine.decide import PodDemand
from hami_plugins.engine.registry import Registry
from hami_plugins.model.nodes import NodeEntry, NodeShape
from hami_plugins.model.policy import Policy
from hami_plugins.model.quantity import NANO
from hami_plugins.model.requests import DeviceRequest
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.preemption.costs import NEVER
from hami_plugins.preemption.rows import Amount, LeaverSummary, Row, added

_Held: TypeAlias = tuple[int, Amount]
"""What a pod costs, and what it gives back of one device."""

_Options: TypeAlias = tuple[int, list[tuple[int, int]]]
"""A device, and for 1, 2 ... copies on it the number and the cost of the pods that have to leave."""


class _Copies(NamedTuple):
    """One device: the most that others may hold of it for one copy of a request, and what each further one takes."""

    at: int
    slots: int
    memory: int
    cores: int
    step: Amount
    times: int


class _Gauge(NamedTuple):
    """One request on nodes of one shape. ``sets`` are those it may be allocated, ``None`` where any devices will do.

    ``most`` is how many devices an empty node has for it, ``fewest`` how many devices can serve it.
    """

    bounds: RequestBounds
    devices: tuple[_Copies, ...]
    sets: tuple[frozenset[int], ...] | None
    most: int
    fewest: int

    @classmethod
    def of(cls, spec: VendorSpec, request: DeviceRequest, policy: Policy, entry: NodeEntry) -> _Gauge:
        """The gauge of a node and of all nodes like it, unless the request names ids."""
        shape = entry.state.shape
        request = request if spec.requests.on_node is None else spec.requests.on_node(request, shape)
        together = None if spec.topology.together is None else spec.topology.together(request, shape)
        bounds = RequestBounds(spec, request, policy)
        devices = tuple(
            _Copies(
                limit.at,
                limit.slots,
                limit.memory,
                limit.cores,
                (1, bounds.memory_on(limit.device), bounds.cores_on(limit.device) or 0),
                limit.times,
            )
            for limit in bounds.limits(entry)
            if min(limit.slots, limit.memory, limit.cores) >= 0
        )
        times = [each.times for each in devices]
        fewest = -(-request.count // max(times, default=1))
        sets = None if together is None else tuple(map(frozenset, together.sets))
        return cls(bounds, devices, sets, sum(times), fewest)

    def options(
        self, entry: NodeEntry, copies: int, freed: Mapping[int, Amount], by_device: Mapping[int, Sequence[_Held]]
    ) -> list[_Options]:
        """For each device that serves the request: how many pods have to leave for 1, 2 ... copies, and their cost."""
        usage = entry.state.usage
        found: list[_Options] = []
        for at, most_slots, most_memory, most_cores, step, times in self.devices:
            slots, memory, cores, _ = usage[at]
            short = slots - most_slots, memory - most_memory, cores - most_cores
            gives = freed.get(at)
            if gives is not None:
                short = short[0] - gives[0], short[1] - gives[1], short[2] - gives[2]
            held = by_device.get(at, ())
            if not held and max(short) > 0:
                continue  # as most devices of a full cluster whose pods have higher priorities
            costs: list[tuple[int, int]] = []
            for _ in range(copies):
                least = _least(held, *short)
                if least is None:
                    break
                costs.extend([least] * times)
                short = short[0] + step[0], short[1] + step[1], short[2] + step[2]
            if costs:
                found.append((at, costs))
        return found

    def numbers(self, entry: NodeEntry, leavers: LeaverSummary) -> tuple[int, int]:
        """How many pods at least have to leave one device, and how many all together, for one copy."""
        gives_slots, gives_memory, gives_cores = leavers.largest
        usage = entry.state.usage
        numbers: list[int] = []
        for at, most_slots, most_memory, most_cores, _, _ in self.devices:
            slots, memory, cores, _ = usage[at]
            number = 0
            if slots > most_slots:
                number = -((most_slots - slots) // gives_slots) if gives_slots else NEVER
            if memory > most_memory:
                more = -((most_memory - memory) // gives_memory) if gives_memory else NEVER
                number = more if more > number else number  # noqa: FURB136 - a call would take longer
            if cores > most_cores:
                more = -((most_cores - cores) // gives_cores) if gives_cores else NEVER
                number = more if more > number else number  # noqa: FURB136 - a call would take longer
            numbers.append(number)
        if len(numbers) < self.fewest:
            return NEVER, NEVER
        least = min(numbers)
        together = least if self.fewest == 1 else sum(sorted(numbers)[: self.fewest])
        return least, -(-together // leavers.spans)


class RoomBounds:
    """Lower bounds for copies of one demand."""

    def __init__(self, demand: PodDemand, policy: Policy, registry: Registry, uncounted: Collection[str]) -> None:
        containers = demand.devices.containers
        self._requests = tuple(dict.fromkeys(each for container in containers for each in container.requests))
        self._policy = policy
        self._registry = registry
        plain = [(name, amount) for name, amount in demand.constraints.requests if amount and name not in uncounted]
        self._plain = [("pods", NANO), *plain]
        self._gauges: dict[NodeShape, tuple[_Gauge, ...]] = {}

    def may_serve(self, entry: NodeEntry) -> bool:
        """Whether a node could take one copy if no pod were on it; looked at once for all nodes of a shape."""
        return all(gauge.most >= gauge.bounds.request.count for gauge in self._on(entry))

    def costs(self, entry: NodeEntry, rows: Sequence[Row], copies: int, gone: Iterable[Row] = ()) -> list[int]:
        """At least what room for 1, 2 ... ``copies`` pods costs when ``gone`` have left; ``rows`` are sorted by cost.

        ``NEVER`` where no rows are enough.
        """
        freed: dict[int, Amount] = {}
        for row in gone:
            for at, amount in row.frees:
                freed[at] = added(freed.get(at), amount)
        by_device: dict[int, list[_Held]] = {}
        spans = 1
        for row in rows:
            spans = max(spans, len(row.frees))
            for at, amount in row.frees:
                by_device.setdefault(at, []).append((row.cost, amount))
        found = self._of_sums(entry, rows, copies, gone)
        for gauge in self._on(entry):
            devices = gauge.options(entry, copies, freed, by_device)
            of_gauge = _together(devices, gauge.bounds.request.count, copies, rows, spans)
            found = list(map(max, found, of_gauge))
            if gauge.sets is not None:
                least = min((_of_set(members, devices, spans) for members in gauge.sets), default=NEVER)
                found = [max(each, least) for each in found]
        return found

    def quick_cost(self, entry: NodeEntry, leavers: LeaverSummary) -> int:
        """A lower bound of what ``costs`` says of one copy when nothing has left; see above."""
        of_one, number = 0, int(any(amount > room for _, amount, room in self._sums(entry)))
        for gauge in self._on(entry):
            of_device, together = gauge.numbers(entry, leavers)
            of_one, number = max(of_one, of_device), max(number, together)
        if number > len(leavers.costs):
            return NEVER
        of_any = sum(leavers.costs[:number])
        sharing = (sum(sorted(costs)[:of_one]) for costs in leavers.by_device.values() if len(costs) >= of_one)
        return max(of_any, min(sharing, default=NEVER)) if of_one else of_any

    def _on(self, entry: NodeEntry) -> tuple[_Gauge, ...]:
        shape = entry.state.shape
        found = self._gauges.get(shape)
        if found is None:
            specs = self._registry
            found = tuple(_Gauge.of(specs[each.vendor], each, self._policy, entry) for each in self._requests)
            if not any(each.selector.names_ids for each in self._requests):
                self._gauges[shape] = found
        return found

    def _of_sums(self, entry: NodeEntry, rows: Sequence[Row], copies: int, gone: Iterable[Row]) -> list[int]:
        """By what the scheduler sums up for the node, the number of pods included."""
        found = [0] * copies
        for name, amount, left in self._sums(entry):
            room = left + sum(row.gives(name) for row in gone)
            if amount * copies <= room:
                continue
            costs = list(accumulate((row.cost for row in rows), initial=0))
            gives = sorted((row.gives(name) for row in rows), reverse=True)
            needed = [_of_count(_count(gives, amount * (at + 1) - room), costs) for at in range(copies)]
            found = list(map(max, found, needed))
        return found

    def _sums(self, entry: NodeEntry) -> Iterator[tuple[str, int, int]]:
        """What is summed up for the node, what a copy takes of it, and what is left."""
        for name, amount in self._plain:
            have = entry.facts.allocatable.get(name)
            if have is not None:  # of what every real node has, a listing without it says nothing: the decision knows
                yield name, amount, have.nano - entry.requested.get(name, 0)


def _least(held: Sequence[_Held], slots: int, memory: int, cores: int) -> tuple[int, int] | None:
    """How many of these pods at least have to leave one device, and their cost; ``None`` where all are too few."""
    most = 0
    for dimension, short in enumerate((slots, memory, cores)):
        if short > 0:
            gives = [amount[dimension] for _, amount in held]
            if sum(gives) < short:  # so of most devices nothing is sorted
                return None
            gives.sort(reverse=True)
            most = max(most, _count(gives, short) or 0)
    return most, sum(cost for cost, _ in held[:most])


def _count(gives: Iterable[int], short: int) -> int | None:
    """How many of these amounts, the largest first, make up for what is short; ``None`` where all are too few."""
    if short <= 0:
        return 0
    for count, amount in enumerate(gives, 1):
        short -= amount
        if short <= 0:
            return count
    return None


def _of_count(count: int | None, costs: Sequence[int]) -> int:
    return NEVER if count is None else costs[count]


def _together(devices: Sequence[_Options], count: int, copies: int, rows: Sequence[Row], spans: int) -> list[int]:
    """The cost of room for 1, 2 ... copies of a request of ``count`` devices, whichever devices these are.

    Where a pod holds ``spans`` devices, it may be what makes room on all of them.
    """
    if spans == 1:
        options = [[cost for _, cost in costs] for _, costs in devices]
        return _cheapest(options, count * copies)[count::count]
    numbers = _cheapest([[number for number, _ in costs] for _, costs in devices], count * copies)[count::count]
    costs = list(accumulate((row.cost for row in rows), initial=0))
    found = [NEVER if number >= NEVER else costs[min(-(-number // spans), len(rows))] for number in numbers]
    single = sorted(costs[0][1] for _, costs in devices)
    if len(single) >= count:
        found = [max(each, single[count - 1]) for each in found]
    return found


def _cheapest(options: Sequence[Sequence[int]], wanted: int) -> list[int]:
    """The least cost of 0, 1 ... ``wanted`` copies or more, of which a device can take as many as it has options."""
    if max(map(len, options), default=1) == 1:
        least = sorted(chain.from_iterable(options))[:wanted]
        return [*accumulate(least, initial=0), *[NEVER] * (wanted - len(least))]
    best = [0] + [NEVER] * wanted
    for costs in options:
        for copies in range(wanted, 0, -1):
            best[copies] = min(
                best[copies],
                min((best[copies - taken] + cost for taken, cost in enumerate(costs[:copies], 1)), default=NEVER),
            )
    return [min(each, NEVER) for each in best]


def _of_set(members: frozenset[int], devices: Sequence[_Options], spans: int) -> int:
    """At least what it costs to free all devices of a set."""
    costs = [costs[0][1] for at, costs in devices if at in members]
    if len(costs) < len(members):
        return NEVER
    return sum(costs) if spans == 1 else max(costs)
