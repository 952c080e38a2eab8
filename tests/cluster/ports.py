"""Free ports on loopback."""

from __future__ import annotations

import os
import random
import socket
from pathlib import Path
from typing import Final

_RANGE: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LOWEST: Final = 20_000
_PARTS: Final = 8
_given: set[int] = set()


def free_port() -> int:
    """A port for a listener on 127.0.0.1, never given twice by this process.

    It lies below those that the kernel gives to outgoing connections: one of these could otherwise take it before its
    listener is up. Workers of a run draw from parts of their own, for the same reason.
    """
    highest = int(_RANGE.read_text().split()[0]) if _RANGE.exists() else 32_768
    part = (max(highest, _LOWEST + 10_000) - _LOWEST) // _PARTS
    first = _LOWEST + part * (int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]) % _PARTS)
    for _ in range(1000):
        port = random.randrange(first, first + part)
        if port not in _given and _is_free(port):
            _given.add(port)
            return port
    raise OSError(f"no free port between {_LOWEST} and {highest} on 127.0.0.1")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def listening(port: int) -> bool:
    """Whether a process accepts connections on 127.0.0.1."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
