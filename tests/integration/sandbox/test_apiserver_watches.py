"""Open watches over the socket: how they end, what they miss, and that no client has to poll."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from urllib3.exceptions import HTTPError

from hami_plugins.sandbox.apiserver import ApiServer, CloseWatch, Fault, Gone
from tests.contract.apiserver.api import Api, Object
from tests.waiting import PATIENCE, wait_for

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with ApiServer(window=100) as started:
        yield started


@pytest.fixture
def api(server: ApiServer) -> Iterator[Api]:
    with Api(server.url) as opened:
        yield opened


def configmap(name: str, text: str = "") -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"},
        "data": {"text": text},
    }


def version(api: Api) -> str:
    return str(api.get(CONFIGMAPS)["metadata"]["resourceVersion"])


def expired(event: Object) -> bool:
    return (event["type"], event["object"].get("code"), event["object"].get("reason")) == ("ERROR", 410, "Expired")


def test_a_watch_from_before_a_compaction_is_told_that_it_is_too_late(server: ApiServer, api: Api) -> None:
    old = version(api)
    server.put(configmap("a"))
    server.compact()
    with api.watch(CONFIGMAPS, resourceVersion=old) as events:
        assert expired(next(events))
        assert list(events) == []
    with api.watch(CONFIGMAPS, resourceVersion=version(api)) as events:
        server.put(configmap("b"))
        assert next(events)["object"]["metadata"]["name"] == "b"


def test_after_a_restore_objects_and_versions_are_those_of_then(server: ApiServer, api: Api) -> None:
    server.put(configmap("a", "then"))
    server.put(configmap("gone"))
    then = version(api)
    server.put(configmap("a", "later"))
    server.delete("configmaps", "gone")
    server.put(configmap("new"))
    with api.watch(CONFIGMAPS, resourceVersion=version(api)) as events:
        server.restore(int(then))
        with pytest.raises(HTTPError):
            next(events)
    items = api.get(CONFIGMAPS)["items"]
    assert [(each["metadata"]["name"], each["data"]["text"]) for each in items] == [("a", "then"), ("gone", "")]
    assert version(api) == then
    server.put(configmap("b"))
    assert version(api) == str(int(then) + 1)


def test_a_watch_from_a_version_to_come_says_nothing_until_then(server: ApiServer, api: Api) -> None:
    """As kube-apiserver 1.34 does after a restore of its etcd: neither an error nor a bookmark."""
    now = int(version(api))
    with api.watch(CONFIGMAPS, resourceVersion=str(now + 3), allowWatchBookmarks="true") as events:
        for number in range(4):
            server.bookmark()
            server.put(configmap(f"c{number}"))
        assert [next(events)["object"]["metadata"]["resourceVersion"] for _ in range(2)] == [str(now + 3), str(now + 4)]


def test_a_collection_remembers_as_many_events_as_its_window(server: ApiServer, api: Api) -> None:
    old = version(api)
    for number in range(100):
        server.put(configmap("a", str(number)))
    with api.watch(CONFIGMAPS, resourceVersion=old) as events:
        assert next(events)["type"] == "ADDED"
    server.put(configmap("a", "one more"))
    with api.watch(CONFIGMAPS, resourceVersion=old) as events:
        assert expired(next(events))


def test_busy_kinds_do_not_push_out_the_events_of_others(server: ApiServer, api: Api) -> None:
    old = version(api)
    server.put(configmap("a"))
    for number in range(300):
        server.put({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": {"n": str(number)}}})
    with api.watch(CONFIGMAPS, resourceVersion=old) as events:
        assert next(events)["object"]["metadata"]["name"] == "a"


def test_pages_of_a_forgotten_version_go_on_with_the_token_of_the_refusal(server: ApiServer, api: Api) -> None:
    for name in "abc":
        server.put(configmap(name))
    first = api.get(CONFIGMAPS, limit=1)
    server.put(configmap("d"))
    server.compact()
    reply = api.ask("GET", CONFIGMAPS, limit=2, **{"continue": first["metadata"]["continue"]})
    assert (reply.code, reply.body["reason"]) == (410, "Expired")
    rest = api.get(CONFIGMAPS, **{"continue": reply.body["metadata"]["continue"]})
    assert [item["metadata"]["name"] for item in rest["items"]] == ["b", "c", "d"]


def test_bookmarks_tell_how_far_a_quiet_watch_is(server: ApiServer, api: Api) -> None:
    with api.watch(CONFIGMAPS, resourceVersion=version(api), allowWatchBookmarks="true") as events:
        server.put({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})
        server.bookmark()
        event = next(events)
    assert (event["type"], event["object"]["kind"]) == ("BOOKMARK", "ConfigMap")
    assert event["object"]["metadata"]["resourceVersion"] == server.get("nodes", "n")["metadata"]["resourceVersion"]


def test_bookmarks_come_by_themselves_and_only_to_those_who_want_them() -> None:
    with ApiServer(bookmark_seconds=0.02) as server, Api(server.url) as api:
        with api.watch(CONFIGMAPS, allowWatchBookmarks="true") as events:
            assert [next(events)["type"] for _ in range(3)] == ["BOOKMARK"] * 3
        with api.watch(CONFIGMAPS, timeoutSeconds=1) as events:
            assert list(events) == []


def test_a_watch_with_bookmarks_ends_with_one(server: ApiServer, api: Api) -> None:
    with api.watch(CONFIGMAPS, timeoutSeconds=1, allowWatchBookmarks="true") as events:
        assert [event["type"] for event in events] == ["BOOKMARK"]


def test_a_watch_can_be_struck_as_too_old(server: ApiServer, api: Api) -> None:
    server.faults.add(Fault(action=Gone(), verb="watch", resource="configmaps"))
    with api.watch(CONFIGMAPS, resourceVersion=version(api)) as events:
        assert expired(next(events))
    with api.watch(CONFIGMAPS, resourceVersion=version(api)) as events:
        server.put(configmap("a"))
        assert next(events)["type"] == "ADDED"


def test_a_watch_can_be_struck_to_end_after_some_events(server: ApiServer, api: Api) -> None:
    for name in "abc":
        server.put(configmap(name))
    server.faults.add(Fault(action=CloseWatch(events=2), verb="watch"))
    with api.watch(CONFIGMAPS) as events:
        assert [event["object"]["metadata"]["name"] for event in events] == ["a", "b"]


def test_a_watch_can_be_struck_to_break(server: ApiServer, api: Api) -> None:
    server.put(configmap("a"))
    server.faults.add(Fault(action=CloseWatch(events=1, abrupt=True), verb="watch"))
    with api.watch(CONFIGMAPS) as events, pytest.raises(HTTPError):
        list(events)


@pytest.mark.parametrize("abruptly", [False, True])
def test_open_watches_are_cut_on_demand(server: ApiServer, api: Api, abruptly: bool) -> None:
    with api.watch(CONFIGMAPS) as events:
        assert server.open_watches("configmaps") == 1
        assert server.cut_watches("nodes") == 0
        assert server.cut_watches("configmaps", abruptly=abruptly) == 1
        if abruptly:
            with pytest.raises(HTTPError):
                list(events)
        else:
            assert list(events) == []
    assert server.open_watches() == 0


def test_a_watch_is_forgotten_when_its_client_leaves(server: ApiServer, api: Api) -> None:
    with api.watch(CONFIGMAPS):
        assert server.open_watches() == 1
    wait_for(lambda: server.open_watches() == 0)


def test_a_pause_ends_watches_and_what_they_missed_can_be_had_after_it(server: ApiServer, api: Api) -> None:
    since = version(api)
    with api.watch(CONFIGMAPS, resourceVersion=since) as events:
        server.pause()
        with pytest.raises(HTTPError):
            list(events)
    server.put(configmap("a"))
    server.resume()
    with api.watch(CONFIGMAPS, resourceVersion=since) as events:
        assert next(events)["object"]["metadata"]["name"] == "a"


def test_watchers_see_what_several_threads_write_in_one_order(server: ApiServer, api: Api) -> None:
    server.put(configmap("end"))
    since = version(api)

    def write(number: int) -> None:
        for step in range(20):
            server.put(configmap(f"w{number}", str(step)))

    def seen() -> list[str]:
        with Api(server.url) as own, own.watch(CONFIGMAPS, resourceVersion=since) as events:
            found: list[str] = []
            for event in events:
                if event["object"]["metadata"]["name"] == "end":
                    return found
                found.append(json.dumps(event))
        raise AssertionError("the watch ended early")

    with ThreadPoolExecutor(8) as pool:
        watchers = [pool.submit(seen) for _ in range(4)]
        wait_for(lambda: server.open_watches() == 4)
        list(pool.map(write, range(3)))
        server.put(configmap("end", "now"))
        first, *others = [watcher.result(timeout=PATIENCE) for watcher in watchers]
    assert len(first) == 60
    assert all(other == first for other in others)


def test_writers_of_one_object_never_lose_an_update(server: ApiServer, api: Api) -> None:
    server.put(configmap("a", "0"))

    def count_up(_: int) -> None:
        with Api(server.url) as own:
            for _ in range(10):
                while True:
                    found = own.get(f"{CONFIGMAPS}/a")
                    found["data"]["text"] = str(int(found["data"]["text"]) + 1)
                    if own.ask("PUT", f"{CONFIGMAPS}/a", found).code == 200:
                        break

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(count_up, range(4)))
    assert server.get("configmaps", "a")["data"]["text"] == "40"


def test_nothing_is_left_when_the_server_has_stopped() -> None:
    before = threading.active_count()
    with ApiServer() as server, Api(server.url) as api:
        api.get(CONFIGMAPS)
    assert threading.active_count() == before
    server.stop()
