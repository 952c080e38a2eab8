"""Volcano's plugin for parts of the network: printed and demanded where gangs of a vendor may be limited to one."""

from __future__ import annotations

from typing import Any

import pytest

from hami_plugins.allocations.manifests import allocator_configuration
from hami_plugins.allocations.mode import AllocatorMode
from hami_plugins.engine.registry import Registry
from hami_plugins.vendors import nvidia
from neuron_topology.core.vendor import SPEC

NEURON, CARDS = Registry((SPEC,)), Registry((nvidia.SPEC,))


def plugins(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [each for tier in document["tiers"] for each in tier["plugins"]]


@pytest.mark.parametrize("evicts", [False, True])
def test_the_plugin_is_printed_with_weights_for_neuron_devices(*, evicts: bool) -> None:
    document = allocator_configuration.document(AllocatorMode.EXTENDER, "http://a:1/x", NEURON, evicts=evicts)
    assert plugins(document)[-1] == {
        "name": "network-topology-aware",
        "arguments": {
            "weight": 10,
            "hypernode.binpack.resources": "aws.amazon.com/neuron, vpc.amazonaws.com/efa",
            "hypernode.binpack.resources.aws.amazon.com/neuron": 10,
            "hypernode.binpack.resources.vpc.amazonaws.com/efa": 5,
        },
    }
    found = allocator_configuration.check(document, AllocatorMode.EXTENDER, NEURON, evicts=evicts)
    assert {each.severity for each in found} <= {"info"}


def test_a_configuration_without_it_is_told() -> None:
    document = allocator_configuration.document(AllocatorMode.EXTENDER, "http://a:1/x", NEURON)
    document["tiers"][-1]["plugins"].pop()
    (found,) = allocator_configuration.check(document, AllocatorMode.EXTENDER, NEURON)
    assert (found.severity, found.place) == ("warning", "network-topology-aware")
    assert "ignores networkTopology, also of jobs that ask for aws.amazon.com/neuron" in found.what


def test_clusters_of_cards_alone_need_none() -> None:
    document = allocator_configuration.document(AllocatorMode.EXTENDER, "http://a:1/x", CARDS)
    assert "network-topology-aware" not in [each["name"] for each in plugins(document)]
    assert allocator_configuration.check(document, AllocatorMode.EXTENDER, CARDS) == ()
