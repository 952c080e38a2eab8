"""Nodes with Neuron devices, as API objects, for tests of the vendor."""

from __future__ import annotations

from collections.abc import Mapping

from hami_plugins.model.inventory import NodeObject
from neuron_topology.core.hardware.instances import INSTANCE_TYPES
from neuron_topology.core.names import CORES, DEVICES, INSTANCE_LABEL
from neuron_topology.core.nodes import FAMILY_LABEL
from tests.builders import a_node_object

TRN1, TRN2, INF1, INF2 = "trn1.32xlarge", "trn2.48xlarge", "inf1.6xlarge", "inf2.48xlarge"


def a_neuron_node(
    kind: str = TRN1,
    *,
    family: str = "",
    devices: int | None = None,
    cores: int | None = None,
    annotations: Mapping[str, str] | None = None,
) -> NodeObject:
    """A node ``n`` as AWS's plugin describes one of its type, unless told otherwise."""
    known = INSTANCE_TYPES.get(kind)
    count = devices if devices is not None else known.devices if known is not None else 16
    each = cores if cores is not None else known.logical_cores() if known is not None else 2
    labels = {INSTANCE_LABEL: kind} if kind else {}
    return a_node_object(
        "n",
        annotations=annotations,
        labels=labels | ({FAMILY_LABEL: family} if family else {}),
        capacity={DEVICES: count, CORES: count * each},
    )
