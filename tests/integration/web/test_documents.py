"""What bodies take while they arrive."""

from __future__ import annotations

import asyncio
import gc
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from http.client import HTTPConnection

import pytest
import urllib3
from starlette.applications import Starlette

from hami_plugins.observe.metrics import Metrics
from hami_plugins.web.bodies import BodyBudget, Nothing
from hami_plugins.web.documents import DocumentMetrics, Reply, TakesLongError, document_route, runs_a_loop
from hami_plugins.web.server import WebServer
from tests.threads import apart
from tests.waiting import PATIENCE, wait_for

LARGE = 1_000_000


@pytest.fixture
def room() -> BodyBudget:
    return BodyBudget(most=LARGE)


@pytest.fixture
def server(room: BodyBudget) -> Iterator[WebServer]:
    """A handler that returns the size of a body, on two paths that share the capacity."""
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
        answer = pool.request("POST", url, body=b"x" * size, retries=False, timeout=PATIENCE)
        return answer.status, answer.data.decode()


def test_bodies_that_arrive_all_at_once_take_no_more_than_there_is_room_for(
    server: WebServer, room: BodyBudget
) -> None:
    first = LARGE * 7 // 10
    with socket.create_connection(server.address, timeout=PATIENCE) as client:
        client.sendall(b"POST /one HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % LARGE + b"x" * first)
        wait_for(lambda: room.taken == first)
        status, why = posted(server, "/other", LARGE // 2)
        assert (status, "try again" in why) == (503, True)
        assert posted(server, "/other", LARGE // 4) == (200, str(LARGE // 4))
        client.sendall(b"x" * (LARGE - first))
        assert client.recv(4096).endswith(str(LARGE).encode())
    assert posted(server, "/other", LARGE // 2) == (200, str(LARGE // 2))
    assert room.taken == 0


def test_whoever_leaves_or_sends_too_much_leaves_the_room_to_others(server: WebServer, room: BodyBudget) -> None:
    with socket.create_connection(server.address, timeout=PATIENCE) as client:
        client.sendall(b"POST /one HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % LARGE + b"x" * (LARGE // 2))
        wait_for(lambda: room.taken == LARGE // 2)
    wait_for(lambda: room.taken == 0)
    assert posted(server, "/one", LARGE + 1)[0] == 413
    assert posted(server, "/other", LARGE) == (200, str(LARGE))
    assert room.taken == 0


def test_a_body_beyond_the_limit_gives_its_room_back_while_the_rest_of_it_arrives(
    server: WebServer, room: BodyBudget
) -> None:
    with socket.create_connection(server.address, timeout=PATIENCE) as client:
        head = b"POST /one HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % (LARGE + 2)
        client.sendall(head + b"x" * LARGE)
        wait_for(lambda: room.taken == LARGE)
        client.sendall(b"x")
        wait_for(lambda: room.taken == 0)
        client.sendall(b"x")
        assert b" 413 " in client.recv(4096)


OTHER_CLIENT = "127.0.0.2"


def begun(server: WebServer, path: str, size: int, sent: int, host: str = "127.0.0.1") -> socket.socket:
    """A connection on which a part of a body has been sent."""
    client = socket.create_connection(server.address, timeout=PATIENCE, source_address=(host, 0))
    head = b"POST %s HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % (path.encode(), size)
    client.sendall(head + b"x" * sent)
    return client


def test_a_client_with_many_bodies_loses_one_to_a_client_with_few(server: WebServer, room: BodyBudget) -> None:
    with begun(server, "/one", LARGE, LARGE // 2, OTHER_CLIENT) as greedy:
        wait_for(lambda: room.taken == LARGE // 2)
        with begun(server, "/one", LARGE, LARGE // 4, OTHER_CLIENT):
            wait_for(lambda: room.taken == LARGE * 3 // 4)
            assert posted(server, "/other", LARGE // 2) == (200, str(LARGE // 2))
            assert b" 503 " in greedy.recv(4096)
    wait_for(lambda: room.taken == 0)


def test_a_client_has_few_larger_bodies_read_at_a_time_and_others_do_not_wait(
    server: WebServer, room: BodyBudget
) -> None:
    part = 20_000
    with ExitStack() as open_until_the_end:
        clients = [open_until_the_end.enter_context(begun(server, "/one", 40_000, part)) for _ in range(8)]
        wait_for(lambda: room.taken == 8 * part)
        ninth = open_until_the_end.enter_context(begun(server, "/one", part, part))
        ninth.settimeout(0.3)
        with pytest.raises(TimeoutError):
            ninth.recv(4096)
        other = open_until_the_end.enter_context(begun(server, "/one", part, part, OTHER_CLIENT))
        assert other.recv(4096).endswith(str(part).encode())
        small = open_until_the_end.enter_context(begun(server, "/one", 3, 3))
        assert small.recv(4096).endswith(b"3")
        clients[0].sendall(b"x" * part)
        assert clients[0].recv(4096).endswith(b"40000")
        ninth.settimeout(20)
        assert ninth.recv(4096).endswith(str(part).encode())


class Long:
    """Answers when it is let, and notes how many calls are in it at a time."""

    def __init__(self) -> None:
        self.let = threading.Event()
        self.inside = self.most = 0
        self.collects = True

    def __call__(self, body: bytes) -> Reply:
        """An answer after a while, to what says that it takes long."""
        if runs_a_loop() and body == b"long":
            raise TakesLongError("it takes long")
        if body == b"short":
            return Reply(200, body)
        self.inside += 1
        self.most = max(self.most, self.inside)
        self.collects = gc.isenabled()
        assert self.let.wait(PATIENCE)
        self.inside -= 1
        return Reply(200, body[:4])


def test_large_calls_are_answered_one_at_a_time_beside_everything_else() -> None:
    long = Long()
    route = document_route("/", long, name="x", metrics=DocumentMetrics(Metrics("test")))
    with WebServer(Starlette(routes=[route])) as server, ThreadPoolExecutor(5) as five:
        calls = [five.submit(posted_by, server, body) for body in (b"long", b"x" * LARGE, b"long", b"long")]
        wait_for(lambda: long.inside == 1)
        assert posted_by(server, b"short") == (200, b"short")
        abandoned = list[int]()

        def is_full() -> bool:
            """A probe that comes before the last call waits in its place, and is given up."""
            abandoned.append(posted_by(server, b"long", timeout=0.3)[0])
            return abandoned[-1] == 503

        wait_for(is_full)
        assert posted_by(server, b"short", OTHER_CLIENT) == (200, b"short")
        other = five.submit(posted_by, server, b"long", OTHER_CLIENT)
        long.let.set()
        statuses = [call.result()[0] for call in calls]
        assert statuses.count(200) + min(abandoned.count(0), 1) >= 4, (statuses, abandoned)
        assert other.result() == (200, b"long")
    assert (long.most, long.collects) == (1, False)
    assert gc.isenabled()


def posted_by(server: WebServer, body: bytes, host: str = "127.0.0.1", timeout: float = 20) -> tuple[int, bytes]:
    """The answer to a body from an address; 0 where there is none in time."""
    connection = HTTPConnection(*server.address, timeout=timeout, source_address=(host, 0))
    try:
        connection.request("POST", "/", body)
        answer = connection.getresponse()
        return answer.status, answer.read()
    except TimeoutError:
        return 0, b""
    finally:
        connection.close()


def test_a_client_that_used_its_share_of_a_turn_waits_for_the_next() -> None:
    async def shared() -> list[str]:
        room, order = BodyBudget(), list[str]()

        async def work(client: str, seconds: float) -> None:
            await room.share(client)
            order.append(client)
            room.spent(client, seconds)

        await asyncio.gather(*(work("greedy", 1.0) for _ in range(3)), work("other", 0.001), work("other", 0.001))
        return order

    assert apart(lambda: asyncio.run(shared())) == ["greedy", "other", "other", "greedy", "greedy"]


def test_other_connections_have_their_turn_between_the_calls_of_any_clients() -> None:
    async def shared() -> list[str]:
        room, order = BodyBudget(), list[str]()

        async def work(client: str) -> None:
            await room.share(client)
            order.append("call")
            room.spent(client, 1.0)

        async def probe() -> None:
            while order.count("call") < 5:
                order.append("probe")
                await asyncio.sleep(0)

        await asyncio.gather(*(work(f"client-{at}") for at in range(5)), probe())
        return order

    assert "call call" not in " ".join(apart(lambda: asyncio.run(shared())))


@pytest.mark.parametrize(("size", "alone"), [(200_000, False), (300_000, True)])
def test_a_call_that_may_take_long_leaves_the_servers_thread_to_others(size: int, alone: bool) -> None:
    seen: list[bool] = []

    def answer(_body: bytes) -> Reply:
        seen.append(runs_a_loop())
        return Reply(200, b"")

    route = document_route("/", answer, name="x", metrics=DocumentMetrics(Metrics("test")))
    with WebServer(Starlette(routes=[route])) as server:
        assert posted_by(server, b"x" * size)[0] == 200
    assert seen == [not alone]


def test_memory_is_given_back_after_a_large_call(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[int] = []
    monkeypatch.setattr("hami_plugins.web.documents.give_back", lambda: given.append(1))
    route = document_route(
        "/", lambda body: Reply(200, b"%d" % len(body)), name="x", metrics=DocumentMetrics(Metrics("test"))
    )
    with WebServer(Starlette(routes=[route])) as server:
        assert posted_by(server, b"x" * 1_000)[0] == 200
        assert given == []
        assert posted_by(server, b"x" * LARGE)[0] == 200
        assert given == [1]


@pytest.mark.parametrize(("limit", "status"), [(LARGE, 200), (LARGE - 1, 413)])
def test_memory_is_given_back_again_once_a_large_call_is_answered_or_refused(
    limit: int, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the call is answered its body is there, and those of others."""
    asked: list[int] = []
    monkeypatch.setattr("hami_plugins.web.memory.GivingBack.soon", lambda _of: asked.append(1))
    route = document_route(
        "/", lambda _: Reply(200, b""), name="x", metrics=DocumentMetrics(Metrics("test")), limit=limit
    )
    with WebServer(Starlette(routes=[route])) as server:
        assert posted_by(server, b"x" * 1_000)[0] == 200
        assert asked == []
        assert posted_by(server, b"x" * LARGE)[0] == status
        wait_for(lambda: asked == [1])


@pytest.mark.parametrize("size", [10, 100_000, LARGE])
def test_a_body_that_does_not_matter_is_not_kept(size: int) -> None:
    metrics, room, seen = DocumentMetrics(Metrics("test")), BodyBudget(most=200_000), list[int]()

    def answer(body: bytes) -> Reply:
        seen.append(len(body))
        return Reply(200, b"{}")

    route = document_route(
        "/", answer, name="x", metrics=metrics, limit=0, longest=LARGE, collecting=Nothing, room=room
    )
    with WebServer(Starlette(routes=[route])) as server:
        assert posted_by(server, b"x" * size)[0] == 200
        assert posted_by(server, b"x" * (LARGE + 1))[0] == 413
    assert seen == [10 if size == 10 else 0]


@pytest.mark.parametrize("unit", [b"[],", b"{},", b"0,", b"[[[[]]]],"])
def test_a_large_body_of_tiny_values_is_refused_unread(unit: bytes) -> None:
    seen: list[bytes] = []

    def answer(body: bytes) -> Reply:
        seen.append(body)
        return Reply(200, b"{}")

    route = document_route("/", answer, name="x", metrics=DocumentMetrics(Metrics("test")))
    with WebServer(Starlette(routes=[route])) as server:
        status, why = posted_by(server, unit * (2_000_000 // len(unit)))
        assert (status, b"values: limit is 100000" in why, seen) == (413, True, [])
        assert posted_by(server, (b'"' + b"x" * 20 + b'",') * 50_000)[0] == 200
