"""What pods are charged for over a time, and what is not known of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from hami_plugins.model.charges import NOTHING_CHARGED, ChargedAmount, ChargeKey, together


class TimeSpan(NamedTuple):
    """From one time to another, in Unix milliseconds."""

    since: int
    until: int

    @property
    def milliseconds(self) -> int:
        """How long it is; 0 for one that ends before it begins."""
        return max(self.until - self.since, 0)

    def within(self, other: TimeSpan) -> TimeSpan:
        """The part of it that is in the other one."""
        return TimeSpan(max(self.since, other.since), min(self.until, other.until))


@dataclass(frozen=True, slots=True, kw_only=True)
class UsedMemory:
    """The device memory that pods of a namespace were allocated and used, as node agents measured it."""

    namespace: str
    allocated_gib_hours: Fraction
    used_gib_hours: Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class IdlePod:
    """A pod that holds devices and hardly uses them, on average over the ``hours`` in which it was seen.

    ``used`` is the share of its allocated memory that it used, ``busy`` the share of time in which it computed;
    ``None`` where nothing was measured.
    """

    namespace: str
    pod: str
    hours: Fraction
    gib: Fraction
    used: Fraction | None
    busy: Fraction | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChargeReport:
    """What was charged in a time span, by key.

    ``gaps`` are times of which nothing is known, ``uncertain`` is what may have been held in them besides. ``defects``
    are parts of the source that could not be used, ``remarks`` say what else to know about the numbers. ``used`` and
    ``idle`` are ``None`` where the source does not measure use.
    """

    span: TimeSpan
    charged: Mapping[ChargeKey, ChargedAmount]
    gaps: tuple[TimeSpan, ...] = ()
    uncertain: ChargedAmount = NOTHING_CHARGED
    defects: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    used: tuple[UsedMemory, ...] | None = None
    idle: tuple[IdlePod, ...] | None = None

    @property
    def is_complete(self) -> bool:
        """Whether all that was held is charged."""
        return not (self.gaps or self.defects or self.uncertain != NOTHING_CHARGED)

    @property
    def total(self) -> ChargedAmount:
        """All that is charged."""
        return together(self.charged.values())
