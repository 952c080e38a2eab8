"""Means over independent runs, or over parts of a long one, with what they are uncertain by."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_STUDENT: Final = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
"""97.5 % quantiles of Student's t for 1, 2, ... 30 degrees of freedom."""

_NORMAL: Final = 1.959964
"""The same quantile of the normal distribution."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over runs. ``half_width`` is that of its 95 % confidence interval, absent for a single value."""

    mean: float
    half_width: float | None = None
    runs: int = 1

    @property
    def low(self) -> float:
        """The lower end of the interval."""
        return self.mean - (self.half_width or 0.0)

    @property
    def high(self) -> float:
        """The upper end of the interval."""
        return self.mean + (self.half_width or 0.0)

    @property
    def standard_error(self) -> float:
        """The standard error of the mean, 0 for a single value."""
        return 0.0 if self.half_width is None else self.half_width / quantile(self.runs - 1)


def estimate(values: Sequence[float], *, mean: float | None = None) -> Estimate:
    """The mean of one value from each run, or ``mean`` where the values are of unequal parts of one run."""
    runs = len(values)
    average = math.fsum(values) / runs
    mean = average if mean is None else mean
    if runs == 1:
        return Estimate(mean)
    variance = math.fsum((value - average) ** 2 for value in values) / (runs - 1)
    return Estimate(mean, quantile(runs - 1) * math.sqrt(variance / runs), runs)


def quantile(degrees: int) -> float:
    """The 97.5 % quantile of Student's t: how many standard errors the 95 % interval goes to either side."""
    if degrees <= len(_STUDENT):
        return _STUDENT[degrees - 1]
    return _NORMAL + (_NORMAL**3 + _NORMAL) / (4 * degrees)
