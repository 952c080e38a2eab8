"""What every command that runs until it is told to stop needs at its edge."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from types import FrameType

import structlog

from hami_plugins.errors import ConfigError

_log = structlog.get_logger(__name__)


def stop_on_signals() -> threading.Event:
    """Set, from now on, once the process gets SIGTERM or SIGINT. Only the main thread may call it."""
    stop = threading.Event()

    def end(number: int, _frame: FrameType | None) -> None:
        _log.info("signal_received", signal=signal.Signals(number).name)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    return stop


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
