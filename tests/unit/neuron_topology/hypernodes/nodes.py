"""Machines of small clusters, and what labels they have."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from hami_plugins.model.units import NodeName
from neuron_topology.core.hypernodes.machines import TopologyNode
from neuron_topology.core.hypernodes.tiers import TIERS

NEAREST_FIRST = {tier.name: at for at, tier in enumerate(TIERS)}


def a_machine(name: str, family: str = "trn1", place: str = "", **parts: str) -> TopologyNode:
    """A machine; ``parts`` are spelled with underscores: ``network_layer_3="a"``."""
    found = [""] * len(TIERS)
    for tier, part in parts.items():
        found[NEAREST_FIRST[tier.replace("_", "-")]] = part
    return TopologyNode(NodeName(name), family, tuple(found), place)


def a_node(name: str, kind: str = "trn1.32xlarge", **parts: str) -> dict[str, Any]:
    """The same as an object of the API."""
    by_name = {tier.name: tier.label for tier in TIERS}
    labels = {by_name[tier.replace("_", "-")]: part for tier, part in parts.items()}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"node.kubernetes.io/instance-type": kind, **labels}},
        "status": {"capacity": {"aws.amazon.com/neuron": "16"}},
    }


def an_idle_node(name: str) -> dict[str, Any]:
    """A trn1.32xlarge with what EKS leaves of it."""
    devices = {"aws.amazon.com/neuron": "16", "aws.amazon.com/neuroncore": "32", "vpc.amazonaws.com/efa": "8"}
    room = {**devices, "cpu": "127610m", "memory": "500Gi", "pods": "110"}
    ready = [{"type": "Ready", "status": "True"}]
    return {**a_node(name), "status": {"capacity": room, "allocatable": room, "conditions": ready}}


@st.composite
def machines(draw: st.DrawFn) -> list[TopologyNode]:
    """Any machines, with labels that fit each other no better than chance has it."""
    part = st.sampled_from(["", "a", "b", "c"])
    return [
        TopologyNode(
            NodeName(f"n{at}"),
            draw(st.sampled_from(["trn1", "trn2u", "Odd!"])),
            tuple(draw(part) for _ in TIERS),
        )
        for at in range(draw(st.integers(0, 9)))
    ]
