"""Waiting on a condition with a deadline, and saying at the end what was seen instead."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

from tests.cluster.api import ApiError

Seen = TypeVar("Seen")

PATIENCE: Final = 3.0
"""So much longer than on a quiet machine a wait may take: all of Kubernetes may have two slow cores, and share them."""


class NotInTimeError(AssertionError):
    """A condition did not come true by its deadline."""


def wait_until(
    condition: Callable[[], Seen],
    what: str,
    timeout: float = 30.0,
    *,
    interval: float = 0.05,
    show: Callable[[], str] = str,
) -> Seen:
    """The first true value of ``condition``, asked every ``interval`` seconds for at most ``timeout`` seconds.

    Those are seconds of a quiet machine: any other gets ``PATIENCE`` times as many.

    A failed assertion, a missing key or an error of the API server or of the system inside ``condition`` means *not
    yet*. When time is up, ``NotInTimeError`` says ``what`` was waited for, the last answer or error, and whatever
    ``show`` finds worth knowing.
    """
    timeout *= PATIENCE
    deadline = time.monotonic() + timeout
    while True:
        try:
            seen = condition()
            last = f"last answer: {seen!r}"
        except (AssertionError, LookupError, OSError, ApiError) as error:
            last = f"last error: {type(error).__name__}: {error}"
        else:
            if seen:
                return seen
        if time.monotonic() >= deadline:
            raise NotInTimeError(f"not within {timeout:g} s: {what}; {last}\n{show()}".rstrip())
        time.sleep(interval)
