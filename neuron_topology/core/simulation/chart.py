"""Findings as dots with intervals, in the coordinates of a drawing: one panel for each measure, a line for each policy.

Every panel has a scale of its own. Rejects start at 0, so that lengths can be compared; of the other measures only the
range that occurs is shown, because they differ by little.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from neuron_topology.core.sets.families import Family
from neuron_topology.core.simulation.answers import FRAG_REJECTS, measures, percent
from neuron_topology.core.simulation.comparison import PolicyResult
from neuron_topology.core.simulation.estimates import Estimate

LEFT: Final = 116
"""Where the scale begins; the policies' names stand before it."""

RIGHT: Final = 262
"""Where the scale ends; the values stand behind it. The drawing is 360 wide."""

_TOP: Final = 8
_LINE: Final = 25
_AXIS: Final = 24
_MOST_STEPS: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot:
    """One policy: its mean, and its interval if it has one. ``linked`` distinguishes the two families of sets."""

    y: float
    x: float
    low: float
    high: float
    policy: str
    value: str
    linked: bool
    interval: bool


@dataclass(frozen=True, slots=True)
class Tick:
    """A line of the scale, in per cent."""

    x: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One measure. ``label`` says everything that the drawing shows."""

    title: str
    label: str
    height: int
    bottom: int
    dots: tuple[Dot, ...]
    ticks: tuple[Tick, ...]


def panels(findings: Sequence[PolicyResult]) -> tuple[Panel, ...]:
    """The panels of one setting, in the order of ``answers.measures``."""
    rows = [measures(each) for each in findings]
    return tuple(_panel(title, findings, [row[title] for row in rows]) for title in rows[0])


def _panel(title: str, findings: Sequence[PolicyResult], column: Sequence[Estimate]) -> Panel:
    low = 0.0 if title == FRAG_REJECTS else min(_low(each) for each in column)
    ticks = scale(low, max(_high(each) for each in column))
    spoken = "; ".join(f"{each.policy.value} {percent(found)}" for each, found in zip(findings, column, strict=True))
    bottom = _TOP + _LINE * len(findings)
    return Panel(
        title=title,
        label=f"{title}: {spoken}",
        height=bottom + _AXIS,
        bottom=bottom,
        dots=tuple(
            _dot(each, found, line, ticks) for line, (each, found) in enumerate(zip(findings, column, strict=True))
        ),
        ticks=tuple(Tick(_across(each, ticks), f"{each:g}") for each in ticks),
    )


def _dot(finding: PolicyResult, found: Estimate, line: int, ticks: Sequence[float]) -> Dot:
    return Dot(
        y=_TOP + _LINE * (line + 0.5),
        x=_across(found.mean * 100, ticks),
        low=_across(_low(found), ticks),
        high=_across(_high(found), ticks),
        policy=finding.policy.value,
        value=f"{found.mean * 100:.2f}",
        linked=finding.policy.family is Family.LINKED,
        interval=found.half_width is not None,
    )


def _low(found: Estimate) -> float:
    """Where an interval begins, in per cent: no share is below 0."""
    return max(found.low * 100, 0.0)


def _high(found: Estimate) -> float:
    """Where an interval ends, in per cent: no share is above 100."""
    return min(found.high * 100, 100.0)


def _across(value: float, ticks: Sequence[float]) -> float:
    return round(LEFT + (value - ticks[0]) / (ticks[-1] - ticks[0]) * (RIGHT - LEFT), 2)


def scale(low: float, high: float) -> tuple[float, ...]:
    """Round numbers at equal steps, the first at most ``low`` and the last at least ``high``, of shares in per cent."""
    exponent = math.floor(math.log10(max(high - low, 1.0) / _MOST_STEPS))
    steps = (factor * 10.0**power for power in (exponent, exponent + 1) for factor in (1, 2, 5))
    return next(found for found in (_marks(low, high, step) for step in steps) if len(found) <= _MOST_STEPS + 1)


def _marks(low: float, high: float, step: float) -> tuple[float, ...]:
    """The multiples of a step around a range, two at least; what is equal but for rounding is equal."""
    first, last = math.floor(round(low / step, 6)), math.ceil(round(high / step, 6))
    if first == last:
        first, last = (first - 1, last) if last * step >= 100 else (first, last + 1)
    return tuple(round(at * step, 6) for at in range(first, last + 1))
