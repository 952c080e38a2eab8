"""The three ways in which a cluster's allocations are corrected; without imports, as the command line names them."""

from __future__ import annotations

from enum import StrEnum


class AllocatorMode(StrEnum):
    """Who decides about devices, and what of it is ours; the values are those of ``volcano_releases.DeviceAssigner``.

    ``ledger``: Volcano asks our ledger through its plugin ``extender``, and the Binding carries its answer. ``guard``:
    Volcano's plugin ``deviceshare`` decides, and the Binding is corrected. ``policy``: an admission policy of the API
    server takes stale allocations off Bindings, without a process.
    """

    LEDGER = "ledger"
    GUARD = "guard"
    POLICY = "policy"
