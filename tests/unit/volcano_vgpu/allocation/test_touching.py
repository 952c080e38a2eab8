"""When nodes are written: soon, together, and each seldom enough for the scheduler that has to count it anew."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from structlog.testing import capture_logs

from hami_plugins.allocator.metrics import AllocatorMetrics
from hami_plugins.allocator.node_writer import SPARED, Toucher
from hami_plugins.errors import KubeError
from hami_plugins.kube import paths
from hami_plugins.model.units import NodeName
from hami_plugins.wire.fields import Json
from tests.waiting import PATIENCE

ONE, OTHER = NodeName("one"), NodeName("other")


@dataclass
class Api:
    """Records the written nodes; fails as often as requested."""

    failures: int = 0
    odd: bool = False
    now: float = 100.0
    written: list[str] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def merge_patch(self, path: str, _body: Json) -> Json:
        with self.changed:
            if self.odd:
                self.odd = False
                raise LookupError("odd")
            if self.failures:
                self.failures -= 1
                self.changed.notify_all()
                raise KubeError("busy", status=503, retryable=True)
            self.written.append(path)
            self.changed.notify_all()
        return {}

    def clock(self) -> float:
        return self.now

    def wait(self, *nodes: NodeName) -> None:
        """Until just these have been written, in this order."""
        wanted = [paths.node(node) for node in nodes]
        self.wait_for(len(wanted))
        assert self.written == wanted

    def wait_for(self, writes: int) -> None:
        """Until so many writes have been made."""
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.written) >= writes, PATIENCE)


@pytest.fixture
def api() -> Api:
    return Api()


@pytest.fixture
def toucher(api: Api) -> Iterator[Toucher]:
    made = Toucher(api, interval=0.001, metrics=AllocatorMetrics(), clock=api.clock)  # type: ignore[arg-type]
    made.start()
    yield made
    made.stop()


def test_a_node_is_written_again_only_after_a_second(api: Api, toucher: Toucher) -> None:
    toucher.touch(ONE)
    api.wait(ONE)
    toucher.touch(ONE)
    toucher.touch(OTHER)
    api.wait(ONE, OTHER)
    api.now += SPARED
    api.wait(ONE, OTHER, ONE)


def test_a_write_that_failed_is_made_a_second_later(api: Api, toucher: Toucher) -> None:
    api.failures = 1
    toucher.touch(ONE)
    with api.changed:
        assert api.changed.wait_for(lambda: not api.failures, PATIENCE)
    toucher.touch(OTHER)
    api.wait(OTHER)
    api.now += SPARED
    api.wait(OTHER, ONE)


def test_what_all_nodes_fail_of_stands_in_the_log_once_until_one_is_written(api: Api, toucher: Toucher) -> None:
    with capture_logs() as logs:
        for written in (2, 4):
            api.failures = 2
            toucher.touch(ONE)
            toucher.touch(OTHER)
            with api.changed:
                assert api.changed.wait_for(lambda: not api.failures, PATIENCE)
            api.now += SPARED
            api.wait_for(written)
            api.now += SPARED
    assert [line["event"] for line in logs] == ["node_not_touched"] * 2


def test_whatever_goes_wrong_with_one_node_the_next_is_written(api: Api, toucher: Toucher) -> None:
    api.odd = True
    toucher.touch(ONE)
    toucher.touch(OTHER)
    api.wait(OTHER)


def test_the_end_waits_for_one_write_and_not_for_all_that_are_due() -> None:
    began, let = threading.Event(), threading.Event()

    class Slow(Api):
        """Takes its time with each write."""

        def merge_patch(self, path: str, body: Json) -> Json:
            began.set()
            let.wait(PATIENCE)
            return super().merge_patch(path, body)

    api = Slow()
    toucher = Toucher(api, interval=0.05, metrics=AllocatorMetrics(), clock=api.clock)  # type: ignore[arg-type]
    for node in (ONE, OTHER):
        toucher.touch(node)
    toucher.start()
    assert began.wait(PATIENCE)
    stopping = threading.Thread(target=toucher.stop)
    stopping.start()
    stopping.join(0.5)  # it has begun, and waits for the write
    let.set()
    stopping.join()
    api.wait(ONE)
