"""What a node's devices are, from its type, from what the machine says of itself, and from what is known to be broken.

Observed links win over the table; every difference is reported. Links that the table has and the machine lacks are
dead, so that the rest of a damaged machine keeps its shape; a machine wired in another way has the graph that it shows.
Where neither is known, devices are allocated one by one or all together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from hami_plugins.errors import WireError
from hami_plugins.model.units import MiB
from hami_plugins.wire import documents
from hami_plugins.wire.documents import load
from hami_plugins.wire.fields import Json, items, whole, wrong
from hami_plugins.wire.scalars import shown
from neuron_topology.core.hardware.fabric import Fabric, FabricShape, recognised
from neuron_topology.core.hardware.instances import INSTANCE_TYPES, InstanceType
from neuron_topology.core.hardware.neuron_ls import Observation

_SHOWN: Final = 4
"""How many differences are named one by one."""

Link = tuple[int, int]
Read = TypeVar("Read", int, Link)


@dataclass(frozen=True, slots=True, kw_only=True)
class NeuronMachine:
    """The devices of one node.

    ``cores`` are the logical ones of each device, 0 where unknown. ``numa[i]`` is the NUMA node of device i, ``pcie``
    the devices behind one bus or switch, ``efa`` those of one EFA interface; empty where unknown. ``dead`` are links
    that do not work, the lower index first, ``sick`` devices that must not be allocated, of which ``absent`` are not on
    the bus, ``worn`` those with errors that were repaired. ``remarks`` say what an operator should know, ``memory`` is
    that of each device, 0 if unknown.
    """

    fabric: Fabric
    cores: int = 0
    numa: tuple[int, ...] = ()
    pcie: tuple[tuple[int, ...], ...] = ()
    efa: tuple[tuple[int, ...], ...] = ()
    dead: tuple[Link, ...] = ()
    sick: frozenset[int] = frozenset()
    absent: frozenset[int] = frozenset()
    worn: frozenset[int] = frozenset()
    remarks: tuple[str, ...] = ()
    memory: MiB = MiB(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineHealth:
    """What is known to be broken: devices, links between two of them, and devices whose errors could be repaired."""

    devices: frozenset[int] = frozenset()
    links: tuple[Link, ...] = ()
    repaired: frozenset[int] = frozenset()


_MEMBERS: Final = ("devices", "links", "repaired")


def decode_health(place: str, written: str) -> tuple[MachineHealth, tuple[str, ...]]:
    """From ``{"devices": [7], "links": [[4, 5]], "repaired": [9]}``, and remarks on what of it cannot be read.

    Raises ``WireError`` if nothing can be read: a device that is known to be broken stays so despite a mistake
    elsewhere.
    """
    holder = whole(load(place, written), place)
    remarks = [
        f"{place} has a member {shown(name)} that is unknown; there are {', '.join(_MEMBERS)}"
        for name in holder
        if name not in _MEMBERS
    ]
    links = _legible(holder, "links", place, _pair, remarks)
    health = MachineHealth(
        devices=frozenset(_legible(holder, "devices", place, _index, remarks)),
        links=tuple(sorted(set(links))),
        repaired=frozenset(_legible(holder, "repaired", place, _index, remarks)),
    )
    return health, tuple(remarks)


def encode_health(health: MachineHealth) -> str:
    """The text form; members without an entry are left out."""
    found = {
        "devices": sorted(health.devices),
        "links": [list(link) for link in sorted(health.links)],
        "repaired": sorted(health.repaired),
    }
    return documents.dump({name: listed for name, listed in found.items() if listed})


def _legible(
    holder: Json, name: str, place: str, read: Callable[[object, str], Read], remarks: list[str]
) -> list[Read]:
    """The entries of a member that can be read; the others become remarks."""
    found: list[Read] = []
    try:
        for each in items(holder, name, place):
            try:
                found.append(read(each, f"{place}.{name}"))
            except WireError as error:
                remarks.append(f"ignored: {error}")
    except WireError as error:
        remarks.append(f"ignored: {error}")
    return found


def _pair(value: object, place: str) -> Link:
    if not isinstance(value, list) or len(value) != 2:
        raise wrong(place, value, "pairs of device indexes")
    one, other = sorted(_index(end, place) for end in value)
    return one, other


def _index(value: object, place: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise wrong(place, value, "a device index")
    return value


def machine_of(name: str, devices: int, observed: Observation | None = None) -> NeuronMachine:
    """The machine of a node with so many devices, whose label says that it is of type ``name`` (empty without one)."""
    known = INSTANCE_TYPES.get(name)
    if observed is not None:
        return _observed(name, known, devices, observed)
    if known is None:
        why = f"instance type {name} is not known" if name else "the node has no instance type"
    elif known.devices != devices:
        why = f"the node has {devices} devices, {name} has {known.devices}"
    else:
        return NeuronMachine(
            fabric=known.fabric,
            cores=known.logical_cores(),
            numa=known.numa,
            pcie=tuple(group.devices for group in known.pcie),
            efa=known.efa_groups,
            memory=known.device_memory,
        )
    alone = Fabric(FabricShape.SINGLE if devices == 1 else FabricShape.IRREGULAR, ((),) * devices)
    if devices == 1:
        return NeuronMachine(fabric=alone, remarks=(why,) if name else ())
    return NeuronMachine(fabric=alone, remarks=(f"{why}: {_SINGLY}; {_REMEDY}",))


_SINGLY: Final = "devices are allocated one by one or all together"
_REMEDY: Final = "the output of neuron-ls -j would show how they are linked"


def with_health(machine: NeuronMachine, health: MachineHealth) -> NeuronMachine:
    """The machine without its broken parts; unknown devices and links are reported and ignored."""
    total, links = machine.fabric.devices, machine.fabric.links
    strange = sorted(each for each in health.devices | health.repaired if each >= total)
    unlinked = [each for each in health.links if each not in links]
    remarks = [f"health names device {each}, the node has {total}" for each in strange]
    remarks += [f"health names a link {one}-{other} that the node does not have" for one, other in unlinked]
    return replace(
        machine,
        dead=tuple(sorted({*machine.dead, *(each for each in health.links if each in links)})),
        sick=machine.sick | {each for each in health.devices if each < total},
        worn=machine.worn | {each for each in health.repaired if each < total},
        remarks=(*machine.remarks, *remarks),
    )


def _observed(name: str, known: InstanceType | None, devices: int, observed: Observation) -> NeuronMachine:
    present = {device.index: device for device in observed.devices}
    total = max(devices, *(index + 1 for index in present))
    table = known if known is not None and total <= known.devices < 2 * len(present) else None
    if table is not None:
        total = table.devices
    absent = frozenset(range(total)) - present.keys()
    neighbours = [present[at].neighbours if at in present else () for at in range(total)]
    remarks = [f"neuron-ls does not list device {at}" for at in sorted(absent)]
    if (last := max(present)) >= devices and len(present) > devices:
        remarks.append(f"neuron-ls lists device {last}, the node has {devices}")
    if observed.instance_type and name and observed.instance_type != name:
        remarks.append(f"neuron-ls reports {observed.instance_type}, the node's label {name}")
    strangers = {other for row in neighbours for other in row if other >= total}
    remarks += [f"neuron-ls has links to device {other}, which is not there" for other in sorted(strangers)]
    shown = recognised([[other for other in row if other < total] for row in neighbours])
    fabric, dead = shown, frozenset[Link]()
    if table is not None:
        fabric, dead, differences = _reconciled(table.fabric, shown, absent)
        remarks += _told(name, differences)
    elif fabric.shape is FabricShape.IRREGULAR:
        remarks.append(f"neuron-ls shows links of no known shape: {_SINGLY} unless the pool allocates linked sets")
    return NeuronMachine(
        fabric=fabric,
        cores=_cores(observed),
        numa=_numa(observed, total) or (table.numa if table is not None else ()),
        pcie=tuple(group.devices for group in table.pcie) if table is not None else _buses(observed),
        efa=table.efa_groups if table is not None else (),
        dead=tuple(sorted(dead)),
        sick=absent,
        absent=absent,
        memory=min(device.memory for device in observed.devices),
        remarks=tuple(remarks),
    )


def _reconciled(table: Fabric, shown: Fabric, absent: frozenset[int]) -> tuple[Fabric, frozenset[Link], list[str]]:
    """The fabric to work with, its dead links, and how table and machine differ, links of absent devices aside.

    Links in addition to those of the table take nothing away from it: its sets are all there.
    """
    if table.shape is FabricShape.SWITCH:  # what neuron-ls shows of links through switches is not published
        return table, frozenset(), []
    expected = {link for link in table.links if absent.isdisjoint(link)}
    found = {link for link in shown.links if absent.isdisjoint(link)}
    lacking, more = expected - found, found - expected
    differences = [f"no link {one}-{other}" for one, other in sorted(lacking)]
    differences += [f"a link {one}-{other} more" for one, other in sorted(more)]
    if more and lacking:
        return shown, frozenset(), differences
    return table, frozenset(lacking), differences


def _told(name: str, differences: list[str]) -> list[str]:
    if not differences:
        return []
    rest = f" and {len(differences) - _SHOWN} more" if len(differences) > _SHOWN else ""
    return [f"neuron-ls differs from the table of {name}: {', '.join(differences[:_SHOWN])}{rest}"]


def _cores(observed: Observation) -> int:
    """Logical cores of each device: the least that any has."""
    return min(device.logical_cores(observed.lnc) for device in observed.devices)


def _numa(observed: Observation, total: int) -> tuple[int, ...]:
    nodes = tuple(device.numa for device in observed.devices)
    return nodes if len(nodes) == total and min(nodes) >= 0 else ()


def _buses(observed: Observation) -> tuple[tuple[int, ...], ...]:
    """Devices on one PCI bus; none where some device does not tell its bus."""
    by_bus: dict[str, list[int]] = {}
    for device in observed.devices:
        by_bus.setdefault(device.bus, []).append(device.index)
    return () if "" in by_bus else tuple(map(tuple, by_bus.values()))
