"""A machine out of a file: for hosts without Neuron devices, and to make devices fail at will.

::

    instance: trn1.32xlarge        # a type that `hami-plugins neuron instances` lists
    gone: [3]                      # devices that have left the bus
    deadLinks: [[4, 5]]            # links that no longer work
    uncorrected: {7: 2}            # uncorrected memory errors by device
    repaired: {9: 1}               # errors that the device could repair
    hang: false                    # whether neuron-ls never answers
    processes:
    - {pid: 4711, devices: [0, 1], command: python3 train.py, runtime: 2.20.1, pod: UID, container: ID}

The file is read again whenever it changes. One that cannot be read is reported, and the last good one stays.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from hami_plugins.config import layers, texts
from hami_plugins.config.layers import Layer
from hami_plugins.config.values import Strict
from hami_plugins.errors import ConfigError
from hami_plugins.model.units import PodUid
from hami_plugins.wire import documents
from hami_plugins.wire.cgroups import ProcessOwner
from neuron_topology.agent.machine import MachineError
from neuron_topology.core.agent.sensors import DeviceErrors, Sensors
from neuron_topology.core.hardware.instances import INSTANCE_TYPES, InstanceType

Index = Annotated[int, Field(ge=0, le=63)]


class _Process(Strict):
    pid: int
    devices: tuple[Index, ...]
    command: str = ""
    runtime: str = ""
    pod: str = ""
    container: str = ""


class _Machine(Strict):
    instance: str
    gone: frozenset[Index] = frozenset()
    dead_links: tuple[tuple[Index, Index], ...] = ()
    uncorrected: dict[Index, int] = Field(default_factory=dict)
    repaired: dict[Index, int] = Field(default_factory=dict)
    hang: bool = False
    processes: tuple[_Process, ...] = ()


class FileMachine:
    """See ``Machine``."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: tuple[int, int] | None = None
        self._found: tuple[_Machine, InstanceType] | None = None

    def check(self) -> None:
        """See ``Machine``."""
        try:
            self._current()
        except MachineError as error:
            raise ConfigError(str(error)) from error

    def sensors(self) -> Sensors:
        """See ``Machine``."""
        machine, kind = self._current()
        return Sensors(
            tuple(
                DeviceErrors(index=at, memory=machine.uncorrected.get(at, 0), repairable=machine.repaired.get(at, 0))
                for at in range(kind.devices)
                if at not in machine.gone
            )
        )

    def listing(self) -> str:
        """See ``Machine``."""
        machine, kind = self._current()
        if machine.hang:
            raise MachineError(f"{self._path}: hang is set, so neuron-ls gives no answer")
        dead = {frozenset(link) for link in machine.dead_links}
        return documents.dump(
            [
                {
                    "neuron_device": at,
                    "instance_type": kind.name,
                    "connected_to": [to for to in linked if to not in machine.gone and frozenset((at, to)) not in dead],
                    "nc_count": kind.logical_cores(),
                    "memory_size": kind.device_memory << 20,
                    "neuron_processes": [
                        {"pid": each.pid, "command": each.command, "neuron_runtime_version": each.runtime}
                        for each in machine.processes
                        if at in each.devices
                    ],
                }
                for at, linked in enumerate(kind.fabric.neighbours)
                if at not in machine.gone
            ]
        )

    def owner(self, pid: int) -> ProcessOwner | None:
        """See ``Machine``."""
        machine, _ = self._current()
        for each in machine.processes:
            if each.pid == pid:
                return ProcessOwner(frozenset({PodUid(each.pod)} if each.pod else ()), each.container)
        return None

    def _current(self) -> tuple[_Machine, InstanceType]:
        try:
            status = self._path.stat()
            stamp = (status.st_mtime_ns, status.st_size)
            if stamp != self._stamp or self._found is None:
                self._found = None
                self._found = _read(self._path)
                self._stamp = stamp
        except (OSError, UnicodeDecodeError, ConfigError) as error:
            raise MachineError(f"machineFile {self._path}: {getattr(error, 'strerror', None) or error}") from error
        return self._found


def _read(path: Path) -> tuple[_Machine, InstanceType]:
    found = layers.made(_Machine, [Layer(path.name, texts.mapping(path.read_text(encoding="utf-8"), path.name))])
    kind = INSTANCE_TYPES.get(found.instance)
    if kind is None:
        raise ConfigError(f"{path.name}: instance: {found.instance} is not one of {', '.join(INSTANCE_TYPES)}")
    return found, kind
