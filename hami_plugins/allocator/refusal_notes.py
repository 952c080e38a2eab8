"""The message for a waiting pod that fits no node: one text with numbers, once per pod and cause."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from hami_plugins.allocations.remedies import remedy
from hami_plugins.allocator.locked_cache import NodeAnswer
from hami_plugins.engine.decide import DecisionRequest
from hami_plugins.engine.intake import PodInfo
from hami_plugins.engine.registry import Registry
from hami_plugins.engine.shortfall import CardShortage, NodeShortage, why_not
from hami_plugins.explain.messages import summary
from hami_plugins.model.devices import AllocatedShare
from hami_plugins.model.units import PodUid

LASTS: Final = 3_600.0
"""Seconds that API servers keep an event (``--event-ttl``)."""

REMEMBERED: Final = 10_000
"""Pods of which it is remembered what they were told."""

MOST_DEVICES: Final = 8
"""Devices that the text about an allocation names."""


class RefusalNote(NamedTuple):
    """A text, and what it is about, whatever its numbers."""

    cause: tuple[str, ...]
    text: str


def refusal_note(intake: PodInfo, asked: Sequence[NodeAnswer], registry: Registry) -> RefusalNote | None:
    """Why none of these nodes takes the pod, as ``explain`` says it, and what to do; ``None`` where one does."""
    why = why_not(DecisionRequest(intake.demand, intake.policy), asked, registry)
    if why.fitting or not why.reasons:
        return None
    text = f"no node takes the pod: {summary(why, registry, [each.name for each in intake.pod.containers])}"
    first = next((each for each in why.reasons if isinstance(each, CardShortage)), None)
    if first is not None:
        entry = next(entry for entry, _ in asked if entry.name == first.examples[0])
        if what_to_do := remedy(first, entry, registry[first.vendor]):
            text = f"{text}; {what_to_do}"
    return RefusalNote(tuple(sorted(map(_about, why.reasons))), text)


def allocation_note(node: str, shares: Sequence[AllocatedShare]) -> str:
    """What a pod that had to wait was given."""
    named = [f"{each.device} ({each.memory:,} MiB)" if each.memory else each.device for each in shares[:MOST_DEVICES]]
    more = len(shares) - MOST_DEVICES
    return f"allocated on node {node}: {', '.join(named)}{f' and {more} more' if more > 0 else ''}"


def _about(reason: CardShortage | NodeShortage) -> str:
    return f"{reason.vendor} {reason.reason}" if isinstance(reason, CardShortage) else reason.words


@dataclass(slots=True)
class NotifiedPods:
    """Which pods were told what, and when. Times are seconds of a clock that only goes forward."""

    _told: OrderedDict[PodUid, dict[tuple[str, ...], float]] = field(default_factory=OrderedDict)

    def __contains__(self, uid: object) -> bool:
        return uid in self._told

    def first(self, uid: PodUid, cause: tuple[str, ...], now: float) -> bool:
        """Whether this is news for the pod: it was not told, or its event is gone by now. From now on it is none."""
        known = self._told.setdefault(uid, {})
        self._told.move_to_end(uid)
        while len(self._told) > REMEMBERED:
            self._told.popitem(last=False)
        if now < known.get(cause, now - LASTS) + LASTS:
            return False
        known[cause] = now
        return True

    def forget(self, uid: PodUid) -> bool:
        """A pod no longer waits; returns whether it had received an event."""
        return self._told.pop(uid, None) is not None
