"""What a pod may ask for on an EKS node of some type, after Kubernetes and the daemons of the node have theirs.

Source: TorchX 0.7.0 ``torchx/specs/named_resources_aws.py`` and EKS' bootstrap: 6 % of the first core, 1 % of the
second, half a per cent of the next two and a quarter of all others are kept, and so are 255 MiB, 11 MiB for each
possible pod and the 100 MiB below which the kubelet evicts. The hypervisor and the kernel keep about 4 % of the memory
before that.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from neuron_topology.core.hardware.instances import InstanceType

MEGA: Final = 10**6
"""Bytes in the ``M`` of a Kubernetes quantity."""

_MIB: Final = 1024**2
_SEEN_PER_CENT: Final = 96
_RESERVED_MIB: Final = 255
_RESERVED_MIB_PER_POD: Final = 11
_EVICTION_MIB: Final = 100
_MOST_VCPUS_OF_SMALL: Final = 30
_PODS_OF_SMALL: Final = 110
_PODS: Final = 250


class HostCapacity(NamedTuple):
    """Processor time in thousandths of a core, and bytes of memory."""

    millicpu: int
    memory: int

    def less(self, other: HostCapacity) -> HostCapacity:
        """The rest after a subtraction."""
        return HostCapacity(self.millicpu - other.millicpu, self.memory - other.memory)

    def share(self, devices: int, of: int) -> HostCapacity:
        """What goes with so many of the machine's devices, rounded down."""
        return HostCapacity(self.millicpu * devices // of, self.memory * devices // of)


DAEMONS: Final = HostCapacity(millicpu=500, memory=1024 * _MIB)
"""What kube-proxy, the network and device plugins and a log agent ask for together, with room to spare."""


def allocatable(kind: InstanceType) -> HostCapacity:
    """What the node reports as allocatable."""
    kept = 60 + 10 * (kind.vcpus > 1) + 5 * max(0, min(kind.vcpus, 4) - 2) + 5 * max(0, kind.vcpus - 4) // 2
    pods = _PODS_OF_SMALL if kind.vcpus <= _MOST_VCPUS_OF_SMALL else _PODS
    seen = kind.memory_gib * 1024 * _SEEN_PER_CENT // 100
    memory = seen - _RESERVED_MIB - _RESERVED_MIB_PER_POD * pods - _EVICTION_MIB
    return HostCapacity(kind.vcpus * 1000 - kept, memory * _MIB)


def for_pods(kind: InstanceType) -> HostCapacity:
    """The rest after the daemons of the node."""
    return allocatable(kind).less(DAEMONS)
