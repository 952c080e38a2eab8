"""What one client can make a port keep: requests, heads, answers, connections. All of it is bounded."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import time
from asyncio.sslproto import SSLProtocol
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from hami_plugins.web.connections import OpenConnections, listening
from hami_plugins.web.heads import Guarded
from hami_plugins.web.server import WebServer
from tests.integration.web.certificates import a_certificate
from tests.waiting import PATIENCE, wait_for

GET = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"
LARGE_ANSWER = 32 << 20
OTHER_CLIENT = "127.0.0.2"


class Counted:
    """An application that counts its calls."""

    def __init__(self) -> None:
        self.calls = self.waiting = 0
        both = [Route("/large", self.large), Route("/slow", self.slow)]
        self.app = Starlette(routes=[Route("/", self.answer, methods=["GET", "POST"]), *both])

    async def answer(self, _request: Request) -> PlainTextResponse:
        """A short answer, without a look at the body."""
        self.calls += 1
        return PlainTextResponse("here")

    async def large(self, _request: Request) -> PlainTextResponse:
        """An answer that fits into no socket."""
        return PlainTextResponse("x" * LARGE_ANSWER)

    async def slow(self, _request: Request) -> PlainTextResponse:
        """An answer once the short one was given."""
        before = self.calls
        self.waiting += 1
        while self.calls == before:
            await asyncio.sleep(0.01)
        return PlainTextResponse("slow")


@pytest.fixture
def counted() -> Counted:
    return Counted()


@pytest.fixture
def server(counted: Counted) -> Iterator[WebServer]:
    with WebServer(counted.app, patience=0.3, idle=1, connections=10) as server:
        yield server


def connected(server: WebServer, host: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection(server.address, timeout=PATIENCE, source_address=(host, 0))


def ends(client: socket.socket, within: float = 10) -> bool:
    """Whether the server closes the connection, whatever it sends before."""
    client.settimeout(within)
    try:
        while client.recv(1 << 20):
            pass
    except TimeoutError:
        return False
    except ConnectionError:
        return True
    return True


def asked(client: socket.socket) -> bytes:
    client.sendall(GET)
    return client.recv(65536)


def test_requests_that_are_sent_without_reading_answers_end_the_connection(server: WebServer, counted: Counted) -> None:
    sent = 0
    with connected(server) as client, suppress(ConnectionError):
        for _ in range(200):
            client.sendall(GET * 1_000)
            sent += 1_000
    assert sent < 200_000
    assert counted.calls < 1_000


def test_few_requests_sent_together_are_all_answered(server: WebServer, counted: Counted) -> None:
    with connected(server) as client:
        client.sendall(GET * 4)
        found = b""
        while found.count(b"here") < 4:
            found += client.recv(65536)
    assert counted.calls == 4


@pytest.mark.parametrize("then", [b"x", b"", b"xxxxx"], ids=["a-byte", "nothing", "its-body"])
def test_a_connection_ends_whose_answer_came_before_its_body(server: WebServer, then: bytes) -> None:
    with connected(server) as client:
        client.sendall(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\n")
        assert client.recv(65536).endswith(b"here")
        client.sendall(then)
        assert ends(client)


def test_a_body_that_never_ends_ends_the_connection(server: WebServer) -> None:
    with connected(server) as client:
        client.sendall(b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n")
        sent = 0
        with suppress(ConnectionError):
            until = time.monotonic() + 10
            while time.monotonic() < until:
                client.sendall(b"1\r\nx\r\n")
                sent += 1
                time.sleep(0.01)
            pytest.fail(f"{sent} pieces were taken")


def test_empty_lines_do_not_keep_a_connection_open(server: WebServer) -> None:
    with connected(server) as client:
        assert asked(client).endswith(b"here")
        client.sendall(b"\r\n")
        assert ends(client)


@pytest.mark.parametrize("head", [b"x", b"GET / HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket"])
def test_what_a_stranger_sends_is_not_logged(server: WebServer, head: bytes, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        with connected(server) as client:
            client.sendall(head + b"\r\n\r\n")
            assert client.recv(65536).startswith(b"HTTP/1.1 ")
    assert caplog.messages == []


@pytest.mark.parametrize(
    "more",
    [b"a: b\r\n" * 1_000, b"a: " + b"b" * 100_000 + b"\r\n", b"a" * 100_000 + b": b\r\n"],
    ids=["many", "long", "long-name"],
)
def test_a_head_that_is_too_large_is_refused_even_in_one_piece(
    server: WebServer, counted: Counted, more: bytes
) -> None:
    with connected(server) as client:
        client.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n" + more + b"\r\n")
        assert b" 400 " in client.recv(65536)
        assert ends(client)
    assert counted.calls == 0


def test_a_path_that_is_too_long_is_refused(server: WebServer, counted: Counted) -> None:
    with connected(server) as client:
        client.sendall(b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nhost: x\r\n\r\n")
        assert b" 400 " in client.recv(65536)
    assert counted.calls == 0


def test_an_answer_that_is_not_read_ends_the_connection(server: WebServer) -> None:
    with connected(server) as client:
        client.sendall(b"GET /large HTTP/1.1\r\nhost: x\r\n\r\n")
        time.sleep(3)  # ten times its patience: a busy machine looks late
        read = 0
        with suppress(ConnectionError):
            while part := client.recv(1 << 20):
                read += len(part)
    assert read < LARGE_ANSWER


def test_the_client_with_the_most_connections_loses_its_oldest(server: WebServer) -> None:
    with ExitStack() as open_until_the_end:
        one = open_until_the_end.enter_context(connected(server, OTHER_CLIENT))
        assert asked(one)
        many = []
        for _ in range(30):
            many.append(open_until_the_end.enter_context(connected(server)))
            assert asked(many[-1])
        assert all(ends(client) for client in many[:20])
        assert asked(one)
        assert asked(many[-1])


def test_a_connection_stays_open_while_its_request_is_answered(server: WebServer, counted: Counted) -> None:
    with ExitStack() as open_until_the_end:
        first = open_until_the_end.enter_context(connected(server))
        first.sendall(b"GET /slow HTTP/1.1\r\nhost: x\r\n\r\n")
        wait_for(lambda: counted.waiting)
        many = [open_until_the_end.enter_context(connected(server)) for _ in range(30)]
        assert ends(many[0])
        assert asked(many[-1])
        assert first.recv(65536).endswith(b"slow")


def test_unread_answers_of_all_clients_are_bounded(counted: Counted) -> None:
    with WebServer(counted.app) as server, connected(server) as first, connected(server) as second:
        for client in (first, second):
            client.sendall(b"GET /large HTTP/1.1\r\nhost: x\r\n\r\n")
            time.sleep(0.5)
        sizes = []
        for client in (second, first):
            client.settimeout(20)
            read = 0
            with suppress(ConnectionError):
                while read < LARGE_ANSWER and (part := client.recv(1 << 20)):
                    read += len(part)
            sizes.append(read)
    assert sizes[0] >= LARGE_ANSWER
    assert sizes[1] < LARGE_ANSWER


def test_a_client_in_the_middle_of_a_handshake_counts(counted: Counted, tmp_path: Path) -> None:
    with (
        WebServer(counted.app, tls=a_certificate(tmp_path), connections=10) as server,
        ExitStack() as open_until_the_end,
    ):
        many = [open_until_the_end.enter_context(connected(server)) for _ in range(30)]
        assert all(ends(client) for client in many[:20])


def test_requests_over_tls_that_are_sent_without_reading_answers_end_the_connection(
    counted: Counted, tmp_path: Path
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        WebServer(counted.app, tls=a_certificate(tmp_path)) as server,
        connected(server) as plain,
        context.wrap_socket(plain) as client,
        suppress(OSError),
    ):
        for _ in range(200):
            client.sendall(GET * 1_000)
        pytest.fail("200,000 requests were taken")
    assert counted.calls < 1_000


class Ended:
    """Notes which connections were ended."""

    def __init__(self, connections: OpenConnections) -> None:
        self.connections = connections
        self.numbers: list[int] = []

    def open(self, number: int, client: str) -> None:
        self.connections.opened(number, client, lambda: self.numbers.append(number))


def test_a_connection_whose_request_is_worked_on_is_not_closed_for_others() -> None:
    ended = Ended(OpenConnections(most=2))
    ended.open(1, "a")
    ended.connections.works(1)
    ended.open(2, "a")
    ended.open(3, "a")
    assert ended.numbers == [2]
    ended.connections.works(3)
    ended.open(4, "b")
    assert ended.numbers == [2, 4]
    ended.connections.waits(1)
    ended.open(5, "b")
    assert ended.numbers == [2, 4, 1]
    assert len(ended.connections) == 2


def test_the_client_that_reads_least_is_closed_when_unread_answers_take_too_much() -> None:
    ended = Ended(OpenConnections(unread=100))
    for number, client in ((1, "a"), (2, "b"), (3, "b")):
        ended.open(number, client)
        ended.connections.unread(number, 30)
    ended.connections.unread(1, 0)
    ended.connections.unread(1, 39)
    assert ended.numbers == []
    ended.open(4, "c")
    ended.connections.unread(4, 2)
    assert ended.numbers == [2]
    ended.connections.closed(3)
    ended.connections.unread(4, 61)
    assert ended.numbers == [2]


def test_a_number_that_is_closed_is_forgotten_when_its_socket_closes() -> None:
    connections = OpenConnections()
    with listening("127.0.0.1", 0, connections) as listener:
        listener.listen()
        with socket.create_connection(listener.getsockname()):
            accepted, _ = listener.accept()
            assert len(connections) == 1
            accepted.close()
        wait_for(lambda: len(connections) == 0)


def test_a_handshake_that_fails_is_forgotten_without_the_garbage_collector(counted: Counted, tmp_path: Path) -> None:
    def kept() -> int:
        return sum(isinstance(each, SSLProtocol | Guarded) for each in gc.get_objects())

    with WebServer(counted.app, tls=a_certificate(tmp_path)) as server:
        gc.collect()
        gc.disable()
        try:
            for said in (b"", b"x", b"no handshake at all"):
                for _ in range(10):
                    with connected(server) as client:
                        client.sendall(said)
            wait_for(lambda: kept() == 0)
        finally:
            gc.enable()


def test_memory_goes_back_once_many_connections_have_ended() -> None:
    asked: list[int] = []
    connections = OpenConnections(on_many_closed=lambda: asked.append(1))
    for number in range(1_000):
        connections.opened(number, "a", lambda: None)
        connections.closed(number)
        connections.closed(number)
    assert 3 < len(asked) < 20


@pytest.mark.parametrize("addresses", [1, 3, 30])
def test_a_flood_is_refused_at_the_door_and_another_client_is_let_in(addresses: int) -> None:
    flooding = [f"127.0.1.{at + 1}" for at in range(addresses)]
    connections = OpenConnections(most=64)
    with ExitStack() as open_until_the_end, listening("127.0.0.1", 0, connections) as listener:
        listener.listen()
        listener.setblocking(False)
        for host in flooding * (600 // addresses) + ["127.0.0.1"]:
            client = socket.create_connection(listener.getsockname(), timeout=PATIENCE, source_address=(host, 0))
            open_until_the_end.enter_context(client)
        accepted = []
        with suppress(BlockingIOError):
            while True:
                accepted.append(listener.accept())
        for connection, _ in accepted:
            open_until_the_end.enter_context(connection)
        assert len(accepted) < 300
        assert [address for _, (address, _) in accepted if address not in flooding] == ["127.0.0.1"]
        later = socket.create_connection(listener.getsockname(), timeout=PATIENCE, source_address=(flooding[0], 0))
        open_until_the_end.enter_context(later)
        connection, _ = listener.accept()
        open_until_the_end.enter_context(connection)


def test_a_last_answer_that_is_not_read_does_not_keep_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hami_plugins.web.joined_writes.CLOSING", 0.3)
    with WebServer(Counted().app) as server, connected(server) as client:
        client.sendall(b"GET /large HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        time.sleep(1)
        read = 0
        with suppress(ConnectionError):
            while part := client.recv(1 << 20):
                read += len(part)
    assert read < LARGE_ANSWER


def test_requests_that_were_queued_are_forgotten_without_the_garbage_collector(server: WebServer) -> None:
    gc.collect()
    gc.disable()
    try:
        for _ in range(5):
            with connected(server) as client:
                client.sendall(GET * 100)
                assert ends(client)
        wait_for(lambda: not any(isinstance(each, Guarded) for each in gc.get_objects()))
    finally:
        gc.enable()
