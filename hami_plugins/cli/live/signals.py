"""Signals are noted when they arrive and handled between two steps, so that no step is interrupted halfway."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Final, Self

from hami_plugins.errors import HamiPluginsError

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_LOOK_SECONDS: Final = 0.02
_IDLE_SECONDS: Final = 0.25


class DemoError(HamiPluginsError):
    """The demo cannot go on here. What was to be seen, and what helps, is in the text."""


class Ending:
    """While it is entered, ``SIGNALS`` end the program only through ``check``: processes and files are tidied up first.

    Outside of the main thread signals cannot be had; there they stay what they were.
    """

    def __init__(self) -> None:
        self._asked: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def check(self) -> None:
        """Raises ``KeyboardInterrupt`` or ``SystemExit`` if a signal has come."""
        if self._asked == signal.SIGINT:
            raise KeyboardInterrupt
        if self._asked is not None:
            raise SystemExit(128 + self._asked)

    def wait(self, condition: Callable[[], object]) -> None:
        """Calls the condition until a signal comes or it raises."""
        while self._asked is None:
            condition()
            time.sleep(_IDLE_SECONDS)

    def wait_for(self, condition: Callable[[], bool], what: str, *, seconds: float) -> None:
        """Waits until the condition is true; raises ``DemoError`` that says ``what`` did not come about in time."""
        end = time.monotonic() + seconds
        while not condition():
            self.check()
            if time.monotonic() > end:
                raise DemoError(f"not within {seconds:g} s: {what}; is this machine busy?")
            time.sleep(_LOOK_SECONDS)
        self.check()

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self._asked = number
