"""What bodies take while they arrive."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
import urllib3
from starlette.applications import Starlette

from hami_plugins.observe.metrics import Metrics
from hami_plugins.web.bodies import Room
from hami_plugins.web.documents import DocumentMetrics, Reply, document_route
from hami_plugins.web.server import WebServer
from tests.integration.kube.waiting import eventually

LARGE = 1_000_000


@pytest.fixture
def room() -> Room:
    return Room(most=LARGE)


@pytest.fixture
def server(room: Room) -> Iterator[WebServer]:
    """One that tells how large a body was, on two paths that share the room."""
    metrics = DocumentMetrics(Metrics("test"))
    routes = [
        document_route(
            path, lambda body: Reply(200, b"%d" % len(body)), name=path, metrics=metrics, limit=LARGE, room=room
        )
        for path in ("/one", "/other")
    ]
    with WebServer(Starlette(routes=routes)) as server:
        yield server


def posted(server: WebServer, path: str, size: int) -> tuple[int, str]:
    with urllib3.PoolManager() as pool:
        url = f"http://127.0.0.1:{server.address[1]}{path}"
        answer = pool.request("POST", url, body=b"x" * size, retries=False, timeout=20)
        return answer.status, answer.data.decode()


def test_bodies_that_arrive_all_at_once_take_no_more_than_there_is_room_for(server: WebServer, room: Room) -> None:
    first = LARGE * 7 // 10
    with socket.create_connection(server.address, timeout=20) as client:
        client.sendall(b"POST /one HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % LARGE + b"x" * first)
        eventually(lambda: room.taken == first)
        status, why = posted(server, "/other", LARGE // 2)
        assert (status, "try again" in why) == (503, True)
        assert posted(server, "/other", LARGE // 4) == (200, str(LARGE // 4))
        client.sendall(b"x" * (LARGE - first))
        assert client.recv(4096).endswith(str(LARGE).encode())
    assert posted(server, "/other", LARGE // 2) == (200, str(LARGE // 2))
    assert room.taken == 0


def test_whoever_leaves_or_sends_too_much_leaves_the_room_to_others(server: WebServer, room: Room) -> None:
    with socket.create_connection(server.address, timeout=20) as client:
        client.sendall(b"POST /one HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % LARGE + b"x" * (LARGE // 2))
        eventually(lambda: room.taken == LARGE // 2)
    eventually(lambda: room.taken == 0)
    assert posted(server, "/one", LARGE + 1)[0] == 413
    assert posted(server, "/other", LARGE) == (200, str(LARGE))
    assert room.taken == 0


def test_a_body_beyond_the_limit_gives_its_room_back_while_the_rest_of_it_arrives(
    server: WebServer, room: Room
) -> None:
    with socket.create_connection(server.address, timeout=20) as client:
        head = b"POST /one HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % (LARGE + 2)
        client.sendall(head + b"x" * LARGE)
        eventually(lambda: room.taken == LARGE)
        client.sendall(b"x")
        eventually(lambda: room.taken == 0)
        client.sendall(b"x")
        assert b" 413 " in client.recv(4096)
