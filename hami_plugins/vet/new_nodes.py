"""Nodes that an autoscaler may add: what they have is no mistake to ask for, although no node has it yet."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from hami_plugins.engine.decide import Decider
from hami_plugins.engine.intake import PodInfo
from hami_plugins.engine.registry import Registry
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.decisions import Placed
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.pods import NodeConstraints
from hami_plugins.model.units import VendorName
from hami_plugins.plan.what_if import agents_of
from hami_plugins.suggest.pool_nodes import pool_nodes


def new_nodes(
    snapshot: ClusterSnapshot, registry: Registry, constraints: NodeConstraints, asked: Collection[VendorName] = ()
) -> Iterator[NodeEntry]:
    """One node, empty, of each pool that may get another and of each instance type that it allows.

    ``constraints`` and ``asked`` are a pod's: a pool may leave labels open, and an empty cluster the node agent.
    """
    if not snapshot.pools:
        return  # most clusters have none, and are not to be searched for agents with each pod that fits nowhere
    agents = agents_of(snapshot, asked)
    for pool in snapshot.pools:
        if pool.obstacle is None:
            found = pool_nodes(pool, snapshot, registry, constraints, agents)
            yield from (each.entry for each in found if each.room != 0)


def fits_a_new_node(intake: PodInfo, snapshot: ClusterSnapshot, registry: Registry, decider: Decider) -> bool:
    """Whether some node that an autoscaler may add takes a pod."""
    vendors = intake.demand.devices.vendors
    return any(
        isinstance(decider.decide(replace(snapshot, nodes=(entry,)), intake.demand, intake.policy), Placed)
        for entry in new_nodes(snapshot, registry, intake.pod.constraints, vendors)
    )
