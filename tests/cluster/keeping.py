"""Which cases of a contract the real components kept, written down for the table in ``tests/contract/README.md``."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import pytest

from tests.contract import record


@contextmanager
def keeping(
    config: pytest.Config, suite: str, claims: Sequence[str], versions: Callable[[], Mapping[str, str]]
) -> Iterator[set[str]]:
    """A set to put the claims in that held. With ``--update-golden`` they are written down if all of ``claims`` did."""
    kept: set[str] = set()
    yield kept
    if config.getoption("update_golden") and kept == set(claims):
        record.write(suite, day=dt.datetime.now(dt.UTC).date(), versions=versions(), kept=sorted(kept))
