"""Whether all of a job fits: every reported shortage is real, and most real shortages are reported."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_plugins.engine.apply import assigned
from hami_plugins.engine.decide import Decider
from hami_plugins.engine.intake import Rules, take_in
from hami_plugins.engine.inventory import NodeBuilder, RecordReader, settled, with_pods
from hami_plugins.engine.registry import Registry
from hami_plugins.model.decisions import Placed
from hami_plugins.model.nodes import NodeEntry, NodeFacts
from hami_plugins.model.pods import Pod
from hami_plugins.model.units import NodeName, PodUid
from hami_plugins.wire.quantity import parse
from neuron_topology.core.gangs.capacity import MemberRequest, NodeKind, displaced, free_of, lacking
from neuron_topology.core.hardware.instances import INSTANCE_TYPES
from neuron_topology.core.names import CORES, DEVICES
from neuron_topology.core.sets.families import Family
from neuron_topology.core.sets.tables import Tables, Topology
from neuron_topology.core.vendor import SPEC
from tests.builders import a_container, a_pod, a_snapshot
from tests.unit.neuron_topology.nodes import TRN1, TRN2, a_neuron_node
from tests.unit.vendors.placing import holder

REGISTRY = Registry([SPEC])
BUILDER = NodeBuilder(REGISTRY)
READER = RecordReader(REGISTRY)


def tables(kind: str = TRN1, family: Family = Family.LINKED) -> Tables:
    return Topology(INSTANCE_TYPES[kind].fabric, family).tables


TORUS, ROWS = NodeKind(tables(), 2), NodeKind(tables(family=Family.AWS), 2)
WIDE, RING = NodeKind(tables(TRN2), 4), NodeKind(tables("inf2.48xlarge"), 2)


def a_node(
    name: str = "n",
    kind: str = TRN1,
    *,
    family: str = "linked",
    busy: Iterable[int] = (),
    half: Iterable[int] = (),
    allocatable: int = 16,
) -> NodeEntry:
    """A node of which devices are in use, whole or the first core of each."""
    node = a_neuron_node(kind, family=family)._replace(name=NodeName(name))
    if allocatable < 16:
        node = node._replace(allocatable={DEVICES: parse(f"{allocatable}", key="k")})
    entry = BUILDER.entry(node, NodeFacts())
    listed = "".join(f"{name}-AWSNeuron-{at},AWSNeuron,0,15:" for at in busy)
    listed += "".join(f"{name}-AWSNeuron-{at},AWSNeuron,0,1:" for at in half)
    return with_pods(entry, [settled(READER.record(holder(SPEC, f"{listed};"))[0], entry)] if listed else ())


def asking(part: MemberRequest, name: str) -> Pod:
    amounts = {CORES: part.cores} if part.cores else {DEVICES: part.devices}
    return a_pod(a_container(amounts), name=name, uid=PodUid(name))


def left(asked: Sequence[MemberRequest], *nodes: NodeEntry, least: int = 0) -> str:
    return lacking(Counter(asked), least or len(asked), [each.state for each in nodes])


TWO, FOUR, EIGHT = MemberRequest(2), MemberRequest(4), MemberRequest(8)
ONE_CORE, THREE_CORES, SOME_CORES, MANY_CORES = (
    MemberRequest(cores=1),
    MemberRequest(cores=3),
    MemberRequest(cores=8),
    MemberRequest(cores=32),
)


@pytest.mark.parametrize(
    ("node", "part", "most"),
    [
        (a_node(), EIGHT, 2),
        (a_node(), MANY_CORES, 1),
        (a_node(), SOME_CORES, 4),
        (a_node(kind=TRN2), SOME_CORES, 8),
        (a_node(), ONE_CORE, 32),
        (a_node(), MemberRequest(cores=2), 16),
        (a_node(), THREE_CORES, 8),
        (a_node(family="aws"), THREE_CORES, 0),
        (a_node(busy=range(14), half=[14]), ONE_CORE, 3),
        (a_node(busy=range(14), half=[14]), MemberRequest(cores=2), 1),
        (a_node(kind=TRN2, busy=range(15), half=[15]), MemberRequest(cores=2), 1),
        (a_node(busy=range(16)), ONE_CORE, 0),
        (a_node(allocatable=15), MemberRequest(16), 0),
        (a_node(allocatable=15), ONE_CORE, 30),
        (a_node(allocatable=15), FOUR, 3),
        (a_node("n", "trn1.2xlarge"), MANY_CORES, 0),
    ],
)
def test_room_is_counted_in_devices_and_cores(node: NodeEntry, part: MemberRequest, most: int) -> None:
    assert free_of(node.state).room(part) == most


def test_devices_whose_cores_nobody_knows_have_room_for_devices_alone() -> None:
    entry = BUILDER.entry(a_neuron_node("", devices=4, cores=0), NodeFacts())
    assert [free_of(entry.state).room(part) for part in (MemberRequest(4), MemberRequest(1), ONE_CORE, SOME_CORES)] == [
        1,
        4,
        0,
        0,
    ]


@pytest.mark.parametrize(
    ("kind", "one", "other", "least"),
    [
        (TORUS, EIGHT, FOUR, 2),
        (TORUS, MemberRequest(16), TWO, 8),
        (TORUS, FOUR, EIGHT, 0),
        (ROWS, EIGHT, MemberRequest(1), 8),
        (RING, MemberRequest(5), TWO, 2),
        (ROWS, MemberRequest(7), MemberRequest(1), None),
        (ROWS, MemberRequest(cores=14), MemberRequest(1), None),
        (TORUS, EIGHT, SOME_CORES, 0),
        (ROWS, EIGHT, SOME_CORES, 2),
        (WIDE, MemberRequest(16), SOME_CORES, 8),
        (TORUS, FOUR, ONE_CORE, 8),
        (TORUS, MANY_CORES, FOUR, 4),
        (TORUS, SOME_CORES, SOME_CORES, 1),
        (TORUS, MemberRequest(cores=2), ONE_CORE, 2),
        (WIDE, THREE_CORES, MemberRequest(cores=2), 1),
        (TORUS, ONE_CORE, FOUR, 0),
        (NodeKind(tables(), 0), ONE_CORE, ONE_CORE, None),
        (NodeKind(tables(), 0), FOUR, ONE_CORE, 0),
    ],
)
def test_a_large_part_takes_the_place_of_small_ones(
    kind: NodeKind, one: MemberRequest, other: MemberRequest, least: int | None
) -> None:
    assert displaced(kind, one, other) == least


def test_a_job_of_cores_is_held_back_where_the_machines_have_too_few() -> None:
    assert left([MANY_CORES] * 2, a_node()) == "room is left for 1"
    assert not left([MANY_CORES] * 2, a_node(), a_node("m"))
    assert not left([MANY_CORES] * 2, a_node(), least=1)
    assert left([ONE_CORE] * 3, a_node(busy=range(15))) == "room is left for 2"


def test_cores_of_several_sizes_are_summed_up_whatever_places_they_take_of_each_other() -> None:
    """Sixteen of each are 80 of 64 cores, and yet neither size alone shows it: three cores are not two of two."""
    states = [a_node(kind=TRN2).state]
    said = lacking({MemberRequest(cores=3): 16, MemberRequest(cores=2): 16}, 32, states)
    assert said == "room is not left for all of them together"
    assert lacking({MemberRequest(cores=3): 8, MemberRequest(cores=2): 16}, 24, states) == ""


def test_devices_and_cores_have_to_find_room_beside_each_other() -> None:
    beside = "room is not left for all of them together"
    assert left([EIGHT, EIGHT, ONE_CORE], a_node()) == beside
    assert not left([EIGHT, EIGHT, ONE_CORE], a_node(), a_node("m"))
    assert not left([EIGHT, FOUR, SOME_CORES], a_node())
    assert left([EIGHT, FOUR, SOME_CORES, ONE_CORE], a_node()) == beside
    assert not left([EIGHT, *[ONE_CORE] * 16], a_node())
    assert left([EIGHT, *[ONE_CORE] * 15, MemberRequest(cores=2)], a_node()) == beside
    assert not left([MemberRequest(16), ONE_CORE], a_node(half=[3]), a_node("m"))


def test_sizes_of_devices_alone_are_told_as_sets() -> None:
    assert left([EIGHT] * 3, a_node()) == "linked sets are left for 2"
    assert left([EIGHT, EIGHT, FOUR], a_node()) == "linked sets are not left for all of them together"


def test_a_size_that_only_some_machines_can_give_is_weighed_on_those() -> None:
    small = a_node("small", "trn1.2xlarge")
    assert left([EIGHT, EIGHT, MemberRequest(1)], a_node(), small) == ""
    assert left([EIGHT, EIGHT, MemberRequest(1), MemberRequest(1)], a_node(), small).endswith("all of them together")


def test_where_machines_differ_the_least_that_a_part_takes_counts() -> None:
    assert not left([EIGHT, EIGHT, *[ONE_CORE] * 64], a_node(), a_node("m", TRN2))
    assert left([EIGHT, EIGHT, *[ONE_CORE] * 65], a_node(), a_node("m", TRN2)).endswith("all of them together")


parts = st.sampled_from(
    [MemberRequest(1), TWO, FOUR, EIGHT, ONE_CORE, THREE_CORES, SOME_CORES, MemberRequest(cores=16)]
)
devices = st.sets(st.integers(0, 15), max_size=12)


@st.composite
def nodes_in_use(draw: st.DrawFn) -> list[NodeEntry]:
    """One or two machines, alike but for their type."""
    kinds = draw(st.lists(st.sampled_from([TRN1, TRN2]), min_size=1, max_size=2))
    family, allocatable = draw(st.sampled_from(list(Family))), draw(st.sampled_from([16, 16, 15]))
    busy, half = draw(devices), draw(devices)
    return [
        a_node(f"n{at}", kind, family=family, busy=busy, half=half - busy, allocatable=allocatable)
        for at, kind in enumerate(kinds)
    ]


@given(asked=st.lists(parts, min_size=1, max_size=6), nodes=nodes_in_use())
def test_a_job_that_can_be_placed_is_never_held_back(asked: list[MemberRequest], nodes: list[NodeEntry]) -> None:
    snapshot, decider = a_snapshot(*nodes), Decider(REGISTRY, uncounted=REGISTRY.resources)
    placed = 0
    for at, part in enumerate(asked):
        intake = take_in(asking(part, f"p{at}"), REGISTRY, Rules())
        decision = decider.decide(snapshot, intake.demand, intake.policy)
        if isinstance(decision, Placed):
            placed += 1
            snapshot = assigned(snapshot, intake.pod, decision)
    if placed:
        assert not left(asked, *nodes, least=placed)
