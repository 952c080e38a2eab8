"""The three ways in which a cluster's grants are put right, and the words that all parts of them share."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from hami_plugins.vendors.volcano import GRANT_MARK, SPEC
from hami_plugins.vendors.volcano_releases import Grants

MARKER_KEY: Final = GRANT_MARK
"""On a pod from its creation: its grant comes from the ledger, so that it must not be bound without one.

The value is the mode. Volcano's Binding carries the pod's annotations, and nothing else of the pod: by it API servers
tell whom to ask, and agents whether Volcano has to be made to count.
"""

GRANT_KEYS: Final = tuple(sorted((SPEC.keys.allocated, SPEC.keys.to_allocate, *SPEC.keys.extra)))
"""The six annotations of a grant. A Binding that carries some of them carries those of an earlier try."""

ALLOCATION_KEYS: Final = tuple(sorted((*GRANT_KEYS, SPEC.keys.more)))
"""These six, and the one of ours for containers that Volcano's list has no place for."""

SCHEDULER: Final = "volcano"
"""How Volcano's scheduler is called unless an operator has it otherwise."""

CONFIGURATION: Final = "volcano-vgpu-grants"
"""How the configuration of the webhooks is called unless an operator has it otherwise."""


class Mode(StrEnum):
    """Who decides about cards, and what of it is ours (``peers.md`` 7).

    ``ledger``: Volcano asks our ledger through its plugin ``extender``, and the Binding carries its word. ``guard``:
    Volcano's plugin ``deviceshare`` decides, and the Binding is put right. ``policy``: an admission policy of the API
    server takes stale grants off Bindings, without a process.
    """

    LEDGER = Grants.LEDGER.value
    GUARD = Grants.GUARD.value
    POLICY = Grants.POLICY.value
