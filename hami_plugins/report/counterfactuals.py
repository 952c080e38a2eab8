"""The smallest changes for a pod as somebody submitted it, admission and quota included."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from hami_plugins.engine import quota
from hami_plugins.engine.changes import Counterfactual
from hami_plugins.engine.intake import take_in
from hami_plugins.engine.relax import relax
from hami_plugins.engine.rewrite import settled
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.pods import Pod

if TYPE_CHECKING:
    from hami_plugins.report.plan import Planner


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
    left = quota.left_in(snapshot, pod.namespace, planner.registry)
    intake = take_in(pod, planner.registry, planner.rules, left)
    if not intake.admission.allowed and left:
        intake = take_in(pod, planner.registry, planner.rules)
    if intake.refusal:
        return ()
    demand = replace(intake.demand, headroom=tuple(sorted((left or {}).items())))
    settle = settled(pod, planner.registry, planner.rules, left)
    return relax(
        planner.decider,
        snapshot,
        demand,
        intake.policy,
        limit=limit,
        spare_shapes=spare_shapes,
        priority=pod.priority,
        settle=settle,
    )
