"""Our words for a change that would let a pod fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hami_plugins.engine.eligibility import UNSCHEDULABLE
from hami_plugins.engine.registry import Registry
from hami_plugins.explain.messages import counted, mebibytes, plain
from hami_plugins.model.nodes import Taint
from hami_plugins.model.pods import PodRecord
from hami_plugins.model.quantity import NANO
from hami_plugins.suggest.changes import (
    AddedNode,
    Change,
    ChangeKind,
    Counterfactual,
    Dropped,
    Labelled,
    LessOf,
    LessPlain,
    RaisedQuota,
    Removed,
    Tolerated,
)
from hami_plugins.wire import quantity
from hami_plugins.wire.koordinator import MEMORY

_NO_VENDORS: Final = Registry(())

_CONDITIONS: Final = "node.kubernetes.io/"
"""Taints under this prefix say how a node is; they go when it is well again."""


def sentence(found: Counterfactual, containers: Sequence[str] = (), registry: Registry = _NO_VENDORS) -> str:
    """The whole advice: ``fits with nvidia.com/gpumem: 81920 instead of 90000 (on gpu-node-0007)``.

    ``containers`` are the names of the pod's containers, said where there are several. ``registry`` has the vendors'
    words for their devices.
    """
    changes = " and ".join(change_words(change, containers, registry) for change in found.changes)
    new = any(isinstance(change, AddedNode) for change in found.changes)
    return f"fits {changes}" if new else f"fits {changes} (on {found.placed.node})"


def change_words(change: Change, containers: Sequence[str] = (), registry: Registry = _NO_VENDORS) -> str:
    """One change, to stand after "fits"."""
    match change:
        case RaisedQuota():
            need = f"{change.left:,} left, {change.needed:,} needed"
            return f"with limits.{change.resource} of the namespace raised by {change.by:,} ({need})"
        case Labelled(node=node, key=key, value=value):
            return f"with the label {key}={value} on node {node}"
        case Removed(pod=pod):
            return _without_pod(pod, registry)
        case AddedNode(like=like, count=count):
            return f"with {'one more node' if count == 1 else f'{count} more nodes'} like {like}"
        case _:
            return _of_pod(change, containers)


def _of_pod(change: LessOf | LessPlain | Dropped | Tolerated, containers: Sequence[str]) -> str:
    """A change that the pod's author makes."""
    match change:
        case LessOf():
            before = "the whole card" if change.before is None else written(change.resource, change.before)
            after = written(change.resource, change.after)
            return f"with {change.resource}: {after} instead of {before}{_where(change, containers)}"
        case LessPlain(resource=resource, before=had, after=0) if "/" in resource:
            return f"without {resource}: {plain(resource, had)}"
        case LessPlain(resource=resource, before=had, after=after):
            return f"with {resource}: {plain(resource, after)} instead of {plain(resource, had)}"
        case Tolerated(taint=taint):
            return _tolerating(taint)
        case _:
            return _without(change)


def written(resource: str, amount: int) -> str:
    """An amount as people write it: bytes of device memory with a suffix."""
    return quantity.canonical(amount * NANO, binary=True) if resource == MEMORY else str(amount)


def _where(change: LessOf, containers: Sequence[str]) -> str:
    """Which of several containers are meant."""
    if len(containers) < 2:
        return ""
    if len(change.containers) == len(containers):
        return " in every container"
    names = [containers[at] for at in change.containers]
    return f" in container{'s' if len(names) > 1 else ''} {', '.join(names)}"


def holding_words(pod: PodRecord, registry: Registry = _NO_VENDORS) -> str:
    """What a running pod holds, in sums."""
    shares = [share for allocation in pod.allocations for share in allocation.shares]
    noun = registry.noun(share.vendor for share in shares)
    if not shares:
        return f"no {noun}s"
    memory = sum(share.memory for share in shares)
    cores = sum(share.cores for share in shares)
    parts = [mebibytes(memory)] if memory else []
    parts += [counted(cores, "core")] if cores else []
    cards = counted(len({share.device for share in shares}), noun)
    priority = f", at priority {pod.priority}" if pod.priority else ""
    return f"{' and '.join(parts) or 'a slot'} on {cards}{priority}"


def _without(change: Dropped) -> str:
    match change.kind:
        case ChangeKind.EXCLUSIVE | ChangeKind.NEAR:
            return f"without {change.value} in {change.key}"
        case ChangeKind.NODE_SELECTOR:
            return f"without nodeSelector {change.key}: {change.value}"
        case ChangeKind.NODE_AFFINITY:
            return f"without the node affinity on {change.key}"
        case _:
            return f"without {change.key.replace(',', ' and ')}: {change.value}"


def _without_pod(pod: PodRecord, registry: Registry) -> str:
    if pod.terminating:
        return f"once pod {pod.full_name}, which is terminating, has given back {holding_words(pod, registry)}"
    return f"without pod {pod.full_name}, which holds {holding_words(pod, registry)}"


def _tolerating(taint: Taint) -> str:
    """A broken node should not be tolerated: the node itself has to be repaired."""
    if taint == UNSCHEDULABLE:
        return "once the node is no longer cordoned"
    value = f"{taint.key}: {taint.value}" if taint.value else taint.key
    if taint.key.startswith(_CONDITIONS):
        return f"once the taint {value} is removed"
    return f"with a toleration of the taint {value}"
