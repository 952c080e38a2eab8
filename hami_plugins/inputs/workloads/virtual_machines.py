"""KubeVirt's virtual machines: their pods are made by a controller, and devices come from the machine's own list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

GROUPS: Final = frozenset({"kubevirt.io", "pool.kubevirt.io"})

WHY: Final = (
    "a virtual machine gets the devices of its host that KubeVirt passes through (spec.domain.devices); "
    "a slice of a device is mounted into a container and does not reach it"
)


def asks_for_devices(group: str, raw: Mapping[str, object]) -> bool:
    """Whether an object of this API group describes a virtual machine with devices, whatever its kind.

    They are listed as ``gpus`` or ``hostDevices`` (KubeVirt API v1 ``Devices``).
    """
    waiting: list[object] = [raw] if group in GROUPS else []
    while waiting:
        found = waiting.pop()
        if isinstance(found, Mapping):
            if found.get("gpus") or found.get("hostDevices"):
                return True
            waiting.extend(found.values())
        elif isinstance(found, list):
            waiting.extend(found)
    return False
