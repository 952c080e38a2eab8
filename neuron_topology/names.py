"""Names that a cluster with Trainium or Inferentia nodes goes by: resources, labels, taints.

Source: ``neuron-torchx.md`` 1.6, 2.1, 2.5, 2.7, 7.1.
"""

from __future__ import annotations

from typing import Final

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

ULTRASERVER_2_LABEL: Final = "neuron.amazonaws.com/ultraserver-server-id-2"
ULTRASERVER_4_LABEL: Final = "neuron.amazonaws.com/ultraserver-server-id-4"
ULTRASERVER_NODE_LABEL: Final = "neuron.amazonaws.com/ultraserver-node-id-4"
"""The place of a machine inside of its UltraServer of four, from 0."""
