"""The node of the embedded cluster that tests of the whole agent run on."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.volcano_vgpu.machines import Machine, machine


@pytest.fixture
def node() -> Iterator[Machine]:
    """A node with two cards and a kubelet, under a path that is short enough for sockets."""
    root = Path(tempfile.mkdtemp(prefix="vg"))
    try:
        with machine(root) as found:
            yield found
    finally:
        shutil.rmtree(root)
