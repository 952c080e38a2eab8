"""Programs of the products as processes of their own, as they run on a node or in a cluster."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Final

from hami_plugins.cli.kit.plugins import COMMANDS
from hami_plugins.cli.live.signals import DemoError

COMMAND: Final = "volcano-vgpu"
"""The product whose programs the demo runs; the core knows no more of it than this name."""

_GRACE_SECONDS: Final = 5.0
_LONGEST_ANSWER: Final = 60.0
"""Seconds that a program which only prints something may take."""

_LAST_WORDS: Final = 5
_KEPT: Final = frozenset({"PATH", "HOME", "LANG", "TZ", "TMPDIR", "VIRTUAL_ENV", "LD_LIBRARY_PATH"})
_KEPT_PREFIXES: Final = ("PYTHON", "LC_", "COVERAGE")


def find(products: Iterable[str]) -> None:
    """Raises ``DemoError`` where the programs of a product are not installed."""
    for product in products:
        if not metadata.entry_points(group=COMMANDS, name=product):
            raise DemoError(f"command {product} is not installed, and its programs run here; install the whole package")


class DemoProcess:
    """One program, running from the start; ``log`` is the file that its output is appended to.

    It has a session of its own, so that a terminal's Ctrl-C reaches it only through ``stop``, and it does not outlive
    this process (``parent_death_signal``). It inherits only the environment that Python needs: the user's settings and
    proxies are not meant for it.
    """

    def __init__(
        self, what: str, arguments: Sequence[str], settings: Mapping[str, str], log: Path, *, product: str = COMMAND
    ) -> None:
        self.log = log
        self._what = what
        with log.open("ab") as output:
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                _with_death_signal((product, *arguments)),
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

    def __str__(self) -> str:
        return f"{self._what} {self.pid}"

    def check(self) -> None:
        """Raises ``DemoError`` with its last words if it has ended by itself."""
        code = self._process.poll()
        if code is not None:
            raise DemoError(f"{self} ended by itself with exit code {code}:\n{self.last_words()}")

    def last_words(self) -> str:
        """The last lines of its log."""
        with self.log.open(encoding="utf-8", errors="replace") as lines:
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


def printed(*arguments: str, product: str = COMMAND) -> str:
    """What a program prints that only prints. Raises ``DemoError``."""
    try:
        done = subprocess.run(  # noqa: S603 - our own program
            _with_death_signal((product, *arguments)),
            env=_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            start_new_session=True,
            timeout=_LONGEST_ANSWER,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise DemoError(f"{product} {arguments[0]} printed nothing within {_LONGEST_ANSWER:g} s") from error
    if done.returncode:
        raise DemoError(f"{product} {arguments[0]} ended with exit code {done.returncode}:\n{done.stderr.rstrip()}")
    return done.stdout


def _with_death_signal(arguments: Sequence[str]) -> list[str]:
    wrapper = Path(__file__).with_name("parent_death_signal.py")
    python = (sys.executable, "-P", "-m", "hami_plugins.cli", *arguments)
    return [sys.executable, "-I", "-S", str(wrapper), str(os.getpid()), *python]


def _environment() -> dict[str, str]:
    return {name: text for name, text in os.environ.items() if name in _KEPT or name.startswith(_KEPT_PREFIXES)}
