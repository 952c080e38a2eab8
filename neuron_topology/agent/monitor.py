"""Reads the stream of ``neuron-monitor``, and starts it again where it ends."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable

import structlog

from hami_plugins.errors import WireError
from hami_plugins.runnable import Runnable
from neuron_topology.core.agent.monitor import MonitorReport, decode
from neuron_topology.core.agent.settings import NeuronMonitor

LONGEST_LINE = 8 << 20
"""Bytes; a report of sixteen busy devices takes some tens of thousands."""

_KILL_SECONDS = 2.0

_log = structlog.get_logger(__name__)


class MonitorStream(Runnable):
    """``heard`` gets each report, in the stream's thread. ``trouble`` says why there are none; empty where there are.

    A line that is not a report is counted by ``refused`` and skipped.
    """

    def __init__(
        self, settings: NeuronMonitor, *, heard: Callable[[MonitorReport | None], None], refused: Callable[[], None]
    ) -> None:
        self._settings = settings
        self._heard = heard
        self._refused = refused
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._run, name="neuron-monitor", daemon=True)
        self.trouble = "neuron-monitor has not reported yet"

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    def stop(self) -> None:
        """Ends, and the program with it."""
        with self._lock:
            self._stop.set()
            if self._process is not None:
                self._process.terminate()
        self._thread.join(timeout=_KILL_SECONDS)
        with self._lock:
            if self._process is not None:
                self._process.kill()

    def _run(self) -> None:
        while not self._stop.is_set():
            why = self._once()
            if self._stop.is_set():
                return
            if why != self.trouble:
                _log.warning("monitor_ended", reason=why, again_in_seconds=self._settings.restart_seconds)
            self.trouble = why
            self._told(None)
            self._stop.wait(self._settings.restart_seconds)

    def _once(self) -> str:
        """Reads until the program ends; why it did."""
        command = " ".join(self._settings.command)
        with self._lock:
            if self._stop.is_set():
                return ""
            try:
                process = self._process = subprocess.Popen(  # noqa: S603 - the operator's command
                    self._settings.command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                )
            except OSError as error:
                return f"{command}: {error.strerror}: install aws-neuronx-tools, or set neuronMonitor.enabled: false"
        code = self._read(command, process)
        return f"{command}: ended with exit code {code}; it is started again"

    def _read(self, command: str, process: subprocess.Popen[bytes]) -> int:
        """Reads until the program ends, or until what it prints cannot be read; its exit code."""
        try:
            while process.stdout is not None and (line := process.stdout.readline(LONGEST_LINE)):
                self._line(command, line)
        finally:
            with self._lock:
                self._process = None
            process.kill()
            code = process.wait()
            if process.stdout is not None:
                process.stdout.close()
        return code

    def _line(self, command: str, line: bytes) -> None:
        try:
            report = decode(command, line)
        except WireError as error:
            self._refused()
            if str(error) != self.trouble:
                _log.warning("report_refused", error=str(error)[:500])
            self.trouble = str(error)
            return
        self.trouble = ""
        self._told(report)

    def _told(self, report: MonitorReport | None) -> None:
        try:
            self._heard(report)
        except Exception:  # noqa: BLE001 - a failing callback must not end the stream
            _log.exception("report_not_used")
