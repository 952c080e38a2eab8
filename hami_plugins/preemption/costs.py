"""What evictions cost, as a number that can be added: fewest pods, then lowest priorities, then least work lost."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Final, Protocol

from hami_plugins.model.pods import PodRecord

_UNIT: Final = sys.maxsize
"""What one is worth in the next lower digit. No sum of MiB, cores, CPUs (nano units) or Unix seconds is more."""

NEVER: Final = sys.maxsize << 65_536
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
        cpu = sum(amount for name, amount in record.requests if name == "cpu")
        cost = 1
        for digit in (
            int(not record.terminating),
            sum(share.memory for share in shares),
            sum(share.cores for share in shares),
            cpu,
        ):
            cost = cost * _UNIT + digit
        return cost


class CostScale:
    """Costs of pods of some priorities.

    From the highest digit to the lowest: the number of pods; how many of them have the highest priority, the next, and
    so on; their age, all together. So of two sets of equally many pods the one with fewer pods of the highest priority
    is cheaper, and of two that are equal in that, the younger one. A pod of unknown age counts as the oldest.
    """

    def __init__(self, priorities: Iterable[int]) -> None:
        self.priorities = tuple(sorted(set(priorities)))
        of_priority: dict[int, int] = {}
        of_pod = _UNIT
        for priority in self.priorities:
            of_priority[priority] = of_pod
            of_pod *= _UNIT
        self._of_pod = {priority: of_pod + cost for priority, cost in of_priority.items()}

    def of(self, record: PodRecord, priority: int) -> int:
        """The cost of one pod that counts with this priority."""
        return self._of_pod[priority] - (record.made_at or 0)
