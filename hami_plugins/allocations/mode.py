"""The three ways in which a cluster's allocations are corrected; without imports, as the command line names them."""

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
