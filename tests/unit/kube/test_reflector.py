"""A reflector's reports of lists and watches, and its reaction to faults."""

from __future__ import annotations

import itertools
import math
import random
import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from hami_plugins.errors import KubeError
from hami_plugins.kube.port import ListPage, Selection, WatchEvent
from hami_plugins.kube.reflector import Backoff, ObjectChange, Reflector
from tests.unit.kube.scripted import ScriptedApi, an_object, expired, torn
from tests.waiting import PATIENCE

PODS = Selection("/api/v1/pods", "Pod")
AT_ONCE = Backoff(first=0, most=0)


def follow(
    api: ScriptedApi, on_change: Callable[[ObjectChange], None] | None = None, selection: Selection = PODS
) -> tuple[Reflector, list[tuple[str, str]]]:
    """A reflector after all events of ``api``, stopped, and its reports."""
    told: list[tuple[str, str]] = []

    def note(change: ObjectChange) -> None:
        told.append((change.kind, change.uid))
        if on_change is not None:
            on_change(change)

    with Reflector(api, selection, on_change=note, name="test", backoff=AT_ONCE) as reflector:
        assert api.done.wait(PATIENCE)
    return reflector, told


def test_an_event_about_what_is_known_already_is_not_told_again() -> None:
    api = ScriptedApi(
        [[ListPage([an_object("a", 1)], "5")]],
        [[WatchEvent("ADDED", an_object("a", 1)), WatchEvent("MODIFIED", an_object("a", 6))]],
    )
    assert follow(api)[1] == [("added", "uid-a"), ("synced", ""), ("modified", "uid-a")]


def test_an_object_that_is_news_is_added_whatever_the_event_says() -> None:
    api = ScriptedApi(
        [[ListPage([], "5")]],
        [
            [
                WatchEvent("MODIFIED", an_object("a", 6)),
                WatchEvent("ADDED", an_object("a", 7)),
                WatchEvent("DELETED", an_object("b", 8)),
                WatchEvent("DELETED", an_object("a", 9)),
            ]
        ],
    )
    told = follow(api)[1]
    assert told == [("synced", ""), ("added", "uid-a"), ("modified", "uid-a"), ("deleted", "uid-a")]


def test_an_object_without_a_version_is_told_each_time() -> None:
    api = ScriptedApi([[ListPage([an_object("a", "")], "5")]], [[WatchEvent("MODIFIED", an_object("a", ""))]])
    assert follow(api)[1] == [("added", "uid-a"), ("synced", ""), ("modified", "uid-a")]


def test_a_watch_goes_on_from_the_last_version_seen() -> None:
    bookmark = WatchEvent("BOOKMARK", {"metadata": {"resourceVersion": "9"}})
    api = ScriptedApi([[ListPage([], "5")]], [[WatchEvent("ADDED", an_object("a", 7)), torn()], [bookmark, torn()]])
    reflector, _ = follow(api)
    assert api.watched == ["5", "7", "9"]
    assert (reflector.restarts, reflector.lists) == (2, 1)


def test_only_an_expired_version_asks_for_a_new_list() -> None:
    page = [ListPage([an_object("a", 1)], "5")]
    api = ScriptedApi([page, page], [[torn()], [torn()], [expired()]])
    reflector, told = follow(api)
    assert reflector.lists == 2
    assert told == [("added", "uid-a"), ("synced", "")]


def test_a_watch_that_says_nothing_for_minutes_is_followed_by_a_list() -> None:
    """A server that was restored from a backup waits in silence for a version that it does not know yet."""
    api = ScriptedApi(
        [[ListPage([an_object("a", 120)], "150")], [ListPage([an_object("a", 90, text="then")], "90")]],
        [[torn()], [WatchEvent("MODIFIED", an_object("a", 91))]],
    )
    seen: list[ObjectChange] = []
    minutes = itertools.count(step=200.0)
    with Reflector(
        api, PODS, on_change=seen.append, name="test", backoff=AT_ONCE, clock=lambda: next(minutes)
    ) as reflector:
        assert api.done.wait(PATIENCE)
    assert reflector.lists == 2
    assert [(each.kind, each.listed) for each in seen if each.object] == [
        ("added", False),
        ("modified", True),
        ("modified", False),
    ]


