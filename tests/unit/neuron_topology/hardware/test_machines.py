"""A node's devices from its type, from neuron-ls, and from what is broken."""

import json
from typing import Any

import pytest

from hami_plugins.errors import WireError
from neuron_topology.core.hardware.fabric import FabricShape, line, recognised, ring, single, switched, torus
from neuron_topology.core.hardware.instances import INSTANCE_TYPES
from neuron_topology.core.hardware.machines import MachineHealth, NeuronMachine, decode_health, machine_of, with_health
from neuron_topology.core.hardware.neuron_ls import decode
from tests.unit.neuron_topology.hardware.printed import INF1_TABLE, TRN1, TRN1_TABLE, as_json

INF2 = "inf2.48xlarge"


def seen(printed: str, *, name: str = TRN1, devices: int = 16) -> NeuronMachine:
    return machine_of(name, devices, decode("x", printed))


@pytest.mark.parametrize("fabric", [single(), line(2), line(4), ring(3), ring(12), torus(), switched(4), switched(16)])
def test_a_shape_is_recognised_by_its_links(fabric: Any) -> None:
    assert recognised(fabric.neighbours) == fabric
    one_end = [[to for to in row if to > at] for at, row in enumerate(fabric.neighbours)]
    assert recognised(one_end) == fabric


def test_a_machine_of_a_known_type_is_as_the_table_says() -> None:
    found = machine_of(TRN1, 16)
    kind = INSTANCE_TYPES[TRN1]
    assert (found.fabric, found.cores, found.numa) == (kind.fabric, 2, kind.numa)
    assert found.pcie[0] == (0, 1, 12, 13)
    assert (found.remarks, found.dead, len(found.sick)) == ((), (), 0)


@pytest.mark.parametrize(
    ("name", "devices", "remark"),
    [
        ("trn9.32xlarge", 16, "instance type trn9.32xlarge is not known: devices are allocated one by one or all"),
        ("", 4, "the node has no instance type: devices are allocated one by one or all together; the output"),
        (TRN1, 15, "the node has 15 devices, trn1.32xlarge has 16: devices are allocated one by one"),
        (TRN1, 1, "the node has 1 devices, trn1.32xlarge has 16"),
    ],
)
def test_without_known_links_nothing_is_linked_and_it_is_said(name: str, devices: int, remark: str) -> None:
    found = machine_of(name, devices)
    assert found.fabric.links == frozenset()
    assert found.fabric.shape is (FabricShape.SINGLE if devices == 1 else FabricShape.IRREGULAR)
    assert found.remarks[0].startswith(remark)


def test_links_through_switches_are_those_of_the_table_whatever_the_machine_shows() -> None:
    alone = json.dumps([{"neuron_device": at, "nc_count": 8, "connected_to": None} for at in range(4)])
    found = seen(alone, name="trn3e.24xlarge", devices=4)
    assert (found.fabric, found.dead, found.remarks) == (switched(4), (), ())


def test_a_single_device_of_no_named_type_needs_no_remark() -> None:
    assert machine_of("", 1).remarks == ()


def test_what_a_healthy_machine_shows_is_the_table() -> None:
    found = seen(TRN1_TABLE)
    assert found.fabric == torus()
    assert found.remarks == ()
    assert found.numa == INSTANCE_TYPES[TRN1].numa


def test_devices_of_different_numbers_of_cores_count_as_the_smallest() -> None:
    printed = [{"neuron_device": at, "nc_count": cores, "memory_size": 0} for at, cores in enumerate((4, 2))]
    assert seen(json.dumps(printed), name="", devices=2).cores == 2


def test_a_machine_of_an_unknown_type_is_what_it_shows() -> None:
    found = seen(as_json("trn2.48xlarge", logical_neuroncore_config=2), name="trn9.48xlarge")
    assert found.fabric == torus()
    assert found.cores == 4
    assert found.numa == INSTANCE_TYPES["trn2.48xlarge"].numa
    assert found.pcie == ((0, 1, 2, 3), (4, 5, 6, 7), (8, 9, 10, 11), (12, 13, 14, 15))
    assert machine_of("", 2, decode("x", INF1_TABLE)).fabric == line(2)


def test_places_that_not_all_devices_tell_are_unknown() -> None:
    found = seen(as_json(bdf="", numa_node="N/A"), name="")
    assert (found.numa, found.pcie) == ((), ())


def test_links_that_the_machine_lacks_are_dead_and_told() -> None:
    found = seen(as_json(cut=[(5, 4), (0, 1)]))
    assert found.fabric == torus()
    assert found.dead == ((0, 1), (4, 5))
    assert found.remarks == (f"neuron-ls differs from the table of {TRN1}: no link 0-1, no link 4-5",)


def test_links_beside_those_of_the_table_are_told_and_take_nothing_away() -> None:
    found = seen(as_json(INF2, more={0: [6]}), name=INF2, devices=12)
    assert (found.fabric, found.dead) == (ring(12), ())
    assert found.remarks == (f"neuron-ls differs from the table of {INF2}: a link 0-6 more",)


