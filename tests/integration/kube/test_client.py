"""Reading and writing over real sockets: what is sent, what is sent again, and what errors say."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_plugins.errors import AlreadyExistsError, ContentionError, KubeError, UnreachableError
from hami_plugins.kube import paths
from hami_plugins.kube.client import connect_to
from hami_plugins.kube.port import Selection
from hami_plugins.kube.transport import moment
from tests.integration.kube.scripted import Asked, Line, a_list, an_object

NODE = paths.node("n1")
PODS = Selection(paths.PODS, "Pod", fields="spec.nodeName=n1", labels="app=a")


def always(status: int, body: object, **headers: str) -> Any:
    return lambda asked, line: line.answer(status, body, headers)


def in_turn(*answers: tuple[int, object]) -> Any:
    left = iter(answers)
    return lambda asked, line: line.answer(*next(left))


def test_each_verb_has_its_method_and_content_type(serve: Any, client_of: Any) -> None:
    server = serve(always(200, {"kind": "Node"}))
    client = client_of(server)
    client.get(NODE)
    client.create("/api/v1/nodes", {"a": 1})
    client.replace(NODE, {"a": 2})
    client.merge_patch(NODE, {"a": None})
    client.delete(NODE)
    client.delete(NODE, body={"preconditions": {"uid": "x"}})
    assert [(asked.method, asked.path, asked.headers.get("content-type"), asked.body) for asked in server.asked] == [
        ("GET", NODE, None, b""),
        ("POST", "/api/v1/nodes", "application/json", b'{"a":1}'),
        ("PUT", NODE, "application/json", b'{"a":2}'),
        ("PATCH", NODE, "application/merge-patch+json", b'{"a":null}'),
        ("DELETE", NODE, None, b""),
        ("DELETE", NODE, "application/json", b'{"preconditions":{"uid":"x"}}'),
    ]
    assert {asked.headers["user-agent"].partition("/")[0] for asked in server.asked} == {"hami-plugins"}
    assert server.asked[0].headers["user-agent"].endswith(" (test)")
    assert server.connections == 1


def test_the_servers_clock_is_known_from_its_answers_whatever_they_are(serve: Any, client_of: Any) -> None:
    dates = ["Sun, 06 Nov 1994 08:49:37 GMT", "Fri, 31 Dec 9999 23:59:59 GMT", "soon"]
    left = iter(dates)
    client = client_of(serve(lambda asked, line: line.answer(404, {}, {"Date": next(left)})))
    assert client.server_time() is None
    told = []
    for _ in dates:
        with pytest.raises(KubeError):
            client.get(NODE)
        told.append(client.server_time().year)
    assert told == [1994, 1994, 1994], "what cannot be read, or counted on from, changes nothing"


@given(
    date=st.text() | st.from_regex(r"\w{3}, \d{1,9} Jan \d{1,9} \d\d:\d\d:\d\d ([+-]\d{1,9}|GMT|-0000)", fullmatch=True)
)
def test_whatever_a_server_says_of_the_time_is_a_moment_or_nothing(date: str) -> None:
    found = moment(date)
    assert found is None or found + timedelta(days=10_000) > found


def test_a_conflict_is_told_from_a_name_that_is_taken(serve: Any, client_of: Any) -> None:
    client = client_of(serve(in_turn((409, {"reason": "Conflict"}), (409, {"reason": "AlreadyExists"}))))
    with pytest.raises(ContentionError) as stale:
        client.merge_patch(NODE, {"metadata": {"resourceVersion": "1"}})
    with pytest.raises(AlreadyExistsError) as taken:
        client.create("/api/v1/nodes", {})
    assert not isinstance(stale.value, AlreadyExistsError)
    assert (stale.value.status, stale.value.reason, taken.value.reason) == (409, "Conflict", "AlreadyExists")


def test_a_missing_object_is_an_error_with_status_404(serve: Any, client_of: Any) -> None:
    client = client_of(serve(always(404, {"message": 'nodes "n1" not found', "reason": "NotFound"})))
    with pytest.raises(KubeError, match='get /api/v1/nodes/n1: 404 nodes "n1" not found') as caught:
        client.get(NODE)
    assert (caught.value.status, caught.value.reason) == (404, "NotFound")


def test_a_forbidden_write_names_the_rule_that_is_missing(serve: Any, client_of: Any) -> None:
    message = 'nodes "n1" is forbidden: User "u" cannot patch resource "nodes/status" in API group ""'
    client = client_of(serve(always(403, {"message": message})))
    with pytest.raises(KubeError) as caught:
        client.merge_patch(paths.node_status("n1"), {})
    assert str(caught.value) == (
        f"patch /api/v1/nodes/n1/status: 403 {message}; this process may not patch nodes/status: "
        'it needs a ClusterRole with verb "patch" on "nodes/status" in apiGroup ""'
    )


def test_a_forbidden_read_in_a_namespace_asks_for_a_role_there(serve: Any, client_of: Any) -> None:
    client = client_of(serve(always(403, {"message": 'User "u" cannot get resource "leases"'})))
    with pytest.raises(KubeError, match=r'a Role in namespace ns .* verb "get" on "leases" in apiGroup "coordination'):
        client.get(paths.lease("ns", "me"))


@pytest.mark.parametrize(
    "message",
    [
        'pods "p" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1',
        'admission webhook "w.example.com" denied the request: no',
        "pods \"p\" is forbidden: ValidatingAdmissionPolicy 'a' with binding 'a' denied request: no",
    ],
)
def test_a_refusal_by_admission_asks_for_no_rule(serve: Any, client_of: Any, message: str) -> None:
    client = client_of(serve(always(403, {"message": message})))
    with pytest.raises(KubeError) as caught:
        client.create(paths.pods("ns"), {})
    assert str(caught.value) == f"create /api/v1/namespaces/ns/pods: 403 {message}"


def test_a_proxy_that_forbids_without_a_word_may_mean_a_missing_rule(serve: Any, client_of: Any) -> None:
    client = client_of(serve(always(403, {})))
    with pytest.raises(KubeError, match=r'403 without a message; .* verb "get" on "nodes"'):
        client.get(NODE)


def test_an_unknown_caller_is_told_to_look_at_the_token(serve: Any, client_of: Any) -> None:
    client = client_of(serve(always(401, {"message": "Unauthorized"})))
    with pytest.raises(KubeError, match=r"401 Unauthorized; .*token"):
        client.get(NODE)


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_patch_is_sent_again_when_the_server_is_busy_or_ill(serve: Any, client_of: Any, status: int) -> None:
    server = serve(in_turn((status, {}), (200, {"kind": "Node"})))
    assert client_of(server).merge_patch(NODE, {}) == {"kind": "Node"}
    assert len(server.asked) == 2


@pytest.mark.parametrize("verb", ["create", "replace", "delete"])
def test_what_must_not_happen_twice_is_sent_once_when_the_server_fails(serve: Any, client_of: Any, verb: str) -> None:
    server = serve(always(500, {"message": "who knows"}))
    client = client_of(server)
    with pytest.raises(KubeError, match="500 who knows"):
        client.delete(NODE) if verb == "delete" else getattr(client, verb)(NODE, {})
    assert len(server.asked) == 1


def test_what_the_server_turned_away_unread_is_sent_again_whatever_it_is(serve: Any, client_of: Any) -> None:
    server = serve(in_turn((429, {}), (201, {"kind": "Event"})))
    client_of(server).create(paths.events("ns"), {})
    assert len(server.asked) == 2


def test_a_conditional_replacement_is_sent_again(serve: Any, client_of: Any) -> None:
    server = serve(in_turn((503, {}), (200, {})))
    client_of(server).replace(NODE, {"metadata": {"resourceVersion": "7"}})
    assert len(server.asked) == 2


def test_the_pause_that_the_server_asks_for_is_kept(serve: Any, client_of: Any) -> None:
    times: list[float] = []

    def script(asked: Asked, line: Line) -> None:
        times.append(time.monotonic())
        if len(times) == 1:
            line.answer(429, {}, {"Retry-After": "1"})
        else:
            line.answer(200, {})

    client_of(serve(script)).get(NODE)
    assert times[1] - times[0] >= 1


def test_a_pause_beyond_the_deadline_is_not_waited_for(serve: Any, client_of: Any) -> None:
    server = serve(always(429, {"message": "later"}, **{"Retry-After": "25"}))
    began = time.monotonic()
    with pytest.raises(KubeError, match="429 later") as caught:
        client_of(server).within(3).get(NODE)
    assert caught.value.retry_after == 25
    assert time.monotonic() - began < 10
    assert len(server.asked) == 1


def test_a_server_that_takes_the_request_and_dies_is_asked_again_for_a_read_only(serve: Any, client_of: Any) -> None:
    def script(asked: Asked, line: Line) -> None:
        if len(server.asked) % 2:
            line.cut()
        line.answer(200, {"kind": "Node"})

    server = serve(script)
    client = client_of(server)
    assert client.get(NODE) == {"kind": "Node"}
    with pytest.raises(KubeError, match="does not answer") as caught:
        client.create(NODE, {})
    assert not isinstance(caught.value, UnreachableError)
    assert [asked.method for asked in server.asked] == ["GET", "GET", "POST"]


def test_a_server_that_nobody_listens_at_is_unreachable(serve: Any, client_of: Any) -> None:
    server = serve(always(200, {}))
    client = replace(client_of(server), attempts=2)
    server.close()
    with pytest.raises(
        UnreachableError, match=r"create /api/v1/nodes/n1: http://127\.0\.0\.1:\d+ does not answer: HTTPConnection"
    ):
        client.create(NODE, {})


def test_an_answer_that_never_comes_ends_with_the_deadline(serve: Any, client_of: Any) -> None:
    client = client_of(serve(lambda asked, line: line.hang())).within(0.3)
    began = time.monotonic()
    with pytest.raises(KubeError, match="timed out"):
        client.get(NODE)
    assert time.monotonic() - began < 10


def test_a_body_that_comes_slowly_is_read_to_its_end(serve: Any, client_of: Any) -> None:
    def script(asked: Asked, line: Line) -> None:
        line.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n")
        for piece in (b'{"a"', b": [1", b",2]}"):
            line.raw(piece)
            line.over.wait(0.05)

    assert client_of(serve(script)).get(NODE) == {"a": [1, 2]}


def test_a_body_that_is_cut_is_asked_for_again(serve: Any, client_of: Any) -> None:
    def script(asked: Asked, line: Line) -> None:
        if len(server.asked) == 1:
            line.raw(b'HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n{"a": [1')
            line.cut()
        line.answer(200, {"a": [1, 2]})

    server = serve(script)
    assert client_of(server).get(NODE) == {"a": [1, 2]}
    assert len(server.asked) == 2


def test_a_redirect_is_not_followed(serve: Any, client_of: Any) -> None:
    server = serve(always(302, {}, Location="http://127.0.0.1:9/"))
    with pytest.raises(KubeError) as caught:
        client_of(server).get(NODE)
    assert caught.value.status == 302


def test_an_error_page_of_a_proxy_is_part_of_the_message(serve: Any, client_of: Any) -> None:
    with pytest.raises(KubeError, match="400 bad gateway; is this a Kubernetes API server") as caught:
        client_of(serve(always(400, "<html>bad gateway</html>"))).get(NODE)
    assert caught.value.status == 400


def test_every_try_is_counted_with_verb_resource_and_code(serve: Any, client_of: Any) -> None:
    seen: list[tuple[str, str, int]] = []
    server = serve(in_turn((503, {}), (200, {}), (404, {})))
    client = replace(client_of(server), on_request=lambda verb, what, code, seconds: seen.append((verb, what, code)))
    client.merge_patch(paths.node_status("n1"), {})
    with pytest.raises(KubeError):
        client.get(paths.pod("ns", "p"))
    server.close()
    with pytest.raises(UnreachableError):
        replace(client, attempts=1).create(paths.pod_binding("ns", "p"), {})
    assert seen == [
        ("patch", "nodes/status", 503),
        ("patch", "nodes/status", 200),
        ("get", "pods", 404),
        ("create", "pods/binding", 0),
    ]


def test_a_selection_is_listed_in_pages_from_one_moment(serve: Any, client_of: Any) -> None:
    server = serve(in_turn((200, a_list(7, an_object("a", 1), more="next")), (200, a_list(7, an_object("b", 2)))))
    pages = list(client_of(server).list_pages(PODS, version="0", page_size=1))
    assert [(item["metadata"]["name"], page.version) for page in pages for item in page.items] == [
        ("a", "7"),
        ("b", "7"),
    ]
    chosen = {"fieldSelector": "spec.nodeName=n1", "labelSelector": "app=a", "limit": "1"}
    assert [asked.query for asked in server.asked] == [
        chosen | {"resourceVersion": "0"},
        chosen | {"continue": "next"},
    ]


def test_a_list_that_expires_between_pages_is_an_error_and_not_patched_together(serve: Any, client_of: Any) -> None:
    server = serve(in_turn((200, a_list(7, more="next")), (410, {"metadata": {"continue": "newer"}})))
    with pytest.raises(KubeError) as caught:
        list(client_of(server).list_pages(PODS))
    assert caught.value.status == 410


def test_a_list_is_given_up_when_its_reader_stops(serve: Any, client_of: Any) -> None:
    stop = threading.Event()

    def hang(asked: Any, line: Any) -> None:
        stop.set()
        line.hang()

    server = serve(hang)
    began = time.monotonic()
    with pytest.raises(KubeError):
        list(client_of(server).list_pages(PODS, stop=stop))
    assert time.monotonic() - began < 10
    assert len(server.asked) == 1


def test_one_client_serves_many_threads_over_few_connections(serve: Any) -> None:
    server = serve(always(200, {"kind": "Node"}))
    client = connect_to(server.url)
    threads = [threading.Thread(target=lambda: [client.get(NODE) for _ in range(5)]) for _ in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    client.close()
    assert len(server.asked) == 200
    assert server.connections <= 16
