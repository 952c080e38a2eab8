"""Notes on planned pods: already running, unknown scheduler, unknown priority class."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from hami_plugins.engine.eligibility import tolerated_by_request
from hami_plugins.engine.registry import Registry
from hami_plugins.inputs.unread_keys import AnnotatedPod, unread
from hami_plugins.inputs.vocabulary import Vocabulary
from hami_plugins.inputs.workloads.pods import VOLCANO
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.decisions import Placed
from hami_plugins.model.pods import Pod
from hami_plugins.model.quantity import Quantity
from hami_plugins.plan import koordinator, mig_instances, mps, native_gangs, same_card, virtual_machines
from hami_plugins.queueing import schedulers
from hami_plugins.queueing.stages import PlanUnit, PodPlan, Stage

VOLCANO_CLAIMS: Final = (
    "Volcano looks at claims only with the argument predicate.DynamicResourceAllocationEnable of its plugin "
    "predicates; without it the pod is bound without its devices and does not start"
)


def remarked(
    plans: Sequence[PodPlan], units: Sequence[PlanUnit], snapshot: ClusterSnapshot, registry: Registry
) -> Iterator[PodPlan]:
    """The plans with notes: on pods that run already, on unknown schedulers and priorities, on unread annotations."""
    names = {plan.pod.full_name for plan in plans}
    runs = {
        record.full_name: entry.name
        for entry in snapshot.nodes
        for record in entry.pods
        if record.full_name in names and not record.terminating
    }
    unread_notes = UnreadNotes(registry)
    classes = {unit.name: unit.priority_class for unit in units} if len(units) > 1 else {}
    of_unit = {unit.name: unit.notes for unit in units if unit.notes}
    for plan in plans:
        notes = (*plan.notes, *of_unit.get(plan.unit, ()), *native_gangs.notes(plan, snapshot))
        node = runs.get(plan.pod.full_name)
        if node is not None:
            notes += (f"a pod of this name runs on {node}; this is planned as one more (--without leaves it out)",)
        stranger = "" if plan.stage is Stage.ELSEWHERE else schedulers.taken_for_hamis(plan.intake, registry)
        notes += (stranger,) if stranger else ()
        notes += tuple(koordinator.notes(plan, snapshot))
        notes += tuple(_written_over(plan))
        notes += tuple(same_card.notes(plan, registry))
        notes += tuple(mig_instances.notes(plan, snapshot, registry))
        notes += tuple(mps.notes(plan))
        notes += tuple(virtual_machines.notes(plan))
        notes += (VOLCANO_CLAIMS,) if plan.pod.claims and plan.pod.scheduler == VOLCANO else ()
        notes += unread_notes.of(plan.intake.submitted)
        unknown = _unknown_class(plan, classes.get(plan.unit), snapshot)
        if unknown:
            notes += (f"the listing has no PriorityClass {unknown}, so its priority counts as 0",)
        notes += (*_scoped(plan, snapshot), *_tolerated(plan, snapshot))
        yield replace(plan, notes=notes) if notes != plan.notes else plan


class UnreadNotes:
    """Notes on annotations that nothing reads. Pods with equal annotations and resources are looked at once."""

    def __init__(self, registry: Registry) -> None:
        self._vocabulary = Vocabulary.of(registry)
        self._known: dict[tuple[object, ...], tuple[str, ...]] = {}

    def of(self, pod: Pod) -> tuple[str, ...]:
        """The notes on a pod as it is submitted."""
        if not pod.annotations:
            return ()
        names = (name for each in pod.containers for name in (*each.limits, *each.requests))
        resources = tuple(dict.fromkeys(names))
        key = (*sorted(pod.annotations.items()), resources)
        found = self._known.get(key)
        if found is None:
            about = AnnotatedPod(pod.annotations, resources, self._vocabulary)
            found = self._known[key] = tuple(f"{each.words}; {each.remedy}" for each in unread(about))
        return found


def _written_over(plan: PodPlan) -> Iterator[str]:
    """Amounts of the pod that HAMi's webhook replaces: what is booked is not what the manifest says."""
    submitted, told = plan.intake.submitted, set()
    for at, change in plan.intake.admission.changes:
        if change.kind != "limit" or at is None:
            continue
        container = submitted.containers[at]
        before, after = container.limits.get(change.key), plan.pod.containers[at].limits.get(change.key)
        if before is None or after is None or before.nano == after.nano or (at, change.key) in told:
            continue
        told.add((at, change.key))
        where = f"container {container.name}: " if len(submitted.containers) > 1 else ""
        yield f"{where}HAMi's webhook rewrites {change.key}: {_number(before)} to {_number(after)}, and books that"


def _number(amount: Quantity) -> str:
    """An amount as people write it: 30000, and not 30k."""
    return str(amount) if amount.whole is None else str(amount.whole)


def _scoped(plan: PodPlan, snapshot: ClusterSnapshot) -> Iterator[str]:
    quota = snapshot.quotas.get(plan.pod.namespace)
    for name in quota.scoped if quota else ():
        yield f"ResourceQuota {name} limits only the pods of its scopes; whether it limits this one is not checked"


def _tolerated(plan: PodPlan, snapshot: ClusterSnapshot) -> Iterator[str]:
    """The toleration that the manifest leaves out and the API server adds."""
    entry = snapshot.node(plan.decision.node) if isinstance(plan.decision, Placed) else None
    if entry is None:
        return
    for taint in tolerated_by_request(entry.facts, plan.pod.constraints):
        yield (
            f"the pod has no toleration of the taint {taint.key} on {entry.name}: EKS and GKE add it to pods that "
            "request that resource; for any other cluster write it into the manifest"
        )


def _unknown_class(plan: PodPlan, of_unit: str | None, snapshot: ClusterSnapshot) -> str:
    """The priority class that decides the pod's turn, if its value is unknown."""
    if of_unit is None or plan.pod.priority:
        return ""
    name = of_unit or plan.pod.priority_class
    return "" if name in snapshot.priorities else name
