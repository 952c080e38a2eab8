"""Tiers of the network, which families stand in which, and the order of hosts."""

from hami_plugins.model.units import NodeName
from neuron_topology.core import names
from neuron_topology.core.hypernodes import generator, ranks
from neuron_topology.core.hypernodes.machines import TopologyNode
from neuron_topology.core.hypernodes.tiers import TIERS
from tests.golden import cases
from tests.golden.cases import Case

ULTRASERVERS = {names.ULTRASERVER_2_LABEL, names.ULTRASERVER_4_LABEL}


@cases.each("neuron/hypernode-tiers.yaml")
def test_a_tier_is_made_of_one_label(case: Case) -> None:
    labels = {tier.number: tier.label for tier in TIERS}
    assert labels[case.given["tier"]] == case.expect["label"]


@cases.each("neuron/hypernode-families.yaml")
def test_a_family_stands_in_its_tiers(case: Case) -> None:
    family = case.given["family"]
    linked = family == "trn2u"
    parts = tuple(f"part-{tier.number}" if linked or tier.label not in ULTRASERVERS else "" for tier in TIERS)
    tree = generator.tree([TopologyNode(NodeName("n"), family, parts)])
    assert [each.tier.number for each in tree.hypernodes] == case.expect["tiers"]


@cases.each("neuron/rank-order.yaml")
def test_hosts_are_in_the_order_of_their_places(case: Case) -> None:
    machines = [_machine(each["name"], each["key"]) for each in case.given["hosts"]]
    assert [each.name for each in ranks.ranked(machines)] == case.expect["order"]


def _machine(name: str, key: list[str]) -> TopologyNode:
    """A machine whose key is its three layers from the top, its UltraServer and its place in it."""
    *layers, ultraserver, place = key
    return TopologyNode(NodeName(name), "trn2u", ("", ultraserver, *reversed(layers), "zone"), place)