def test_a_machine_with_other_links_is_what_it_shows_and_the_difference_is_told() -> None:
    found = seen(as_json(INF2, more={0: [6]}, cut=[(0, 1)]), name=INF2, devices=12)
    assert found.fabric.shape is FabricShape.IRREGULAR
    assert (0, 6) in found.fabric.links
    assert found.dead == ()
    assert found.remarks == (f"neuron-ls differs from the table of {INF2}: no link 0-1, a link 0-6 more",)


def test_links_of_no_known_shape_are_told() -> None:
    found = seen(as_json("trn2.48xlarge", cut=[(0, 1)]), name="trn2n.48xlarge")
    assert found.fabric.shape is FabricShape.IRREGULAR
    assert found.remarks[0].startswith("neuron-ls shows links of no known shape: devices are allocated one by one")


@pytest.mark.parametrize("gone", [3, 15])
def test_a_machine_with_a_device_gone_from_the_bus_keeps_its_shape(gone: int) -> None:
    found = seen(as_json(without=[gone]), devices=15)
    assert (found.fabric, found.sick, found.absent, found.dead) == (torus(), frozenset({gone}), frozenset({gone}), ())
    assert found.remarks == (f"neuron-ls does not list device {gone}",)


def test_what_is_most_of_another_machine_is_taken_for_none() -> None:
    found = seen(as_json(INF2, without=range(4, 12)), devices=4)
    assert (found.fabric, found.sick) == (line(4), frozenset())


def test_many_differences_are_counted() -> None:
    found = seen(as_json(cut=[(0, 1), (0, 3), (0, 4), (0, 12), (1, 2), (1, 5)]))
    assert found.remarks[0].endswith("no link 0-1, no link 0-3, no link 0-4, no link 0-12 and 2 more")


def test_a_device_that_is_not_listed_is_sick_and_the_rest_keeps_its_shape() -> None:
    found = seen(as_json(without=[7]))
    assert (found.fabric, found.sick, found.dead) == (torus(), frozenset({7}), ())
    assert found.remarks == ("neuron-ls does not list device 7",)


def test_more_devices_than_the_node_has_are_told() -> None:
    found = seen(as_json(INF2), name=INF2, devices=11)
    assert found.fabric == ring(12)
    assert found.remarks == ("neuron-ls lists device 11, the node has 11",)


def test_another_type_than_the_labels_is_told() -> None:
    found = seen(TRN1_TABLE, name="trn1n.32xlarge")
    assert found.remarks == ("neuron-ls reports trn1.32xlarge, the node's label trn1n.32xlarge",)


def test_a_node_without_a_type_differs_from_none() -> None:
    assert seen(TRN1_TABLE, name="").remarks == ()


def test_links_to_devices_that_are_not_there_are_told_and_left_out() -> None:
    found = machine_of("", 2, decode("x", as_json("trn1.2xlarge", connected_to=[5])))
    assert found.fabric.links == frozenset()
    assert found.remarks[:2] == (
        "neuron-ls does not list device 1",
        "neuron-ls has links to device 5, which is not there",
    )


def test_health_takes_devices_and_links_out_and_tells_what_it_does_not_know() -> None:
    health, odd = decode_health("k", '{"devices": [3, 99], "links": [[5, 4], [0, 10], [4, 5]], "repaired": [9]}')
    assert health == MachineHealth(devices=frozenset({3, 99}), links=((0, 10), (4, 5)), repaired=frozenset({9}))
    assert odd == ()
    found = with_health(machine_of(TRN1, 16), health)
    assert (found.sick, found.dead, found.worn) == (frozenset({3}), ((4, 5),), frozenset({9}))
    assert found.remarks == (
        "health names device 99, the node has 16",
        "health names a link 0-10 that the node does not have",
    )


@pytest.mark.parametrize("written", ["", "[]", "3"])
def test_health_that_is_no_object_is_refused(written: str) -> None:
    with pytest.raises(WireError, match="k"):
        decode_health("k", written)


@pytest.mark.parametrize(
    ("slip", "told"),
    [
        ('"links": [[4, 5, 6]]', "k.links"),
        ('"links": [[1, "2"]]', "k.links"),
        ('"links": [3]', "k.links"),
        ('"links": {}', "k.links"),
        ('"repaired": [true]', "k.repaired"),
        ('"repaired": 4', "k.repaired"),
        ('"device": [7]', "k has a member device that is unknown; there are devices, links, repaired"),
    ],
)
def test_a_slip_in_the_health_leaves_the_rest_of_it_in_force(slip: str, told: str) -> None:
    health, (odd,) = decode_health("k", f'{{"devices": [0, -1, 2], {slip}}}'.replace("-1", "1"))
    assert health == MachineHealth(devices=frozenset({0, 1, 2}))
    assert told in odd
    health, odds = decode_health("k", f'{{"devices": [0, -1, 2], {slip}}}')
    assert health == MachineHealth(devices=frozenset({0, 2}))
    assert len(odds) == 2
