"""Every Trainium and Inferentia instance type, as data.

As of 2026-11-26. Sources: AWS' pages on instance types and AWS Neuron SDK 2.33.1 (``about-neuron/arch``), for Trainium
3 its ``trn3-arch`` and ``trainium3``, and for the names of its types, which EC2 does not list yet, aws-neuron-driver
``v4/neuron_dhal_v4.c``: ``trn3.48xlarge`` has the sixteen devices of a server of Gen1, ``trn3e.24xlarge`` the four of
Gen2. Other names that AWS's software has (``trn2n``, ``trn3p`` ...) are not here: a node of such a type is described by
what its machine reports, see ``hardware.machines``. Which EFA interface belongs to which device is from aws-neuron's
``connected-device-maps-over-efa-for-neuron`` v1.1.0, by which AWS's plugins and drivers pair them. Links of Inferentia
1 are not published; AWS places its devices as a row without a wrap, and so do we until a machine has told.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, NamedTuple

from hami_plugins.model.units import MiB
from neuron_topology.core.hardware.fabric import Fabric, line, ring, single, switched, torus

GIB: Final = 1024
"""MiB in a GiB."""


class PcieGroup(NamedTuple):
    """Devices behind one PCIe bus (trn1) or switch (trn2), and how many EFA interfaces sit there with them."""

    name: str
    devices: tuple[int, ...]
    efa_interfaces: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceType:
    """One EC2 instance type.

    ``cores_per_device`` are physical NeuronCores; ``default_lnc`` is how many of them act as one by default (0 where
    that cannot be set). ``numa[i]`` is the NUMA node of device i and ``pcie`` its groups; both are empty where AWS has
    not published them. ``vcpus`` and ``memory_gib`` are the whole machine's, ``ultraserver`` the numbers of machines
    that can be wired together through their devices (1 is a machine by itself). ``efa[i]`` is the PCI address of the
    EFA interface of device i, empty where it is not published; two devices of a trn1.32xlarge share one. ``vcpus`` 0:
    host and network are not published.
    """

    name: str
    core_generation: str
    cores_per_device: int
    device_memory: MiB
    memory_kind: str
    fabric: Fabric
    vcpus: int
    memory_gib: int
    default_lnc: int = 0
    numa: tuple[int, ...] = ()
    pcie: tuple[PcieGroup, ...] = ()
    efa_interfaces: int = 0
    efa: tuple[str, ...] = ()
    network_cards: int = 0
    max_enis: int = 0
    ultraserver: tuple[int, ...] = (1,)

    @property
    def devices(self) -> int:
        """How many Neuron devices the machine has."""
        return self.fabric.devices

    @property
    def family(self) -> str:
        """The part of the name before the size: ``trn1`` of ``trn1.32xlarge``."""
        return self.name.partition(".")[0]

    @property
    def host_known(self) -> bool:
        """Whether AWS has published what the host has, and its network."""
        return self.vcpus > 0

    @property
    def lnc_choices(self) -> tuple[int, ...]:
        """The LNC settings that the machine can be set to; empty if it has none."""
        return (1, 2) if self.default_lnc else ()

    @property
    def efa_groups(self) -> tuple[tuple[int, ...], ...]:
        """The devices of each EFA interface, where that is known."""
        return tuple(
            tuple(at for at, other in enumerate(self.efa) if other == address) for address in dict.fromkeys(self.efa)
        )

    def logical_cores(self, lnc: int = 0) -> int:
        """The cores that one device counts at an LNC setting, 0 for the default one."""
        return self.cores_per_device // (lnc or self.default_lnc or 1)

    def efa_for(self, devices: int) -> int:
        """The EFA interfaces that go with so many devices: their share of the machine's, rounded down."""
        return self.efa_interfaces * devices // self.devices


_TRN1_NUMA: Final = (0, 0, 1, 1) * 4
_TRN1_BUSES: Final = (
    ("0x10", (0, 1, 12, 13)),
    ("0x20", (4, 5, 8, 9)),
    ("0xa0", (2, 3, 14, 15)),
    ("0x90", (6, 7, 10, 11)),
)
_TRN1_EFA: Final = (
    ("10:1a.0",) * 2
    + ("a0:1a.0",) * 2
    + ("20:19.0",) * 2
    + ("90:19.0",) * 2
    + (("20:1a.0",) * 2 + ("90:1a.0",) * 2 + ("10:19.0",) * 2 + ("a0:19.0",) * 2)
)
_TRN1N_EFA: Final = (
    *("10:17.0", "10:1a.0", "a0:17.0", "a0:1a.0", "20:19.0", "20:18.0", "90:19.0", "90:18.0"),
    *("20:17.0", "20:1a.0", "90:17.0", "90:1a.0", "10:19.0", "10:18.0", "a0:19.0", "a0:18.0"),
)
_TRN2_EFA: Final = (
    *("c9:00.0", "b4:00.0", "b3:00.0", "ca:00.0", "6c:00.0", "57:00.0", "56:00.0", "6d:00.0"),
    *("98:00.0", "83:00.0", "82:00.0", "99:00.0", "f5:00.0", "e0:00.0", "df:00.0", "f6:00.0"),
)
_TRN2_NUMA: Final = (1,) * 4 + (0,) * 8 + (1,) * 4
_TRN2_SWITCHES: Final = tuple(
    PcieGroup("", pair, 2) for pair in ((0, 3), (1, 2), (4, 7), (5, 6), (8, 11), (9, 10), (12, 15), (13, 14))
)
_INF2_NUMA: Final = (2, 3, 2, 3, 2, 3, 1, 1, 0, 0, 0, 1)