def test_a_watch_that_said_something_is_followed_by_another_watch_however_long_it_was() -> None:
    api = ScriptedApi([[ListPage([], "5")]], [[WatchEvent("ADDED", an_object("a", 7)), torn()]])
    minutes = itertools.count(step=200.0)
    with Reflector(
        api, PODS, on_change=lambda _: None, name="test", backoff=AT_ONCE, clock=lambda: next(minutes)
    ) as reflector:
        assert api.done.wait(PATIENCE)
    assert reflector.lists == 1


def test_what_a_watch_has_reached_counts_when_versions_go_back() -> None:
    events: list[WatchEvent | Exception] = [
        WatchEvent("BOOKMARK", {"metadata": {"resourceVersion": "200"}}),
        expired(),
    ]
    api = ScriptedApi([[ListPage([an_object("a", 80)], "150")], [ListPage([an_object("a", 80)], "160")]], [events])
    assert follow(api)[1] == [("added", "uid-a"), ("synced", ""), ("modified", "uid-a")]


def test_a_list_that_goes_back_tells_everything_again() -> None:
    """Versions are given out anew after a restore: the same one need not be the same object."""
    api = ScriptedApi(
        [[ListPage([an_object("a", 80), an_object("b", 120)], "150")], [ListPage([an_object("a", 80)], "90")]],
        [[expired()]],
    )
    seen: list[ObjectChange] = []
    with Reflector(api, PODS, on_change=seen.append, name="test", backoff=AT_ONCE):
        assert api.done.wait(PATIENCE)
    told = [(each.kind, each.uid, each.listed) for each in seen if each.kind != "synced"]
    assert told == [
        ("added", "uid-a", False),
        ("added", "uid-b", False),
        ("deleted", "uid-b", True),
        ("modified", "uid-a", True),
    ]


def test_a_list_from_the_servers_memory_is_allowed_once() -> None:
    page = [ListPage([an_object("a", 1)], "5")]
    api = ScriptedApi([page, page], [[expired()]])
    follow(api, selection=Selection("/api/v1/pods", "Pod", cached=True))
    assert api.listed == ["0", ""]


def test_a_list_that_fails_between_pages_is_begun_again_and_nothing_told_twice() -> None:
    class Torn(list[ListPage]):
        def __iter__(self) -> Any:
            yield ListPage([an_object("a", 1), an_object("b", 2)], "5")
            raise expired()

    api = ScriptedApi([Torn(), [ListPage([an_object("a", 1), an_object("c", 6)], "7")]])
    assert follow(api)[1] == [
        ("added", "uid-a"),
        ("added", "uid-b"),
        ("deleted", "uid-b"),
        ("added", "uid-c"),
        ("synced", ""),
    ]


@pytest.mark.parametrize("bad", [5, None, "text", {}, {"metadata": None}, {"metadata": {"name": "x", "uid": 7}}])
def test_a_malformed_object_is_counted_and_hides_nothing(bad: Any) -> None:
    api = ScriptedApi(
        [[ListPage([bad, an_object("a", 1), bad], "5")]],
        [[WatchEvent("ADDED", bad), WatchEvent("ADDED", an_object("b", 6))]],
    )
    with capture_logs() as logs:
        reflector, told = follow(api)
    assert told == [("added", "uid-a"), ("synced", ""), ("added", "uid-b")]
    assert reflector.malformed == 3
    assert [line["event"] for line in logs] == ["object_skipped"]


