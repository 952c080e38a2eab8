"""A store sees what the server has, whatever happens on the way."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_plugins.errors import HamiPluginsError
from hami_plugins.kube import paths
from hami_plugins.kube.client import KubeClient, connect_to
from hami_plugins.kube.port import Selection
from hami_plugins.kube.reflector import Backoff, ObjectChange
from hami_plugins.kube.store import Store
from hami_plugins.sandbox.apiserver import ApiServer, CloseWatch, DropConnection, Fault, Gone, Refuse
from hami_plugins.wire.fields import Json
from tests.waiting import PATIENCE, wait_for

PODS = Selection(paths.PODS, "Pod")
QUICK = Backoff(first=0.001, most=0.01)

names = st.sampled_from(["a", "b", "c", "d"])
faults = st.sampled_from(
    [
        Fault(action=Gone(), verb="watch"),
        Fault(action=CloseWatch(1), verb="watch"),
        Fault(action=CloseWatch(2, abrupt=True), verb="watch"),
        Fault(action=Refuse(503), verb="watch", times=2),
        Fault(action=Refuse(429), verb="list"),
        Fault(action=Refuse(500), verb="list", times=6),
        Fault(action=DropConnection(), verb="list"),
        Fault(action=DropConnection(handled=True), verb="list"),
        Fault(action=DropConnection(), verb="watch"),
    ]
)
steps = st.one_of(
    st.tuples(st.just("create"), names),
    st.tuples(st.just("touch"), names),
    st.tuples(st.just("delete"), names),
    st.tuples(st.just("recreate"), names),
    st.tuples(st.just("fault"), faults),
    st.sampled_from([("compact", ""), ("cut", ""), ("cut abruptly", ""), ("bookmark", ""), ("catch up", "")]),
)


class Told:
    """A subscriber's state from its changes; fails on impossible ones."""

    def __init__(self) -> None:
        self.view: dict[str, Json] = {}
        self.wrong: list[str] = []

    def __call__(self, change: ObjectChange) -> None:
        known = change.uid in self.view
        match change.kind:
            case "added" | "modified" if change.object is not None:
                if known != (change.kind == "modified") or self.view.get(change.uid) == change.object:
                    self.wrong.append(f"{change.kind} {change.uid}")
                self.view[change.uid] = change.object
            case "deleted":
                if self.view.pop(change.uid, None) != change.object:
                    self.wrong.append(f"deleted {change.uid}")
            case _:
                pass


class Cluster:
    """An embedded server, and what may happen to it."""

    def __init__(self, server: ApiServer, store: Store) -> None:
        self.server = server
        self._store = store
        self._writes = 0

    def take(self, what: str, argument: object) -> None:
        match what, argument:
            case (("create" | "touch"), str(name)):
                self._put(name)
            case "delete", str(name):
                self._delete(name)
            case "recreate", str(name):
                self._delete(name)
                self._put(name)
            case "fault", Fault() as fault:
                self.server.faults.add(fault)
            case "compact", _:
                self.server.compact()
            case (("cut" | "cut abruptly"), _):
                self.server.cut_watches(abruptly=what == "cut abruptly")
            case "bookmark", _:
                self.server.bookmark()
            case _:
                self.catch_up()

    def catch_up(self) -> None:
        wait_for(lambda: view(self._store.all()) == self.there())

    def there(self) -> dict[str, tuple[str, str]]:
        return view(self.server.objects("pods", "default"))

    def _put(self, name: str) -> None:
        self._writes += 1
        metadata = {"name": name, "namespace": "default", "annotations": {"write": str(self._writes)}}
        containers = [{"name": "main", "image": "none"}]
        self.server.put({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers}})

    def _delete(self, name: str) -> None:
        with contextlib.suppress(HamiPluginsError):
            self.server.delete("pods", name, "default", grace=0)


def view(objects: Iterable[Json]) -> dict[str, tuple[str, str]]:
    """UID and version by name: all that two sides have to agree on."""
    return {
        item["metadata"]["name"]: (item["metadata"]["uid"], item["metadata"]["resourceVersion"]) for item in objects
    }


def test_a_store_sees_what_the_server_has_after_any_history(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hami_plugins.kube.interrupter._TICK", 0.01)

    @given(st.lists(steps, max_size=25))
    def check(history: list[tuple[str, object]]) -> None:
        for pod in server.objects("pods"):
            server.delete("pods", pod["metadata"]["name"], "default", grace=0)
        _follow(server, client, history)
        server.faults.clear()

    with ApiServer() as server, contextlib.closing(replace(connect_to(server.url), attempts=1)) as client:
        check()


def _follow(server: ApiServer, client: KubeClient, history: list[tuple[str, object]]) -> None:
    store, told = Store(client, PODS, name="pods", backoff=QUICK, page_size=2), Told()
    store.subscribe(told)
    with store:
        cluster = Cluster(server, store)
        for what, argument in history:
            cluster.take(what, argument)
        cluster.catch_up()
        assert store.synced.wait(PATIENCE)
        for name, (uid, _) in cluster.there().items():
            kept = store.by_name("default", name)
            assert kept is not None
            assert kept["metadata"]["uid"] == uid
    assert told.wrong == []
    assert told.view == {item["metadata"]["uid"]: item for item in store.all()}
    assert store.reflector.handler_errors == store.reflector.malformed == 0
