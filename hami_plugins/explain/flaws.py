"""Devices that are promised more often than they can be, in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby
from typing import Final

from hami_plugins.engine.holdings import Inconsistency, InconsistencyKind
from hami_plugins.model.units import DeviceId

MOST_ALIKE: Final = 3
"""Devices with the same flaw up to which each is named."""


def flaw_words(flaw: Inconsistency) -> str:
    """One thing that is wrong with what a pod holds."""
    others = f", to {', '.join(flaw.others)} as well" if flaw.others else ""
    match flaw.kind:
        case InconsistencyKind.STRANGER:
            return f"holds {flaw.device}, which its node does not report; it is not free anywhere else"
        case InconsistencyKind.UNHEALTHY:
            return f"{flaw.device} is unhealthy"
        case InconsistencyKind.CORDONED:
            return f"{flaw.device} is cordoned"
        case InconsistencyKind.UNPLACED:
            return f"its partition of {flaw.device} is not known: {flaw.why}"
        case InconsistencyKind.OVERLAP:
            return f"its partition of {flaw.device} is promised{others}"
        case _:
            unit = _UNITS[flaw.kind]
            return f"{flaw.device}: {flaw.promised:,} of {flaw.capacity:,} {unit} are promised{others}"


def flaws_words(flaws: Iterable[Inconsistency]) -> Iterator[str]:
    """The same of several: many devices that are promised too often in the same way are counted."""
    for (kind, *_), group in groupby(flaws, key=lambda flaw: (flaw.kind, flaw.promised, flaw.capacity, flaw.others)):
        alike = list(group)
        if (kind in _UNITS or kind is InconsistencyKind.STRANGER) and len(alike) > MOST_ALIKE:
            alike = [replace(alike[0], device=DeviceId(f"{alike[0].device} and {len(alike) - 1} more"))]
        yield from map(flaw_words, alike)


_UNITS = {InconsistencyKind.SLOTS: "slots", InconsistencyKind.MEMORY: "MiB", InconsistencyKind.CORES: "cores"}
