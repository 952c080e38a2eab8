"""Names that a cluster with Trainium or Inferentia nodes goes by: resources, labels, taints.

Source: AWS Neuron SDK 2.32 device plugin, EKS' admission and cloud-provider-aws.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal

from hami_plugins.vendors import awsneuron

DEVICES: Final = awsneuron.SPEC.resources.count
CORES: Final = awsneuron.SPEC.resources.cores
LEGACY_DEVICES: Final = "aws.amazon.com/neurondevice"
"""What devices were called until 2025-04; TorchX' built-in resources still ask for it, and no plugin advertises it."""

EFA: Final = "vpc.amazonaws.com/efa"
"""An interface of the network between machines."""

TAINT: Final = DEVICES
"""The key of the taint on Neuron nodes. EKS tolerates it for pods that ask for the resource of just this name."""

INSTANCE_LABEL: Final = awsneuron.INSTANCE_LABEL
ZONE_LABEL: Final = "topology.k8s.aws/zone-id"
LAYER_LABELS: Final = tuple(f"topology.k8s.aws/network-node-layer-{layer}" for layer in (1, 2, 3))
"""The network above a machine, from the top down; machines of one lowest layer are closest."""


def ultraserver_label(what: Literal["server", "node"], machines: Literal[2, 4]) -> str:
    """The label of a node for its server of so many machines, or for which of these it is."""
    return f"neuron.amazonaws.com/ultraserver-{what}-id-{machines}"


ULTRASERVER_2_LABEL: Final = ultraserver_label("server", 2)
ULTRASERVER_4_LABEL: Final = ultraserver_label("server", 4)
ULTRASERVER_NODE_LABEL: Final = ultraserver_label("node", 4)
"""The place of a machine inside of its UltraServer of four, from 0."""

ULTRASERVER_PLACES: Final[Mapping[str, str]] = MappingProxyType(
    {
        label: label.replace("neuron.amazonaws.com/", "hami-plugins.io/")
        for label in (
            ULTRASERVER_2_LABEL,
            ultraserver_label("node", 2),
            ULTRASERVER_4_LABEL,
            ULTRASERVER_NODE_LABEL,
        )
    }
)
"""Labels of a node that say which server of two or four machines it is in and which of them it is, each with the
annotation of a pod that repeats it: a container's variables may come from annotations of its pod, not from its node."""
