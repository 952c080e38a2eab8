"""What the tests of this folder share."""

from __future__ import annotations

import pytest

from tests.unit.allocations.locks import LockSite


@pytest.fixture
def site() -> LockSite:
    """A node that the watch has shown without a lock."""
    made = LockSite()
    made.node()
    return made
