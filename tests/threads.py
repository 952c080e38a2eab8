"""Work in a thread of its own."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def apart(act: Callable[[], T]) -> T:
    """What ``act`` returns. The thread of the tests runs an event loop once one of them has had a browser."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(act).result()
