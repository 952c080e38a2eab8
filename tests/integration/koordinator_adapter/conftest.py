"""The embedded cluster for the adapter's servers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.koordinator_adapter.servers import Site, site


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Site]:
    """An API server that knows Koordinator's kinds."""
    with site(tmp_path) as made:
        yield made