def _inferentia1(size: str, fabric: Fabric, vcpus: int, memory_gib: int, efa_interfaces: int = 0) -> InstanceType:
    return InstanceType(
        name=f"inf1.{size}",
        core_generation="v1",
        cores_per_device=4,
        device_memory=MiB(8 * GIB),
        memory_kind="DRAM",
        fabric=fabric,
        vcpus=vcpus,
        memory_gib=memory_gib,
        efa_interfaces=efa_interfaces,
    )


def _second_generation(
    name: str, fabric: Fabric, vcpus: int, memory_gib: int, numa: tuple[int, ...] = ()
) -> InstanceType:
    return InstanceType(
        name=name,
        core_generation="v2",
        cores_per_device=2,
        device_memory=MiB(32 * GIB),
        memory_kind="HBM",
        fabric=fabric,
        vcpus=vcpus,
        memory_gib=memory_gib,
        numa=numa,
    )


def _trainium1(name: str, efa: tuple[str, ...], max_enis: int) -> InstanceType:
    count = len(set(efa))
    return replace(
        _second_generation(name, torus(), 128, 512, _TRN1_NUMA),
        pcie=tuple(PcieGroup(bus, devices, count // len(_TRN1_BUSES)) for bus, devices in _TRN1_BUSES),
        efa_interfaces=count,
        efa=efa,
        network_cards=count,
        max_enis=max_enis,
    )


def _trainium2(name: str, ultraserver: tuple[int, ...]) -> InstanceType:
    return InstanceType(
        name=name,
        core_generation="v3",
        cores_per_device=8,
        device_memory=MiB(96 * GIB),
        memory_kind="HBM",
        fabric=torus(),
        vcpus=192,
        memory_gib=2048,
        default_lnc=2,
        numa=_TRN2_NUMA,
        pcie=_TRN2_SWITCHES,
        efa_interfaces=16,
        efa=_TRN2_EFA,
        network_cards=16,
        max_enis=32,
        ultraserver=ultraserver,
    )


def _trainium3(name: str, devices: int, ultraserver: tuple[int, ...]) -> InstanceType:
    return InstanceType(
        name=name,
        core_generation="v4",
        cores_per_device=8,
        device_memory=MiB(144 * GIB),
        memory_kind="HBM",
        fabric=switched(devices),
        vcpus=0,
        memory_gib=0,
        default_lnc=2,
        ultraserver=ultraserver,
    )


_ALL: Final = (
    _inferentia1("xlarge", single(), 4, 8),
    _inferentia1("2xlarge", single(), 8, 16),
    _inferentia1("6xlarge", line(4), 24, 48),
    _inferentia1("24xlarge", line(16), 96, 192, efa_interfaces=1),
    _second_generation("inf2.xlarge", single(), 4, 16),
    _second_generation("inf2.8xlarge", single(), 32, 128),
    _second_generation("inf2.24xlarge", line(6), 96, 384),
    _second_generation("inf2.48xlarge", ring(12), 192, 768, _INF2_NUMA),
    _second_generation("trn1.2xlarge", single(), 8, 32),
    _trainium1("trn1.32xlarge", _TRN1_EFA, 40),
    _trainium1("trn1n.32xlarge", _TRN1N_EFA, 80),
    InstanceType(
        name="trn2.3xlarge",
        core_generation="v3",
        cores_per_device=8,
        device_memory=MiB(96 * GIB),
        memory_kind="HBM",
        fabric=single(),
        vcpus=12,
        memory_gib=128,
        default_lnc=2,
        efa_interfaces=1,
    ),
    _trainium2("trn2.48xlarge", (1,)),
    _trainium2("trn2u.48xlarge", (1, 2, 4)),
    _trainium3("trn3.48xlarge", 16, (1, 2, 4)),
    _trainium3("trn3e.24xlarge", 4, (1, 36)),
)

INSTANCE_TYPES: Final[Mapping[str, InstanceType]] = MappingProxyType({each.name: each for each in _ALL})
"""Every known type by its name, which is the value of the node label ``node.kubernetes.io/instance-type``."""
