"""The annotations of pods whose devices come from the allocator."""

from __future__ import annotations

from typing import Final

KEY: Final = "hami-plugins.io/allocator"
"""On a pod from its creation: its allocation comes from the allocator, so that it must not be bound without one.

The value is the mode (see ``allocations.mode``). A scheduler's Binding carries the pod's annotations, and nothing else
of the pod: from it API servers know which webhook to call, and agents whether a scheduler must be made to count.
"""

REQUEUED_KEY: Final = "hami-plugins.io/requeued-at"
"""When the allocator last had the pod's scheduler try it again, because devices had become free for it (RFC 3339)."""

NOMINATED_KEY: Final = "hami-plugins.io/nominated-node"
"""The node on which pods are evicted for the pod. kube-scheduler empties ``status.nominatedNodeName`` when it cannot
bind the pod, as where the allocator is killed at that moment (1.34 ``schedule_one.go`` ``handleBindingCycleError``)."""

PROGRESS_KEYS: Final = (REQUEUED_KEY, NOMINATED_KEY)
"""What the allocator writes on pods that wait."""

KEYS: Final = (KEY, *PROGRESS_KEYS)
"""All annotations that the allocator writes on pods besides allocations."""
