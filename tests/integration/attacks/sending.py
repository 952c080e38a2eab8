"""The attacks. Run as a module, one of them goes on until the process is ended: NAME PORT [tls]."""

from __future__ import annotations

import resource
import socket
import ssl
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Final

from tests.waiting import PATIENCE

HOST: Final = "127.0.0.1"
STRANGER: Final = "127.0.0.2"
"""Who attacks has an address of its own, as every pod has."""

MIB: Final = 1 << 20
GET: Final = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"
HEAD: Final = b"POST %s HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n"

Attack = Callable[["Port"], None]


class Port:
    """Where connections go, over TLS or not."""

    def __init__(self, number: int, *, tls: bool = False) -> None:
        self.number = number
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if tls else None
        if self._context is not None:
            self._context.check_hostname, self._context.verify_mode = False, ssl.CERT_NONE

    def connect(self) -> socket.socket:
        """A new connection."""
        made = socket.create_connection((HOST, self.number), timeout=PATIENCE, source_address=(STRANGER, 0))
        return made if self._context is None else self._context.wrap_socket(made)


def pipelined(port: Port, *, size: int = 16 * MIB) -> int:
    """Requests on one connection that is never read; how many bytes were taken."""
    piece, taken = GET * (64 * 1024 // len(GET)), 0
    with suppress(OSError), port.connect() as client:
        while taken < size:
            client.sendall(piece)
            taken += len(piece)
    return taken


def bodies(
    unit: bytes, size: int, begin: bytes = b'{"Pod":{"metadata":{}},"nodes":[', end: bytes = b"0]}"
) -> Iterator[bytes]:
    """A document of so many bytes at the least, in pieces."""
    piece = unit * (256 * 1024 // len(unit))
    yield begin
    for _ in range(size // len(piece)):
        yield piece
    yield end


def posted(port: Port, path: bytes, unit: bytes, size: int = 60 * MIB) -> bytes:
    """The answer to one large body; empty where the server cut it."""
    length = sum(map(len, bodies(unit, size)))
    with suppress(OSError), port.connect() as client:
        client.sendall(HEAD % (path, length))
        for piece in bodies(unit, size):
            client.sendall(piece)
        return client.recv(65536)
    return b""


def answered_early(port: Port, count: int, stack: ExitStack) -> list[socket.socket]:
    """Connections whose answer came before the body, of which one byte comes."""
    found = []
    for _ in range(count):
        with suppress(OSError):
            client = stack.enter_context(port.connect())
            client.sendall(HEAD % (b"/nope", MIB))
            client.recv(65536)
            client.sendall(b"x")
            found.append(client)
    return found


def idle(port: Port, count: int, stack: ExitStack) -> list[socket.socket]:
    """Connections on which nothing is sent; over TLS they do not even begin a handshake."""
    plain = Port(port.number)
    found = []
    for _ in range(count):
        with suppress(OSError):
            found.append(stack.enter_context(plain.connect()))
    return found


def _pipelined(port: Port) -> None:
    pipelined(port)


def _many(port: Port) -> None:
    with ExitStack() as stack:
        idle(port, 2_000, stack)
        answered_early(port, 2_000, stack)
        time.sleep(1)


def _large(path: bytes, unit: bytes, size: int) -> Attack:
    def attack(port: Port) -> None:
        posted(port, path, unit, size)

    return attack


NAMES: Final = b'"the-name-of-a-node-of-a-cluster-00000",'
ODD: Final = b'{"Name":"a"},'
ATTACKS: Final[dict[str, Attack]] = {
    "pipelined": _pipelined,
    "connections": _many,
    "rank-60": _large(b"/extender/prioritize", ODD, 60 * MIB),
    "rank-2": _large(b"/extender/prioritize", b"[[[[]]]],", 2 * MIB - 300_000),
    "rank-names": _large(b"/extender/prioritize", NAMES, 2 * MIB - 300_000),
    "filter-60": _large(b"/scheduler/filter", ODD, 60 * MIB),
    "filter-2": _large(b"/scheduler/filter", b"[[[[]]]],", 2 * MIB - 300_000),
    "filter-names": _large(b"/scheduler/filter", NAMES, 2 * MIB - 300_000),
    "review-3": _large(b"/webhooks/pods", b"[[[[]]]],", 3 * MIB - 300_000),
    "review-names": _large(b"/webhooks/pods", NAMES, 3 * MIB - 300_000),
    "review-small": _large(b"/webhooks/pods", b"[[[[]]]],", 256 * 1024),
}


def main(name: str, port: str, tls: str = "") -> None:
    """Goes on until the process is ended."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 20_000), hard))
    while True:
        ATTACKS[name](Port(int(port), tls=bool(tls)))


if __name__ == "__main__":
    main(*sys.argv[1:])
