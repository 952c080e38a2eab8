"""The smallest changes for a pod as it was submitted, admission and quota included."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from hami_plugins.engine import neighbours, node_filters, quota
from hami_plugins.engine.intake import take_in
from hami_plugins.engine.node_filters import noted
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.pods import Pod, PodRecord
from hami_plugins.suggest import relax
from hami_plugins.suggest.changes import Counterfactual
from hami_plugins.suggest.rewrite import rewritten, settled
from hami_plugins.wire.kubernetes_gangs import group_of

if TYPE_CHECKING:
    from hami_plugins.plan import Planner


def counterfactuals(
    planner: Planner,
    snapshot: ClusterSnapshot,
    pod: Pod,
    *,
    limit: int = 3,
    spare_shapes: Sequence[NodeEntry] = (),
) -> tuple[Counterfactual, ...]:
    """What would let a submitted pod fit, at most ``limit`` changes; none when it fits, or could never be admitted.

    A pod that only its namespace's quota keeps out is treated as one that no node takes, so that a raised quota and a
    smaller pod are both among the offers.
    """
    social = neighbours.matter(snapshot) or any(pod.neighbours)
    barred = node_filters.barred(noted(snapshot.nodes), pod, planner.registry, planner.moment(snapshot))
    if social:
        barred += neighbours.barred(snapshot, pod)
    if barred:
        pod = replace(pod, constraints=replace(pod.constraints, barred=barred))
    left = quota.left_in(snapshot, pod.namespace, planner.registry)
    intake = take_in(pod, planner.registry, planner.rules, left, written=bool(pod.uid))
    if not intake.admission.allowed and left:
        intake = take_in(pod, planner.registry, planner.rules, written=bool(pod.uid))
    if intake.refusal:
        return ()
    demand = replace(intake.demand, headroom=tuple(sorted((left or {}).items())))
    found = relax(
        planner.decider,
        snapshot,
        demand,
        intake.policy,
        limit=limit,
        spare_shapes=spare_shapes,
        priority=pod.priority,
        spared=lambda record: _is_of_its_gang(record, pod),
        settle=settled(pod, planner.registry, planner.rules, left),
    )
    return tuple(each for each in found if not social or _is_welcome(each, pod, snapshot))


def _is_of_its_gang(record: PodRecord, pod: Pod) -> bool:
    """Whether a running pod is one without which the pod could not start either."""
    group = group_of(pod)
    return bool(group) and record.namespace == pod.namespace and group in (record.group, record.native_group)


def _is_welcome(found: Counterfactual, pod: Pod, snapshot: ClusterSnapshot) -> bool:
    """Whether other pods let the pod onto the node once the changes are made, which may be other nodes than before."""
    for change in found.changes:
        pod = rewritten(pod, change)
    barred = neighbours.barred(found.applied_to(snapshot), pod)
    return not any(found.placed.node in nodes for _, nodes in barred)
