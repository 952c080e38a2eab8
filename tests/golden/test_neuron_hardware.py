"""Instance types, links and host locality of Trainium and Inferentia, as the reference's tables have them."""

import pytest

from neuron_topology.core.hardware.fabric import FabricShape
from neuron_topology.core.hardware.instances import GIB, INSTANCE_TYPES, InstanceType
from tests.golden import cases, ultraserver
from tests.golden.cases import Case

SHAPES = {
    "single": FabricShape.SINGLE,
    "line-6": FabricShape.LINE,
    "ring-12": FabricShape.RING,
    "torus-4x4": FabricShape.TORUS,
}
"""What the reference calls them; Inferentia 1 is a row, as AWS's scheduler treats it."""

UNNAMED = ("trn3-gen1", "trn3-gen2")
"""Handles of the reference for machines with unpublished type names: no node can have such a label."""


def type_of(case: Case) -> InstanceType:
    return INSTANCE_TYPES[case.given["instance_type"]]


@cases.each("neuron/instances.yaml")
def test_a_type_is_as_its_table_says(case: Case) -> None:
    if case.given["instance_type"] in UNNAMED:
        assert case.given["instance_type"] not in INSTANCE_TYPES
        return
    found = type_of(case)
    told = {
        "devices": found.devices,
        "cores_per_device": found.cores_per_device,
        "logical_cores_per_device": found.logical_cores(),
        "logical_cores_per_node": found.logical_cores() * found.devices,
        "logical_cores_per_node_lnc1": found.logical_cores(1) * found.devices,
        "memory_per_device_gib": found.device_memory // GIB,
        "efa_interfaces": found.efa_interfaces,
        "vcpu": found.vcpus,
        "ram_gib": found.memory_gib,
        "lnc_configurable": bool(found.lnc_choices),
        "default_lnc": found.default_lnc or None,
        "core_generation": found.core_generation,
        "memory_kind": found.memory_kind,
    }
    expected = {name: value for name, value in case.expect.items() if name not in {"fabric", "network"}}
    assert {name: told[name] for name in expected} == expected


@cases.each("neuron/adjacency.yaml")
def test_devices_are_wired_as_the_reference_says(case: Case) -> None:
    if case.given["instance_type"] in UNNAMED:
        assert case.given["instance_type"] not in INSTANCE_TYPES
        return
    expect = case.expect
    neighbours = ultraserver.chips() if case.given["scope"] == "ultraserver" else type_of(case).fabric.neighbours
    links = {(min(a, b), max(a, b)) for a, row in enumerate(neighbours) for b in row}
    assert len(neighbours) == expect["devices"]
    if "neighbours" in expect:
        assert [list(row) for row in neighbours] == [expect["neighbours"][at] for at in range(len(neighbours))]
        assert sorted(links) == [tuple(edge) for edge in expect["edges"]]
        assert len(links) == expect["edge_count"]
    if case.given["scope"] == "node":
        shape = type_of(case).fabric.shape
        assert shape is SHAPES.get(expect["kind"], FabricShape.LINE)
        assert type_of(case).fabric.links == links


@cases.each("neuron/ultraserver-pairs.yaml")
def test_two_machines_make_a_server_if_they_are_neighbours(case: Case) -> None:
    assert ultraserver.may_pair(*case.given["instances"]) is case.expect["valid_two_node_server"]


@cases.each("neuron/locality.yaml")
def test_devices_sit_where_the_reference_says(case: Case) -> None:
    found = type_of(case)
    assert list(found.numa) == case.expect["numa_of_device"]
    groups = [{"name": group.name or None, "devices": list(group.devices)} for group in found.pcie]
    assert groups == (case.expect["pcie_groups"] or [])
    assert not groups or sum(group.efa_interfaces for group in found.pcie) == found.efa_interfaces


@cases.each("neuron/lnc.yaml")
def test_logical_cores_follow_the_setting(case: Case) -> None:
    if case.expect["cores_per_device"] is None:
        assert not INSTANCE_TYPES["trn1.32xlarge"].lnc_choices
        return
    machine, lnc = type_of(case), int(case.given["property"].removeprefix("lnc="))
    cores = machine.logical_cores(lnc)
    assert (cores, cores * machine.devices) == (case.expect["cores_per_device"], case.expect["cores_per_node"])
    assert (lnc == machine.default_lnc) is case.expect["facts"]["default"]


@cases.each("neuron/network-cards.yaml")
def test_network_cards_are_as_told(case: Case) -> None:
    found = type_of(case)
    assert (found.network_cards, found.max_enis) == (case.expect["network_cards"], case.expect["max_enis"])


@cases.each("neuron/efa-absent.yaml")
def test_inferentia2_has_no_efa(case: Case) -> None:
    family = case.given["instance_type"].removesuffix(".*")
    sizes = [each for each in INSTANCE_TYPES.values() if each.family == family]
    assert {each.efa_interfaces for each in sizes} == {case.expect["efa_interfaces"]}


@pytest.mark.parametrize(("devices", "interfaces"), [(1, 0), (2, 1), (4, 2), (16, 8)])
def test_part_of_a_machine_has_its_part_of_the_interfaces(devices: int, interfaces: int) -> None:
    assert INSTANCE_TYPES["trn1.32xlarge"].efa_for(devices) == interfaces
