"""The tree of HyperNodes: whatever labels say, everything has one parent."""

from __future__ import annotations

import random
import re
from collections import Counter

import pytest
from hypothesis import given

from hami_plugins.errors import WireError
from neuron_topology.core.hypernodes import generator
from neuron_topology.core.hypernodes import machines as reading
from neuron_topology.core.hypernodes.generator import HyperNode
from neuron_topology.core.hypernodes.machines import TopologyNode
from neuron_topology.core.hypernodes.tiers import BY_NAME, TIERS
from tests.unit.neuron_topology.hypernodes import nodes
from tests.unit.neuron_topology.hypernodes.nodes import a_machine, a_node

HIGHEST_TIER_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
"""What the definition of Volcano's Job lets a job say."""


def by_part(machines: list[TopologyNode]) -> dict[str, HyperNode]:
    return {each.part or each.name: each for each in generator.tree(machines).hypernodes}


@given(nodes.machines())
def test_everything_has_one_parent_but_the_one_root(machines: list[TopologyNode]) -> None:
    made = generator.tree(machines).hypernodes
    parents = Counter(member for each in made for member in (*each.nodes, *each.children))
    expected = {*(each.name for each in made), *(each.name for each in machines)}
    assert len(expected) - len(parents) == (1 if machines else 0)
    assert set(parents.values()) <= {1}
    assert parents.keys() <= expected


@given(nodes.machines())
def test_a_parent_is_of_a_higher_tier_and_holds_nodes_or_hypernodes(machines: list[TopologyNode]) -> None:
    made = {each.name: each for each in generator.tree(machines).hypernodes}
    for each in made.values():
        assert bool(each.nodes) != bool(each.children)
        assert all(made[child].tier.number < each.tier.number for child in each.children)


@given(nodes.machines())
def test_the_order_of_the_nodes_makes_no_difference(machines: list[TopologyNode]) -> None:
    shuffled = random.Random(1).sample(machines, len(machines))
    assert generator.tree(shuffled) == generator.tree(machines)


@given(nodes.machines())
def test_machines_of_one_part_and_family_are_joined_unless_that_is_remarked(machines: list[TopologyNode]) -> None:
    tree = generator.tree(machines)
    made = [each.name for each in tree.hypernodes]
    assert len(set(made)) == len(made)
    if tree.remarks:
        return
    for at, tier in enumerate(TIERS):
        parts = {(each.family if tier.apart else "", each.parts[at]) for each in machines if each.parts[at]}
        assert sorted(
            (each.family, each.part) for each in tree.hypernodes if each.tier == tier and each.part
        ) == sorted(parts)


def test_an_ultraserver_stands_in_its_leaf_spine_and_zone() -> None:
    where = {"ultraserver_4": "u", "network_layer_3": "leaf", "network_layer_1": "spine", "zone": "z"}
    made = by_part([a_machine(f"n{at}", "trn2u", ultraserver_2=f"u{at // 2}", **where) for at in range(4)])
    assert made["u0"].nodes == ("n0", "n1")
    assert {name: len(made[name].children) for name in ("u", "leaf", "spine", "z")} == {
        "u": 2,
        "leaf": 1,
        "spine": 1,
        "z": 1,
    }
    assert made["z"].tier.number == 6


def test_families_share_a_zone_and_nothing_below() -> None:
    shared = {"network_layer_1": "spine", "zone": "z"}
    tree = generator.tree([a_machine("a", "trn1", **shared), a_machine("b", "trn2", **shared)])
    spines = [each for each in tree.hypernodes if each.tier.name == "network-layer-1"]
    assert sorted((each.family, each.nodes) for each in spines) == [("trn1", ("a",)), ("trn2", ("b",))]
    (zone,) = [each for each in tree.hypernodes if each.tier.name == "zone"]
    assert sorted(zone.children) == sorted(each.name for each in spines)


def test_several_zones_have_a_root_above_them() -> None:
    made = by_part([a_machine("a", zone="y"), a_machine("b", zone="z")])
    assert made["neuron-cluster"].children == tuple(sorted((made["y"].name, made["z"].name)))


def test_an_ultraserver_in_two_leaves_is_left_out_of_them_and_whole_above() -> None:
    torn = [
        a_machine(f"n{at}", "trn2u", ultraserver_4="u", network_layer_3=f"l{at}", network_layer_2="m") for at in (0, 1)
    ]
    whole = a_machine("n2", "trn2u", ultraserver_4="v", network_layer_3="l0", network_layer_2="m")
    tree = generator.tree([*torn, whole])
    made = {each.part: each for each in tree.hypernodes}
    assert made["l0"].children == (made["v"].name,)
    assert made["m"].children == tuple(sorted((made["l0"].name, made["u"].name)))
    (remark,) = tree.remarks
    assert "is in several parts of network-layer-3 (l0, l1)" in remark


