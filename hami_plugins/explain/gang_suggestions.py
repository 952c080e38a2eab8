"""Ways out for a member of a gang that cannot start: what lets one member in helps only where all find a place then."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from hami_plugins.engine.apply import without_pods
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.pods import Pod, PodRecord
from hami_plugins.model.quantity import NANO
from hami_plugins.model.units import NodeName
from hami_plugins.plan import Plan, PlanUnit, PodPlan, Stage
from hami_plugins.suggest.changes import AddedNode, Counterfactual, RaisedQuota, Removed
from hami_plugins.suggest.rewrite import rewritten
from hami_plugins.wire.kubernetes_gangs import group_of

if TYPE_CHECKING:
    from hami_plugins.plan import Planner

MOST_NODES: Final = 8
"""New nodes of one kind that are tried together."""

MOST_LOOKS: Final = 2_000_000
FURTHER: Final = 20
"""How often all trials together look at a node for a pod; each trial costs as much as so many further pods."""


class GangWays:
    """Tries suggestions for the gangs of one plan, within the time limit of a plan; untried ones are left out."""

    def __init__(self, plan: Plan, planner: Planner) -> None:
        self._plan = plan
        self._planner = planner
        self._units = {unit.name: unit for unit in plan.units}
        self._looks = MOST_LOOKS

    def starting(self, found: Iterable[Counterfactual], refused: PodPlan) -> tuple[Counterfactual, ...]:
        """The changes with which the whole gang of a refused pod starts, each planned again.

        Where one more node is not enough, as many as are. Of a pod without a gang, or of one whose gang has started,
        all changes remain.
        """
        unit = self._units.get(refused.unit)
        if unit is None or not unit.gang:
            return tuple(found)
        members = [each for each in self._plan.pods if each.unit == unit.name]
        if any(each.stage is Stage.PLACED for each in members):
            return tuple(found)
        cluster = without_unit(self._plan.standing, unit)
        pod, looks = refused.intake.submitted, len(cluster.nodes) * (len(members) + FURTHER)
        return tuple(each for one in found if (each := self._proven(one, cluster, unit, pod, looks)))

    def _proven(
        self, found: Counterfactual, cluster: ClusterSnapshot, unit: PlanUnit, pod: Pod, looks: int
    ) -> Counterfactual | None:
        for each in _more_of(found):
            if self._looks < looks:
                return None
            self._looks -= looks
            again = self._planner.plan(*_changed(each, cluster, unit, pod))
            if any(plan.unit == unit.name and plan.stage is Stage.PLACED for plan in again.pods):
                return each
        return None


def _more_of(found: Counterfactual) -> Iterator[Counterfactual]:
    """The change, and where it is a new node alone the same with several."""
    yield found
    if len(found.changes) == 1 and isinstance(found.changes[0], AddedNode):
        for count in range(2, MOST_NODES + 1):
            yield replace(found, changes=(replace(found.changes[0], count=count),))


def _changed(
    found: Counterfactual, cluster: ClusterSnapshot, unit: PlanUnit, pod: Pod
) -> tuple[ClusterSnapshot, tuple[PlanUnit]]:
    """The cluster and the gang with a change made, in every member that has the same containers."""
    for change in found.changes:
        match change:
            case Removed(pod=gone, node=node):
                entry = cluster.nodes[cluster.position[node]]
                cluster = cluster.with_node(without_pods(entry, partial(_is, gone.full_name)))
            case AddedNode(count=count):
                new = (NodeName(f"{found.node.name}-{at}") for at in range(count))
                cluster = cluster.with_more_nodes(replace(found.node, name=name) for name in new)
            case RaisedQuota(resource=resource, by=by):
                quota = cluster.quotas[pod.namespace]
                key = f"limits.{resource}"
                hard = {**quota.hard, key: quota.hard[key] + by * NANO}
                cluster = replace(cluster, quotas={**cluster.quotas, pod.namespace: replace(quota, hard=hard)})
            case _:
                alike = [each.containers == pod.containers for each in unit.pods]
                pods = tuple(
                    rewritten(each, change) if same else each for each, same in zip(unit.pods, alike, strict=True)
                )
                unit = replace(unit, pods=pods)
                waiting = tuple(rewritten(each, change) if _is_mate(each, pod) else each for each in cluster.pending)
                cluster = replace(cluster, pending=waiting)
    return cluster, (unit,)


def without_unit(standing: ClusterSnapshot, unit: PlanUnit) -> ClusterSnapshot:
    """The cluster after the plan, the pods of one workload yet to come."""
    own = {pod.full_name for pod in unit.pods}
    return replace(standing, pending=tuple(pod for pod in standing.pending if pod.full_name not in own))


def _is_mate(other: Pod, pod: Pod) -> bool:
    """Whether another pod is of the same gang and asks for the same."""
    group = group_of(pod)
    same = (other.namespace, group_of(other)) == (pod.namespace, group)
    return bool(group) and same and other.containers == pod.containers


def _is(name: str, record: PodRecord) -> bool:
    return record.full_name == name
