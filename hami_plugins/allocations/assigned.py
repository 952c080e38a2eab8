"""What HAMi's own scheduler has assigned to a pod that it has not bound yet.

It writes the node and the devices on the pod in ``filter``, and ``bind-phase`` once it has the lock of the node; the
Binding follows, without a second look at the devices (HAMi 2.10.0 ``pkg/scheduler/scheduler.go``). So the devices
belong to the pod from the first write on. A user can write the same, so that such a pod holds at most what it requests,
and for no longer than a Binding takes. A pod with the mark of this allocator holds nothing by its annotations: its
allocation comes with its Binding.

The Binding itself takes what is assigned there if that is right, so that HAMi's scheduler and this allocator agree.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from hami_plugins.engine.annotate import NODE_KEY, TIME_KEY
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.pods import Pod
from hami_plugins.model.units import NodeName
from hami_plugins.model.vendor import VendorSpec


class ForeignAssignment(NamedTuple):
    """A node, and the annotations that name its devices."""

    node: NodeName
    written: tuple[tuple[str, str], ...]


def foreign_assignment(pod: Pod, vendors: Iterable[VendorSpec], *, marker: str) -> ForeignAssignment | None:
    """What is assigned to a pod without a node; ``None`` for one with the ``marker``, or that is being deleted."""
    found = pod.annotations
    node = found.get(NODE_KEY, "")
    if not node or marker in found or pod.terminating:
        return None
    keys = [spec.keys.allocated for spec in vendors if spec.dialect is Dialect.HAMI]
    written = tuple((key, found[key]) for key in (TIME_KEY, *keys) if found.get(key))
    return ForeignAssignment(NodeName(node), written) if any(key != TIME_KEY for key, _ in written) else None
