"""The process edge of every command that runs until it is stopped."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Final, Protocol

import structlog

from hami_plugins.cli.kit.edge import Exit
from hami_plugins.cli.kit.memory import one_heap
from hami_plugins.errors import ConfigError

SWITCH_SECONDS: Final = 0.001
"""How long a thread computes while another waits for the interpreter; Python's own 5 ms are longer than an answer.

The thread that answers waits so after every read and write while an audit or a watch computes.
"""

_log = structlog.get_logger(__name__)


class Process(Protocol):
    """What runs from ``start`` to ``stop``."""

    @property
    def addresses(self) -> Mapping[str, tuple[str, int] | None]:
        """Where it listens, by what it serves there; ``None`` where it does not."""

    def start(self) -> None:
        """Begins."""

    def stop(self) -> None:
        """Ends."""


def serve(process: Process, name: str, **fields: str) -> int:
    """Run a process until a signal ends it; its start is logged with ``fields`` and its addresses."""
    one_heap()
    sys.setswitchinterval(SWITCH_SECONDS)
    stop = stop_on_signals()
    process.start()
    addresses = {what: ":".join(map(str, each or ())) for what, each in process.addresses.items()}
    _log.info(f"{name}_started", **fields, **addresses)
    stop.wait()
    process.stop()
    _log.info(f"{name}_ended")
    return Exit.FINE


def identity() -> str:
    """This process among the replicas: its pod, so that a container that starts again goes on at once."""
    return os.environ.get("POD_NAME") or f"{socket.gethostname()}-{secrets.token_hex(4)}"


def stop_on_signals() -> threading.Event:
    """Set, from now on, once the process gets SIGTERM or SIGINT. Only the main thread may call it.

    A handler would run in the main thread between any two steps, even while that thread holds the lock of the log or of
    the event, and would wait for itself. So a separate thread is notified through a pipe.
    """
    stop = threading.Event()
    told, tell = os.pipe()
    os.set_blocking(tell, False)
    signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _noted)

    def wait() -> None:
        (number,) = os.read(told, 1)
        _log.info("signal_received", signal=signal.Signals(number).name)
        stop.set()

    threading.Thread(target=wait, name="signals", daemon=True).start()
    return stop


def _noted(_number: int, _frame: FrameType | None) -> None:
    """The notified thread acts on the signal."""


def file_text(path: str | None) -> str | None:
    """The text of a file that an option names; ``None`` without one. Raises ``ConfigError`` with the path."""
    if path is None:
        return None
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 text (byte {error.start})") from error
