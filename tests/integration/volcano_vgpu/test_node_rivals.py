"""Sockets in the kubelet's plugin directory: who answers, and who has left a file behind."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from volcano_vgpu.agent import competing_plugins


@pytest.fixture
def directory() -> Iterator[Path]:
    """A directory with a path that is short enough for sockets."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def listening(path: Path) -> socket.socket:
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    server.bind(str(path))
    server.listen(1)
    return server


def test_only_sockets_that_answer_are_seen(directory: Path) -> None:
    listening(directory / "dead.sock").close()
    (directory / "kubelet_internal_checkpoint").write_text("{}", encoding="ascii")
    with listening(directory / "nvidia-gpu.sock"), listening(directory / "kubelet.sock"):
        assert competing_plugins.live_sockets(directory) == ("nvidia-gpu.sock",)
    assert competing_plugins.live_sockets(directory) == ()


def test_without_a_directory_there_is_nobody(directory: Path) -> None:
    assert competing_plugins.live_sockets(directory / "none") == ()
