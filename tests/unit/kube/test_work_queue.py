"""Names that are to be looked at: each once at a time, the earliest time counts."""

from __future__ import annotations

import threading

from hami_plugins.kube.work_queue import WorkQueue
from tests.waiting import PATIENCE, wait_for


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_name_that_is_put_in_twice_is_taken_once() -> None:
    queue = WorkQueue()
    queue.put("a")
    queue.put("a")
    queue.put("b")
    assert [queue.take(), queue.take(), len(queue)] == ["a", "b", 0]


def test_what_is_put_in_while_it_is_worked_on_comes_again_when_that_is_done() -> None:
    queue = WorkQueue()
    queue.put("a")
    assert queue.take() == "a"
    queue.put("a")
    queue.put("b")
    assert queue.take() == "b"
    queue.done("a")
    assert queue.take() == "a"
    queue.done("a")
    assert len(queue) == 0


def test_of_several_times_the_earliest_counts() -> None:
    clock = Clock()
    queue = WorkQueue(clock=clock)
    queue.put("late", after=10)
    queue.put("a", after=5)
    queue.put("a", after=1)
    queue.put("a", after=20)
    clock.now = 2.0
    assert queue.take() == "a"
    queue.done("a")
    clock.now = 11.0
    assert [queue.take(), len(queue)] == ["late", 0]


def test_who_waits_is_woken_by_a_name_and_by_the_end() -> None:
    queue = WorkQueue()
    taken: list[str | None] = []

    def work() -> None:
        while (name := queue.take()) is not None:
            taken.append(name)
            queue.done(name)
        taken.append(None)

    worker = threading.Thread(target=work)
    worker.start()
    queue.put("soon", after=0.01)
    queue.put("now")
    wait_for(lambda: len(taken) == 2)
    queue.end()
    worker.join(PATIENCE)
    assert taken == ["now", "soon", None]


def test_after_the_end_nothing_is_taken() -> None:
    queue = WorkQueue()
    queue.put("a")
    queue.end()
    assert queue.take() is None


def test_no_name_is_worked_on_twice_at_a_time_and_none_is_lost() -> None:
    queue = WorkQueue()
    busy: set[str] = set()
    met: list[str] = []
    done: dict[str, int] = {}
    lock = threading.Lock()

    def work() -> None:
        while (name := queue.take()) is not None:
            with lock:
                if name in busy:
                    met.append(name)
                busy.add(name)
                done[name] = done.get(name, 0) + 1
            with lock:
                busy.discard(name)
            queue.done(name)

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for turn in range(2_000):
        queue.put(f"n{turn % 7}")
    wait_for(lambda: not queue)
    queue.end()
    for worker in workers:
        worker.join(PATIENCE)
    assert not met
    assert set(done) == {f"n{at}" for at in range(7)}
