"""The figures of the page about limits are what the servers do."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from hami_plugins.allocations import questions
from hami_plugins.allocator import handlers, node_page, time_slices
from hami_plugins.explain import waiting
from hami_plugins.web import bodies, connections, documents, heads, joined_writes, loops
from hami_plugins.web import server as web_server
from hami_plugins.web.server import WebServer
from tests.waiting import PATIENCE

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "server-limits.md"
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.read_text().splitlines()
    if line.startswith("| ") and "---" not in line
]
UNITS = {"": 1, "bytes": 1, "s": 1, "ms": 0.001, "KiB": 1 << 10, "MiB": 1 << 20}


def figure(text: str) -> float:
    """A number with its unit, in bytes or seconds."""
    found = re.fullmatch(r"(\d+)(?: (bytes|s|ms|KiB|MiB))?", text)
    assert found, text
    return int(found[1]) * UNITS[found[2] or ""]


def limit(beginning: str) -> int:
    """What the page says of the limit that begins so."""
    (row,) = [row for row in ROWS if row[0].startswith(beginning)]
    return int(figure(row[1]))


@pytest.fixture
def server() -> Iterator[WebServer]:
    """One as every process has it."""

    async def answer(_request: object) -> PlainTextResponse:
        return PlainTextResponse("here")

    with WebServer(Starlette(routes=[Route("/{path:path}", answer)])) as server:
        yield server


def said(server: WebServer, sent: bytes) -> bytes:
    """Everything that is answered on one connection, which the client ends for writing first."""
    found = b""
    with socket.create_connection(server.address, timeout=PATIENCE) as client:
        client.sendall(sent)
        client.settimeout(1)
        try:
            while part := client.recv(65536):
                found += part
        except (TimeoutError, ConnectionError):
            pass
    return found


def request(*headers: bytes) -> bytes:
    return b"\r\n".join([b"GET / HTTP/1.1", b"host: x", *headers, b"", b""])


def test_the_figure_of_a_head(server: WebServer) -> None:
    most = limit("head of a request, size")
    assert b" 200 " in said(server, request(b"a: " + b"x" * (most - 100)))
    assert b" 400 " in said(server, request(b"a: " + b"x" * most))


def test_the_figure_of_headers(server: WebServer) -> None:
    most = limit("headers of a request")
    assert b" 200 " in said(server, request(*[b"a: b"] * (most - 1)))
    assert b" 400 " in said(server, request(*[b"a: b"] * most))


def test_the_figure_of_queued_requests(server: WebServer) -> None:
    most = limit("requests queued")
    assert said(server, request() * (1 + most)).count(b"here") == 1 + most
    assert said(server, request() * (2 + most)) == b""


def test_the_figure_of_connections(server: WebServer) -> None:
    most = limit("open connections")
    with ExitStack() as open_until_the_end:
        clients = []
        for _ in range(most + 5):
            client = open_until_the_end.enter_context(socket.create_connection(server.address, timeout=PATIENCE))
            client.sendall(request())
            assert b"here" in client.recv(65536)
            clients.append(client)
        assert [client.recv(1) for client in clients[:5]] == [b""] * 5
        clients[5].sendall(request())
        assert b"here" in clients[5].recv(65536)


def test_the_figures_of_calls() -> None:
    shown = {row[0].strip("`"): (int(row[1]), int(row[2])) for row in ROWS if len(row) == 4 and row[1].isdigit()}
    served = {
        call.path: (call.limit, call.limit if call.longest is None else call.longest)
        for call in (*handlers.VOLCANO, *handlers.KUBE_SCHEDULER)
    }
    assert shown == served | {"webhooks": (documents.MAX_BODY, documents.MAX_BODY)}


@pytest.mark.parametrize(
    ("beginning", "setting"),
    [
        ("TLS handshake", loops.HANDSHAKE),
        ("connection without a request", web_server.IDLE),
        ("head of a request, time", heads.PATIENCE),
        ("body that arrives after its answer", heads.PATIENCE),
        ("unread answer of more than", heads.PATIENCE),
        ("unread rest", joined_writes.CLOSING),
        ("unread answers of all", connections.MOST_UNREAD),
        ("connections that one client address opens in a flood", connections.MOST // 2),
        ("time for a body", bodies.SECONDS),
        ("bodies that arrive", bodies.ALL_BODIES),
        ("bodies over 16 KiB", bodies.TURNS),
        ("values in a body", documents.MOST_VALUES),
        ("large or long calls", bodies.WAITING),
        ("containers and init", questions.MOST_CONTAINERS),
        ("annotations of", questions.MOST_TEXT),
        ("devices and models", questions.MOST_CHOICES),
        ("nodes of a call", time_slices.STRANGERS),
        ("time for the nodes", time_slices.BUDGET),
    ],
)
def test_the_figure_of_a_setting(beginning: str, setting: float) -> None:
    assert limit(beginning) == setting


def test_sizes_in_words_are_those_of_the_settings() -> None:
    text = PAGE.read_text()
    assert f"bodies over {bodies.SMALL >> 10} KiB" in text
    assert f"calls over {documents.LARGE >> 10} KiB" in text
    assert f"| {bodies.SHARE * 1000:.0f} ms |" in text


def test_every_limit_of_the_page_is_looked_at() -> None:
    rows = [row[0] for row in ROWS if len(row) == 3 and re.match(r"\d+", row[1])]
    assert len(rows) == len(set(rows)) == 29


def test_the_figures_of_the_page_of_nodes() -> None:
    assert limit("nodes that the page draws") == node_page.MOST_NODES
    assert limit("names or patterns of a reader") == node_page.MOST_NAMES
    assert limit("characters of a name") == node_page.LONGEST_NAME
    assert limit("time of a look to explain") == node_page.EXPLAINING
    assert limit("different requests that are explained") == waiting.MOST_EXPLAINED
    (looks,) = [row[1] for row in ROWS if row[0].startswith("looks at the cluster")]
    assert looks == f"one in {node_page.LEAST_PAUSE:.0f} s, and at most a fifth of the time"
    assert node_page.PAUSES + 1 == 5
