"""The handshake annotation by which schedulers of HAMi and Volcano ask whether a node's agent is alive.

The scheduler writes ``Requesting_<time>`` and drops the devices of a node that does not answer for a minute. Agents
answer with ``Reported`` and further text, which no component reads. ``Deleted_<time>`` is Volcano's mark for a node
that it gave up.
"""

import re
from datetime import datetime, tzinfo
from enum import StrEnum
from typing import Final, NamedTuple

from hami_plugins.model.dialect import Dialect


class HandshakeState(StrEnum):
    """What a handshake says. Schedulers look for these words anywhere in the text."""

    REQUESTING = "Requesting"
    REPORTED = "Reported"
    DELETED = "Deleted"
    OTHER = ""


class Handshake(NamedTuple):
    """The word, and for ``REQUESTING`` when it was asked, if that can be read."""

    word: HandshakeState
    at: datetime | None = None


_TIME: Final = {
    Dialect.HAMI: re.compile(r"(\d{4})-(\d\d)-(\d\d) (\d{1,2}):(\d\d):(\d\d)(?:[.,]\d+)?", re.ASCII),
    Dialect.VOLCANO: re.compile(r"(\d{4})\.(\d\d)\.(\d\d) (\d{1,2}):(\d\d):(\d\d)(?:[.,]\d+)?", re.ASCII),
}


def parse(text: str, *, zone: tzinfo, dialect: Dialect = Dialect.HAMI) -> Handshake:
    """What a handshake says; every text says something, so nothing is raised.

    Times carry no zone: HAMi means the scheduler's own, Volcano reads them as UTC. The layouts differ in the date's
    separators, and neither reads the other's. Koordinator's nodes have no handshake.
    """
    for word in (HandshakeState.REQUESTING, HandshakeState.DELETED, HandshakeState.REPORTED):
        if word in text:
            return Handshake(word, _asked_at(text, zone, dialect) if word is HandshakeState.REQUESTING else None)
    return Handshake(HandshakeState.OTHER)


def requesting(at: datetime, *, dialect: Dialect = Dialect.HAMI) -> str:
    """The text by which a scheduler asks; ``at`` is in the zone that its reader assumes."""
    date, time = at.replace(tzinfo=None).isoformat(" ", "seconds").split(" ")
    return f"Requesting_{date.replace('-', '.') if dialect is Dialect.VOLCANO else date} {time}"


def _asked_at(text: str, zone: tzinfo, dialect: Dialect) -> datetime | None:
    _, _, stamp = text.partition("_")
    if dialect is Dialect.VOLCANO:
        stamp, _, _ = stamp.partition("_")
    match = _TIME.get(dialect, _TIME[Dialect.HAMI]).fullmatch(stamp)
    if match is None:
        return None
    year, month, day, hour, minute, second = map(int, match.groups())
    try:
        return datetime(year, month, day, hour, minute, second, tzinfo=zone)
    except ValueError:
        return None
