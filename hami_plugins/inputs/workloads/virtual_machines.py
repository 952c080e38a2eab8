"""KubeVirt's virtual machines: their pods are made by a controller, and devices come from the machine's own list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hami_plugins.inputs.workloads.templates import mappings_in

GROUPS: Final = frozenset({"kubevirt.io", "pool.kubevirt.io"})

WHY: Final = (
    "a virtual machine gets the devices of its host that KubeVirt passes through (spec.domain.devices); "
    "a slice of a device is mounted into a container and does not reach it"
)


def asks_for_devices(group: str, raw: Mapping[str, object]) -> bool:
    """Whether an object of this API group describes a virtual machine with devices, whatever its kind.

    They are listed as ``gpus`` or ``hostDevices`` (KubeVirt API v1 ``Devices``).
    """
    return group in GROUPS and any(found.get("gpus") or found.get("hostDevices") for found in mappings_in(raw))
