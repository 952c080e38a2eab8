"""The modes of the allocator, as its settings name them; without imports, because the command line needs the names."""

from __future__ import annotations

from enum import StrEnum


class AllocatorMode(StrEnum):
    """Who decides about devices, and what of it is ours; the values are those of ``volcano_releases.DeviceAssigner``.

    ``extender``: Volcano asks the allocator through its plugin ``extender``, and the Binding carries the answer.
    ``webhook``: Volcano's plugin ``deviceshare`` decides, and a webhook corrects the Binding. ``policy``: an admission
    policy of the API server takes stale allocations off Bindings, without a process.
    """

    EXTENDER = "extender"
    WEBHOOK = "webhook"
    POLICY = "policy"


class PreemptionMode(StrEnum):
    """Whether pods are evicted so that pods of higher priority get devices.

    ``off``: no evictions. ``scheduler``: schedulers that preempt receive the victims and evict them. ``full``: the
    allocator also evicts pods itself where the scheduler sees no need to (node sums suffice, no device has room).
    """

    OFF = "off"
    SCHEDULER = "scheduler"
    FULL = "full"

    @property
    def evicts(self) -> bool:
        """Whether pods are evicted for others at all."""
        return self is not PreemptionMode.OFF
