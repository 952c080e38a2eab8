"""The EFA interfaces of a node, and which devices each belongs to."""

from __future__ import annotations

import pytest

from hami_plugins.engine.inventory import NodeBuilder
from hami_plugins.engine.registry import Registry
from hami_plugins.model.nodes import NodeFacts
from hami_plugins.wire import quantity
from neuron_topology.core.hardware.fabric import devices_of, mask_of
from neuron_topology.core.hardware.instances import INSTANCE_TYPES, InstanceType
from neuron_topology.core.nodes import wiring_of
from neuron_topology.core.sets.families import Family
from neuron_topology.core.sets.locality import Locality
from neuron_topology.core.sets.tables import Topology
from neuron_topology.core.vendor import SPEC
from tests.unit.neuron_topology.nodes import TRN1, a_neuron_node

EFA = "vpc.amazonaws.com/efa"
MANY = [each for each in INSTANCE_TYPES.values() if each.efa]


def remarks(kind: str = TRN1, *, capacity: str, allocatable: str | None = None) -> list[str]:
    node = a_neuron_node(kind)
    node = node._replace(
        capacity={**node.capacity, EFA: quantity.parse(capacity, key="")},
        allocatable={**node.allocatable, EFA: quantity.parse(allocatable or capacity, key="")},
    )
    return [each for each in SPEC.inventory(SPEC, node).remarks if "EFA" in each]


@pytest.mark.parametrize(("kind", "count"), [(TRN1, 8), ("trn1n.32xlarge", 16), ("trn2.48xlarge", 16)])
def test_a_node_with_all_interfaces_of_its_type_is_as_it_should_be(kind: str, count: int) -> None:
    assert remarks(kind, capacity=str(count)) == []
    assert remarks(kind, capacity=str(count - 1)) == [
        f"the node offers {count - 1} EFA interfaces, {kind} has {count}: attach the others by the launch template, "
        "or look at the log of AWS's EFA device plugin"
    ]


def test_interfaces_that_are_not_allocatable_are_missing() -> None:
    assert remarks(capacity="8", allocatable="6")[0].startswith("the node offers 6 EFA interfaces")
    assert remarks(capacity="0")[0].startswith("the node offers 0 EFA interfaces")


def test_where_nothing_offers_interfaces_none_are_missed() -> None:
    """A cluster without AWS's plugin, or with its DRA driver in its place."""
    assert SPEC.inventory(SPEC, a_neuron_node()).remarks == ()


def test_a_type_that_is_not_known_has_no_number_of_interfaces() -> None:
    assert remarks("trn9.huge", capacity="1") == []


@pytest.mark.parametrize("known", MANY, ids=lambda known: known.name)
def test_an_interface_is_on_the_bus_of_its_devices(known: InstanceType) -> None:
    assert len(set(known.efa)) == known.efa_interfaces
    for group in known.efa_groups:
        (there,) = (each for each in known.pcie if set(group) <= set(each.devices))
        assert there.efa_interfaces * len(group) == len(there.devices)


@pytest.mark.parametrize(("efa", "chosen"), [((), (0, 12)), (INSTANCE_TYPES[TRN1].efa_groups, (12, 13))])
def test_two_devices_of_one_interface_are_chosen_before_two_of_two(
    efa: tuple[tuple[int, ...], ...], chosen: tuple[int, ...]
) -> None:
    """0, 12 and 13 are linked behind one bus of one NUMA node: only EFA distinguishes their pairs."""
    kind = INSTANCE_TYPES[TRN1]
    locality = Locality(kind.numa, tuple(group.devices for group in kind.pcie), efa)
    tables = Topology(kind.fabric, Family.LINKED, locality).tables
    assert devices_of(tables.choose(mask_of((0, 12, 13)), 2)) == chosen


def test_a_node_knows_the_interfaces_of_its_devices() -> None:
    entry = NodeBuilder(Registry([SPEC])).entry(a_neuron_node(family="linked"), NodeFacts())
    tables = wiring_of(entry.state.shape).tables
    assert devices_of(tables.choose(mask_of((0, 12, 13)), 2)) == (12, 13)
