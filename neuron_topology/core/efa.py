"""EFA interfaces for Neuron devices: a node's missing ones, a job's request for them, and its variables.

AWS's device plugin counts interfaces (``vpc.amazonaws.com/efa``) and chooses which of them a container gets. A pod
whose devices share no interface with others (``sets.locality``) leaves it a choice that fits. Sources: EKS user guide
``device-management-efa``, AWS Neuron SDK 2.29.1 ``setup-trn1-multi-node-execution``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from hami_plugins.model.inventory import NodeObject
from neuron_topology.core.hardware.instances import InstanceType
from neuron_topology.core.names import EFA

VARIABLES: Final[Mapping[str, str]] = MappingProxyType(
    {"FI_PROVIDER": "efa", "FI_EFA_USE_DEVICE_RDMA": "1", "FI_EFA_FORK_SAFE": "1"}
)
"""What a process needs to reach other nodes over EFA. The address of rank 0 (``NEURON_RT_ROOT_COMM_ID``) is torchrun's
matter."""


def shortage(node: NodeObject, kind: InstanceType | None) -> tuple[str, ...]:
    """A remark on a node that offers fewer interfaces than its type has; nothing where no plugin offers any at all."""
    capacity = node.capacity.get(EFA)
    if kind is None or capacity is None:
        return ()
    offered = node.allocatable.get(EFA, capacity).ceiling
    if offered >= kind.efa_interfaces:
        return ()
    why = "attach the others by the launch template, or look at the log of AWS's EFA device plugin"
    return (f"the node offers {offered} EFA interfaces, {kind.name} has {kind.efa_interfaces}: {why}",)


def unsuited(kind: InstanceType, *, devices: int, interfaces: int, pods: int) -> Iterator[str]:
    """Remarks on how many interfaces a pod of so many asks for with its devices."""
    share = kind.efa_for(devices)
    if not devices or not kind.efa_interfaces or interfaces == share:
        return
    asked = f"a pod asks for {interfaces} EFA interfaces with {devices} of the {kind.devices} devices of {kind.name}"
    if interfaces > share:
        yield f"{asked}; its share is {share}, and other pods of the node lack the others"
    elif pods > 1:
        yield f"{asked}; ask for its share of {share}, or the network between its pods is slower than it could be"
