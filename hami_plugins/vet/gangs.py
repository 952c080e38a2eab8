"""HP70x: Volcano's jobs, gangs and queues."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hami_plugins.inputs.excerpts import excerpt
from hami_plugins.inputs.typos import MOST_NAMED
from hami_plugins.inputs.vocabulary import WRONG_VOLCANO_KEYS
from hami_plugins.inputs.workloads.gangs import DEFAULT_QUEUE
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.queueing import usage
from hami_plugins.vendors import volcano_releases
from hami_plugins.vendors.volcano import PERCENTAGE, SPREAD_KEY
from hami_plugins.vet.context import Context, each_request, none_of, where
from hami_plugins.vet.findings import RenameFix, VetRule, VetSeverity, Violation
from hami_plugins.vet.queues import BEFORE_THE_GATE, GROUPS, JOB, QUEUE, count, group_named, named, replicas
from hami_plugins.vet.resources import ContainerView, PodView, Subject
from hami_plugins.wire.gang_keys import GROUP_KEY
from hami_plugins.wire.lenient import items, mapping, text, whole

_ALWAYS_THERE: Final = frozenset({DEFAULT_QUEUE, "root", ""})


def percentage_unconfigured(
    spec: VendorSpec, container: ContainerView, pod: PodView, context: Context
) -> Iterator[Violation]:
    """Percentages that Volcano does not read."""
    name = spec.resources.memory_percentage
    asked = container.amount(name) if name else None
    if spec.dialect is not Dialect.VOLCANO or asked is None or spec.options.flags.get(PERCENTAGE, False):
        return
    if _is_advertised(name, context) is False:
        return
    yield Violation(
        asked.path,
        f"{where(container, pod)}: {name}={asked.text} is not read unless Volcano's device configuration names it "
        "(resourceMemoryPercentageName), and had only where nodes advertise it",
        f"write {spec.resources.memory} in MiB, or give the configuration with --settings",
    )


def percentage_unadvertised(
    spec: VendorSpec, container: ContainerView, pod: PodView, context: Context
) -> Iterator[Violation]:
    """Percentages that no node has in its status."""
    name = spec.resources.memory_percentage
    asked = container.amount(name) if name else None
    if spec.dialect is not Dialect.VOLCANO or asked is None or pod.placed:
        return
    what = f"{where(container, pod)}: {name}={asked.text}"
    fix = f"write {spec.resources.memory} in MiB, or have the agents of the nodes advertise {name}"
    advertised = _is_advertised(name, context)
    if advertised is False and context.snapshot is not None:
        nodes = none_of(len(context.snapshot.nodes))
        yield Violation(asked.path, f"{what}: {nodes} advertises it, so Volcano never enqueues the pod", fix)
    elif advertised is None and spec.options.flags.get(PERCENTAGE, False):
        yield Violation(
            asked.path,
            f"{what}: it is had only where nodes advertise it in their status, which the usual agent does not",
            fix,
            severity=VetSeverity.NOTE,
        )


def _is_advertised(resource: str, context: Context) -> bool | None:
    """Whether any node of the cluster has some of a resource; ``None`` without a cluster."""
    if context.snapshot is None:
        return None
    found = (entry.facts.allocatable.get(resource) for entry in context.snapshot.nodes)
    return any(amount is not None and amount.nano > 0 for amount in found)


def unknown_queue(subject: Subject, context: Context) -> Iterator[Violation]:
    """Queues that the cluster does not have, or that are closed."""
    if context.snapshot is None or not context.snapshot.queues:
        return
    made = context.declared.get(QUEUE, frozenset())
    bare = (subject.group, subject.kind) != JOB
    consequence = ": its pods wait without a condition or an event" if bare else ": the webhook refuses the job"
    for path, name in named(subject, context):
        queue = context.snapshot.queues.get(name)
        if name in _ALWAYS_THERE or name in made or (queue is not None and queue.open):
            continue
        if queue is None:
            known = ", ".join(sorted({*context.snapshot.queues, *made})[:MOST_NAMED])
            yield Violation(path, f"queue {name} does not exist{consequence}", f"make the Queue, or use one of {known}")
        else:
            yield Violation(path, f"queue {name} is closed{consequence}", "open it, or use another one")


def inner_queue(subject: Subject, context: Context) -> Iterator[Violation]:
    """Queues above others: their webhook refuses jobs for them, and bare pods in them stop everybody."""
    bare = (subject.group, subject.kind) != JOB
    if bare and not usage.reads_parents(context.settings.rules):
        return
    for path, name in named(subject, context):
        above = name or DEFAULT_QUEUE
        below = usage.below(context.queues.values(), above)
        if not below:
            continue
        stops = "Volcano places no pod of the cluster while this one is there"
        consequence = stops if bare else "the webhook refuses the job"
        children = ", ".join(below[:MOST_NAMED])
        yield Violation(
            path, f"queue {above} has child queues: {consequence}", f"use one of those below it: {children}"
        )


def too_few_replicas(subject: Subject, _: Context) -> Iterator[Violation]:
    """Jobs that need more pods than they have."""
    if (subject.group, subject.kind) != JOB:
        return
    spec = subject.inside("spec")
    total = 0
    for at, task in enumerate(items(spec.get("tasks"))):
        copies = count(mapping(task).get("replicas"))
        total += copies
        needed = whole(mapping(task).get("minAvailable"))
        if needed is not None and needed > copies:
            yield Violation(
                ("spec", "tasks", at, "minAvailable"),
                f"task {text(mapping(task).get('name')) or at}: minAvailable={needed} is more than {copies} replicas",
                f"write at most {copies}, or more replicas",
            )
    needed = whole(spec.get("minAvailable"))
    if needed is not None and needed > total:
        yield Violation(
            ("spec", "minAvailable"),
            f"minAvailable={needed} is more than the {total} replicas of all tasks",
            f"write at most {total}, or more replicas",
        )


def missing_group(subject: Subject, context: Context) -> Iterator[Violation]:
    """Pods of gangs that do not exist."""
    if (subject.group, subject.kind) == JOB:
        return
    snapshot = context.snapshot
    for pod in subject.pods:
        path, name = group_named(pod)
        full_name = f"{subject.namespace}/{name}"
        if not name or pod.placed or any(full_name in context.declared.get(kind, ()) for kind in GROUPS):
            continue
        if snapshot is not None and full_name in snapshot.pod_groups:
            continue
        yield Violation(
            path,
            f"PodGroup {subject.namespace}/{name} is "
            + ("not among these manifests" if snapshot is None else "neither in the cluster nor among these manifests")
            + "; without it the pod waits for ever",
            "add the PodGroup",
            severity=VetSeverity.WARNING if snapshot is None else None,
        )


def group_too_small(subject: Subject, context: Context) -> Iterator[Violation]:
    """Gangs that need more pods than name them."""
    if (subject.group, subject.kind) not in GROUPS:
        return
    needed = whole(subject.inside("spec").get("minMember"))
    if needed is None or subject.inside("status").get("phase", "") not in BEFORE_THE_GATE:
        return
    pods = _members(subject, context)
    if pods is None or not 0 < pods < needed:
        return
    yield Violation(
        ("spec", "minMember"),
        f"minMember={needed}, and {pods} {'pod names' if pods == 1 else 'pods name'} this group; the gang never starts",
        f"write {pods}, or add pods with the annotation {GROUP_KEY}: {subject.name}",
    )


def wrong_key(subject: Subject, context: Context) -> Iterator[Violation]:
    """Annotations that look like Volcano's and are not read."""
    if (subject.group, subject.kind) == JOB:
        return
    for pod in subject.pods:
        if pod.scheduler not in context.settings.volcano or pod.placed:
            continue
        for key, right in WRONG_VOLCANO_KEYS.items():
            if key not in pod.annotations or right in pod.annotations:
                continue
            if right == GROUP_KEY and SPREAD_KEY in pod.annotations:
                continue
            yield Violation(
                pod.annotation(key),
                f"annotation {key}={excerpt(pod.annotations[key])}: Volcano does not read it on pods outside its jobs",
                f"write {right}",
                RenameFix(pod.annotation(key), right),
            )


