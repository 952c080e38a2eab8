"""The embedded cluster for allocators."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.volcano_vgpu.allocation.servers import Site, site


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Site]:
    """Two nodes of two cards each."""
    with site(tmp_path) as made:
        yield made
