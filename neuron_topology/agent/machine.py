"""What the agent requires of the machine that it runs on, and the machine that has a Neuron driver."""

from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import ClassVar, Final, Protocol

from hami_plugins.errors import ConfigError, HamiPluginsError
from hami_plugins.wire import cgroups
from hami_plugins.wire.cgroups import ProcessOwner
from neuron_topology.core.agent.sensors import DeviceErrors, Sensors
from neuron_topology.core.agent.settings import NeuronAgentSettings

COUNTERS: Final = ("mem_ecc_uncorrected", "sram_ecc_uncorrected", "mem_ecc_repairable_uncorrected")
"""Files in ``stats/hardware`` of a device (Neuron sysfs user guide)."""

_DEVICE: Final = re.compile(r"neuron(\d{1,4})")
_NUMBER: Final = re.compile(rb"\s*(\d+)")
_READ_BYTES: Final = 4096
_SHOWN: Final = 300
_GONE: Final = frozenset({errno.ENOENT, errno.ESRCH})


class MachineError(HamiPluginsError):
    """The machine does not answer now; the message says why and what to do. Asking again is right."""

    retryable: ClassVar[bool] = True
    http_status: ClassVar[int] = 503


class Machine(Protocol):
    """The devices of one machine. ``sensors`` is asked every second; ``listing`` may take long."""

    def check(self) -> None:
        """Raises ``ConfigError`` where something is missing that does not come by itself."""

    def sensors(self) -> Sensors:
        """The devices and their error counters. Raises ``MachineError``."""

    def listing(self) -> str:
        """The JSON of neuron-ls. Raises ``MachineError``."""

    def owner(self, pid: int) -> ProcessOwner | None:
        """The owner of a process; ``None`` if it has ended. Raises ``MachineError``."""


class DriverMachine:
    """A machine with AWS's driver and tools."""

    def __init__(self, settings: NeuronAgentSettings) -> None:
        self._listing = settings.neuron_ls
        self._root = Path(settings.sysfs_root)
        self._proc = Path(settings.proc_root)

    def check(self) -> None:
        """See ``Machine``."""
        program = self._listing.command[0]
        if shutil.which(program) is None:
            raise ConfigError(
                f"neuronLs.command: {program} is not here or not executable: install aws-neuronx-tools on the node and "
                "mount /opt/aws/neuron, or name the program; machineFile describes a machine without devices"
            )

    def sensors(self) -> Sensors:
        """See ``Machine``."""
        try:
            names = [each.name for each in self._root.iterdir()]
        except OSError as error:
            raise MachineError(
                f"sysfsRoot {self._root}: {error.strerror}: the Neuron driver is not loaded; "
                "install aws-neuronx-dkms, or load it with `modprobe neuron`"
            ) from error
        indexes = sorted(int(found[1]) for name in names if (found := _DEVICE.fullmatch(name)))
        return Sensors(tuple(self._errors(index) for index in indexes))

    def listing(self) -> str:
        """See ``Machine``."""
        command = " ".join(self._listing.command)
        try:
            ended = subprocess.run(  # noqa: S603 - the operator's command
                self._listing.command,
                capture_output=True,
                timeout=self._listing.timeout_seconds,
                check=False,
                stdin=subprocess.DEVNULL,
            )
        except subprocess.TimeoutExpired as error:
            raise MachineError(
                f"{command}: no answer within {self._listing.timeout_seconds:g} s, killed: "
                "the driver may be stuck; see dmesg on the node"
            ) from error
        except OSError as error:
            raise MachineError(f"{command}: {error.strerror}") from error
        if ended.returncode:
            said = ended.stderr.decode(errors="replace").strip()[-_SHOWN:] or "it printed no reason"
            raise MachineError(f"{command}: exit code {ended.returncode}: {said}")
        return ended.stdout.decode(errors="replace")

    def owner(self, pid: int) -> ProcessOwner | None:
        """See ``Machine``."""
        try:
            return cgroups.owner_of((self._proc / str(pid) / "cgroup").read_text(errors="replace"))
        except OSError as error:
            if error.errno in _GONE:
                return None
            raise MachineError(f"{self._proc}/{pid}/cgroup: {error.strerror}") from error

    def _errors(self, index: int) -> DeviceErrors:
        memory, sram, repairable = (self._counter(index, name) for name in COUNTERS)
        return DeviceErrors(index=index, memory=memory, sram=sram, repairable=repairable)

    def _counter(self, index: int, name: str) -> int:
        """A counter; zero if this driver lacks it, or if it is not a number."""
        try:
            opened = os.open(f"{self._root}/neuron{index}/stats/hardware/{name}", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return 0
        try:
            found = _NUMBER.match(os.read(opened, _READ_BYTES))
            return int(found[1]) if found else 0
        except OSError:
            return 0
        finally:
            os.close(opened)
