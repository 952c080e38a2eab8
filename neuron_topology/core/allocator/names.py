"""The words that all parts of the Neuron allocator share."""

from __future__ import annotations

from typing import Final

from hami_plugins.vendors.awsneuron import ALLOCATOR_MARK, IDS_KEY, KIND_KEY, NODE_KEY, STATE_KEY, TIME_KEY
from neuron_topology.core.vendor import SPEC

MARKER_KEY: Final = ALLOCATOR_MARK
"""On a pod from its creation: its devices come from the cache, so that it must not be bound without them.

Volcano's Binding carries the pod's annotations, and nothing else of the pod: by this one API servers tell whom to ask.
"""

MARKED: Final = "extender"

ALLOCATION_KEYS: Final = tuple(sorted((SPEC.keys.allocated, IDS_KEY, STATE_KEY, TIME_KEY, KIND_KEY, NODE_KEY)))
"""The annotations of an allocation that are about Neuron alone: HAMi's list, and what AWS's plugin is told
(AWS Neuron SDK 2.32 device plugin and scheduler extension). HAMi's node and time go with them; those may also belong to
another vendor's allocation."""

NAME: Final = "neuron-allocator"
"""What the allocator's objects are called unless an operator has it otherwise."""
