"""The annotation of pods whose devices come from the allocator."""

from __future__ import annotations

from typing import Final

KEY: Final = "hami-plugins.io/allocator"
"""On a pod from its creation: its allocation comes from the allocator, so that it must not be bound without one.

The value is the mode (see ``allocations.mode``). A scheduler's Binding carries the pod's annotations, and nothing else
of the pod: by it API servers tell whom to ask, and agents whether a scheduler has to be made to count.
"""
