"""The embedded cluster for Neuron allocators."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.neuron_topology.server.servers import Site, a_node, site


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Site]:
    """Two nodes of sixteen devices each."""
    with site(tmp_path, a_node("n1"), a_node("n2")) as made:
        yield made
