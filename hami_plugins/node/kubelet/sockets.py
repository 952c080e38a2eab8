"""Where the kubelet keeps its sockets and its record of allocations."""

from pathlib import Path
from typing import Final

KUBELET_SOCKET: Final = "kubelet.sock"
"""The kubelet's registration socket in the directory of device plugins."""

CHECKPOINT: Final = "kubelet_internal_checkpoint"
"""The kubelet's record of allocations in that directory."""

POD_RESOURCES_SOCKET: Final = Path("/var/lib/kubelet/pod-resources/kubelet.sock")
"""Where the kubelet says which container holds which device."""

API_VERSION: Final = "v1beta1"
"""The version of the device plugin protocol."""

HEALTHY: Final = "Healthy"
"""The health of a device that can be given out."""

UNHEALTHY: Final = "Unhealthy"
"""The health of a device that cannot."""
