"""What a listing says of submitted pods beside whether they fit: what people would otherwise take for our mistake."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from hami_plugins.errors import WireError
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.vendor import Dialect
from hami_plugins.report.plan.stages import PodPlan, Stage, Unit
from hami_plugins.vendors.koordinator import ISOLATION, NAME
from hami_plugins.wire import koordinator_hints
from hami_plugins.wire.koordinator import GPU_TYPE, NPU_CORE

_PARTITION: Final = koordinator_hints.PARTITION_KEY
_NARROW: Final = koordinator_hints.WITHIN_ONE_NUMA_NODE - {"NUMANode"}


def remarked(plans: Sequence[PodPlan], units: Sequence[Unit], snapshot: ClusterSnapshot) -> Iterator[PodPlan]:
    """The plans with a note on pods that run already, and on priorities that nobody knows where several compete."""
    names = {plan.pod.full_name for plan in plans}
    runs = {
        record.full_name: entry.name
        for entry in snapshot.nodes
        for record in entry.pods
        if record.full_name in names and not record.terminating
    }
    classes = {unit.name: unit.priority_class for unit in units} if len(units) > 1 else {}
    for plan in plans:
        notes = plan.notes
        node = runs.get(plan.pod.full_name)
        if node is not None:
            notes += (f"a pod of this name runs on {node}; this is planned as one more (--without leaves it out)",)
        notes += tuple(_given_up(plan, snapshot))
        if plan.stage is Stage.PLACED:
            notes += tuple(_not_looked_at(plan))
        unknown = _unknown_class(plan, classes.get(plan.unit), snapshot)
        if unknown:
            notes += (f"the listing has no PriorityClass {unknown}, so its priority counts as 0",)
        yield replace(plan, notes=notes) if notes != plan.notes else plan


def _given_up(plan: PodPlan, snapshot: ClusterSnapshot) -> Iterator[str]:
    """Where Koordinator's scheduler ends its search: at the first node with cards that lacks the pod's label."""
    wanted = plan.pod.labels.get(ISOLATION)
    if plan.intake.dialect is not Dialect.KOORDINATOR or wanted is None or plan.stage is not Stage.PLACED:
        return
    if dict(plan.pod.constraints.selector).get(ISOLATION) is not None or not _shares(plan):
        return
    for entry in snapshot.nodes:
        if NAME in entry.state.shape.positions and entry.facts.labels.get(ISOLATION) != wanted:
            yield (
                f"Koordinator's scheduler may give up on it at node {entry.name}, which has cards and no label "
                f"{ISOLATION}={wanted}; give the pod a nodeSelector of it"
            )
            return


def _not_looked_at(plan: PodPlan) -> Iterator[str]:
    """Wishes that Koordinator's scheduler looks at and a plan does not, so that the pod may get no place there."""
    names = {name for container in plan.pod.containers for name in container.requests}
    if plan.intake.dialect is not Dialect.KOORDINATOR and NPU_CORE not in names:
        return
    given = plan.pod.annotations
    for key, met in ((koordinator_hints.KEY, _scope), (koordinator_hints.JOINT_KEY, _joint), (_PARTITION, _partition)):
        text = given.get(key)
        if text is None:
            continue
        try:
            words = met(text)
        except WireError as error:
            words = f"Koordinator cannot read it and lets the pod wait: {error.why}"
        if words:
            yield f"{key}: {words}"
    if NPU_CORE in names:
        yield f"{NPU_CORE} is compared with the node's sums alone, and not with what is free of one NPU"


def _scope(text: str) -> str:
    hint = koordinator_hints.decode(text).get(GPU_TYPE)
    if hint is None or hint.scope not in _NARROW:
        return ""
    return f"the plan keeps the cards within one NUMA node, and does not look at {hint.scope}"


def _joint(text: str) -> str:
    joint = koordinator_hints.decode_joint(text)
    apart = "has to hold" if joint.scope else "is rather wanted"
    return f"{joint.scope or 'nearness'} of {' and '.join(joint.types)} {apart}, and a plan does not look at it"


def _partition(text: str) -> str:
    wish = koordinator_hints.decode_partition(text)
    return f"cards of one partition are wanted ({wish.policy}), and a plan does not look at partitions"


def _shares(plan: PodPlan) -> bool:
    """Whether a pod has parts of cards: only for those the label matters."""
    requests = [each for container in plan.intake.demand.devices.containers for each in container.requests]
    return any(each.option(ISOLATION) is not None for each in requests)


def _unknown_class(plan: PodPlan, of_unit: str | None, snapshot: ClusterSnapshot) -> str:
    """The priority class whose value decides about the pod's turn, when nothing tells it."""
    if of_unit is None or plan.pod.priority:
        return ""
    name = of_unit or plan.pod.priority_class
    return "" if name in snapshot.priorities else name
