"""The words that all parts of the allocator share."""

from __future__ import annotations

from typing import Final

from hami_plugins.allocations.manifests.stale_allocations import KEYS
from hami_plugins.vendors.volcano import ALLOCATOR_MARK, SPEC

MARKER_KEY: Final = ALLOCATOR_MARK
"""On a pod from its creation: its allocation comes from the cache, so that it must not be bound without one.

The value is the mode. Volcano's Binding carries the pod's annotations, and nothing else of the pod: by it API servers
tell whom to ask, and agents whether Volcano has to be made to count.
"""

ALLOCATION_KEYS: Final = tuple(sorted((*KEYS, SPEC.keys.more)))
"""The six of Volcano, and the one of ours for containers that Volcano's list has no place for."""

SCHEDULER: Final = "volcano"
"""How Volcano's scheduler is called unless an operator has it otherwise."""

NAME: Final = "volcano-vgpu-allocator"
"""What the allocator's objects are called unless an operator has it otherwise."""