def _members(group: Subject, context: Context) -> int | None:
    """How many pods name a group, here and in the cluster; ``None`` when some owner does not say how many it makes."""
    total = 0
    for subject in context.subjects:
        if subject.namespace != group.namespace:
            continue
        if any(group_named(pod)[1] == group.name for pod in subject.pods):
            made = replicas(subject)
            if made is None:
                return None
            total += made
    if total or group.document in context.listed:
        total += context.occupants.placed.get(group.full_name, 0)
        total += len(context.occupants.waiting.get(group.full_name, ()))
    return total


RULES: Final = (
    VetRule(
        id="HP701",
        name="percentage-unconfigured",
        severity=VetSeverity.WARNING,
        summary="A pod asks for Volcano's percentage of memory, which Volcano reads only when configured.",
        why="By default Volcano's device configuration does not name the resource; the pod is held back, or gets all "
        "of the card's memory.",
        fix="Write volcano.sh/vgpu-memory in MiB.",
        check=each_request(percentage_unconfigured),
    ),
    VetRule(
        id="HP702",
        name="unknown-queue",
        severity=VetSeverity.ERROR,
        summary="A queue does not exist in the cluster, or is closed.",
        why="Volcano refuses jobs of such a queue. Of bare pods it refuses the PodGroup; no pod shows that.",
        fix="Make or open the queue.",
        check=unknown_queue,
        quirk=volcano_releases.SILENT_QUEUE,
    ),
    VetRule(
        id="HP703",
        name="too-few-replicas",
        severity=VetSeverity.ERROR,
        summary="minAvailable is more than there are replicas.",
        why="Volcano's webhook refuses the job.",
        fix="Write a smaller minAvailable, or more replicas.",
        check=too_few_replicas,
    ),
    VetRule(
        id="HP704",
        name="missing-group",
        severity=VetSeverity.ERROR,
        summary="A pod names a PodGroup that does not exist.",
        why="The scheduler waits for the group and reports nothing.",
        fix="Add the PodGroup.",
        check=missing_group,
    ),
    VetRule(
        id="HP705",
        name="group-too-small",
        severity=VetSeverity.WARNING,
        summary="A PodGroup needs more members than there are pods that name it.",
        why="A gang starts as a whole or not at all.",
        fix="Write a smaller minMember, or add pods.",
        check=group_too_small,
    ),
    VetRule(
        id="HP706",
        name="wrong-volcano-key",
        severity=VetSeverity.WARNING,
        summary="A pod names its queue or group by an annotation that Volcano does not read there.",
        why="The pod lands in the default queue, or in a gang of its own.",
        fix="Write scheduling.volcano.sh/queue-name and scheduling.k8s.io/group-name.",
        check=wrong_key,
    ),
    VetRule(
        id="HP707",
        name="percentage-unadvertised",
        severity=VetSeverity.ERROR,
        summary="A pod asks for Volcano's percentage of memory, and no node advertises that resource.",
        why="Volcano looks for it in the sums of the nodes' status before it looks at cards. The usual agent never "
        "writes it there, so Volcano never enqueues the pod, whatever the configuration names.",
        fix="Write volcano.sh/vgpu-memory in MiB.",
        check=each_request(percentage_unadvertised),
        quirk=volcano_releases.PERCENTAGE,
    ),
    VetRule(
        id="HP708",
        name="inner-queue",
        severity=VetSeverity.ERROR,
        summary="A pod or job names a queue that has child queues.",
        why="Volcano's webhook refuses jobs there. It lets bare pods and PodGroups in, and where capacity reads "
        "parents (enableHierarchy) each session ends before any pod is placed.",
        fix="Name a queue without children.",
        check=inner_queue,
        quirk=volcano_releases.INNER_QUEUE,
    ),
)
