"""Processes of the private machine: started until ready, ended by their id, their output kept."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from signal import SIGKILL, SIGTERM, Signals

from tests.cluster.machine import EndedError, Machine, child_of
from tests.cluster.waiting import NotInTimeError, wait_until


class StartError(Exception):
    """A component did not become ready, twice; the text ends with what it printed last."""


@dataclass
class Component:
    """One program with its arguments. ``ready`` is asked after each start until it answers something true.

    A component that does not come up is started once more, for a computer that is out of breath; an assertion of a test
    is never tried again.
    """

    machine: Machine
    name: str
    arguments: Sequence[str]
    ready: Callable[[], object]
    environment: Mapping[str, str] = field(default_factory=dict)
    patience: float = 60.0

    def __post_init__(self) -> None:
        self.log_file = self.machine.logs / f"{self.name}.log"
        self.seconds = 0.0
        self._gate: subprocess.Popen[bytes] | None = None
        self.pid = 0

    def start(self) -> None:
        """Start and wait until it is ready. Raises ``StartError``."""
        started = time.monotonic()
        try:
            self._attempt()
        except (NotInTimeError, EndedError):
            self.stop(SIGKILL)
            try:
                self._attempt()
            except (NotInTimeError, EndedError) as error:
                self.stop(SIGKILL)
                raise StartError(f"{self.name} did not start: {error}\n{self.log()[-3000:]}") from None
        self.seconds = time.monotonic() - started

    def _attempt(self) -> None:
        with self.log_file.open("ab") as log:
            log.write(f"--- {' '.join(self.arguments)}\n".encode())
            log.flush()
            self._gate = self.machine.start(self.arguments, log=log, environment=self.environment)
        self.pid = child_of(self._gate)
        wait_until(self._up, f"{self.name} is ready", self.patience)

    def _up(self) -> bool:
        if not self.running:
            raise EndedError(f"it ended with status {self.status}")
        return bool(self.ready())

    @property
    def running(self) -> bool:
        return self._gate is not None and self._gate.poll() is None

    @property
    def status(self) -> int | None:
        """The exit status, negative for a signal; ``None`` while it runs or before it was started."""
        return self._gate.poll() if self._gate else None

    def signal(self, number: Signals) -> None:
        """Send a signal, if it runs."""
        if self.running:
            os.kill(self.pid, number)

    def stop(self, number: Signals = SIGTERM, *, timeout: float = 15.0) -> None:
        """End it and wait for its end; killed when ``number`` was not enough."""
        if self._gate is None:
            return
        self.signal(number)
        try:
            self._gate.wait(timeout)
        except subprocess.TimeoutExpired:
            self.signal(SIGKILL)
            self._gate.wait(timeout)

    def restart(self, number: Signals = SIGTERM) -> None:
        """End it by ``number`` and start it again with the same arguments."""
        self.stop(number)
        self.start()

    def renew(self) -> None:
        """Restart it, if it runs."""
        if self.running:
            self.restart()

    def log(self, since: int = 0) -> str:
        """Everything it has printed, over all its starts, from that byte on."""
        if not self.log_file.exists():
            return ""
        with self.log_file.open("rb") as log:
            log.seek(since)
            return log.read().decode(errors="replace")

    @property
    def printed(self) -> int:
        """How many bytes it has printed so far."""
        return self.log_file.stat().st_size if self.log_file.exists() else 0
