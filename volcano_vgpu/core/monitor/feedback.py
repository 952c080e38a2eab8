"""Who may compute: the rules by which a monitor blocks containers of lower priority (HAMi 2.10.0
``cmd/vGPUmonitor/feedback.go``). Pure.

A container that launched something a moment ago is active, on all of its cards, under its priority (0 is the highest;
a negative one is not counted). While one of higher priority is active on a card, the others there are blocked; while it
is, or while several of one priority are active, core limits are enforced, and otherwise they are not.

The two fields that a monitor may write are all that comes out. Workloads can forge what goes in, so a count beyond what
the library writes is cut: one write does not block the neighbours for long.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from hami_plugins.wire import lenient
from hami_plugins.wire.pods import finished

BLOCKED: Final = -1
ON: Final = 1
OFF: Final = 0
MOST_RECENT: Final = 3
"""The library itself writes 2."""

_MONITOR: Final = re.compile(r"v(olcano-v)?gpu-?monitor", re.IGNORECASE)


class Fields(NamedTuple):
    """The two fields of a region that belong to a monitor."""

    recent_kernel: int
    utilization_switch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A container: the cards that it sees, its priority, and the fields as they are."""

    cards: tuple[str, ...]
    priority: int
    fields: Fields


def tick(standings: Sequence[Standing]) -> tuple[Fields, ...]:
    """The fields of the same containers from now on; to be asked every five seconds."""
    counted = [_counted(each.fields.recent_kernel) for each in standings]
    active: dict[str, Counter[int]] = {}
    for each, recent in zip(standings, counted, strict=True):
        if recent > 0 and each.priority >= 0:
            for card in set(each.cards):
                active.setdefault(card, Counter())[each.priority] += 1
    return tuple(
        _decided(each, recent, [active[card] for card in each.cards if card in active])
        for each, recent in zip(standings, counted, strict=True)
    )


def released(found: Fields) -> Fields:
    """The fields of a container that no monitor looks after: not blocked, its core limit enforced."""
    return Fields(max(found.recent_kernel, 0), ON)


def other_monitor(pods: Iterable[Mapping[str, Any]]) -> str:
    """A pod of this node that looks like another feedback writer, with the container; empty where there is none."""
    for pod in pods:
        if finished(pod):
            continue
        metadata = lenient.inside(pod, "metadata")
        for each in lenient.mappings(lenient.inside(pod, "spec").get("containers")):
            words = (each.get("name"), *(each.get("command") or ()), *(each.get("args") or ()))
            if any(_MONITOR.search(str(word)) for word in words):
                return f"{metadata.get('namespace')}/{metadata.get('name')} container {each.get('name')}"
    return ""


def _counted(recent: int) -> int:
    return min(recent, MOST_RECENT) - 1 if recent > 0 else recent


def _decided(standing: Standing, recent: int, active: Sequence[Counter[int]]) -> Fields:
    higher = any(priority < standing.priority for card in active for priority in card)
    several = any(card[standing.priority] > 1 for card in active)
    return Fields(
        recent_kernel=BLOCKED if higher else max(recent, 0),
        utilization_switch=ON if higher or several else OFF,
    )
