"""What a store keeps and hands out."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from hami_plugins.kube.port import ListPage, Selection, WatchEvent
from hami_plugins.kube.reflector import Backoff, ObjectChange
from hami_plugins.kube.store import Store
from tests.unit.kube.scripted import ScriptedApi, an_object
from tests.waiting import PATIENCE

PODS = Selection("/api/v1/pods", "Pod")


def followed(api: ScriptedApi, *subscribers: list[ObjectChange]) -> Store:
    store = Store(api, PODS, name="test", trim=lambda item: {"name": item["metadata"]["name"]}, backoff=Backoff(0, 0))
    for told in subscribers:
        store.subscribe(told.append)
    with store:
        assert api.done.wait(PATIENCE)
    return store


def test_trimmed_objects_are_found_by_uid_and_by_name() -> None:
    store = followed(ScriptedApi([[ListPage([an_object("a", 1), an_object("b", 2)], "5")]]))
    assert store.get("uid-a") == store.by_name("ns", "a") == {"name": "a"}
    assert store.all() == ({"name": "a"}, {"name": "b"})
    assert (store.get("x"), store.by_name("ns", "x"), store.by_name("", "a")) == (None, None, None)
    assert store.synced.is_set()


def test_a_deletion_comes_with_what_was_kept() -> None:
    told: list[ObjectChange] = []
    api = ScriptedApi([[ListPage([an_object("a", 1)], "5")]], [[WatchEvent("DELETED", an_object("a", 6))]])
    store = followed(api, told)
    assert told[-1] == ObjectChange("deleted", {"name": "a"}, "uid-a")
    assert (len(store), store.by_name("ns", "a")) == (0, None)


@pytest.mark.parametrize("deleted_first", [True, False])
def test_a_name_belongs_to_its_newest_object_in_whatever_order_the_news_come(deleted_first: bool) -> None:
    news = [WatchEvent("DELETED", an_object("a", 6, "old")), WatchEvent("ADDED", an_object("a", 7, "new", fresh=True))]
    api = ScriptedApi([[ListPage([an_object("a", 1, "old")], "5")]], [news if deleted_first else news[::-1]])
    store = followed(api)
    assert store.by_name("ns", "a") is store.get("new") is not None
    assert len(store) == 1


def test_a_late_subscriber_is_told_what_is_there() -> None:
    store = followed(ScriptedApi([[ListPage([an_object("a", 1)], "5")]]))
    told: list[ObjectChange] = []
    store.subscribe(told.append)
    assert told == [ObjectChange("added", {"name": "a"}, "uid-a"), ObjectChange("synced", None, "")]


def test_a_subscriber_that_fails_takes_nothing_from_the_others() -> None:
    def fail(change: ObjectChange) -> None:
        raise ValueError(change.uid)

    api = ScriptedApi([[ListPage([an_object("a", 1)], "5")]])
    store = Store(api, PODS, name="test")
    told: list[ObjectChange] = []
    store.subscribe(fail)
    store.subscribe(told.append)
    with capture_logs() as logs, store:
        assert api.done.wait(PATIENCE)
    assert [change.kind for change in told] == ["added", "synced"]
    assert store.reflector.handler_errors == 2
    assert {line["event"] for line in logs} == {"change_handler_failed"}
