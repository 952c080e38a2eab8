"""The embedded API server over its socket: starting, breaking, coming back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import urllib3
from urllib3.exceptions import NewConnectionError, ProtocolError

from hami_plugins.sandbox.apiserver import VOLCANO, ApiServer, Delay, DropConnection, Fault, Refuse
from hami_plugins.sandbox.fleet import bare_node, put_fleet
from tests.waiting import PATIENCE, wait_for

MERGE = "application/merge-patch+json"
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"


class Client:
    """Raw requests without retries."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._pool = urllib3.PoolManager(headers={"User-Agent": "tests/1.0 (linux)"}, timeout=PATIENCE, retries=False)

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        data = None if body is None else json.dumps(body)
        sent = {"User-Agent": "tests/1.0 (linux)", "Content-Type": "application/json", **headers}
        answer = self._pool.request(method, self._server.url + path, body=data, headers=sent)
        return answer.status, json.loads(answer.data)

    def close(self) -> None:
        self._pool.clear()


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with ApiServer(kinds=VOLCANO, users={"a-token": "agent"}) as started:
        yield started


@pytest.fixture
def client(server: ApiServer) -> Iterator[Client]:
    opened = Client(server)
    yield opened
    opened.close()


def named(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}}


def test_an_object_is_there_after_it_was_created(server: ApiServer, client: Client) -> None:
    code, made = client.ask("POST", CONFIGMAPS, named("a"))
    assert (code, made["kind"], made["metadata"]["namespace"]) == (201, "ConfigMap", "default")
    assert client.ask("GET", f"{CONFIGMAPS}/a") == (200, made)
    assert server.get("configmaps", "a") == made


def test_a_dropped_request_was_never_looked_at(server: ApiServer, client: Client) -> None:
    number = server.faults.add(Fault(action=DropConnection(), verb="create"))
    with pytest.raises(ProtocolError):
        client.ask("POST", CONFIGMAPS, named("a"))
    assert client.ask("GET", f"{CONFIGMAPS}/a")[0] == 404
    assert server.faults.struck(number) == 1


def test_a_dropped_answer_belongs_to_a_write_that_happened(server: ApiServer, client: Client) -> None:
    server.faults.add(Fault(action=DropConnection(handled=True), verb="create"))
    with pytest.raises(ProtocolError):
        client.ask("POST", CONFIGMAPS, named("a"))
    assert client.ask("POST", CONFIGMAPS, named("a"))[0] == 409


@pytest.mark.parametrize("code", [403, 429, 500, 503])
def test_a_refusal_is_a_status_of_that_code(server: ApiServer, client: Client, code: int) -> None:
    server.faults.add(Fault(action=Refuse(code, retry_after=2), resource="configmaps", times=2))
    for _ in range(2):
        answered, body = client.ask("GET", CONFIGMAPS)
        assert (answered, body["kind"], body["code"]) == (code, "Status", code)
        assert body["details"]["retryAfterSeconds"] == 2
    assert client.ask("GET", CONFIGMAPS)[0] == 200


def test_a_delayed_request_is_answered_all_the_same(server: ApiServer, client: Client) -> None:
    server.faults.add(Fault(action=Delay(0.05), agent="tests/"))
    assert client.ask("GET", CONFIGMAPS)[0] == 200


def test_a_request_whose_client_has_left_is_not_looked_at(server: ApiServer, client: Client) -> None:
    number = server.faults.add(Fault(action=Delay(600), verb="create"))
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.ask, "POST", CONFIGMAPS, named("a"))
        wait_for(lambda: server.faults.struck(number))
        server.pause()
        with pytest.raises(ProtocolError):
            waiting.result(timeout=PATIENCE)
    server.resume()
    assert client.ask("GET", f"{CONFIGMAPS}/a")[0] == 404


def test_a_paused_server_refuses_connections_and_comes_back_with_its_objects(server: ApiServer, client: Client) -> None:
    url = server.url
    client.ask("POST", CONFIGMAPS, named("a"))
    server.pause()
    with pytest.raises((NewConnectionError, ProtocolError)):
        client.ask("GET", CONFIGMAPS)
    with pytest.raises(NewConnectionError):
        client.ask("GET", CONFIGMAPS)
    server.resume()
    assert server.url == url
    assert client.ask("GET", f"{CONFIGMAPS}/a")[0] == 200


def test_what_the_server_cannot_digest_is_500_and_hurts_nobody_else(client: Client) -> None:
    body = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}], "schedulingGates": 3}}
    client.ask("POST", "/api/v1/namespaces/default/pods", body)
    code, status = client.ask("PATCH", "/api/v1/namespaces/default/pods/a", {}, **{"Content-Type": MERGE})
    assert (code, status["kind"]) == (500, "Status")
    assert client.ask("GET", CONFIGMAPS)[0] == 200


def test_requests_are_counted_by_who_asked_for_what(server: ApiServer, client: Client) -> None:
    client.ask("POST", CONFIGMAPS, named("a"), Authorization="Bearer a-token")
    client.ask("POST", CONFIGMAPS, named("a"))
    client.ask("GET", CONFIGMAPS)
    assert server.requests.total(verb="create", resource="configmaps", code=201, user="agent", agent="tests/1.0") == 1
    assert server.requests.total(verb="create", code=409, user="") == 1
    assert server.requests.writes() == 2
    assert server.requests.total() == 3


def test_the_nodes_of_a_fleet_are_listed(server: ApiServer, client: Client) -> None:
    names = put_fleet(server, "h100x8=2")
    server.put(bare_node("plain"))
    listed = client.ask("GET", "/api/v1/nodes")[1]["items"]
    assert [item["metadata"]["name"] for item in listed] == sorted([*names, "plain"])
    assert all(item["status"]["allocatable"] for item in listed)
