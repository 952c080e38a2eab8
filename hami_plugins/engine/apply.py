"""Putting pods on nodes and taking them away, on a value: the only way a snapshot's usage changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hami_plugins.engine.claims.usage import given, without_users
from hami_plugins.engine.inventory import add_requests, with_pods
from hami_plugins.engine.usage import add
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.decisions import Placed
from hami_plugins.model.nodes import NodeEntry, NodeState
from hami_plugins.model.pods import ContainerAllocation, Pod, PodRecord
from hami_plugins.wire.gang_keys import GROUP_KEY, QUEUE_KEY, TASK_KEY


def record_of(pod: Pod, placed: Placed) -> PodRecord:
    """The record of a pod that a decision placed."""
    return record_with(pod, placed.containers)


def record_with(pod: Pod, allocations: tuple[ContainerAllocation, ...]) -> PodRecord:
    """The record of a pod that is given these shares."""
    return PodRecord(
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        allocations=allocations,
        containers=tuple(container.name for container in pod.containers),
        requests=pod.constraints.requests,
        queue=pod.annotations.get(QUEUE_KEY, ""),
        group=pod.annotations.get(GROUP_KEY, ""),
        native_group=pod.native_group,
        task=pod.annotations.get(TASK_KEY, ""),
        priority=pod.priority,
        labels=pod.labels,
        apart=pod.neighbours.apart,
        made_at=pod.made_at,
        preemptable=pod.preemptable,
    )


def with_pod(entry: NodeEntry, record: PodRecord) -> NodeEntry:
    """The node with one more pod; equal to rebuilding it from all its pods."""
    usage = dict(zip(entry.ids, entry.state.usage, strict=True))
    add(usage, record)
    requested = dict(entry.requested)
    add_requests(requested, record, sign=1)
    return replace(
        entry,
        state=NodeState(entry.state.shape, tuple(usage.values())),
        pods=(*entry.pods, record),
        requested=requested,
    )


def without_pods(entry: NodeEntry, leaving: Callable[[PodRecord], bool]) -> NodeEntry:
    """The node without some of its pods, rebuilt from the others; the same entry when none leaves."""
    staying = tuple(record for record in entry.pods if not leaving(record))
    return entry if len(staying) == len(entry.pods) else with_pods(entry, staying)


def assigned(snapshot: ClusterSnapshot, pod: Pod, placed: Placed) -> ClusterSnapshot:
    """The snapshot after a placement took effect."""
    entry = snapshot.nodes[snapshot.position[placed.node]]
    after = snapshot.with_node(with_pod(entry, record_of(pod, placed)))
    return after.with_dynamic(given(after.dynamic, pod, placed.claims)) if placed.claims else after


def removed(snapshot: ClusterSnapshot, leaving: Callable[[PodRecord], bool]) -> ClusterSnapshot:
    """The snapshot without some pods, wherever they are, and without what only they had of claims."""
    gone: set[str] = set()
    for entry in snapshot.nodes:
        without = without_pods(entry, leaving)
        if without is not entry:
            staying = set(map(id, without.pods))
            gone |= {record.full_name for record in entry.pods if id(record) not in staying}
            snapshot = snapshot.with_node(without)
    if not gone or not snapshot.dynamic.claims:
        return snapshot
    return snapshot.with_dynamic(without_users(snapshot.dynamic, gone.__contains__))
