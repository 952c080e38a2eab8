"""The node lock annotation: since when a node is held, and by which pod.

``2026-08-14T09:31:07+08:00,default,gpu-pod-1``, or the time alone (older HAMi, Volcano, Cambricon).
"""

import re
from datetime import datetime
from typing import Final, NamedTuple

from hami_plugins.errors import WireError

_RFC3339: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)


class NodeLock(NamedTuple):
    """A held lock; ``since`` knows its offset. Without namespace and name any client may release it."""

    since: datetime
    namespace: str = ""
    name: str = ""


def parse(key: str, text: str) -> NodeLock:
    """The lock that a text describes; raises ``WireError`` when it is neither a time nor time, namespace and name."""
    stamp, *owner = text.split(",")
    if len(owner) not in (0, 2):
        raise WireError(key, text, f"{1 + len(owner)} parts, want a time alone or time, namespace and name")
    if _RFC3339.fullmatch(stamp) is None:
        raise WireError(key, text, f"{stamp!r} is not an RFC 3339 time")
    try:
        since = datetime.fromisoformat(stamp)
    except ValueError as error:
        raise WireError(key, text, f"{stamp!r} is not an RFC 3339 time: {error}") from None
    return NodeLock(since, *owner)


def encode(lock: NodeLock, *, exact: bool = False) -> str:
    """The text of a lock, to the second or ``exact`` to the microsecond; without a name it is the time alone."""
    if lock.since.tzinfo is None:
        raise WireError("lock", str(lock.since), "a lock's time must say its offset")
    stamp = lock.since.isoformat(timespec="microseconds" if exact else "seconds")
    if stamp.endswith("+00:00"):
        stamp = f"{stamp.removesuffix('+00:00')}Z"
    return f"{stamp},{lock.namespace},{lock.name}" if lock.name else stamp
