"""Webhooks over real sockets: requests, answers, and the handling of everything that is not a review."""

from __future__ import annotations

import base64
import itertools
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import urllib3
from starlette.applications import Starlette
from structlog.testing import capture_logs

from hami_plugins.errors import AdmissionDeniedError, UnreachableError
from hami_plugins.observe.metrics import Metrics
from hami_plugins.web.admission import AdmissionMetrics, Handler, admission_route
from hami_plugins.web.documents import DocumentMetrics, waiting
from hami_plugins.web.server import WebServer
from hami_plugins.wire.admission_review import AdmissionRequest, Allowed, Answer, Denied
from tests.unit.wire.test_admission_review import a_review
from tests.waiting import PATIENCE

Post = Callable[[bytes], tuple[int, str]]


@contextmanager
def a_webhook(handler: Handler, **options: Any) -> Iterator[tuple[Post, Metrics, int]]:
    metrics = Metrics("tests")
    counted = AdmissionMetrics(metrics, DocumentMetrics(metrics))
    route = admission_route("/bind", handler, name="bind", metrics=counted, **options)
    with WebServer(Starlette(routes=[route])) as server, urllib3.PoolManager() as pool:

        def post(body: bytes) -> tuple[int, str]:
            url = f"http://127.0.0.1:{server.address[1]}/bind?timeout=5s"
            answer = pool.request("POST", url, body=body, retries=False, timeout=PATIENCE)
            return answer.status, answer.data.decode()

        yield post, metrics, server.address[1]


def allow(_request: AdmissionRequest) -> Answer:
    return Allowed()


def test_a_request_reaches_the_handler_in_the_servers_own_thread_and_its_answer_the_server() -> None:
    seen: list[AdmissionRequest] = []
    threads: list[str] = []

    def patch(request: AdmissionRequest) -> Answer:
        seen.append(request)
        threads.append(threading.current_thread().name)
        return Allowed([{"op": "add", "path": "/metadata/annotations/x", "value": "y"}], ["beware"])

    with a_webhook(patch) as (post, metrics, port):
        status, text = post(a_review(dryRun=True))
    response = json.loads(text)["response"]
    assert (status, response["uid"], response["allowed"], response["warnings"]) == (200, "u-1", True, ["beware"])
    assert json.loads(base64.b64decode(response["patch"]))[0]["value"] == "y"
    assert (seen[0].name, seen[0].dry_run) == ("p", True)
    assert threads == [f"web-{port}"]
    assert metrics.value("admission_requests_total", webhook="bind", outcome="patched", dry="true") == 1
    assert metrics.value("http_documents_total", route="bind", code="200") == 1


def test_while_one_handler_waits_for_another_server_others_are_answered() -> None:
    asked, answered = threading.Event(), threading.Event()

    @waiting
    def slow() -> None:
        asked.set()
        assert answered.wait(PATIENCE)

    def handler(request: AdmissionRequest) -> Answer:
        if request.dry_run:
            slow()
        return Allowed()

    with a_webhook(handler) as (post, metrics, _):
        waiter = threading.Thread(target=post, args=(a_review(dryRun=True),))
        waiter.start()
        assert asked.wait(PATIENCE)
        assert post(a_review())[0] == 200
        answered.set()
        waiter.join(PATIENCE)
        assert metrics.value("admission_requests_total", webhook="bind", outcome="allowed", dry="true") == 1
        assert metrics.value("http_documents_total", route="bind", code="200") == 2
        assert metrics.value("http_document_failures_total", route="bind") is None


def test_a_refusal_is_an_answer_with_a_code_and_a_reason() -> None:
    with a_webhook(lambda request: Denied("no card left on n1", 409)) as (post, metrics, _):
        status, text = post(a_review())
    response = json.loads(text)["response"]
    assert (status, response["allowed"]) == (200, False)
    assert response["status"] == {"code": 409, "message": "no card left on n1"}
    assert metrics.value("admission_requests_total", webhook="bind", outcome="refused", dry="false") == 1


def test_a_denial_that_is_raised_is_a_refusal() -> None:
    def deny(_: AdmissionRequest) -> Answer:
        raise AdmissionDeniedError("not so", 422)

    with a_webhook(deny) as (post, _, _port):
        assert json.loads(post(a_review())[1])["response"]["status"] == {"code": 422, "message": "not so"}


