"""What ``neuron-ls`` prints about a machine, as JSON (``neuron-ls -j``) or as its table.

Only what does not change while the machine runs is kept: devices, cores, links, places. The columns of the table are
found by their titles, since every release has others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeGuard

from hami_plugins.errors import WireError
from hami_plugins.model.units import MiB
from hami_plugins.wire import documents
from hami_plugins.wire.documents import load
from hami_plugins.wire.fields import Json, items, natural, number, text, whole, wrong

MOST_DEVICES: Final = 64
"""A machine with more devices than an UltraServer is a mistake."""

MOST_PHYSICAL_CORES: Final = 8
"""No Neuron device has more (AWS Neuron SDK 2.32)."""

_BYTES: Final = 2**20
_UNITS: Final[Mapping[str, int]] = {"MB": 1, "MIB": 1, "GB": 1024, "GIB": 1024}
_HEAD: Final = re.compile(r"^\s*([a-z-]+):\s*(\S+)\s*$")
_TITLES: Final[tuple[str, ...]] = (
    "NEURON DEVICE",
    "NEURON CORES",
    "NEURON MEMORY",
    "CONNECTED DEVICES",
    "PCI BDF",
    "NUMA NODE",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedDevice:
    """One device of a machine. ``cores`` are as printed; ``numa`` is -1 and ``bdf`` empty if missing."""

    index: int
    cores: int
    memory: MiB
    neighbours: tuple[int, ...]
    bdf: str = ""
    numa: int = -1

    def logical_cores(self, lnc: int) -> int:
        """Its number of cores at an LNC setting (0 if missing).

        Newer releases print just these, older ones the physical ones, of which no device has more than 8.
        """
        printed_whole = lnc > 1 and self.cores * lnc > MOST_PHYSICAL_CORES
        return self.cores // lnc if printed_whole else self.cores

    @property
    def bus(self) -> str:
        """The PCI bus that the device sits on, with its domain where there is one."""
        return self.bdf.rpartition(":")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """A machine as it describes itself: devices by index, of which some may be missing. ``lnc`` is 0 if not told."""

    devices: tuple[ObservedDevice, ...]
    instance_type: str = ""
    lnc: int = 0


def decode(place: str, printed: str) -> Observation:
    """Either form; raises ``WireError`` that names ``place`` and what is wrong."""
    found = _json(place, printed) if printed.lstrip()[:1] in {"[", "{"} else _table(place, printed)
    if not found.devices:
        raise WireError(place, printed, "no device in it")
    seen: set[int] = set()
    for device in found.devices:
        if not 0 <= device.index < MOST_DEVICES:
            raise WireError(place, str(device.index), f"not a device index below {MOST_DEVICES}")
        if device.index in seen:
            raise WireError(place, str(device.index), "a device that is listed twice")
        if device.index in device.neighbours:
            raise WireError(place, str(device.index), "a device that is connected to itself")
        seen.add(device.index)
    return found


def encode(observed: Observation) -> str:
    """The JSON form, one text for one machine: devices by index, and nothing in it that changes while it runs."""
    return documents.dump([_members(device, observed) for device in observed.devices])


def _members(device: ObservedDevice, observed: Observation) -> Json:
    found = {
        "neuron_device": device.index,
        "bdf": device.bdf,
        "connected_to": sorted(device.neighbours),
        "nc_count": device.cores,
        "memory_size": device.memory * _BYTES,
        "numa_node": device.numa,
        "logical_neuroncore_config": observed.lnc,
        "instance_type": observed.instance_type,
    }
    unknown = {"bdf": "", "numa_node": -1, "logical_neuroncore_config": 0, "instance_type": ""}
    return {name: value for name, value in found.items() if name not in unknown or value != unknown[name]}


def device_list(place: str, printed: str) -> list[Any]:
    """The devices of the JSON form: the list of ``-j``, or the one in the object that releases from 2.34 print.

    Raises ``WireError`` where there is neither.
    """
    found = load(place, printed)
    if isinstance(found, list):
        return found
    lists = [each for each in found.values() if _lists_devices(each)] if isinstance(found, dict) else []
    if len(lists) == 1:
        return lists[0]
    raise wrong(place, found, "a list of devices, or an object with one")


def _lists_devices(found: object) -> TypeGuard[list[Any]]:
    return (
        isinstance(found, list)
        and bool(found)
        and all(isinstance(each, dict) and "neuron_device" in each for each in found)
    )


def _json(place: str, printed: str) -> Observation:
    devices = []
    lnc, kind = 0, ""
    for at, raw in enumerate(device_list(place, printed)):
        here = f"{place}[{at}]"
        holder = whole(raw, here)
        lnc = natural(holder, "logical_neuroncore_config", here) or lnc
        kind = text(holder, "instance_type", here) or kind
        devices.append(
            ObservedDevice(
                index=number(holder, "neuron_device", here, default=-1),
                cores=natural(holder, "nc_count", here),
                memory=MiB(number(holder, "memory_size", here) // _BYTES),
                neighbours=tuple(_indexes(items(holder, "connected_to", here), here)),
                bdf=text(holder, "bdf", here),
                numa=_numa(holder, here),
            )
        )
    return Observation(devices=_by_index(devices), instance_type=kind, lnc=lnc)


def _indexes(listed: Iterable[Any], place: str) -> Iterator[int]:
    for each in listed:
        if not isinstance(each, int) or isinstance(each, bool) or not 0 <= each < MOST_DEVICES:
            raise wrong(f"{place}.connected_to", each, "device indexes")
        yield each


def _numa(holder: Json, place: str) -> int:
    """The NUMA node, which some releases write as text."""
    told = holder.get("numa_node")
    if isinstance(told, str):
        return int(told) if told.isdecimal() else -1
    return number(holder, "numa_node", place, default=-1)


def _table(place: str, printed: str) -> Observation:
    """The table: two or more title rows, then a row for each device, which further processes of it continue.

    A machine with one device has no column of links.
    """
    head: dict[str, str] = {}
    rows: list[list[str]] = []
    for line in printed.splitlines():
        if line.lstrip().startswith("|"):
            rows.append([cell.strip() for cell in line.strip().strip("|").split("|")])
        elif found := _HEAD.match(line):
            head[found[1]] = found[2]
    titles = [row for row in rows if row[0] in {"NEURON", "DEVICE"}]
    if not titles:
        raise WireError(place, printed, "neither JSON nor a table of neuron-ls")
    columns = {" ".join(filter(None, parts)): at for at, parts in enumerate(zip(*titles, strict=False))}
    at = {title: columns[title] for title in _TITLES if title in columns}
    devices = [row for row in rows if row not in titles and row[0]]
    needed = [title for title in _TITLES[:4] if title != "CONNECTED DEVICES" or len(devices) > 1]
    if missing := [title for title in needed if title not in at]:
        raise WireError(place, printed, f"no column {missing[0]}")
    lnc = head.get("logical-neuroncore-config", "")
    return Observation(
        devices=_by_index(_row(place, row, at) for row in devices),
        instance_type=head.get("instance-type", ""),
        lnc=int(lnc) if lnc.isdecimal() else 0,
    )


def _row(place: str, row: list[str], at: Mapping[str, int]) -> ObservedDevice:
    def cell(title: str) -> str:
        column = at.get(title, len(row))
        return row[column] if column < len(row) else ""

    def whole_number(title: str, written: str) -> int:
        if not written.isdecimal():
            raise WireError(place, written, f"not a number in column {title}")
        return int(written)

    amount, _, unit = cell("NEURON MEMORY").partition(" ")
    numa = cell("NUMA NODE")
    return ObservedDevice(
        index=whole_number("NEURON DEVICE", cell("NEURON DEVICE")),
        cores=whole_number("NEURON CORES", cell("NEURON CORES")),
        memory=MiB(whole_number("NEURON MEMORY", amount) * _UNITS.get(unit.upper(), 0)),
        neighbours=tuple(
            whole_number("CONNECTED DEVICES", part.strip())
            for part in cell("CONNECTED DEVICES").split(",")
            if part.strip() not in {"", "None"}
        ),
        bdf=cell("PCI BDF"),
        numa=int(numa) if numa.isdecimal() else -1,
    )


def _by_index(devices: Iterable[ObservedDevice]) -> tuple[ObservedDevice, ...]:
    return tuple(sorted(devices, key=lambda device: device.index))
