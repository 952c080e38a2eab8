"""What a change costs, so that the smallest come first (the scale is in ``suggest``)."""

from __future__ import annotations

from typing import Final, assert_never

from hami_plugins.model.decisions import Placed
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.suggest.changes import (
    AddedNode,
    Change,
    Dropped,
    Labelled,
    LessOf,
    LessPlain,
    RaisedQuota,
    Removed,
    Tolerated,
)

WISH: Final = 0.5
QUOTA: Final = 1.0
LABEL: Final = 1.0
GOING: Final = 0.25
VICTIM: Final = 2.0
NODE: Final = 4.0


def cost_of(change: Change, node: NodeEntry, placed: Placed) -> float:
    """What one change costs, on the node and with the placement that it leads to."""
    match change:
        case LessOf():
            return 1 - _kept(change, node, placed)
        case LessPlain():
            return 1 - change.after / change.before
        case Dropped() | Tolerated():
            return WISH
        case RaisedQuota() | Labelled():
            return QUOTA + min(change.by / max(change.needed, 1), 1) if isinstance(change, RaisedQuota) else LABEL
        case Removed():
            return GOING if change.pod.terminating else VICTIM + _part_of_node(change, node)
        case AddedNode():
            return NODE
        case _ as unreachable:
            assert_never(unreachable)


def _kept(change: LessOf, node: NodeEntry, placed: Placed) -> float:
    """The part of the amount that stays; of whole devices, the part of their memory."""
    if change.before is not None:
        return change.after / change.before
    shares = [each for each in placed.containers[change.container].shares if each.vendor == change.vendor]
    whole = sum(_memory_of(node, share.device) for share in shares)
    return min(sum(share.memory for share in shares) / whole, 1) if whole else 0


def _memory_of(node: NodeEntry, device: str) -> int:
    return next(each.memory for each, name in zip(node.state.shape.devices, node.ids, strict=True) if name == device)


def _part_of_node(change: Removed, node: NodeEntry) -> float:
    """How much of the node's device memory goes with the pod."""
    memory = sum(share.memory for allocation in change.pod.allocations for share in allocation.shares)
    return min(memory / max(node.state.shape.total_memory, 1), 1)
