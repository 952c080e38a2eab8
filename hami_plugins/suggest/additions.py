"""One more node: what a node of a known shape would be like if it were new."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.nodes import NodeEntry, NodeShape, NodeState
from hami_plugins.model.units import DeviceId, NodeName
from hami_plugins.suggest.refusals import Refusals

MOST_SHAPES: Final = 64
"""Shapes of a cluster that are looked at."""

_HOSTNAME: Final = "kubernetes.io/hostname"


def newcomers(
    snapshot: ClusterSnapshot, refusals: Refusals, spare: Iterable[NodeEntry]
) -> Iterator[tuple[NodeName, NodeEntry]]:
    """A new node like each shape of the cluster, and like each spare one, with the name of what it is like.

    Of the nodes of one shape two are looked at: the first that looked at its devices, and the first that did not.
    """
    name = _free_name(snapshot)
    groups = (*refusals.by_cause.values(), refusals.objecting)
    seen: set[tuple[NodeShape, bool]] = set()
    for group in groups:
        objecting = group is refusals.objecting
        for entry in group:
            key = (entry.state.shape, objecting)
            if key in seen or len(seen) >= MOST_SHAPES:
                continue
            seen.add(key)
            yield entry.name, fresh(entry, name)
    for entry in spare:
        yield entry.name, fresh(entry, name)


def fresh(like: NodeEntry, name: NodeName) -> NodeEntry:
    """A node as ``like`` was when it was new: no pod on it, every device healthy, its own name and device ids."""
    shape = like.state.shape
    devices = tuple(replace(device, healthy=True, cordoned=False) for device in shape.devices)
    labels = {key: name if key == _HOSTNAME else value for key, value in like.facts.labels.items()}
    return NodeEntry(
        name=name,
        state=NodeState.idle(NodeShape(devices, shape.links, shape.traits)),
        ids=tuple(DeviceId(f"{name}-{at}") for at in range(len(devices))),
        facts=replace(like.facts, labels=labels, unschedulable=False, ready=True),
    )


def _free_name(snapshot: ClusterSnapshot) -> NodeName:
    """A name that no node has."""
    name, number = "new-node", 2
    while NodeName(name) in snapshot.position:
        name, number = f"new-node-{number}", number + 1
    return NodeName(name)
