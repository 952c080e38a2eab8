"""Runs neuron-ls in a thread of its own, so that a hanging driver does not keep the agent from reading the counters."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from hami_plugins.errors import WireError
from hami_plugins.runnable import Runnable
from neuron_topology.agent.machine import Machine, MachineError
from neuron_topology.core.agent.processes import DeviceProcess, processes_of
from neuron_topology.core.hardware import neuron_ls
from neuron_topology.core.hardware.neuron_ls import Observation

PLACE = "neuron-ls"

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class MachineListing:
    """What neuron-ls said: the machine, and who uses its devices."""

    observed: Observation
    processes: tuple[DeviceProcess, ...]

    @property
    def cores(self) -> int:
        """The logical cores of a device: the least that any has."""
        return min(device.logical_cores(self.observed.lnc) for device in self.observed.devices)


class Lister(Runnable):
    """Runs every ``interval`` seconds and on request. ``heard`` gets each answer, in the lister's thread.

    ``latest`` is the last good answer; ``trouble`` says why the last run brought none, and is empty otherwise.
    ``ran`` hears how long each run took, and whether it was good.
    """

    def __init__(
        self,
        machine: Machine,
        *,
        interval: float,
        heard: Callable[[MachineListing], None],
        ran: Callable[[float, bool], None],
    ) -> None:
        self._machine = machine
        self._interval = interval
        self._heard = heard
        self._ran = ran
        self._wake = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="neuron-ls", daemon=True)
        self.latest: MachineListing | None = None
        self.trouble = "neuron-ls has not answered yet"

    @property
    def alive(self) -> bool:
        """Whether its thread runs."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    def stop(self) -> None:
        """Ends; a run under way is left to its own time-out."""
        self._stopping = True
        self._wake.set()
        self._thread.join(timeout=1.0)

    def ask(self) -> None:
        """Has neuron-ls run now."""
        self._wake.set()

    def _run(self) -> None:
        while not self._stopping:
            self._wake.clear()
            self._once()
            self._wake.wait(self._interval)

    def _once(self) -> None:
        began = time.monotonic()
        try:
            printed = self._machine.listing()
            found = MachineListing(neuron_ls.decode(PLACE, printed), processes_of(PLACE, printed))
        except (MachineError, WireError) as error:
            self._ran(time.monotonic() - began, False)
            if str(error) != self.trouble:
                _log.error("machine_not_listed", error=str(error))
            self.trouble = str(error)
            return
        self._ran(time.monotonic() - began, True)
        self.latest, self.trouble = found, ""
        try:
            self._heard(found)
        except Exception:  # noqa: BLE001 - a failing callback must not end the thread
            _log.exception("listing_not_used")
