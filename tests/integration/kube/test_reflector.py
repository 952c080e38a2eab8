"""Reflector and store over real sockets, through faults of the server."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from hami_plugins.kube import paths
from hami_plugins.kube.port import Selection
from hami_plugins.kube.reflector import Backoff, ObjectChange, Reflector
from hami_plugins.kube.store import Store
from tests.integration.kube.scripted import Asked, Line, ScriptedServer, a_list, an_object
from tests.waiting import PATIENCE, wait_for

PODS = Selection(paths.PODS, "Pod")
QUICK = Backoff(first=0.01, most=0.02)


def told(changes: list[ObjectChange]) -> list[tuple[str, str]]:
    return [(change.kind, change.uid) for change in changes]


def test_a_list_then_a_watch_then_no_list_again(serve: Any, client_of: Any) -> None:
    def script(asked: Asked, line: Line) -> None:
        if not asked.watching:
            line.answer(200, a_list(5, an_object("a", 3)))
        elif asked.query["resourceVersion"] == "5":
            line.begin()
            line.event("ADDED", an_object("b", 6))
            line.event("BOOKMARK", {"metadata": {"resourceVersion": "8"}})
            line.cut()
        else:
            line.begin()
            line.event("DELETED", an_object("a", 9))
            line.hang()

    server = serve(script)
    changes: list[ObjectChange] = []
    with Reflector(client_of(server), PODS, on_change=changes.append, name="pods", backoff=QUICK) as reflector:
        wait_for(lambda: len(changes) == 4)
        assert reflector.healthy
    assert told(changes) == [("added", "uid-a"), ("synced", ""), ("added", "uid-b"), ("deleted", "uid-a")]
    assert [asked.query.get("resourceVersion") for asked in server.asked] == [None, "5", "8"]
    assert reflector.restarts == 1
    assert not reflector.healthy


@pytest.mark.parametrize("where", ["in the stream", "instead of it"])
def test_an_expired_version_is_listed_anew_and_only_differences_are_told(
    serve: Any, client_of: Any, where: str
) -> None:
    lists = iter(
        [
            a_list(5, an_object("same", 1), an_object("old", 2), an_object("gone", 3), an_object("x", 4, "before")),
            a_list(9, an_object("same", 1), an_object("old", 8), an_object("x", 9, "after")),
        ]
    )

    def script(asked: Asked, line: Line) -> None:
        if not asked.watching:
            line.answer(200, next(lists))
        elif asked.query["resourceVersion"] == "9":
            line.begin()
            line.hang()
        elif where == "in the stream":
            line.begin()
            line.event("ERROR", {"kind": "Status", "code": 410})
            line.end()
        else:
            line.answer(410, {"message": "too old"})

    changes: list[ObjectChange] = []
    with Store(client_of(serve(script)), PODS, name="pods", backoff=QUICK) as store:
        store.subscribe(changes.append)
        wait_for(lambda: store.reflector.lists == 2)
        now = store.by_name("ns", "x")
        assert now is not None
        assert now["metadata"]["uid"] == "after"
        assert {item["metadata"]["name"] for item in store.all()} == {"same", "old", "x"}
    assert told(changes)[-4:] == [
        ("deleted", "uid-gone"),
        ("deleted", "before"),
        ("modified", "uid-old"),
        ("added", "after"),
    ]


def test_a_server_that_was_away_is_found_again(client_of: Any) -> None:
    def script(asked: Asked, line: Line) -> None:
        if not asked.watching:
            line.answer(200, a_list(5, an_object("a", 3)))
        elif asked.query["resourceVersion"] == "5":
            line.begin()
            line.event("ADDED", an_object("b", 6))
            line.hang()

    def after(asked: Asked, line: Line) -> None:
        line.begin()
        line.event("ADDED", an_object("c", 7))
        line.hang()

    with ScriptedServer(script) as server:
        store = Store(client_of(server), PODS, name="pods", backoff=QUICK, unhealthy_after=0.05)
        store.start()
        wait_for(lambda: len(store) == 2)
    wait_for(lambda: store.reflector.restarts > 3 and not store.healthy)
    assert len(store) == 2
    with ScriptedServer(after, port=server.port) as again:
        wait_for(lambda: len(store) == 3)
        assert store.healthy
        assert store.stop()
    assert {asked.query["resourceVersion"] for asked in again.asked} == {"6"}


def test_a_quiet_watch_is_left_promptly(serve: Any, client_of: Any) -> None:
    def script(asked: Asked, line: Line) -> None:
        if not asked.watching:
            line.answer(200, a_list(5))
        else:
            line.begin()
            line.hang()

    server = serve(script)
    reflector = Reflector(client_of(server), PODS, on_change=lambda change: None, name="pods")
    reflector.start()
    wait_for(lambda: len(server.asked) == 2)
    began = time.monotonic()
    assert reflector.stop()
    assert time.monotonic() - began < 10


def test_a_pause_between_failures_is_left_promptly(serve: Any, client_of: Any) -> None:
    server = serve(lambda asked, line: line.answer(429, {}, {"Retry-After": "25"}))
    reflector = Reflector(client_of(server), PODS, on_change=lambda change: None, name="pods")
    reflector.start()
    wait_for(lambda: server.asked)
    began = time.monotonic()
    assert reflector.stop()
    assert time.monotonic() - began < 10
    assert not reflector.synced.is_set()


def test_many_reflectors_share_one_client(serve: Any, client_of: Any) -> None:
    def script(asked: Asked, line: Line) -> None:
        if not asked.watching:
            line.answer(200, a_list(5, an_object("a", 3)))
        else:
            line.begin()
            line.hang()

    client = client_of(serve(script))
    stores = [Store(client, PODS, name=f"pods-{number}") for number in range(50)]
    for store in stores:
        store.start()
    for store in stores:
        assert store.synced.wait(PATIENCE)
    assert threading.active_count() < 50 * 2 + 50 + 20
    began = time.monotonic()
    stopping = [threading.Thread(target=store.stop) for store in stores]
    for thread in stopping:
        thread.start()
    for thread in stopping:
        thread.join()
    assert time.monotonic() - began < 10
