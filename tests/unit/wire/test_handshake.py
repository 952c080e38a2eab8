"""The handshake annotation of both schedulers."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hami_plugins.model.dialect import Dialect
from hami_plugins.wire import handshake
from hami_plugins.wire.handshake import Handshake, HandshakeState

CHINA = timezone(timedelta(hours=8))

moments = st.datetimes(timezones=st.just(UTC)).map(lambda moment: moment.replace(microsecond=0))


@given(moments, st.sampled_from(Dialect))
def test_parse_undoes_requesting(at: datetime, dialect: Dialect) -> None:
    text = handshake.requesting(at, dialect=dialect)
    assert handshake.parse(text, zone=UTC, dialect=dialect) == Handshake(HandshakeState.REQUESTING, at)


def test_each_scheduler_writes_its_own_layout() -> None:
    at = datetime(2026, 8, 14, 9, 31, 7, 123, tzinfo=CHINA)
    assert handshake.requesting(at) == "Requesting_2026-08-14 09:31:07"
    assert handshake.requesting(at, dialect=Dialect.VOLCANO) == "Requesting_2026.08.14 09:31:07"


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("Reported 2026-08-14 09:31:07.1 +0800 CST m=+0.1", HandshakeState.REPORTED),
        ("Reported", HandshakeState.REPORTED),
        ("Deleted_2026.08.14 09:31:07", HandshakeState.DELETED),
        ("Unknown", HandshakeState.OTHER),
        ("", HandshakeState.OTHER),
        ("Requesting", HandshakeState.REQUESTING),
        ("Requesting_not-a-time", HandshakeState.REQUESTING),
        ("Requesting_2026.08.14 09:31:07", HandshakeState.REQUESTING),
        ("Requesting_2026-02-30 09:31:07", HandshakeState.REQUESTING),
        ("xRequesting_0000-01-01 00:00:00", HandshakeState.REQUESTING),
    ],
)
def test_every_text_says_something_and_has_a_time_only_if_it_is_readable(text: str, word: HandshakeState) -> None:
    assert handshake.parse(text, zone=CHINA) == Handshake(word)


def test_a_time_is_in_the_zone_that_its_reader_assumes() -> None:
    read = handshake.parse("Requesting_2026-08-14 9:31:07.5", zone=CHINA)
    assert read.at == datetime(2026, 8, 14, 9, 31, 7, tzinfo=CHINA)


def test_volcano_reads_between_the_first_two_underscores() -> None:
    read = handshake.parse("Requesting_2026.08.14 09:31:07_x", zone=UTC, dialect=Dialect.VOLCANO)
    assert read.at == datetime(2026, 8, 14, 9, 31, 7, tzinfo=UTC)


@given(st.text(), st.sampled_from(Dialect))
def test_any_text_is_read(text: str, dialect: Dialect) -> None:
    handshake.parse(f"Requesting_{text}", zone=UTC, dialect=dialect)
