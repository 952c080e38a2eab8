"""What evictions cost, as a number that can be added: fewest pods, then lowest priorities, then least work lost."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

from hami_plugins.model.pods import PodRecord

_TIME_BITS: Final = 34
"""Unix seconds fit until the year 2514."""

_SIZE_BITS: Final = 64
"""Any sum of memory (MiB), cores or CPUs (nano units) on a node fits."""

_COUNT_BITS: Final = 20
"""A million victims, of one priority or in all, fit."""

NEVER: Final = 1 << 65_536
"""More than any set of pods costs."""


class Scale(Protocol):
    """What it costs that a pod leaves, as a number that can be added."""

    def of(self, record: PodRecord, priority: int) -> int:
        """The cost of one pod that counts with this priority."""
        ...


class SizeScale:
    """Costs of pods that a person may delete: fewest pods, then fewest that are not ending anyway, then least lost.

    What is lost is memory of devices, then cores, then CPUs.
    """

    def of(self, record: PodRecord, priority: int) -> int:  # noqa: ARG002 - a person decides about priorities
        """The cost of one pod."""
        shares = [share for allocation in record.allocations for share in allocation.shares]
        digits = 1, int(not record.terminating), sum(share.memory for share in shares)
        cost = 0
        for digit in (*digits, sum(share.cores for share in shares), dict(record.requests).get("cpu", 0)):
            cost = (cost << _SIZE_BITS) + digit
        return cost


class CostScale:
    """Costs of pods of some priorities.

    From the highest digit to the lowest: the number of pods; how many of them have the highest priority, the next, and
    so on; the sum of how long before a fixed time each was created. So of two sets of equally many pods the one with
    fewer pods of the highest priority is cheaper, and of two that are equal in that, the younger one. A pod without a
    time of creation counts as the oldest.
    """

    def __init__(self, priorities: Iterable[int]) -> None:
        self.priorities = tuple(sorted(set(priorities)))
        base = _TIME_BITS + _COUNT_BITS
        one = 1 << base + _COUNT_BITS * len(self.priorities)
        self._of_priority = {
            priority: one + (1 << base + _COUNT_BITS * rank) + (1 << _TIME_BITS) - 1
            for rank, priority in enumerate(self.priorities)
        }

    def of(self, record: PodRecord, priority: int) -> int:
        """The cost of one pod that counts with this priority."""
        return self._of_priority[priority] - (record.made_at or 0)
