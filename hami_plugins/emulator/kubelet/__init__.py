"""One node's kubelet and container runtime in this process, with the real gRPC protocols on unix sockets.

Follows kubelet 1.34 and containerd 2.1 as measured (``real-cluster.md``, ``identity.md``) and, for what was not
measured, the kubelet's source. It runs nothing: a container is a record of what it was given.
"""

from hami_plugins.emulator.kubelet.kubelet import EmulatedKubelet, Host
from hami_plugins.emulator.kubelet.pod_resources import Rate
from hami_plugins.emulator.kubelet.runtime import Container, Program
from hami_plugins.emulator.kubelet.steps import Step, Taken
from hami_plugins.emulator.kubelet.times import Times

__all__ = ["Container", "EmulatedKubelet", "Host", "Program", "Rate", "Step", "Taken", "Times"]
