"""What Koordinator's own validating webhook says to a container, with its gate ``ValidatePodDeviceResource`` on.

Checked here whatever the feature gate: a pod that it would refuse waits for ever where it is off. Source: Koordinator
1.7.0 ``pkg/webhook/pod/validating/verify_device_resource.go``.
"""

from __future__ import annotations

from collections.abc import Mapping

from hami_plugins.engine.koordinator import FULL
from hami_plugins.wire.koordinator import CORE, GPU, MEMORY, NPU_CORE, RATIO, SHARED


def objection(requests: Mapping[str, int]) -> str:
    """The first thing wrong with a container's requests in whole units, zeros included; empty where nothing is."""
    return _of_both(requests) or ("" if NPU_CORE in requests else _of_shares(requests))


def _of_both(requests: Mapping[str, int]) -> str:
    if GPU in requests and SHARED in requests:
        return "Forbidden declare GPU and GPU share at same time"
    if requests.get(GPU) == 0 or requests.get(SHARED) == 0:
        return "the requested GPU must be greater than zero"
    if requests.get(GPU, 0) > FULL and requests[GPU] % FULL:
        return "the requested GPU must be percentage of 100"
    return ""


def _of_shares(requests: Mapping[str, int]) -> str:
    cards = requests.get(SHARED)
    if cards is None:
        return ""
    memory, ratio = requests.get(MEMORY, 0), requests.get(RATIO, 0)
    if not memory and not ratio:
        return "GPU memory and GPU memory ratio all is zero"
    if memory and ratio:
        return "declare GPU memory and GPU memory ratio at same time"
    if requests.get(CORE, 0) % cards:
        return "the requested gpuCore must multiple of shared"
    if ratio % cards:
        return "the requested gpuMemoryRatio must multiple of shared"
    return ""
