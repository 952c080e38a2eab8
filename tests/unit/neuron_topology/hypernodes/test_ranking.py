"""The order of machines by their places."""

from __future__ import annotations

from hypothesis import given

from neuron_topology.core.hypernodes import ranks
from neuron_topology.core.hypernodes.machines import TopologyNode
from tests.unit.neuron_topology.hypernodes import nodes
from tests.unit.neuron_topology.hypernodes.nodes import a_machine


def names(*machines: TopologyNode) -> list[str]:
    return [each.name for each in ranks.ranked(machines)]


def test_places_in_an_ultraserver_are_numbers() -> None:
    assert names(*(a_machine(f"n{place}", "trn2u", place, ultraserver_4="u") for place in ("10", "2", "0"))) == [
        "n0",
        "n2",
        "n10",
    ]


def test_who_has_no_label_comes_last() -> None:
    assert names(a_machine("a"), a_machine("b", zone="z")) == ["b", "a"]


@given(nodes.machines())
def test_machines_of_a_part_stand_together(machines: list[TopologyNode]) -> None:
    zones = [each.parts[-1] for each in ranks.ranked(machines)]
    assert zones == sorted(zones, key=lambda zone: (not zone, zone))
    assert sorted(ranks.ranked(machines)) == sorted(machines)
