"""A server that stops leaves no connection open, whatever its clients are doing."""

from __future__ import annotations

import gc
import socket
import ssl
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from hami_plugins.web.server import WebServer
from tests.integration.web.certificates import a_certificate
from tests.waiting import PATIENCE, wait_for

ASKED = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Held:
    """An application whose answers wait for ``go_on``; with ``whole_loop`` nothing else goes on meanwhile."""

    def __init__(self, *, whole_loop: bool = False) -> None:
        self.arrived, self.go_on = threading.Event(), threading.Event()

        def answer(_: Request) -> PlainTextResponse:
            self.arrived.set()
            self.go_on.wait(PATIENCE)
            return PlainTextResponse("late")

        async def hold(request: Request) -> PlainTextResponse:
            return answer(request)

        self.app = Starlette(routes=[Route("/", hold if whole_loop else answer)])


@contextmanager
def nothing_left_open() -> Iterator[None]:
    """Fails when something that was not closed is thrown away."""
    gc.collect()  # what others left is not told here
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        yield
        gc.collect()
    assert not [str(each.message) for each in told if issubclass(each.category, ResourceWarning)]


@contextmanager
def stopping(server: WebServer) -> Iterator[threading.Thread]:
    """The server is asked to stop, and has stopped after the block."""
    thread = threading.Thread(target=server.stop)
    thread.start()
    time.sleep(0.2)  # no outside sign that it was asked to stop
    yield thread
    thread.join()


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)


def wrapped(line: socket.socket) -> ssl.SSLSocket:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket(line)


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_who_connects_in_the_moment_of_the_stop_is_not_left_open(tmp_path: Path, tls: bool) -> None:
    """While the loop is held both come: in its next turn it takes the connection and is asked to stop."""
    held = Held(whole_loop=True)
    with nothing_left_open(), ExitStack() as stack:
        server = WebServer(held.app, tls=a_certificate(tmp_path) if tls else None)
        port = server.start()
        first = stack.enter_context(connected(port))
        first = stack.enter_context(wrapped(first)) if tls else first
        first.sendall(ASKED)
        assert held.arrived.wait(PATIENCE)
        late = stack.enter_context(connected(port))
        with stopping(server):
            held.go_on.set()
        with suppress(ConnectionError):
            assert late.recv(1) == b""
        del server


@pytest.mark.parametrize("said", [b"", b"\x16\x03\x01\x02\x00\x01"], ids=["nothing", "half a hello"])
def test_a_handshake_that_never_ends_is_ended_with_the_server(tmp_path: Path, said: bytes) -> None:
    with nothing_left_open(), WebServer(Held().app, tls=a_certificate(tmp_path)) as server:
        line = connected(server.address[1])
        line.sendall(said)
        time.sleep(0.05)
        server.stop()
        with line, suppress(ConnectionError):
            assert line.recv(1) == b""
        del server


def test_a_handshake_that_ends_after_the_stop_began_leads_to_no_request(tmp_path: Path) -> None:
    """The server still waits for an answer to another client; it does not wait for this one's next request."""
    held = Held()
    with nothing_left_open(), ExitStack() as stack:
        server = WebServer(held.app, tls=a_certificate(tmp_path))
        port = server.start()
        first = stack.enter_context(wrapped(stack.enter_context(connected(port))))
        first.sendall(ASKED)
        assert held.arrived.wait(PATIENCE)
        slow = stack.enter_context(connected(port))
        wait_for(lambda: not waiting_for_accept(port))
        with stopping(server) as thread:
            wait_for(lambda: refused(port))
            with suppress(OSError):
                late = stack.enter_context(wrapped(slow))
                late.sendall(ASKED)
                assert late.recv(1) == b""
            assert thread.is_alive()
            held.go_on.set()
            assert first.recv(4096).startswith(b"HTTP/1.1 200")
            first.close()
        del server


def test_a_client_that_does_not_agree_to_the_end_of_its_connection_is_cut_off(tmp_path: Path) -> None:
    """TLS says goodbye on both sides, and this one never does."""
    held = Held()
    with nothing_left_open(), ExitStack() as stack:
        server = WebServer(held.app, tls=a_certificate(tmp_path), grace=1.0)
        line = stack.enter_context(wrapped(stack.enter_context(connected(server.start()))))
        line.sendall(ASKED)
        assert held.arrived.wait(PATIENCE)
        with stopping(server):
            held.go_on.set()
            assert line.recv(4096).startswith(b"HTTP/1.1 200")
        del server


def refused(port: int) -> bool:
    try:
        connected(port).close()
    except ConnectionError:
        return True
    return False


def waiting_for_accept(port: int) -> int:
    """How many connections the listener of a port has not taken yet."""
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port:
            return int(fields[4].rpartition(":")[2], 16)
    return 0
