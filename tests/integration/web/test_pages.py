"""Pages that many read at the same time are made once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import urllib3
from starlette.applications import Starlette
from starlette.routing import Route

from hami_plugins.errors import UnreachableError
from hami_plugins.web.pages import JsonPage
from hami_plugins.web.server import WebServer
from tests.waiting import PATIENCE


def served(page: JsonPage[list[int]]) -> WebServer:
    return WebServer(Starlette(routes=[Route("/", page.answer)]))


def read(server: WebServer) -> tuple[int, str]:
    host, port = server.address
    with urllib3.PoolManager() as pool:
        answer = pool.request("GET", f"http://{host}:{port}/", retries=False, timeout=PATIENCE)
        return answer.status, answer.data.decode()


def test_a_page_is_made_once_for_all_readers_and_again_when_there_is_something_new() -> None:
    state, made = [1], list[int]()

    def document(numbers: list[int]) -> object:
        made.append(threading.get_ident())
        return {"numbers": numbers}

    with served(JsonPage(lambda: state, document)) as server, ThreadPoolExecutor(20) as readers:
        assert set(readers.map(read, [server] * 100)) == {(200, '{"numbers":[1]}')}
        assert len(made) == 1
        state = [2]
        assert read(server) == (200, '{"numbers":[2]}')
    assert len(made) == 2


def test_pages_that_differ_each_time_are_made_one_at_a_time() -> None:
    together = most = 0
    lock = threading.Lock()

    def document(_state: object) -> object:
        nonlocal together, most
        with lock:
            together += 1
            most = max(most, together)
        threading.Event().wait(0.01)
        with lock:
            together -= 1
        return {}

    with served(JsonPage(list, document)) as server, ThreadPoolExecutor(20) as readers:
        assert set(readers.map(read, [server] * 40)) == {(200, "{}")}
    assert most == 1


def test_why_there_is_no_page_is_told_with_its_status() -> None:
    def away() -> list[int]:
        raise UnreachableError("the API server does not answer")

    with served(JsonPage(away, lambda numbers: numbers)) as server:
        assert read(server) == (503, "the API server does not answer")
