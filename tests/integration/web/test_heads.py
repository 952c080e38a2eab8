"""Connections without a request end, and no client fills the memory with an unfinished one."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import suppress

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from hami_plugins.web.heads import LARGEST
from hami_plugins.web.server import WebServer
from tests.waiting import PATIENCE

GET = b"GET / HTTP/1.1\r\nhost: x\r\n"
POST = b"POST / HTTP/1.1\r\nhost: x\r\n"
MOST = 16 * LARGEST
"""More than an unread socket holds."""


@pytest.fixture
def server() -> Iterator[WebServer]:
    """One that answers and takes no body."""
    routes = [Route("/", lambda _request: PlainTextResponse("here"), methods=["GET", "POST"])]
    with WebServer(Starlette(routes=routes), patience=0.2, idle=1) as server:
        yield server


def answered(client: socket.socket) -> bytes:
    """All that is answered, to the end of the connection; empty where it was torn."""
    found = b""
    try:
        while part := client.recv(65536):
            found += part
    except ConnectionError:
        return found
    return found


@pytest.mark.parametrize(
    ("begin", "piece"),
    [
        (GET, b"x-a: " + b"y" * 1000 + b"\r\n"),
        (GET + b"x-a: ", b"y" * 1000),
        (b"GET /", b"y" * 1000),
        (POST + b"transfer-encoding: chunked\r\n\r\n0\r\n", b"x-a: " + b"y" * 1000 + b"\r\n"),
        (POST + b"transfer-encoding: chunked\r\n\r\n1;", b"y" * 1000),
    ],
    ids=["headers", "header", "path", "trailers", "chunk-extension"],
)
def test_a_head_without_an_end_is_cut(server: WebServer, begin: bytes, piece: bytes) -> None:
    sent = 0
    with socket.create_connection(server.address, timeout=PATIENCE) as client, suppress(ConnectionError):
        client.sendall(begin)
        while sent < 100 * MOST:
            client.sendall(piece)
            sent += len(piece)
    assert sent < 100 * MOST


def test_a_head_that_is_too_large_is_told_so(server: WebServer) -> None:
    with socket.create_connection(server.address, timeout=PATIENCE) as client:
        client.sendall(GET + b"x-a: " + b"y" * (LARGEST // 2))
        client.sendall(b"y" * LARGEST)
        assert b"too large: limit is 16384 bytes and 100 headers" in answered(client)


@pytest.mark.parametrize("sent", [b"", b"GE", GET, GET + b"\r\n" + GET], ids=["nothing", "verb", "head", "second-head"])
def test_whoever_asks_nothing_is_cut_and_whoever_did_was_answered(server: WebServer, sent: bytes) -> None:
    with socket.create_connection(server.address, timeout=PATIENCE) as client:
        if sent:
            client.sendall(sent)
        assert answered(client).endswith(b"here") is (b"\r\n\r\n" in sent)


def test_requests_in_small_pieces_and_on_old_connections_are_answered(server: WebServer) -> None:
    request = POST + b"content-length: 3\r\n\r\nabc"
    with socket.create_connection(server.address, timeout=PATIENCE) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(3):
            for at in range(len(request)):
                client.sendall(request[at : at + 1])
            assert b"here" in client.recv(65536)
