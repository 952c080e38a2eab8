"""The node agent as a process of its own, as on a node: ``hami-plugins volcano-vgpu agent``."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Final

from hami_plugins.cli.live.ending import DemoError
from hami_plugins.cli.plugged import COMMANDS

COMMAND: Final = "volcano-vgpu"
"""The entry point that brings the agent; the core does not know who it is."""

_GRACE_SECONDS: Final = 5.0
_LAST_WORDS: Final = 5
_KEPT: Final = frozenset({"PATH", "HOME", "LANG", "TZ", "TMPDIR", "VIRTUAL_ENV", "LD_LIBRARY_PATH"})
_KEPT_PREFIXES: Final = ("PYTHON", "LC_", "COVERAGE")


def find() -> None:
    """Raises ``DemoError`` where the agent is not installed."""
    if not metadata.entry_points(group=COMMANDS, name=COMMAND):
        raise DemoError(f"there is no command {COMMAND}, which brings the node agent; install the package volcano_vgpu")


class AgentProcess:
    """One agent, running from the start; ``log`` is the file that its output is appended to.

    It is in a session of its own, so that a terminal's Ctrl-C reaches it only through ``stop``, and it does not outlive
    this process (``leash``). Of this process' environment only what Python needs is handed on: settings and proxies of
    whoever shows the demo are not meant for it.
    """

    def __init__(self, arguments: Sequence[str], settings: Mapping[str, str], log: Path) -> None:
        self._log = log
        python = (sys.executable, "-P", "-m", "hami_plugins.cli", COMMAND, "agent", *arguments)
        leash = Path(__file__).with_name("leash.py")
        with log.open("ab") as output:
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, "-I", "-S", str(leash), str(os.getpid()), *python],
                env=_environment() | dict(settings),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def check(self) -> None:
        """Raises ``DemoError`` with its last words if it has ended by itself."""
        code = self._process.poll()
        if code is not None:
            raise DemoError(f"agent {self.pid} ended by itself with exit code {code}:\n{self.last_words()}")

    def last_words(self) -> str:
        """The last lines of its log."""
        with self._log.open(encoding="utf-8", errors="replace") as lines:
            return "".join(deque(lines, _LAST_WORDS)).rstrip()

    def kill(self) -> None:
        """``kill -9``: it can do nothing about it."""
        self._process.kill()
        self._process.wait()

    def ask_to_stop(self) -> None:
        """SIGTERM, if it is there."""
        self._process.terminate()

    def stop(self) -> None:
        """It ends in order, or after a few seconds in disorder."""
        self.ask_to_stop()
        try:
            self._process.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()


def _environment() -> dict[str, str]:
    return {name: text for name, text in os.environ.items() if name in _KEPT or name.startswith(_KEPT_PREFIXES)}
