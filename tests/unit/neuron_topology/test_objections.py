"""Why Neuron pods do not begin on a node whatever is free there: node conditions and Capacity Blocks."""

from __future__ import annotations

import pytest

from hami_plugins.engine.inventory import NodeBuilder
from hami_plugins.engine.node_filters import vendor_objection
from hami_plugins.engine.registry import Registry
from hami_plugins.model.inventory import NodeCondition, NodeObject
from hami_plugins.model.nodes import NodeFacts
from hami_plugins.vendors import nvidia
from neuron_topology.core.capacity_block_end import DURATION_KEY, END_KEY
from neuron_topology.core.names import DEVICES
from neuron_topology.core.nodes import HEALTH_KEY
from neuron_topology.core.vendor import SPEC
from tests.builders import a_container, a_pod
from tests.unit.neuron_topology.nodes import a_neuron_node

END = 1_800_000_000.0
REGISTRY = Registry([SPEC, nvidia.SPEC])


def why(node: NodeObject, *, now: float = 0.0, asks: str = DEVICES, **annotations: str) -> str:
    """Why a pod does not begin on the node."""
    entry = NodeBuilder(REGISTRY).entry(node, NodeFacts())
    notes = {DURATION_KEY: annotations["duration"]} if annotations else {}
    return vendor_objection(entry.notes, a_pod(a_container({asks: 1}), annotations=notes), REGISTRY, now)


def reporting(kind: str, status: str, reason: str, *, health: str = "") -> NodeObject:
    node = a_neuron_node(annotations={HEALTH_KEY: health} if health else {})
    return node._replace(conditions=(NodeCondition("KernelReady", "False", "X"), NodeCondition(kind, status, reason)))


@pytest.mark.parametrize(
    ("kind", "status", "reason", "closed"),
    [
        ("NeuronHealth", "False", "NeuronHasNoError", False),
        ("NeuronHealth", "True", "NeuronHasNoError", False),
        ("NeuronHealth", "True", "NeuronHasError_DMA_ERROR", True),
        ("NeuronHealth", "False", "NeuronHasError_NC_UNCORRECTABLE_ERROR", True),
        ("NeuronHealth", "Unknown", "", False),
        ("AcceleratedHardwareReady", "True", "NeuronAccelerated", False),
        ("AcceleratedHardwareReady", "Unknown", "", False),
        ("AcceleratedHardwareReady", "False", "NeuronSRAMUncorrectableError", True),
        ("NetworkingReady", "False", "X", False),
    ],
)
def test_conditions_that_speak_of_broken_devices_close_a_node(
    kind: str, status: str, reason: str, closed: bool
) -> None:
    node = reporting(kind, status, reason)
    said = why(node)
    assert bool(said) is closed
    assert [each.what for each in NodeBuilder(REGISTRY).entry(node, NodeFacts()).problems] == [said] * closed
    assert said.startswith(f"the node's condition {kind} is {status} ({reason}); " if closed else "")


def test_where_somebody_says_what_is_broken_the_rest_of_the_node_stays_in_use() -> None:
    error = "NeuronHealth", "True", "NeuronHasError_HBM_UNCORRECTABLE_ERROR"
    assert f"name the broken device in {HEALTH_KEY}" in why(reporting(*error))
    assert not why(reporting(*error, health='{"devices": [3]}'))
    assert not why(reporting(*error, health='{"links": [[0, 1]]}'))
    assert why(reporting(*error, health='{"repaired": [3]}'))
    assert why(reporting(*error, health="broken"))
    assert why(reporting("AcceleratedHardwareReady", "False", "X", health='{"devices": [3]}'))


def test_pods_that_ask_for_nothing_of_neurons_are_kept_off_nothing() -> None:
    node = reporting("AcceleratedHardwareReady", "False", "NeuronDMAError")
    assert why(node)
    assert not why(node, asks=nvidia.SPEC.resources.count)
    assert not why(node, asks="cpu")


def test_a_job_that_would_outlive_the_capacity_block_of_a_node_does_not_begin_there() -> None:
    block = a_neuron_node(annotations={END_KEY: "2027-01-15T08:00:00Z"})
    assert not why(block, now=END - 5400, duration="1h")
    assert "the Capacity Block ends at 2027-01-15T08:00:00Z" in why(block, now=END - 5399, duration="1h")
    assert not why(block, now=END - 5399)
    assert not why(a_neuron_node(), now=END, duration="2d")


def test_an_end_that_cannot_be_read_is_told_and_keeps_nobody_off() -> None:
    node = a_neuron_node(annotations={END_KEY: "soon"})
    assert not why(node, now=END, duration="1h")
    (problem,) = NodeBuilder(REGISTRY).entry(node, NodeFacts()).problems
    assert "'soon' is not a time" in problem.what
