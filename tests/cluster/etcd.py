"""etcd, the store behind the API server."""

from __future__ import annotations

from pathlib import Path

import urllib3

from tests.cluster.machine import Machine
from tests.cluster.ports import free_port
from tests.cluster.processes import Component


def etcd(machine: Machine, program: Path) -> tuple[Component, str]:
    """The component, not started yet, and the URL of its clients."""
    client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
    arguments = [
        str(program),
        "--name=cluster",
        f"--data-dir={machine.root / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=cluster={peer}",
        "--unsafe-no-fsync",  # nothing of it is to survive the test run
        "--log-level=warn",
    ]
    return Component(machine, "etcd", arguments, ready=lambda: healthy(f"{client}/health")), client


def healthy(url: str) -> bool:
    """Whether a plain HTTP endpoint answers 200."""
    try:
        with urllib3.PoolManager(retries=False, timeout=2) as pool:
            return pool.request("GET", url).status == 200
    except urllib3.exceptions.HTTPError:
        return False
