"""When a machine goes back to AWS, and how long a job says that it runs.

Instances of a Capacity Block are taken half an hour before its end (EKS' guide on Capacity Blocks). AWS writes neither
time into a cluster: an operator, or the component that scales the nodes, does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from hami_plugins.model.node_pools import CAPACITY_BLOCK_END

END_KEY: Final = CAPACITY_BLOCK_END

DURATION_KEY: Final = "hami-plugins.io/expected-duration"
"""Annotation of a pod or of its job: how long it runs, as ``90m``, ``4h``, ``1h30m``, ``2d`` or seconds."""

_UNITS: Final[Mapping[str, int]] = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_PART: Final = re.compile(r"(\d{1,9})([dhms])", re.ASCII)
_WHOLE: Final = re.compile(r"(?:\d{1,9}[dhms])+", re.ASCII)
_SECONDS: Final = re.compile(r"\d{1,11}", re.ASCII)


def seconds_of(text: str) -> float:
    """A duration. Raises ``ValueError`` with the reason."""
    if _SECONDS.fullmatch(text):
        return float(text)
    if not _WHOLE.fullmatch(text):
        raise ValueError(f"{text!r} is not a duration; write 90m, 4h, 1h30m, 2d or a number of seconds")
    return float(sum(int(number) * _UNITS[unit] for number, unit in _PART.findall(text)))


def declared(*annotations: Mapping[str, str]) -> float | None:
    """The seconds that a pod says it runs, by the first annotations that say it: its own, then those of its job.

    ``None`` if it is missing or unreadable.
    """
    text = next((each[DURATION_KEY] for each in annotations if DURATION_KEY in each), None)
    try:
        return None if text is None else seconds_of(text)
    except ValueError:
        return None


def wrong(annotations: Mapping[str, str]) -> str:
    """What is wrong with how long a pod or a job says that it runs; empty where nothing is."""
    try:
        seconds_of(annotations.get(DURATION_KEY, "0"))
    except ValueError as error:
        return f"{DURATION_KEY}: {error}"
    return ""


def end_of(annotations: Mapping[str, str], labels: Mapping[str, str]) -> float | None:
    """When a node's Capacity Block ends (Unix seconds); ``None`` where it has none. Raises ``ValueError``."""
    text = annotations.get(END_KEY) or labels.get(END_KEY)
    if not text:
        return None
    if _SECONDS.fullmatch(text):
        return float(text)
    try:
        found = datetime.fromisoformat(text)
        # An offset can lead out of all years, and such a moment cannot be written.
        moment = None if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        moment = None
    if moment is None:
        raise ValueError(
            f"{END_KEY}: {text!r} is not a time, so long jobs are not kept off the node; write 2026-11-23T10:00:00Z or "
            "Unix seconds"
        )
    return moment.timestamp()


def objection(end: float, duration: float, now: float, margin: float) -> str:
    """Why a job of a duration does not begin now on a node that ends then; empty where there is time enough."""
    if now + duration <= end - margin:
        return ""
    moment = datetime.fromtimestamp(end, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return (
        f"the Capacity Block ends at {moment}, {margin / 60:.0f} minutes before that its machines go, and the pod's "
        f"declared duration is {duration / 3600:.1f} h ({DURATION_KEY})"
    )
