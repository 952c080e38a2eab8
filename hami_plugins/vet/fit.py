"""HP803 and HP806: shapes that fit nowhere, proved by deciding them on the given cluster with nothing on it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from hami_plugins.engine.apply import assigned
from hami_plugins.engine.intake import PodInfo, take_in
from hami_plugins.errors import ManifestError
from hami_plugins.explain.advice import change_words, written
from hami_plugins.inputs import workloads
from hami_plugins.inputs.workloads import Workload
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.decisions import Placed, Refused
from hami_plugins.model.pods import Pod
from hami_plugins.suggest import relax
from hami_plugins.suggest.changes import Change, ChangeKind, Counterfactual, Dropped, LessOf, LessPlain
from hami_plugins.vet import names
from hami_plugins.vet.capacity import asking_path, more_than_a_node, no_such_device, prefix, taken_in
from hami_plugins.vet.context import Context, each_pod, none_of
from hami_plugins.vet.findings import Edit, RewriteFix, VetRule, VetSeverity, Violation
from hami_plugins.vet.gangs import percentage_unadvertised
from hami_plugins.vet.new_nodes import fits_a_new_node
from hami_plugins.vet.resources import PodView, Subject
from hami_plugins.wire import objects, quantity

MOST_MEMBERS: Final = 512
"""Gangs of more pods than this are not tried as a whole."""


def fits_nowhere(pod: PodView, context: Context) -> Iterator[Violation]:
    """Pods that no node takes, even when nothing runs on it, nor one that an autoscaler may add."""
    intake = taken_in(pod, context)
    if intake is None or context.idle is None or _explained(pod, context):
        return
    decision = context.decider.decide(context.idle, intake.demand, intake.policy)
    if not isinstance(decision, Refused) or _grows_for(intake, context):
        return
    reasons = "; ".join(f"{count} x {words}" for words, count in decision.counted()[:3])
    found = relax(context.decider, context.idle, intake.demand, intake.policy, limit=1)
    if found and all(
        isinstance(each, LessPlain) and each.resource in _misnamed(pod, context) for each in found[0].changes
    ):
        return
    edit = _edit(pod, found[0]) if found else None
    yield Violation(
        asking_path(pod, context) if edit is None else edit.path,
        f"{prefix(pod)}the pod fits on {none_of(len(context.idle.nodes))}, even when all are idle "
        f"({reasons or decision.whole or 'no nodes'})",
        " and ".join(map(_words, found[0].changes)) if found else "ask for less, or for devices that the cluster has",
        edit,
    )


def declared(subject: Subject, context: Context) -> Sequence[Workload]:
    """The workloads of a document; none where it cannot be read, which other rules say."""
    try:
        return workloads.read((subject.document,), namespace=context.settings.namespace).workloads
    except ManifestError:
        return ()


def gang_too_large(subject: Subject, context: Context) -> Iterator[Violation]:
    """Gangs that do not fit together into the idle cluster, although each of their pods does."""
    if context.idle is None or not subject.pods:
        return
    for workload in declared(subject, context):
        gang = workload.gang
        if gang is None or not gang.exists or not 1 < len(workload.pods) <= MOST_MEMBERS:
            continue
        placed = fit_together(members(workload), context.idle, context, alone=False)
        if placed is not None and placed < gang.min_member and not _grows_for_any(workload, context):
            yield Violation(
                ("spec", "minAvailable") if "minAvailable" in subject.inside("spec") else (),
                f"{gang.min_member} pods have to start together, and only {placed} of {len(workload.pods)} fit into "
                "the cluster at once, even when all nodes are idle",
                f"let {placed} be enough, or make the pods smaller",
            )


def fit_together(pods: Iterable[Pod], idle: ClusterSnapshot, context: Context, *, alone: bool = True) -> int | None:
    """How many pods fit together; ``None`` when some of them request no devices, or unknown ones.

    Unless ``alone``, also when some fit nowhere even alone, which another rule says.
    """
    current, placed = idle, 0
    for pod in pods:
        intake = take_in(pod, context.placing, context.settings.rules)
        if intake.refusal or not intake.demand.devices.wants_devices:
            return None
        decision = context.decider.decide(current, intake.demand, intake.policy)
        if isinstance(decision, Placed):
            current = assigned(current, intake.pod, decision)
            placed += 1
        elif not alone and isinstance(context.decider.decide(idle, intake.demand, intake.policy), Refused):
            return None
    return placed


def members(workload: Workload) -> tuple[Pod, ...]:
    """The pods of a workload."""
    return tuple(objects.pod(copy.raw) for copy in workload.pods)


def _grows_for(intake: PodInfo, context: Context) -> bool:
    """Whether an autoscaler may add a node that takes the pod."""
    snapshot = context.snapshot
    return snapshot is not None and fits_a_new_node(intake, snapshot, context.registry, context.decider)


def _grows_for_any(workload: Workload, context: Context) -> bool:
    """Whether an autoscaler may add nodes for a gang. How many it needs and may get is for ``plan`` to say."""
    intakes = (take_in(pod, context.placing, context.settings.rules) for pod in members(workload))
    return any(_grows_for(intake, context) for intake in intakes)


def _explained(pod: PodView, context: Context) -> bool:
    """Whether a simpler rule has said already why the pod fits nowhere."""
    return any(
        next(check(spec, container, pod, context), None) is not None
        for container in pod.containers
        for spec in context.asked_of(container)
        for check in (no_such_device, more_than_a_node, percentage_unadvertised)
    )


def _misnamed(pod: PodView, context: Context) -> frozenset[str]:
    """The resources that other rules call wrong names; with the right ones the pod asks for something else."""
    flaws = (
        flaw
        for container in pod.containers
        for check in (names.misspelt, names.outdated)
        for flaw in check(container, pod, context)
    )
    return frozenset(str(flaw.path[-1]) for flaw in flaws)


def _words(change: Change) -> str:
    """What to do: as an imperative where it is the manifest that changes."""
    match change:
        case LessOf():
            return f"ask for {change.resource}: {written(change.resource, change.after)}"
        case LessPlain(after=0) if "/" in change.resource:
            return f"drop {change.resource}"
        case LessPlain():
            return f"ask for {change.resource}: {quantity.canonical(change.after)}"
        case Dropped():
            said = f"{change.key}={change.value[:60]}" if change.value else change.key
            return f"drop {'the node selector ' if change.kind is ChangeKind.NODE_SELECTOR else ''}{said}"
        case _:
            return f"it fits {change_words(change)}"


def _edit(pod: PodView, found: Counterfactual) -> Edit | None:
    """The change as one of the manifest, where it is a single smaller amount that stands in it."""
    if len(found.changes) != 1:
        return None
    change = found.changes[0]
    if not isinstance(change, LessOf) or change.container >= len(pod.containers) or len(change.containers) > 1:
        return None
    amount = pod.containers[change.container].limits.get(change.resource)
    return None if amount is None else RewriteFix(amount.path, written(change.resource, change.after))


RULES: Final = (
    VetRule(
        id="HP803",
        name="fits-nowhere",
        severity=VetSeverity.ERROR,
        summary="A pod fits on no node of the cluster, even when all nodes are idle, and on no new node of a pool.",
        why="Waiting does not help; the pod stays pending for ever.",
        fix="Make the change that the finding names; it has been tried.",
        check=each_pod(fits_nowhere),
    ),
    VetRule(
        id="HP806",
        name="gang-too-large",
        severity=VetSeverity.WARNING,
        summary="The pods of a gang fit one by one, but not together, even when all nodes are idle.",
        why="A gang starts as a whole or not at all.",
        fix="Let fewer pods be enough, or make them smaller.",
        check=gang_too_large,
    ),
)
