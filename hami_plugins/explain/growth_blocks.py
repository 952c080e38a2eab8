"""What keeps an autoscaler from adding a node for a pod, each with its cure; what it does by itself is not said."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, NamedTuple

from hami_plugins.engine.eligibility import met, repelling
from hami_plugins.explain.messages import counted
from hami_plugins.model.node_pools import AutoscaledPool, Autoscaler, Reservation
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.pods import NodeConstraints
from hami_plugins.suggest.pool_nodes import PoolNode
from hami_plugins.wire import karpenter, node_groups

_CAPACITY_KEYS: Final = (karpenter.CAPACITY_TYPE, node_groups.CAPACITY_TYPE)
_ORDINARY: Final = frozenset({"cpu", "memory", "pods", "ephemeral-storage"})


class BlockKind(StrEnum):
    """What is in the way, the most particular first: a pool is reported with the type that comes nearest."""

    GANG = "gang"
    ENQUEUE = "enqueue"
    RESOURCE = "resource"
    LIMIT = "limit"
    RESERVATION = "reservation"
    TAINT = "taint"
    CAPACITY_TYPE = "capacity-type"
    LABEL = "label"
    POOL = "pool"
    OTHER = "other"
    SIZE = "size"
    INSTANCE_TYPE = "instance-type"


class GrowthBlock(NamedTuple):
    """One thing that is in the way, and what to do about it."""

    kind: BlockKind
    message: str
    remedy: str


def of_node(pool: AutoscaledPool, node: PoolNode, constraints: NodeConstraints) -> Iterator[GrowthBlock]:
    """Why the pod could never run on a new node of the pool, whatever its autoscaler does."""
    yield from _labels(pool, node.entry, constraints)
    taint = repelling(node.entry.facts, constraints)
    if taint is not None:
        text = f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"
        yield GrowthBlock(
            BlockKind.TAINT,
            f"its nodes have the taint {text}, which the pod does not tolerate",
            "add the toleration to the pod",
        )
    if node.reserved and not node.usable:
        yield _reservation(pool, node)


def _labels(pool: AutoscaledPool, entry: NodeEntry, constraints: NodeConstraints) -> Iterator[GrowthBlock]:
    labels = entry.facts.labels
    for key, value in constraints.selector:
        if labels.get(key) != value:
            yield _label(pool, labels.get(key), key, value)
    terms = constraints.affinity
    if terms is not None and not any(all(met(each, entry.name, labels) for each in term) for term in terms if term):
        keys = dict.fromkeys(each.key for term in terms for each in term if not met(each, entry.name, labels))
        yield GrowthBlock(
            BlockKind.CAPACITY_TYPE if any(key in _CAPACITY_KEYS for key in keys) else BlockKind.LABEL,
            f"its nodes do not meet the pod's node affinity on {', '.join(keys)}",
            f"give the pool nodes with such labels ({_where(pool)}), or change the affinity",
        )


def _label(pool: AutoscaledPool, has: str | None, key: str, value: str) -> GrowthBlock:
    found = f"have {key}={has}" if has else f"do not have the label {key}"
    if key in _CAPACITY_KEYS:
        return GrowthBlock(
            BlockKind.CAPACITY_TYPE,
            f"its nodes {found}, and the pod selects {value}",
            f"allow the capacity type {value} in the pool, or select another one",
        )
    return GrowthBlock(
        BlockKind.LABEL,
        f"its nodes {found}, and the pod selects {key}={value}",
        f"add the label {key}={value} to the pool ({_where(pool)}), or leave it out of the pod",
    )


def _where(pool: AutoscaledPool) -> str:
    if pool.autoscaler is Autoscaler.KARPENTER:
        return "spec.template.metadata.labels"
    return f"the labels of the node group, or the tag {node_groups.TEMPLATE}label/KEY of its Auto Scaling group"


def _reservation(pool: AutoscaledPool, node: PoolNode) -> GrowthBlock:
    """The pool starts instances in reservations only, and there is none for this type that takes more."""
    told = "; ".join(_reservation_words(each) for each in node.reservations)
    where = (
        "check capacityReservationSelectorTerms and the status of its node class"
        if pool.autoscaler is Autoscaler.KARPENTER
        else "wait for its start or buy another one; see aws ec2 describe-capacity-reservations"
    )
    return GrowthBlock(
        BlockKind.RESERVATION,
        f"it starts {node.instance_type} in reservations only, and none takes instances now"
        f"{f': {told}' if told else '; a Capacity Block that has not started or has ended is not listed'}",
        where,
    )


def _reservation_words(each: Reservation) -> str:
    what = f"{'Capacity Block' if each.block else 'reservation'} {each.id}"
    if each.usable:
        return f"{what} has no instance left"
    times = [f"{word} {_stamp(at)}" for word, at in (("starts", each.starts), ("ends", each.ends)) if at is not None]
    return f"{what} ({', '.join(times)}) is not active" if times else f"{what} is not active"


def _stamp(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="minutes").replace("+00:00", "Z")


def unknown_resources(pool: AutoscaledPool, node: PoolNode, constraints: NodeConstraints) -> Iterator[GrowthBlock]:
    """Resources that new nodes will have, and of which the autoscaler does not know beforehand."""
    if node.known is None:
        return
    asked = [name for name, amount in constraints.requests if amount and name not in _ORDINARY]
    for name in asked:
        if name in node.known:
            continue
        if pool.autoscaler is Autoscaler.KARPENTER:
            yield GrowthBlock(
                BlockKind.RESOURCE,
                f"Karpenter does not know that its nodes have {name}",
                "create a NodeOverlay with spec.capacity, or use placeholders",
            )
        else:
            yield GrowthBlock(
                BlockKind.RESOURCE,
                f"the pool has no node, so Cluster Autoscaler does not know that its nodes have {name}",
                f"tag its Auto Scaling group {node_groups.TEMPLATE}resources/{name}={_amount(node, name)}",
            )


def _amount(node: PoolNode, name: str) -> str:
    amount = node.entry.facts.allocatable.get(name)
    return "NUMBER" if amount is None else str(amount)


def limit(pool: AutoscaledPool, node: PoolNode, needed: int) -> GrowthBlock:
    """The pool may not get as many nodes as are needed."""
    left = "no more node" if not node.room else counted(node.room, "more node")
    if node.limited_by.startswith("limits."):
        remedy = f"raise spec.{node.limited_by} of NodePool {pool.name}"
    elif node.limited_by.startswith("maximum"):
        remedy = f"raise the maximum size of node group {pool.name} to {pool.present + needed} or more"
    else:
        remedy = "reserve more instances"
    return GrowthBlock(
        BlockKind.LIMIT, f"{counted(needed, 'node')} needed, and {node.limited_by} leaves room for {left}", remedy
    )


def enqueue(autoscaler: Autoscaler) -> GrowthBlock:
    """Volcano creates a job's pods only once its minResources are free, so that no pod is ever pending."""
    return GrowthBlock(
        BlockKind.ENQUEUE,
        f"Volcano does not enqueue the job before its minResources are free, so {autoscaler} sees no pod that waits",
        "leave enqueue out of the actions of Volcano's configuration, or add the nodes by hand",
    )


def gang(autoscaler: Autoscaler, fitting: int) -> GrowthBlock:
    """Volcano's reason for members that would fit is ``Schedulable``; autoscalers count ``Unschedulable`` pods only.

    Volcano 1.14 ``pkg/scheduler/api/job_info.go`` ``TaskSchedulingReason``; Karpenter ``pkg/utils/pod/scheduling.go``
    ``FailedToSchedule``.
    """
    are = "1 member fits" if fitting == 1 else f"{fitting} members fit"
    return GrowthBlock(
        BlockKind.GANG,
        f"{are} on nodes that are there, and Volcano reports only the others as Unschedulable; {autoscaler} counts "
        "those alone, takes the same room for them, and adds too few nodes",
        "add the nodes by hand, or set the pool's minimum so that they are kept",
    )
