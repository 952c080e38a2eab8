"""One node's kubelet and container runtime in this process, with the real gRPC protocols on unix sockets.

Follows kubelet 1.34 and containerd 2.1 as measured (``trials.md`` K1 to K13) and, for what was not
measured, the kubelet's source. It runs nothing: a container is a record of what it was given.
"""

from hami_plugins.sandbox.kubelet.fault_points import FaultPoint, PassedFaultPoint
from hami_plugins.sandbox.kubelet.kubelet import EmulatedKubelet, MachineSpec
from hami_plugins.sandbox.kubelet.pod_resources import Rate
from hami_plugins.sandbox.kubelet.runtime import ContainerProgram, RunningContainer
from hami_plugins.sandbox.kubelet.times import Times

__all__ = [
    "ContainerProgram",
    "EmulatedKubelet",
    "FaultPoint",
    "MachineSpec",
    "PassedFaultPoint",
    "Rate",
    "RunningContainer",
    "Times",
]
