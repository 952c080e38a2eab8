"""Waiting for what others bring about."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def wait_for(condition: Callable[[], Any], what: str, timeout: float = 20.0) -> Any:
    """What the condition gives once it is true; fails with ``what`` when it never is."""
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"not within {timeout} s: {what}")
