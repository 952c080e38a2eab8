"""Free ports on loopback."""

from __future__ import annotations

import random
import socket
from pathlib import Path
from typing import Final

_RANGE: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LOWEST: Final = 20_000
_given: set[int] = set()


def free_port() -> int:
    """A port for a listener on 127.0.0.1, never given twice by this process.

    It lies below those that the kernel gives to outgoing connections: one of these could otherwise take it before its
    listener is up.
    """
    highest = int(_RANGE.read_text().split()[0]) if _RANGE.exists() else 32_768
    for _ in range(1000):
        port = random.randrange(_LOWEST, max(highest, _LOWEST + 10_000))
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