def test_a_handler_that_fails_is_logged_and_told_the_next_change() -> None:
    def handle(change: ObjectChange) -> None:
        if change.uid == "uid-a":
            raise KeyError("a")

    api = ScriptedApi(
        [[ListPage([an_object("a", 1), an_object("b", 2)], "5")]], [[WatchEvent("DELETED", an_object("a", 6))]]
    )
    with capture_logs() as logs:
        reflector, told = follow(api, handle)
    assert told == [("added", "uid-a"), ("added", "uid-b"), ("synced", ""), ("deleted", "uid-a")]
    assert (reflector.handler_errors, reflector.missed) == (2, 1)
    assert [(line["event"], line["uid"], type(line["exc_info"])) for line in logs] == [
        ("change_handler_failed", "uid-a", KeyError),
        ("change_handler_failed", "uid-a", KeyError),
    ]


BOOKMARK = WatchEvent("BOOKMARK", {"metadata": {"resourceVersion": "9"}})


def missing(failures: int, watches: list[list[WatchEvent | Exception]]) -> tuple[Reflector, list[tuple[str, str]]]:
    """A reflector whose handler fails so many times at a pod in its first list; a second passes between any two looks
    at the clock."""
    left, clock = [failures], itertools.count(0.0)

    def handle(change: ObjectChange) -> None:
        if change.uid == "uid-a" and left[0]:
            left[0] -= 1
            raise KeyError("a")

    page = [ListPage([an_object("a", 1)], "5")]
    api = ScriptedApi([page, page], watches)
    told: list[tuple[str, str]] = []

    def note(change: ObjectChange) -> None:
        told.append((change.kind, change.uid))
        handle(change)

    with Reflector(api, PODS, on_change=note, name="test", backoff=AT_ONCE, clock=lambda: next(clock)) as reflector:
        assert api.done.wait(PATIENCE)
    return reflector, told


@pytest.mark.parametrize("again", [BOOKMARK, WatchEvent("ADDED", an_object("b", 6))], ids=["bookmark", "another"])
def test_what_a_handler_could_not_bear_is_told_again_with_the_next_event(again: WatchEvent) -> None:
    with capture_logs() as logs:
        reflector, told = missing(2, [[again]])
    assert told.count(("added", "uid-a")) == 3
    assert (reflector.handler_errors, reflector.missed) == (2, 0)
    assert [line["event"] for line in logs] == ["change_handler_failed", "change_taken_late"]


def test_what_a_handler_could_not_bear_is_told_again_after_a_list() -> None:
    reflector, told = missing(2, [[expired()]])
    assert told == [("added", "uid-a")] * 2 + [("synced", ""), ("added", "uid-a")]
    assert reflector.missed == 0


def test_a_newer_change_takes_the_place_of_one_that_a_handler_could_not_bear() -> None:
    reflector, told = missing(2, [[WatchEvent("DELETED", an_object("a", 6)), BOOKMARK]])
    assert told == [("added", "uid-a")] * 2 + [("synced", ""), ("deleted", "uid-a")]
    assert reflector.missed == 0


def test_within_a_second_nothing_is_told_again() -> None:
    def handle(change: ObjectChange) -> None:
        raise KeyError(change.uid)

    told: list[str] = []

    def note(change: ObjectChange) -> None:
        told.append(change.uid)
        handle(change)

    api = ScriptedApi([[ListPage([an_object("a", 1)], "5")]], [[BOOKMARK, BOOKMARK]])
    with Reflector(api, PODS, on_change=note, name="test", backoff=AT_ONCE, clock=lambda: 7.0) as reflector:
        assert api.done.wait(PATIENCE)
    assert told == ["uid-a", ""]
    assert reflector.missed == 2


def test_a_broken_api_does_not_end_the_loop() -> None:
    api = ScriptedApi([[ListPage([], "5")]], [[ZeroDivisionError("bug")], [WatchEvent("ADDED", an_object("a", 6))]])
    with capture_logs() as logs:
        _, told = follow(api)
    assert told == [("synced", ""), ("added", "uid-a")]
    assert logs[0]["event"] == "reflector_failed"


