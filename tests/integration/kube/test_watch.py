"""Watches over real sockets, torn and ended in every way."""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client as official

from hami_plugins.errors import KubeError
from hami_plugins.kube import paths
from hami_plugins.kube.client import KubeClient
from hami_plugins.kube.port import Selection, WatchEvent
from hami_plugins.kube.transport import Transport
from tests.integration.kube.scripted import Asked, Line, ScriptedServer, an_object
from tests.integration.web.certificates import a_certificate
from tests.waiting import wait_for

PODS = Selection(paths.PODS, "Pod", fields="spec.nodeName=n1")


def watch(client: Any, stop: threading.Event | None = None, timeout: float = 30.0) -> list[WatchEvent]:
    return list(client.watch(PODS, since="5", stop=stop or threading.Event(), timeout=timeout))


def names(events: list[WatchEvent]) -> list[tuple[str, str]]:
    return [(event.kind, event.object["metadata"].get("name", "")) for event in events]


def test_a_watch_goes_on_from_a_version_and_ends_with_the_server(serve: Any, client_of: Any) -> None:
    def script(asked: Asked, line: Line) -> None:
        line.begin()
        line.event("ADDED", an_object("a", 6))
        line.event("BOOKMARK", {"metadata": {"resourceVersion": "9"}})
        line.event("DELETED", an_object("a", 10))
        line.end()

    server = serve(script)
    assert names(watch(client_of(server), timeout=42)) == [("ADDED", "a"), ("BOOKMARK", ""), ("DELETED", "a")]
    assert server.asked[0].query == {
        "fieldSelector": "spec.nodeName=n1",
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": "5",
        "timeoutSeconds": "42",
    }


def test_lines_may_be_cut_anywhere_and_be_as_long_as_they_like(serve: Any, client_of: Any) -> None:
    big = an_object("big", 6, note="x" * 3_000_000)
    text = b"".join(json.dumps({"type": "ADDED", "object": each}).encode() + b"\n" for each in (big, an_object("b", 7)))

    def script(asked: Asked, line: Line) -> None:
        line.begin()
        for start in range(0, len(text), 49_999):
            line.chunk(text[start : start + 49_999])
        line.end()

    events = watch(client_of(serve(script)))
    assert [event.object for event in events] == [big, an_object("b", 7)]


def test_a_watch_without_chunks_is_read_too(serve: Any, client_of: Any) -> None:
    def script(asked: Asked, line: Line) -> None:
        line.raw(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
        line.raw(json.dumps({"type": "ADDED", "object": an_object("a", 6)}).encode() + b"\n")
        line.cut()

    assert names(watch(client_of(serve(script)))) == [("ADDED", "a")]


def test_a_stream_that_is_cut_inside_of_a_line_is_an_error_after_the_whole_lines(serve: Any, client_of: Any) -> None:
    def script(asked: Asked, line: Line) -> None:
        line.begin()
        line.event("ADDED", an_object("a", 6))
        line.chunk(b'{"type":"ADDED","obj')
        line.cut()

    stream = client_of(serve(script)).watch(PODS, since="5", stop=threading.Event(), timeout=30)
    assert names([next(stream)]) == [("ADDED", "a")]
    with pytest.raises(KubeError) as caught:
        next(stream)
    assert caught.value.may_retry


def test_an_expired_version_in_the_stream_is_an_error_with_its_status(serve: Any, client_of: Any) -> None:
    def script(asked: Asked, line: Line) -> None:
        line.begin()
        line.event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"})
        line.end()

    with pytest.raises(KubeError, match="410 too old") as caught:
        watch(client_of(serve(script)))
    assert (caught.value.status, caught.value.reason) == (410, "Expired")


def test_a_watch_that_is_refused_is_an_error_before_the_first_event(serve: Any, client_of: Any) -> None:
    client = client_of(
        serve(lambda asked, line: line.answer(403, {"message": 'User "u" cannot watch resource "pods"'}))
    )
    with pytest.raises(KubeError, match='verb "watch" on "pods"'):
        client.watch(PODS, since="5", stop=threading.Event(), timeout=30)


@pytest.mark.parametrize("text", [b"[]\n", b"nonsense\n", b'{"type":"ADDED"}\n', b'{"type":"NEW","object":{}}\n'])
def test_a_line_that_is_no_event_is_an_error(serve: Any, client_of: Any, text: bytes) -> None:
    def script(asked: Asked, line: Line) -> None:
        line.begin()
        line.chunk(text)
        line.end()

    with pytest.raises(KubeError, match="watch /api/v1/pods"):
        watch(client_of(serve(script)))


def _quiet(asked: Asked, line: Line) -> None:
    line.begin()
    line.event("ADDED", an_object("a", 6))
    line.hang()


def _headless(asked: Asked, line: Line) -> None:
    line.hang()


def _inside_a_chunk(asked: Asked, line: Line) -> None:
    line.begin()
    line.raw(b"ffff\r\n{")
    line.hang()


def seconds_to_stop(server: ScriptedServer, client: KubeClient) -> float:
    stop = threading.Event()
    ended: list[float] = []

    def run() -> None:
        watch(client, stop)
        ended.append(time.monotonic())

    thread = threading.Thread(target=run)
    thread.start()
    wait_for(lambda: server.asked)
    stopped = time.monotonic()
    stop.set()
    thread.join()
    return ended[0] - stopped


@pytest.mark.parametrize("script", [_quiet, _headless, _inside_a_chunk])
def test_a_watch_ends_promptly_and_without_an_error_when_it_is_stopped(
    serve: Any, client_of: Any, script: Callable[[Asked, Line], None]
) -> None:
    server = serve(script)
    assert seconds_to_stop(server, client_of(server)) < 10


@pytest.mark.parametrize("script", [_quiet, _headless, _inside_a_chunk])
def test_a_watch_over_tls_ends_just_as_promptly(script: Callable[[Asked, Line], None], tmp_path: Path) -> None:
    files = a_certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    settings = official.Configuration()
    settings.ssl_ca_cert = str(files.certificate)
    with ScriptedServer(script, tls=context) as server:
        settings.host = server.url
        client = KubeClient(Transport(settings))
        assert seconds_to_stop(server, client) < 10
        client.close()


def test_a_client_that_was_closed_can_be_used_and_stopped_like_before(serve: Any, client_of: Any) -> None:
    server = serve(_headless)
    client = client_of(server)
    client.close()
    assert seconds_to_stop(server, client) < 10


def test_a_watch_that_is_left_lets_go_of_its_connection(serve: Any, client_of: Any) -> None:
    server = serve(_quiet)
    stream = client_of(server).watch(PODS, since="5", stop=threading.Event(), timeout=30)
    assert next(stream).kind == "ADDED"
    stream.close()


def test_a_server_that_sleeps_past_the_end_is_taken_for_gone(
    serve: Any, client_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hami_plugins.kube.client._WATCH_GRACE", 0.1)
    with pytest.raises(KubeError, match="timed out"):
        watch(client_of(serve(_quiet)), timeout=0.2)


def test_a_watch_that_ended_leaves_its_connection_to_the_next(serve: Any, client_of: Any) -> None:
    def script(asked: Asked, line: Line) -> None:
        line.begin()
        line.end()

    server = serve(script)
    client = client_of(server)
    assert watch(client) == watch(client) == []
    assert server.connections == 1
