"""How many pods are read for calls that anybody may make."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from hami_plugins.allocator.reader import RateLimitedRead, reading
from hami_plugins.errors import KubeError
from hami_plugins.wire.fields import Json
from tests.waiting import PATIENCE


def test_a_pod_that_is_not_there_is_nothing_and_any_other_error_is_one() -> None:
    errors = [KubeError("gone", status=404), KubeError("forbidden", status=403)]

    def get(path: str) -> Json:
        if errors:
            raise errors.pop(0)
        return {"path": path}

    reads: list[None] = []
    read = reading(get, on_read=lambda: reads.append(None))
    assert read("x", "p") is None
    with pytest.raises(KubeError, match="forbidden"):
        read("x", "p")
    assert read("x", "p") == {"path": "/api/v1/namespaces/x/pods/p"}
    assert len(reads) == 3


def test_in_each_second_so_many_pods_are_read_and_no_more() -> None:
    now, asked = [7.0], []

    def read(namespace: str, name: str) -> Json | None:
        asked.append((namespace, name))
        return None

    rationed = RateLimitedRead(read, clock=lambda: now[0], a_second=2)
    rationed("x", "a")
    now[0] = 7.9
    rationed("x", "b")
    with pytest.raises(KubeError, match="too many pods"):
        rationed("x", "c")
    now[0] = 8.0
    rationed("x", "d")
    assert [name for _, name in asked] == ["a", "b", "d"]


def test_so_many_pods_are_read_at_once_and_no_more() -> None:
    inside, go_on = threading.Semaphore(0), threading.Event()

    def read(_namespace: str, _name: str) -> Json | None:
        inside.release()
        assert go_on.wait(PATIENCE)
        return None

    rationed = RateLimitedRead(read, clock=lambda: 0.0, at_once=2)
    with ThreadPoolExecutor(2) as pool:
        running = [pool.submit(rationed, "x", name) for name in "ab"]
        for _ in running:
            assert inside.acquire(timeout=PATIENCE)
        with pytest.raises(KubeError, match="too many pods"):
            rationed("x", "c")
        go_on.set()
        assert [each.result(PATIENCE) for each in running] == [None, None]
    assert rationed("x", "d") is None
