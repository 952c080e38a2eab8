"""Waiting for what others bring about: a test watches the condition, and its deadline is only for what never comes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

# Far longer than anything takes that goes well: a busy machine makes no test fail.
PATIENCE: Final = 60.0


def wait_for(condition: Callable[[], Any], what: str = "what the test waits for", timeout: float = PATIENCE) -> Any:
    """The condition's value once it is true; fails with ``what`` when it never is."""
    end = time.monotonic() + timeout
    while not (found := condition()):
        assert time.monotonic() < end, f"not within {timeout:g} s: {what}"
        time.sleep(0.01)
    return found
