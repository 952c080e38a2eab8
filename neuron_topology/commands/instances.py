"""The work of ``neuron instances``: what is known of instance types, and which sets of their devices are allocated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Literal

from typing_extensions import TypedDict

from hami_plugins.cli.kit import output
from hami_plugins.cli.kit.edge import Exit
from hami_plugins.cli.kit.options import Form
from hami_plugins.errors import ConfigError
from hami_plugins.output.rows import Table, TableRow
from hami_plugins.output.schema import API_VERSION
from neuron_topology.core.hardware.fabric import FabricShape
from neuron_topology.core.hardware.instances import GIB, INSTANCE_TYPES, InstanceType
from neuron_topology.core.sets.chances import chances
from neuron_topology.core.sets.families import Family
from neuron_topology.core.sets.locality import Locality
from neuron_topology.core.sets.tables import Tables, Topology

KIND: Final = "NeuronInstanceTypes"


Links = Literal["alone", "row", "ring", "4x4 torus", "switched"]


class PcieGroupDocument(TypedDict):
    """Devices behind one PCIe bus or switch."""

    name: str
    devices: list[int]
    efaInterfaces: int


class SetsDocument(TypedDict):
    """The sets of one size that a family allocates."""

    sets: int
    chanceByBusy: list[float]
    """How likely one is free with 0, 1, 2 ... other devices in use, anywhere on the machine."""


class InstanceTypeDocument(TypedDict):
    """What is known of an instance type. Numbers are 0, and lists empty, where AWS has not published them."""

    name: str
    devices: int
    links: Links
    coreGeneration: str
    coresPerDevice: int
    logicalCoresPerDevice: int
    memoryPerDeviceMiB: int
    memoryKind: str
    vcpus: int
    memoryGiB: int
    efaInterfaces: int
    efaOfDevice: list[str]
    networkCards: int
    networkInterfaces: int
    numaOfDevice: list[int]
    pcieGroups: list[PcieGroupDocument]
    ultraServerMachines: list[int]
    sets: dict[str, dict[str, SetsDocument]] | None
    """By family and number of devices; null where all types are listed."""


class InstanceTypesDocument(TypedDict):
    """The answer of ``hami-plugins neuron instances``."""

    apiVersion: Literal["hami-plugins.io/v1alpha1"]
    kind: Literal["NeuronInstanceTypes"]
    instanceTypes: list[InstanceTypeDocument]


_SHAPES: Final[Mapping[FabricShape, Links]] = {
    FabricShape.SINGLE: "alone",
    FabricShape.LINE: "row",
    FabricShape.RING: "ring",
    FabricShape.TORUS: "4x4 torus",
    FabricShape.SWITCH: "switched",
}


def instances(name: str | None, *, form: Form, headers: bool) -> int:
    """Print all types, or one in full. Raises ``ConfigError`` for one that is not known."""
    if name is not None and name not in INSTANCE_TYPES:
        raise ConfigError(f"no instance type is called {name}; known are {', '.join(INSTANCE_TYPES)}")
    chosen = list(INSTANCE_TYPES.values()) if name is None else [INSTANCE_TYPES[name]]
    if form is not Form.TABLE:
        types = [document(each, sets=None if name is None else sets(each)) for each in chosen]
        output.document({"apiVersion": API_VERSION, "kind": KIND, "instanceTypes": types}, form)
        return Exit.FINE
    if name is None:
        output.table(_overview(chosen), headers=headers)
        return Exit.FINE
    output.table(_facts(chosen[0]), headers=headers)
    output.line()
    output.table(_allocated(chosen[0]), headers=headers)
    if curves := _curves(chosen[0]):
        output.line()
        output.line("probability that a set is free while this many other devices are in use, anywhere on the machine")
        output.table(curves, headers=headers)
    return Exit.FINE


def document(found: InstanceType, *, sets: dict[str, dict[str, SetsDocument]] | None) -> InstanceTypeDocument:
    """What is known of a type."""
    return {
        "name": found.name,
        "devices": found.devices,
        "links": _SHAPES[found.fabric.shape],
        "coreGeneration": found.core_generation,
        "coresPerDevice": found.cores_per_device,
        "logicalCoresPerDevice": found.logical_cores(),
        "memoryPerDeviceMiB": found.device_memory,
        "memoryKind": found.memory_kind,
        "vcpus": found.vcpus,
        "memoryGiB": found.memory_gib,
        "efaInterfaces": found.efa_interfaces,
        "efaOfDevice": list(found.efa),
        "networkCards": found.network_cards,
        "networkInterfaces": found.max_enis,
        "numaOfDevice": list(found.numa),
        "pcieGroups": [
            {"name": group.name, "devices": list(group.devices), "efaInterfaces": group.efa_interfaces}
            for group in found.pcie
        ],
        "ultraServerMachines": list(found.ultraserver),
        "sets": sets,
    }


def sets(found: InstanceType) -> dict[str, dict[str, SetsDocument]]:
    """The sets of each family by their number of devices, and how likely one is free with 0, 1, 2 ... others in use."""
    return {
        family.value: {
            str(count): {"sets": len(tables.sets[count]), "chanceByBusy": list(chances(tables, count))}
            for count in tables.counts
        }
        for family, tables in _families(found)
    }


def _overview(chosen: list[InstanceType]) -> Table:
    columns = ("TYPE", "DEVICES", "LINKS", "CORES", "MEMORY", "VCPUS", "HOST MEMORY", "EFA", "ULTRASERVER")
    rows = tuple(
        TableRow(
            (
                each.name,
                f"{each.devices}",
                _SHAPES[each.fabric.shape],
                f"{each.devices * each.logical_cores()}",
                f"{each.devices * each.device_memory // GIB} GiB",
                f"{each.vcpus or '-'}",
                f"{each.memory_gib} GiB" if each.host_known else "-",
                f"{each.efa_interfaces or '-'}",
                " ".join(str(machines) for machines in each.ultraserver if machines > 1) or "-",
            )
        )
        for each in chosen
    )
    return Table(columns, rows, whole=frozenset({0}))


def _facts(found: InstanceType) -> Table:
    facts = (
        ("instance type", found.name),
        ("devices", f"{found.devices}, {_SHAPES[found.fabric.shape]}"),
        ("cores of a device", f"{found.cores_per_device} NeuronCores {found.core_generation}"),
        ("as pods count them", f"{found.logical_cores()}" if found.default_lnc else ""),
        ("memory of a device", f"{found.device_memory // GIB} GiB {found.memory_kind}"),
        ("host", f"{found.vcpus} vCPUs, {found.memory_gib} GiB" if found.host_known else "not published"),
        ("EFA interfaces", f"{found.efa_interfaces or ''}"),
        ("EFA interface of devices", " ".join(found.efa)),
        ("network cards", f"{found.network_cards or ''}"),
        ("network interfaces", f"{found.max_enis or ''}"),
        ("NUMA nodes of devices", " ".join(map(str, found.numa))),
        ("PCIe groups", "; ".join(" ".join(map(str, group.devices)) for group in found.pcie)),
        ("UltraServers of", " ".join(f"{machines} machines" for machines in found.ultraserver if machines > 1)),
    )
    return Table(("FACT", "VALUE"), tuple(TableRow(fact) for fact in facts if fact[1]), whole=frozenset({0}))


def _allocated(found: InstanceType) -> Table:
    rows = tuple(
        TableRow((family.value, ", ".join(f"{len(tables.sets[count])} of {count}" for count in tables.counts)))
        for family, tables in _families(found)
    )
    return Table(("FAMILY", "SETS OF SO MANY DEVICES"), rows, whole=frozenset({0}))


def _curves(found: InstanceType) -> Table | None:
    """The chances of the sizes that jobs come in, powers of two; none for a machine with fewer than three devices."""
    sizes = [size for size in (2, 4, 8) if size < found.devices]
    if not sizes:
        return None
    known = {
        (family, size): curve
        for family, tables in _families(found)
        for size in sizes
        if size in tables.counts and (curve := chances(tables, size))
    }
    if not known:
        return None
    columns = ("IN USE", *(f"{family.value.upper()} {size}" for family, size in known))
    rows = tuple(
        TableRow((f"{busy}", *(f"{each[busy]:.3f}" for each in known.values()))) for busy in range(1, found.devices - 1)
    )
    return Table(columns, rows)


def _families(found: InstanceType) -> Iterator[tuple[Family, Tables]]:
    locality = Locality(found.numa, tuple(group.devices for group in found.pcie), found.efa_groups)
    for family in Family:
        yield family, Topology(found.fabric, family, locality).tables
