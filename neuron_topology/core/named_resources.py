"""Machines and parts of them by name, with amounts that a node has to give.

TorchX asks Kubernetes for a little less than a resource says (TorchX 0.7.0
``torchx/schedulers/kubernetes_scheduler.py``), so that a whole machine's cpu is rounded up by no more than that. A part
of a machine gets the same part of what the machine has for pods.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from neuron_topology.core import names
from neuron_topology.core.hardware.instances import INSTANCE_TYPES, InstanceType
from neuron_topology.core.jobs import node_capacity

PREFIX: Final = "neuron_"
"""Before the name of an instance type: TorchX' own names (``aws_...``) stay what they are."""

PARTS: Final = (1, 2, 4, 8, 16)
"""Devices that a name may count, if the machine has as many; a whole machine has its own name as well."""

_KEPT_BACK_MILLICPU: Final = 100
"""How much less than its cpu TorchX asks for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedResource:
    """What ``torchx run ... -h NAME`` asks for: whole cores, decimal megabytes, and extended resources."""

    name: str
    instance_type: str
    cpu: int
    memory_mb: int
    devices: Mapping[str, int]

    @property
    def attribute(self) -> str:
        """The name as an identifier, for entry points."""
        return self.name.removeprefix(PREFIX).replace(".", "_")

    @property
    def requested_millicpu(self) -> int:
        """What TorchX asks Kubernetes for, in thousandths of a core."""
        return self.cpu * 1000 - _KEPT_BACK_MILLICPU

    def workers(self, lnc: int = 0) -> int:
        """Processes for one pod: one for each core as the machine counts cores at this LNC (0: by default)."""
        return self.devices[names.DEVICES] * INSTANCE_TYPES[self.instance_type].logical_cores(lnc)


def _named(kind: InstanceType, suffix: str, devices: int) -> NamedResource:
    share = node_capacity.for_pods(kind).share(devices, kind.devices)
    efa = kind.efa_for(devices)
    return NamedResource(
        name=f"{PREFIX}{kind.name}{suffix}",
        instance_type=kind.name,
        cpu=(share.millicpu + _KEPT_BACK_MILLICPU) // 1000,
        memory_mb=share.memory // node_capacity.MEGA,
        devices=MappingProxyType({names.DEVICES: devices} | ({names.EFA: efa} if efa else {})),
    )


_ALL: Final = tuple(
    _named(kind, suffix, devices)
    for kind in INSTANCE_TYPES.values()
    if kind.host_known
    for suffix, devices in (("", kind.devices), *((f"_{part}", part) for part in PARTS if part <= kind.devices))
)

NAMED: Final[Mapping[str, NamedResource]] = MappingProxyType({each.name: each for each in _ALL})
"""Every resource by its name."""
