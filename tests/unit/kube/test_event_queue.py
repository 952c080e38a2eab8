"""What waits to be told: added up, bounded, at a limited rate."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from hami_plugins.kube.event_queue import EventKey, EventLimits, EventQueue, ObjectRef, PendingEvent

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
LIMITS = EventLimits(burst=2, seconds_per_write=10.0, waiting=3)


def saying(message: str) -> EventKey:
    return EventKey(ObjectRef("Pod", "p", "uid-p", "ns"), "Refused", message, "Warning")


def pending(minute: int = 0, *, due: float = 0.0, tries: int = 0) -> PendingEvent:
    moment = NOON + timedelta(minutes=minute)
    return PendingEvent(count=1, first=moment, last=moment, due=due, tries=tries)


def test_the_same_saying_is_added_up() -> None:
    queue = EventQueue(LIMITS, at=0)
    for minute in (1, 0, 2):
        assert queue.put(saying("a"), pending(minute))
    assert queue.take(0) == (
        saying("a"),
        PendingEvent(count=3, first=NOON, last=NOON + timedelta(minutes=2)),
    )
    assert queue.take(0) is None


def test_a_new_saying_finds_no_room_where_too_many_wait_and_an_old_one_does() -> None:
    queue = EventQueue(LIMITS, at=0)
    assert [queue.put(saying(each), pending()) for each in "abcda"] == [True, True, True, False, True]


def test_after_a_burst_the_rate_is_limited() -> None:
    queue = EventQueue(LIMITS, at=0)
    for each in "abc":
        queue.put(saying(each), pending())
    assert [queue.take(0) is not None for _ in range(3)] == [True, True, False]
    assert queue.wait(4) == 6
    assert queue.take(9.9) is None
    assert queue.take(10) is not None
    assert queue.wait(10) is None


def test_what_is_not_due_lets_others_go_first() -> None:
    queue = EventQueue(LIMITS, at=0)
    queue.put(saying("failed"), pending(due=5, tries=1))
    queue.put(saying("new"), pending())
    taken = queue.take(0)
    assert taken is not None
    assert taken[0] == saying("new")
    assert queue.take(0) is None
    assert queue.wait(0) == 5
    assert queue.take(5) is not None


def test_an_idle_queue_saves_up_no_more_than_a_burst() -> None:
    queue = EventQueue(LIMITS, at=0)
    for each in "abc":
        queue.put(saying(each), pending())
    assert [queue.take(1_000_000) is not None for _ in range(3)] == [True, True, False]


@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.floats(0, 30)), max_size=60))
def test_whatever_comes_nothing_is_lost_but_what_was_refused_and_no_rate_is_exceeded(
    history: list[tuple[str, float]],
) -> None:
    queue, at, refused, taken, count = EventQueue(LIMITS, at=0), 0.0, 0, 0, 0
    for message, pause in history:
        at += pause
        refused += not queue.put(saying(message), pending())
        if (turn := queue.take(at)) is not None:
            taken, count = taken + 1, count + turn[1].count
        assert taken <= LIMITS.burst + at / LIMITS.seconds_per_write
    while (wait := queue.wait(at)) is not None:
        at += wait + 1e-6
        turn = queue.take(at)
        assert turn is not None
        count += turn[1].count
    assert count + refused == len(history)
