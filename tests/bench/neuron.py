"""Linked devices: the tables of each instance type, a choice from them, the engine's whole decision about a node."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from hami_plugins.engine.decide import Decider
from hami_plugins.engine.intake import Rules, take_in
from hami_plugins.engine.inventory import NodeBuilder
from hami_plugins.engine.place import Placer
from hami_plugins.engine.registry import Registry
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.devices import CoreMask, DeviceUsage
from hami_plugins.model.inventory import NodeObject
from hami_plugins.model.nodes import NodeEntry, NodeFacts, NodeState
from hami_plugins.model.units import CoreShare, MiB, NodeName
from hami_plugins.wire import objects, quantity
from neuron_topology.core.hardware.instances import INSTANCE_TYPES, InstanceType
from neuron_topology.core.names import CORES, DEVICES, INSTANCE_LABEL
from neuron_topology.core.nodes import FAMILY_LABEL
from neuron_topology.core.sets.families import Family
from neuron_topology.core.sets.locality import Locality
from neuron_topology.core.sets.tables import Tables, Topology
from neuron_topology.core.vendor import SPEC
from tests import raw_objects
from tests.bench.measuring import Figure, figure, timed

TRN1 = INSTANCE_TYPES["trn1.32xlarge"]
ALL = 0xFFFF
ROUNDS = 1_000
IDLE, TAKEN = DeviceUsage(), DeviceUsage(1, MiB(0), CoreShare(2), (CoreMask(3),))


def figures() -> Iterator[Figure]:
    """Building, choosing, deciding."""
    yield from building()
    yield from choosing()
    yield from deciding()


def topology_of(kind: InstanceType, family: Family) -> Topology:
    """The inputs of a type's tables."""
    return Topology(
        kind.fabric, family, Locality(kind.numa, tuple(group.devices for group in kind.pcie), kind.efa_groups)
    )


def building(repeats: int = 5) -> Iterator[Figure]:
    """Tables are made for one type and count when they are first asked for; types that are wired alike share them."""
    for family in Family:
        topologies = {topology_of(kind, family) for kind in INSTANCE_TYPES.values()}
        longest: list[float] = []
        whole: list[float] = []
        for _ in range(repeats):
            of_types = [_built(topology) for topology in topologies]
            longest.append(max(max(first + each for each in counts) for first, counts in of_types))
            whole.append(max(first + sum(counts) for first, counts in of_types))
        yield figure(f"{family}: the table of one count, longest of all types", longest, at_most=300)
        yield figure(f"{family}: every table of one type, longest of {len(topologies)} wirings", whole)


def _built(topology: Topology) -> tuple[float, list[float]]:
    """Milliseconds for sets and values, then for each count."""
    first, tables = timed(Tables, topology)
    values, _ = timed(tables.values)
    return first + values, [timed(tables.choices, count)[0] for count in tables.counts]


def choosing(repeats: int = 200) -> Iterator[Figure]:
    """A set and its order from the tables, for nodes that are in use in a thousand different ways."""
    tables = topology_of(TRN1, Family.LINKED).tables
    draw = random.Random(7)
    asked = [(draw.randrange(1, ALL + 1), draw.choice((1, 2, 4, 8))) for _ in range(ROUNDS)]

    def look_up() -> None:
        for free, count in asked:
            members = tables.choose(free, count)
            if members:
                tables.order(members)

    look_up()
    yield _each("one choice with its order, one node", look_up, repeats, at_most=5)


def deciding(repeats: int = 100) -> Iterator[Figure]:
    """The engine's whole decision about one node: in a state that it has seen, and in one that is new to it."""
    registry = Registry([SPEC])
    node = NodeBuilder(registry).entry(_node(), NodeFacts())
    intake = take_in(objects.pod(_pod(4)), registry, Rules())
    decider = Decider(registry, uncounted=registry.resources)
    draw = random.Random(11)
    states = [_in_use(node.state, draw.randrange(1, ALL + 1)) for _ in range(ROUNDS)]
    known = decider.answers(ClusterSnapshot(nodes=(node,)), intake.demand, intake.policy)
    if not known:
        raise TypeError("the workload no longer fits")
    placer = Placer(intake.demand.devices, intake.policy, registry)

    def place() -> None:
        for state in states:
            placer(state)

    place()
    yield _each("one decision of the engine, one node, new state", place, max(repeats // 10, 5))
    twins = [ClusterSnapshot(nodes=(_again(node),)) for _ in range(ROUNDS)]

    def decide() -> None:
        for snapshot in twins:
            decider.decide(snapshot, intake.demand, intake.policy)

    decide()
    yield _each("one decision of the engine, one node, state seen before", decide, repeats, at_most=5)
    shuffled = [ClusterSnapshot(nodes=(_again(node, state),)) for state in states]

    def decide_again() -> None:
        for snapshot in shuffled:
            decider.decide(snapshot, intake.demand, intake.policy)

    decide_again()
    yield _each("the same, a thousand such states in turn", decide_again, repeats, at_most=5)


def _each(name: str, run: Callable[[], None], repeats: int, *, at_most: float | None = None) -> Figure:
    """Microseconds for each of ``ROUNDS``."""
    return figure(name, [timed(run)[0] * 1000 / ROUNDS for _ in range(repeats)], unit="us", at_most=at_most)


def _node() -> NodeObject:
    offered = {name: quantity.parse(text, key=name) for name, text in ((DEVICES, "16"), (CORES, "32"))}
    labels = {INSTANCE_LABEL: TRN1.name, FAMILY_LABEL: Family.LINKED}
    return NodeObject(NodeName("trn1-0"), {}, labels, offered, offered)


def _pod(devices: int) -> dict[str, object]:
    limits = {DEVICES: str(devices)}
    return raw_objects.pod("p", raw_objects.container(limits=limits, requests=limits), metadata={"namespace": "lab"})


def _in_use(state: NodeState, free: int) -> NodeState:
    return NodeState(state.shape, tuple(IDLE if free >> at & 1 else TAKEN for at in range(len(state.usage))))


def _again(entry: NodeEntry, state: NodeState | None = None) -> NodeEntry:
    """The node as a watch brings it, in the same state or in another one."""
    return NodeEntry(name=entry.name, state=state or entry.state, ids=entry.ids, facts=entry.facts)
