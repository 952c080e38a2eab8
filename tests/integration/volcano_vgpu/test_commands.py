"""The agent as a process: what it answers and how it ends before it has seen anything."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.waiting import PATIENCE, wait_for


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def page(port: int, path: str) -> tuple[int, str]:
    """Status and text of a probe, 0 while no server answers."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=PATIENCE) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except OSError:
        return 0, ""


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    """Of an API server that does not answer."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{free_port()}"}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "c",
    }
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(content))
    return path


def test_an_agent_that_waits_for_the_api_server_is_alive_says_for_what_and_ends_when_told(
    tmp_path: Path, kubeconfig: Path
) -> None:
    port = free_port()
    config = tmp_path / "config.yaml"
    config.write_text(json.dumps({"node": "n1", "listen": {"host": "127.0.0.1", "port": port}}))
    command = [sys.executable, "-m", "hami_plugins.cli", "volcano-vgpu", "agent", "--config", str(config)]
    with subprocess.Popen(
        [*command, "--kubeconfig", str(kubeconfig)], env=dict(os.environ), stderr=subprocess.DEVNULL
    ) as process:
        try:
            wait_for(lambda: page(port, "/healthz")[0] == 200, "the process answers that it is alive")
            status, text = page(port, "/readyz")
            assert (status, "this node is not read from the API server yet" in text) == (503, True)
            process.terminate()
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()
