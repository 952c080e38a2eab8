"""The node lock annotation."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_plugins.errors import WireError
from hami_plugins.wire import node_lock
from hami_plugins.wire.node_lock import NodeLock
from tests.unit.wire import mutations

KEY = "hami.io/mutex.lock"

names = st.text("abc-.0", min_size=1, max_size=10)
offsets = st.integers(-23 * 60, 23 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
# Away from the ends of the calendar, so that no offset leads out of it.
moments = st.builds(
    lambda zone, seconds: datetime(2026, 1, 1, tzinfo=zone) + timedelta(seconds=seconds),
    offsets,
    st.integers(-(10**10), 10**10),
)
locks = st.one_of(moments.map(NodeLock), st.builds(NodeLock, moments, names, names))


@given(locks)
def test_parse_undoes_encode(lock: NodeLock) -> None:
    read = node_lock.parse(KEY, node_lock.encode(lock))
    assert read == lock
    assert read.since.utcoffset() == lock.since.utcoffset()


def test_the_text_is_what_hami_writes() -> None:
    at = datetime(2026, 8, 14, 9, 31, 7, 5, tzinfo=timezone(timedelta(hours=8)))
    assert node_lock.encode(NodeLock(at, "default", "gpu-pod-1")) == "2026-08-14T09:31:07+08:00,default,gpu-pod-1"
    assert node_lock.encode(NodeLock(at.astimezone(UTC))) == "2026-08-14T01:31:07Z"


@given(locks)
def test_an_exact_text_loses_nothing_of_the_time(lock: NodeLock) -> None:
    exact = lock._replace(since=lock.since.replace(microsecond=123_000))
    text = node_lock.encode(exact, exact=True)
    assert node_lock.parse(KEY, text) == exact
    assert ".123000" in text


def test_fractions_of_seconds_are_read() -> None:
    assert node_lock.parse(KEY, "2026-08-14T09:31:07.5Z").since.microsecond == 500_000


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not an RFC 3339 time"),
        ("lock", "not an RFC 3339 time"),
        ("2026-08-14 09:31:07Z", "not an RFC 3339 time"),
        ("2026-08-14T09:31:07", "not an RFC 3339 time"),
        ("2026-02-30T09:31:07Z", "not an RFC 3339 time: day is out of range"),
        ("2026-08-14T09:31:07+24:00,a,b", "not an RFC 3339 time"),
        ("2026-08-14T09:31:07Z,default", "2 parts"),
        ("2026-08-14T09:31:07Z,default,pod,x", "4 parts"),
    ],
)
def test_a_text_that_is_no_lock_is_refused(text: str, why: str) -> None:
    with pytest.raises(WireError, match=why) as caught:
        node_lock.parse(KEY, text)
    assert (caught.value.key, caught.value.text) == (KEY, text)


def test_a_lock_without_offset_is_not_written() -> None:
    with pytest.raises(WireError, match="must say its offset"):
        node_lock.encode(NodeLock(datetime(2026, 8, 14)))  # noqa: DTZ001


@given(st.one_of(st.text(), mutations.garbled("2026-08-14T09:31:07+08:00,default,gpu-pod-1")))
def test_any_text_gives_a_lock_or_a_wire_error(text: str) -> None:
    with suppress(WireError):
        node_lock.parse(KEY, text)