def test_a_handler_that_breaks_is_counted_and_logged_and_tells_the_client_nothing_of_itself() -> None:
    def broken(_: AdmissionRequest) -> Answer:
        raise ZeroDivisionError("secret of the house")

    with capture_logs() as logs, a_webhook(broken) as (post, metrics, _):
        assert post(a_review()) == (500, "internal error in bind; the log of this process says which")
        assert post(b"{")[0] == 400
        assert metrics.value("http_document_failures_total", route="bind") == 1
    assert [line["event"] for line in logs if line["log_level"] == "error"] == ["document_failed"]


def test_what_goes_wrong_on_purpose_has_its_own_status() -> None:
    def away(_: AdmissionRequest) -> Answer:
        raise UnreachableError("the API server does not answer")

    with capture_logs() as logs, a_webhook(away) as (post, metrics, _):
        for _ in range(3):
            assert post(a_review()) == (503, "the API server does not answer")
        assert metrics.value("http_document_failures_total", route="bind") is None
    assert [line["event"] for line in logs] == ["document_refused"]


def test_a_client_that_alternates_good_and_bad_requests_does_not_fill_the_log() -> None:
    answers: Iterator[Answer | None] = itertools.cycle((None, Allowed()))

    def alternates(_: AdmissionRequest) -> Answer:
        answer = next(answers)
        if answer is None:
            raise UnreachableError("the API server does not answer")
        return answer

    with capture_logs() as logs, a_webhook(alternates) as (post, _, _port):
        assert [post(a_review())[0] for _ in range(6)] == [503, 200] * 3
    assert [line["event"] for line in logs] == ["document_refused"]


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"", "not JSON"),
        (b"<xml/>", "not JSON"),
        (a_review(uid=""), "request.uid: is missing"),
        (a_review().replace(b"k8s.io/v1", b"k8s.io/v1beta1"), "only admission.k8s.io/v1 is answered"),
    ],
)
def test_what_is_no_review_is_400_with_the_reason(body: bytes, told: str) -> None:
    with a_webhook(allow) as (post, metrics, _):
        status, text = post(body)
        assert (status, told in text) == (400, True)
        assert metrics.value("http_documents_total", route="bind", code="400") == 1
        assert post(a_review())[0] == 200


def test_a_large_body_is_read_whole_and_one_beyond_the_limit_is_413() -> None:
    with a_webhook(allow, limit=400_000) as (post, _, _port):
        assert post(a_review(object={"a": "x" * 390_000}))[0] == 200
        assert post(a_review(object={"a": "x" * 400_000})) == (413, "the body is too large: limit is 400000 bytes")
        assert post(a_review())[0] == 200


def test_a_body_without_end_is_cut_off() -> None:
    with a_webhook(allow, limit=10_000) as (post, _, port):
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as line:
            line.sendall(b"POST /bind HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
            with pytest.raises(ConnectionError):
                _send_for_ever(line, b"2000\r\n" + b"x" * 0x2000 + b"\r\n")
        assert post(a_review())[0] == 200


def _send_for_ever(line: socket.socket, chunk: bytes) -> None:
    while True:
        line.sendall(chunk)


def test_a_client_that_leaves_in_the_middle_disturbs_nobody() -> None:
    with capture_logs() as logs, a_webhook(allow) as (post, metrics, port):
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as line:
            line.sendall(b"POST /bind HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n{")
        assert post(a_review())[0] == 200
        assert metrics.value("http_documents_total", route="bind", code="200") == 1
    assert logs == []


def test_a_body_that_does_not_come_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hami_plugins.web.documents.SECONDS", 0.05)
    with (
        a_webhook(allow) as (_, metrics, port),
        socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as line,
    ):
        line.sendall(b"POST /bind HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n{")
        answer = b""
        while part := line.recv(4096):
            answer += part
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert metrics.value("http_documents_total", route="bind", code="408") == 1


def test_only_post_is_taken() -> None:
    with a_webhook(allow) as (_, _metrics, port), urllib3.PoolManager() as pool:
        assert pool.request("GET", f"http://127.0.0.1:{port}/bind", retries=False).status == 405
