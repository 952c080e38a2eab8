"""Why a pod that asks for Neuron devices does not begin on a node, whatever is free there: what reports and clocks say.

``nodes`` notes what there is to be said of a node; here it is held against a pod and the time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hami_plugins.model.pods import Pod
from hami_plugins.vendors.awsneuron import CAPACITY_BLOCK_MARGIN
from neuron_topology.core import capacity_block_end

CLOSED: Final = "neuron-closed"
"""Note: why no pod begins on the node at all."""

ENDS: Final = "neuron-ends"
"""Note: when the node's Capacity Block ends, in Unix seconds."""


def objection(notes: Mapping[str, str], pod: Pod, now: float, *, margin: float = CAPACITY_BLOCK_MARGIN) -> str:
    """Why the pod does not begin on a node with these notes now (Unix seconds); empty where nothing is in its way.

    A pod without a duration may begin anywhere. ``margin`` is how many seconds before the end of a Capacity Block its
    machines go.
    """
    if why := notes.get(CLOSED):
        return why
    end = notes.get(ENDS)
    duration = capacity_block_end.declared(pod.annotations, pod.of_group) if end is not None else None
    if end is None or duration is None:
        return ""
    return capacity_block_end.objection(float(end), duration, now, margin)