def test_a_failure_that_goes_on_is_logged_ever_more_seldom_and_another_one_at_once() -> None:
    errors = [*["forbidden"] * 39, "other"]
    with capture_logs() as logs:
        follow(ScriptedApi([*(KubeError(error) for error in errors), [ListPage([], "5")]]))
    assert [(line["failures"], line["error"]) for line in logs] == [
        *((failures, "forbidden") for failures in (1, 2, 4, 8, 16, 32)),
        (40, "other"),
    ]


def test_a_server_that_ends_every_watch_at_once_is_not_asked_without_a_pause() -> None:
    stop = threading.Event()

    class Impatient(ScriptedApi):
        def watch(self, *args: Any, **kwargs: Any) -> Any:
            self.watched.append(kwargs["since"])
            if len(self.watched) == 3:
                stop.set()
            return iter(())

    api = Impatient([[ListPage([], "5")]])
    with Reflector(api, PODS, on_change=lambda change: None, name="test", backoff=AT_ONCE) as reflector:
        assert stop.wait(PATIENCE)
    assert reflector.restarts >= 2
    assert "ends it immediately" in reflector.last_error


def test_health_ends_when_the_server_is_out_of_reach_for_too_long() -> None:
    now = [0.0]
    failed, go_on = threading.Event(), threading.Event()

    class Away(ScriptedApi):
        def watch(self, *args: Any, **kwargs: Any) -> Any:
            self.watched.append(kwargs["since"])
            if len(self.watched) == 1:
                raise torn()
            failed.set()
            go_on.wait(PATIENCE)
            return super().watch(*args, **kwargs)

    api = Away([[ListPage([], "5")]])
    reflector = Reflector(
        api,
        PODS,
        on_change=lambda change: None,
        name="test",
        backoff=AT_ONCE,
        unhealthy_after=60,
        clock=lambda: now[0],
    )
    assert not reflector.healthy
    with reflector:
        assert failed.wait(PATIENCE)
        assert (reflector.healthy, reflector.last_contact) == (True, 0.0)
        now[0] = 60.0
        assert not reflector.healthy
        go_on.set()
        assert api.done.wait(PATIENCE)
        assert (reflector.healthy, reflector.last_contact) == (True, 60.0)
    assert not reflector.healthy


@pytest.mark.parametrize(
    ("second", "event", "told_until"),
    [
        (40.0, WatchEvent("ADDED", an_object("a", 7)), 10.0),
        (45.0, WatchEvent("ADDED", an_object("a", 7)), 45.0),
        (41.0, WatchEvent("BOOKMARK", {"metadata": {"resourceVersion": "9"}}), 41.0),
    ],
    ids=["at once", "later", "bookmark"],
)
def test_after_an_interruption_what_comes_at_once_may_be_old(
    second: float, event: WatchEvent, told_until: float
) -> None:
    now = [10.0]

    class Timed(ScriptedApi):
        def watch(self, *args: Any, **kwargs: Any) -> Any:
            now[0] = 40.0
            for each in super().watch(*args, **kwargs):
                now[0] = second
                yield each

    api = Timed([[ListPage([], "5")]], [[torn()], [event]])
    reflector = Reflector(api, PODS, on_change=lambda _: None, name="test", backoff=AT_ONCE, clock=lambda: now[0])
    assert reflector.told_until == -math.inf
    with reflector:
        assert api.done.wait(PATIENCE)
    assert (reflector.last_contact, reflector.told_until) == (second, told_until)


def test_a_list_from_the_servers_memory_may_be_old() -> None:
    api = ScriptedApi([[ListPage([], "5")]])
    reflector, _ = follow(api, selection=Selection("/api/v1/pods", "Pod", cached=True))
    assert reflector.told_until == -math.inf


@given(st.integers(1, 5000), st.floats(0.001, 10), st.floats(0.001, 1000), st.integers())
def test_a_pause_is_between_half_and_all_of_what_is_due(failures: int, first: float, most: float, seed: int) -> None:
    due = min(most, first * 2.0 ** min(failures - 1, 30))
    assert due / 2 <= Backoff(first, most).pause(failures, random.Random(seed)) <= due
