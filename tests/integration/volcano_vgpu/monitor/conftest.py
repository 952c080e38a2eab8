"""The node that tests of running agents share."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.volcano_vgpu.machines import Machine, machine
from tests.shared_regions import uuid

CARD = {"uuid": uuid(1), "model": "NVIDIA A100-SXM4-40GB", "memory": 40960}


@pytest.fixture
def node() -> Iterator[Machine]:
    """A node with one card under a real card's name."""
    root = Path(tempfile.mkdtemp(prefix="vg"))
    try:
        with machine(root) as found:
            found.write_cards(CARD)
            yield found
    finally:
        shutil.rmtree(root)
