"""One run of the loss system: a job that fits no node immediately is rejected, and none waits.

Departures up to and including an arrival's time happen before it. Of the nodes that have a set for the job, the one
with the fewest free devices takes it, of equals the first. The mixes are those of
``tests/golden/vectors/neuron/simulation.yaml``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple, Protocol

from neuron_topology.core.simulation.jobs import SimulatedJob


class AllocationTable(Protocol):
    """What a policy allocates for one number of devices."""

    def __getitem__(self, free: int, /) -> int:
        """The mask of what is allocated of a mask of free devices; 0 where that is nothing."""


class SimulatedAllocation(NamedTuple):
    """Devices of one node."""

    node: int
    devices: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationOutcome:
    """What came of a run, or of a part of it.

    ``offered`` and ``accepted`` count jobs by the devices that they ask for, ``fragmented`` the rejected ones for which
    some node had enough free devices. ``held`` is the devices in use, summed over ``time``; ``capacity`` those of all
    nodes. ``events`` are arrivals and departures.
    """

    offered: Mapping[int, int]
    accepted: Mapping[int, int]
    fragmented: int
    held: float
    time: float
    capacity: int
    events: int

    @property
    def utilisation(self) -> float | None:
        """The average share of devices in use; ``None`` where no time has passed."""
        return self.held / (self.time * self.capacity) if self.time else None

    @property
    def frag_rejects(self) -> float:
        """The share of jobs that were rejected for fragments."""
        return self.fragmented / sum(self.offered.values())

    @property
    def acceptance(self) -> float:
        """The share of jobs that were accepted."""
        return sum(self.accepted.values()) / sum(self.offered.values())

    def acceptance_of(self, devices: int) -> float | None:
        """The same of the jobs of one size; ``None`` where there was none."""
        return self.accepted[devices] / self.offered[devices] if devices in self.offered else None


def whole(parts: Sequence[SimulationOutcome]) -> SimulationOutcome:
    """Parts of a run as one."""
    offered: Counter[int] = Counter()
    accepted: Counter[int] = Counter()
    for part in parts:
        offered.update(part.offered)
        accepted.update(part.accepted)
    return SimulationOutcome(
        offered=offered,
        accepted=accepted,
        fragmented=sum(part.fragmented for part in parts),
        held=math.fsum(part.held for part in parts),
        time=math.fsum(part.time for part in parts),
        capacity=parts[0].capacity,
        events=sum(part.events for part in parts),
    )


class Nodes:
    """The free devices of every node.

    Nodes with equally many free devices are one bit set, so that the fullest node that has a set is found by looking
    at few nodes, however many there are.
    """

    __slots__ = ("_by_free", "_masks", "_most")

    def __init__(self, nodes: int, devices: int) -> None:
        self._most = devices
        self._masks = [(1 << devices) - 1] * nodes
        self._by_free = [0] * devices + [(1 << nodes) - 1]

    def take(self, table: AllocationTable, devices: int) -> SimulatedAllocation | None:
        """Hold so many devices where the table has a set for them; ``None`` where it has none on any node."""
        masks, by_free = self._masks, self._by_free
        for free in range(devices, self._most + 1):
            candidates = by_free[free]
            while candidates:
                first = candidates & -candidates
                node = first.bit_length() - 1
                allocated = table[masks[node]]
                if allocated:
                    masks[node] ^= allocated
                    by_free[free] ^= first
                    by_free[free - devices] |= first
                    return SimulatedAllocation(node, allocated)
                candidates ^= first
        return None

    def give_back(self, allocation: SimulatedAllocation, devices: int) -> None:
        """End an allocation of so many devices."""
        node, allocated = allocation
        masks, by_free, bit = self._masks, self._by_free, 1 << allocation.node
        free = masks[node].bit_count()
        masks[node] |= allocated
        by_free[free] ^= bit
        by_free[free + devices] |= bit

    def has_room(self, devices: int) -> bool:
        """Whether some node has so many free devices, linked or not."""
        return any(self._by_free[devices:])


class _Running:
    """The jobs that hold devices at a time, and how many devices were held for how long."""

    __slots__ = ("_ends", "_nodes", "busy", "departures", "held", "now")

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._ends: list[tuple[float, int, SimulatedAllocation]] = []
        self.now = self.held = 0.0
        self.busy = self.departures = 0

    def until(self, time: float) -> None:
        """Let time pass; what ends up to and including then ends."""
        ends = self._ends
        while ends and ends[0][0] <= time:
            ended, devices, allocation = heappop(ends)
            self.held += self.busy * (ended - self.now)
            self.now = ended
            self.busy -= devices
            self._nodes.give_back(allocation, devices)
            self.departures += 1
        self.held += self.busy * (time - self.now)
        self.now = time

    def start(self, table: AllocationTable, devices: int, duration: float) -> bool:
        """Begin a job now, or say that no node can hold it."""
        allocation = self._nodes.take(table, devices)
        if allocation is None:
            return False
        self.busy += devices
        heappush(self._ends, (self.now + duration, devices, allocation))
        return True


class _Part:
    """What is counted from a time on."""

    __slots__ = ("_departures", "_held", "_since", "fragmented", "offered", "rejected")

    def __init__(self, running: _Running) -> None:
        self.offered: Counter[int] = Counter()
        self.rejected: Counter[int] = Counter()
        self.fragmented = 0
        self._since, self._held, self._departures = running.now, running.held, running.departures

    def outcome(self, running: _Running, capacity: int) -> SimulationOutcome:
        """What came of it until now."""
        return SimulationOutcome(
            offered=self.offered,
            accepted={devices: count - self.rejected[devices] for devices, count in self.offered.items()},
            fragmented=self.fragmented,
            held=running.held - self._held,
            time=running.now - self._since,
            capacity=capacity,
            events=sum(self.offered.values()) + running.departures - self._departures,
        )


def run(  # noqa: PLR0913 - a cluster, its jobs, and what of them is counted
    jobs: Sequence[SimulatedJob],
    tables: Mapping[int, AllocationTable],
    *,
    nodes: int,
    devices: int,
    warm_up: float = 0.1,
    parts: int = 1,
) -> tuple[SimulationOutcome, ...]:
    """What becomes of jobs on nodes of so many devices; ``tables`` holds one for every number that a job asks for.

    The first ``warm_up`` share of the jobs is not counted; the others are reported in ``parts`` of equally many jobs.
    """
    cluster = Nodes(nodes, devices)
    running = _Running(cluster)
    first = int(len(jobs) * warm_up)
    begins = {first + (len(jobs) - first) * part // parts for part in range(parts)}
    part, found = _Part(running), []
    for number, (arrival, asked, duration) in enumerate(jobs):
        running.until(arrival)
        if number in begins:
            found.append(part.outcome(running, nodes * devices))
            part = _Part(running)
        part.offered[asked] += 1
        if not running.start(tables[asked], asked, duration):
            part.rejected[asked] += 1
            part.fragmented += cluster.has_room(asked)
    found.append(part.outcome(running, nodes * devices))
    return tuple(found[1:])
