"""Probes are answered whatever else a process is busy with."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
import urllib3
from prometheus_client.core import Metric
from starlette.applications import Starlette

from hami_plugins.observe.metrics import Metrics
from hami_plugins.web.documents import DocumentMetrics, Reply, document_route, waiting
from hami_plugins.web.probes import probe_routes
from hami_plugins.web.server import WebServer
from tests.waiting import PATIENCE

THREADS = 40
"""As many as ``anyio``'s limit allows in addition to the server's own."""

CALLS = 60


class Slow:
    """Another server, which answers once it is let."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.let = threading.Event()

    def __call__(self, _body: bytes) -> Reply:
        self.begun.release()
        self.let.wait(60)
        return Reply(200, b"{}")


@contextmanager
def calling(url: str, pool: urllib3.PoolManager) -> Iterator[list[int]]:
    """So many clients at once; their statuses once all have left."""
    statuses: list[int] = []

    def call() -> None:
        statuses.append(pool.request("POST", url, body=b"{}", timeout=120).status)

    clients = [threading.Thread(target=call) for _ in range(CALLS)]
    for client in clients:
        client.start()
    try:
        yield statuses
    finally:
        for client in clients:
            client.join()


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_a_probe_is_answered_while_everybody_waits_for_another_server(path: str) -> None:
    slow, metrics = Slow(), Metrics("test")
    routes = [
        *probe_routes(alive={"a": lambda: ""}, ready={"b": lambda: ""}, metrics=metrics),
        document_route("/slow", waiting(slow), name="slow", metrics=DocumentMetrics(metrics)),
    ]
    with WebServer(Starlette(routes=routes)) as server, urllib3.PoolManager(maxsize=CALLS) as pool:
        url = f"http://127.0.0.1:{server.address[1]}"
        with calling(f"{url}/slow", pool) as statuses:
            try:
                assert all(slow.begun.acquire(timeout=PATIENCE) for _ in range(THREADS))
                answer = pool.request("GET", url + path, timeout=PATIENCE, retries=False)
                assert (answer.status, statuses) == (200, [])
            finally:
                slow.let.set()
    assert statuses == [200] * CALLS


def test_readers_of_metrics_who_come_together_share_what_is_made() -> None:
    metrics, made = Metrics("test"), list[int]()

    def slow() -> list[Metric]:
        made.append(1)
        time.sleep(0.2)
        return []

    metrics.collected(slow)
    made.clear()
    routes = probe_routes(alive={}, ready={}, metrics=metrics)
    with WebServer(Starlette(routes=routes)) as server, ThreadPoolExecutor(20) as together:
        url = f"http://127.0.0.1:{server.address[1]}/metrics"
        answers = list(
            together.map(lambda _turn: urllib3.request("GET", url, retries=False, timeout=PATIENCE), range(20))
        )
    assert [answer.status for answer in answers] == [200] * 20
    assert len(made) < 10


def test_a_reader_of_metrics_sees_what_happened_before_it_asked() -> None:
    metrics = Metrics("test")
    counter = metrics.counter("turns_total", "Turns")
    with WebServer(Starlette(routes=probe_routes(alive={}, ready={}, metrics=metrics))) as server:
        url = f"http://127.0.0.1:{server.address[1]}/metrics"
        for turn in range(1, 4):
            counter.inc()
            assert (
                f"test_turns_total {turn}.0"
                in urllib3.request("GET", url, retries=False, timeout=PATIENCE).data.decode()
            )