def test_an_ultraserver_of_which_one_machine_has_no_leaf_is_remarked() -> None:
    tree = generator.tree(
        [a_machine("a", "trn2u", ultraserver_4="u", network_layer_3="l"), a_machine("b", "trn2u", ultraserver_4="u")]
    )
    assert "without topology.k8s.aws/network-node-layer-3" in tree.remarks[0]


def test_a_machine_beside_ultraservers_is_a_part_of_its_own() -> None:
    alone = a_machine("b", "trn2u", network_layer_3="l")
    made = by_part([a_machine("a", "trn2u", ultraserver_4="u", network_layer_3="l"), alone])
    (single,) = [each for each in made.values() if each.nodes == ("b",)]
    assert (single.tier.name, single.part) == ("ultraserver-4", "")
    assert made["l"].children == tuple(sorted((made["u"].name, single.name)))


def test_a_machine_with_a_wrong_label_takes_nobody_else_out_of_a_layer_or_zone() -> None:
    right = [a_machine(name, zone="z1", network_layer_3="c", network_layer_2="b") for name in ("t0", "t1")]
    for wrong in (
        a_machine("w", zone="z2", network_layer_3="c", network_layer_2="b"),
        a_machine("w", zone="z1", network_layer_3="c", network_layer_2="x"),
        a_machine("w", zone="z1", network_layer_3="c"),
        a_machine("w", network_layer_3="c", network_layer_2="b"),
    ):
        alone, found = generator.tree(right), generator.tree([*right, wrong])
        wanted = {each.name: each.nodes for each in alone.hypernodes if each.tier.name.startswith("network")}
        assert wanted.items() <= {each.name: each.nodes for each in found.hypernodes}.items()
        assert found.remarks[0].startswith("machines with topology.k8s.aws/network-node-layer-3=c disagree about")


def test_names_depend_on_nothing_but_what_machines_say() -> None:
    (first,) = generator.tree([a_machine("a", zone="z", network_layer_3="nn-1")]).hypernodes[:1]
    (again,) = generator.tree([a_machine("b", zone="z", network_layer_3="nn-1")]).hypernodes[:1]
    assert first.name == again.name == "neuron-trn1-network-layer-3-38d858c3a045"


@pytest.mark.parametrize("name", BY_NAME)
def test_a_job_can_name_every_tier(name: str) -> None:
    assert HIGHEST_TIER_NAME.fullmatch(name)


def test_a_node_with_devices_of_an_unknown_type_has_its_place() -> None:
    node = a_node("n", kind="", zone="z")
    machine = reading.machine(node)
    assert machine is not None
    assert (machine.family, machine.parts[-1]) == ("neuron", "z")


@pytest.mark.parametrize("kind", ["trn9.huge", "inf2.xlarge"])
def test_a_node_is_neurons_by_its_type_alone(kind: str) -> None:
    machine = reading.machine({**a_node("n", kind=kind), "status": {}})
    assert machine is not None
    assert machine.family == kind.partition(".")[0]


def test_a_machine_beside_hypernodes_of_several_tiers_gets_one_of_the_widest_of_them() -> None:
    machines = [
        a_machine("a", zone="z", ultraserver_2="u"),
        a_machine("b", zone="z", network_layer_3="l"),
        a_machine("c", zone="z"),
    ]
    (alone,) = [each for each in generator.tree(machines).hypernodes if each.nodes == ("c",)]
    assert alone.tier.name == "network-layer-3"


def test_one_machine_without_labels_is_a_cluster() -> None:
    (only,) = generator.tree([a_machine("a")]).hypernodes
    assert (only.tier.name, only.nodes) == ("cluster", ("a",))


def test_other_nodes_are_none_of_our_business() -> None:
    assert (
        reading.machine({"metadata": {"name": "n", "labels": {"node.kubernetes.io/instance-type": "p5.48xlarge"}}})
        is None
    )
    assert (
        reading.machine({**a_node("n", kind="c5.large"), "status": {"capacity": {"aws.amazon.com/neuron": "0"}}})
        is None
    )


@pytest.mark.parametrize("broken", [{"metadata": {}}, {"metadata": {"name": "n", "labels": {"a": 3}}}, {"metadata": 3}])
def test_a_broken_node_says_what_is_wrong_with_it(broken: dict[str, object]) -> None:
    with pytest.raises(WireError, match="node"):
        reading.machine(broken)
