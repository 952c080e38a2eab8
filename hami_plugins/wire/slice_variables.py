"""The variables by which node agents give a container its slice, and what a manifest does that sets them itself.

A container's own variable wins over the one that a device plugin answers with (``kubelet_pods.go`` of Kubernetes 1.34
appends the container's own last). HAMi 2.10.0 takes no notice of it: its webhook lets such pods pass, and its plugin
leaves HAMi-core out of a container that sets ``CUDA_DISABLE_CONTROL``
(``pkg/device-plugin/nvidiadevice/nvinternal/plugin/server.go``).
"""

from __future__ import annotations

from typing import Final

from hami_plugins.wire import hami_core

VISIBLE_DEVICES: Final = (
    hami_core.VISIBLE_ENV,
    "ASCEND_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "NEURON_RT_VISIBLE_CORES",
    "AWS_NEURON_VISIBLE_DEVICES",
)
"""Variables with which node agents, and runtimes below them, show cards to containers."""

LIMITS: Final = (
    "CUDA_DEVICE_MEMORY_LIMIT",
    "CUDA_DEVICE_SM_LIMIT",
    "NPU_MEM_QUOTA",
    "HIP_DEVICE_MEMORY_LIMIT",
    "HSA_CU_MASK",
)
"""Prefixes of the variables with which node agents set the amounts of a container's slice."""

CONTROL: Final = hami_core.CONTROL_ENV
"""The variable that switches HAMi-core off in a container."""

HIDDEN: Final = ("", "none", "void")
"""Values, in small letters, with which a container is shown no card."""

_ON: Final = ("true", "1")


def override(name: str, value: str, *, limited: bool) -> str:
    """What a container's own variable does to its slice; empty where it does nothing.

    ``limited`` is whether the container asks for devices, so that a limit is set for it.
    """
    if name in VISIBLE_DEVICES:
        hides = value.lower() in HIDDEN
        return "" if hides else f"shows the container the cards {value}, whatever it was allocated"
    if name == CONTROL:
        return "switches off the limits on memory and cores" if value.lower() in _ON else ""
    if limited and name.startswith(LIMITS):
        return "overrides the limit that the node agent sets"
    return ""
