"""HP72x: queues, quotas and gangs at Volcano's enqueue gate, which compares plain requests (``trials.md`` V18)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from hami_plugins.engine import resource_quota
from hami_plugins.engine.demand import WHOLE
from hami_plugins.errors import WireError
from hami_plugins.model.cluster import NamespaceQuota, Queue
from hami_plugins.model.dialect import Dialect
from hami_plugins.model.pods import Pod
from hami_plugins.model.quantity import NANO
from hami_plugins.model.requests import ContainerKind
from hami_plugins.model.vendor import VendorSpec
from hami_plugins.queueing.queues import INQUEUE
from hami_plugins.vendors import volcano_releases
from hami_plugins.vet import fit, queues
from hami_plugins.vet.context import Context, where
from hami_plugins.vet.findings import VetRule, VetSeverity, Violation
from hami_plugins.vet.resources import ContainerView, PodView, Subject
from hami_plugins.wire import objects
from hami_plugins.wire.lenient import mapping, whole

_MADE: Final = "podgroup-"
"""How the PodGroups begin that Volcano makes for pods outside its jobs."""


def cap_of_plain_requests(subject: Subject, context: Context) -> Iterator[Violation]:
    """Caps on memory and cores, and pods that slip under them."""
    specs = speaking_volcano(context)
    if (subject.group, subject.kind) == queues.QUEUE and subject.name in context.queues:
        for spec in specs:
            yield from _capped(context.queues[subject.name], spec, context)
    for pod in subject.pods:
        if pod.scheduler not in context.settings.volcano or pod.placed:
            continue
        queue = context.queues.get(queues.queue_of(subject, pod, context))
        for container in pod.containers:
            for spec in specs if queue is not None else ():
                yield from _slipping(spec, container, pod, queue, context)


def _capped(queue: Queue, spec: VendorSpec, context: Context) -> Iterator[Violation]:
    """What a queue's cap is worth, and what its pods hold already."""
    for resource in (spec.resources.memory, spec.resources.cores):
        cap = queue.capability.get(resource)
        if cap is None:
            continue
        held = _held(queue.name, spec, resource, context)
        what = f"capability {resource}={cap // NANO} is compared with what containers ask, not with what they get"
        if held * NANO > cap:
            what, severity = f"{what}: the pods of the queue hold {held} of {cap // NANO}", VetSeverity.WARNING
        else:
            none = "; one without memory counts none" if resource == spec.resources.memory else ""
            what, severity = f"{what}: a container with 2 cards counts once{none}", VetSeverity.NOTE
        yield Violation(
            ("spec", "capability", resource), what, f"cap {spec.resources.count} as well", severity=severity
        )


def _slipping(
    spec: VendorSpec, container: ContainerView, pod: PodView, queue: Queue | None, context: Context
) -> Iterator[Violation]:
    """Containers that take more than they count for."""
    request = context.reading(spec, container).request if spec in context.asked_of(container) else None
    if queue is None or request is None or container.kind is not ContainerKind.APP:
        return
    for resource in (spec.resources.memory, spec.resources.cores):
        cap = queue.capability.get(resource)
        asked = container.amount(resource)
        counts = 0 if asked is None or asked.quantity is None else asked.quantity.ceiling
        whole_cards = resource == spec.resources.memory and request.memory == WHOLE
        if cap is None or not (whole_cards or (request.count > 1 and counts > 0)):
            continue
        cards = "1 whole card" if request.count == 1 else f"{request.count} whole cards"
        gets = cards if whole_cards else f"{request.count} x {counts}"
        named = (container.amount(name) for name in (resource, spec.resources.count))
        yield Violation(
            next(each.path for each in named if each is not None),
            f"{where(container, pod)}: gets {gets} and counts {counts} of {resource} against the {cap // NANO} that "
            f"queue {queue.name} may have",
            f"use one card per container, or cap {spec.resources.count} instead"
            if counts
            else f"write {resource} and use one card per container, or cap {spec.resources.count} instead",
        )


def _held(queue: str, spec: VendorSpec, resource: str, context: Context) -> int:
    """What the pods of a queue hold of cards' memory or cores, in the units of the register."""
    total = 0
    for record in context.occupants.by_queue.get(queue, ()):
        for allocation in record.allocations:
            for share in allocation.shares if allocation.kind is not ContainerKind.INIT else ():
                if share.vendor == spec.name:
                    total += share.memory if resource == spec.resources.memory else share.cores
    return total


def gang_without_resources(subject: Subject, context: Context) -> Iterator[Violation]:
    """Gangs made by hand that say nothing of what they need."""
    spec = subject.inside("spec")
    if (subject.group, subject.kind) != queues.GROUP or spec.get("minResources") or _is_made(subject):
        return
    if subject.inside("status").get("phase", "") not in queues.BEFORE_THE_GATE:
        return
    members = tuple(_members(subject, context))
    needed = max(whole(spec.get("minMember")) or 0, 1)
    asked = _sum_of_devices(members[:needed], context)
    if not asked:
        return
    least = ", ".join(f"{resource}: {amount // NANO}" for resource, amount in asked.items())
    yield Violation(
        ("spec",),
        "no minResources: Volcano enqueues the gang whatever is free and counts nothing for it, and its pods wait "
        "before the cards",
        f"write minResources: {{{least}}}, and cpu and memory",
    )


def no_gang(subject: Subject, context: Context) -> Iterator[Violation]:
    """Gangs that need no member."""
    spec = subject.inside("spec")
    if (subject.group, subject.kind) == queues.GROUP and not _is_made(subject):
        pods = tuple(_members(subject, context))
        if not whole(spec.get("minMember")) and len(pods) > 1 and _sum_of_devices(pods, context):
            yield Violation(
                ("spec",),
                f"no minMember: the {len(pods)} pods that name this group are placed one by one",
                f"write minMember: {len(pods)}",
                severity=VetSeverity.WARNING,
            )
    tasks = spec.get("tasks")
    if (subject.group, subject.kind) != queues.JOB or "minAvailable" in spec or not isinstance(tasks, list):
        return
    if any("minAvailable" in mapping(task) for task in tasks):
        return
    replicas = [queues.count(mapping(task).get("replicas")) for task in tasks]
    if sum(replicas) > 1 and any(context.asked_by(pod) for pod in subject.pods):
        yield Violation(
            ("spec",),
            f"no minAvailable: only Volcano's webhook makes it {sum(replicas)}; where that is off, the pods are no "
            "gang and are placed one by one",
            f"write minAvailable: {sum(replicas)}",
        )


def part_of_a_gang(subject: Subject, context: Context) -> Iterator[Violation]:
    """Jobs of which a quota lets only a part of the pods in."""
    quota = _quota(subject.namespace, context) if (subject.group, subject.kind) == queues.JOB else None
    if quota is None:
        return
    for workload in fit.declared(subject, context):
        needed = 0 if workload.gang is None else workload.gang.min_member
        allowed, why = _let_in(fit.members(workload), quota)
        if allowed < needed:
            yield Violation(
                ("spec", "minAvailable") if "minAvailable" in subject.inside("spec") else ("spec",),
                f"the quota of namespace {subject.namespace} lets in {allowed} of {len(workload.pods)} pods ({why}), "
                f"and the gang needs {needed}: those that are in wait for ever",
                "make the job smaller, or have the quota raised",
            )


def _let_in(pods: Iterable[Pod], quota: NamespaceQuota) -> tuple[int, str]:
    """How many pods of a job an empty namespace takes, and what stops the next one."""
    used: dict[str, int] = {}
    allowed, why = 0, ""
    for pod in pods:
        counts = resource_quota.counted(pod)
        broken = resource_quota.excesses(quota, used, counts)
        if broken:
            why = why or str(broken[0]).removeprefix("quota: ")
        else:
            resource_quota.add(used, counts)
            allowed += 1
    return allowed, why


def kept_back(subject: Subject, context: Context) -> Iterator[Violation]:
    """Guarantees of cards, which other queues never get."""
    queue = context.queues.get(subject.name) if (subject.group, subject.kind) == queues.QUEUE else None
    if queue is None:
        return
    for spec in speaking_volcano(context):
        for resource in spec.resources.all():
            kept = queue.guarantee.get(resource, 0)
            if kept > 0:
                yield _kept(resource, kept, queue, context)


def _kept(resource: str, kept: int, queue: Queue, context: Context) -> Violation:
    what, severity = f"guarantee {resource}={kept // NANO}", VetSeverity.NOTE
    if context.snapshot is not None:
        total = sum(
            amount.nano
            for entry in context.snapshot.nodes
            if (amount := entry.facts.allocatable.get(resource)) is not None
        )
        what = f"{what} of {total // NANO} in the cluster"
        waiting = sum(
            any(name == resource and amount > 0 for name, amount in pod.constraints.requests)
            for other, pods in context.occupants.waiting_by_queue.items()
            for pod in (pods if other != queue.name else ())
        )
        if waiting and not context.occupants.by_queue.get(queue.name):
            severity = VetSeverity.WARNING
            what = f"{what}, and the queue is idle while {waiting} pods of other queues wait for some"
    return Violation(
        ("spec", "guarantee", "resource", resource),
        f"{what}: other queues do not get it, also while queue {queue.name} is idle",
        "guarantee what has to be there at once, and give shares by weight or deserved",
        severity=severity,
    )


def held_for_ever(subject: Subject, context: Context) -> Iterator[Violation]:
    """Gangs that were let in and fit nowhere."""
    idle = context.idle
    if (subject.group, subject.kind) != queues.GROUP or idle is None:
        return
    if subject.inside("status").get("phase") != INQUEUE:
        return
    waiting = context.occupants.waiting.get(subject.full_name, [])
    placed_already = context.occupants.placed.get(subject.full_name, 0)
    needed = max(whole(subject.inside("spec").get("minMember")) or 0, 1) - placed_already
    placed = fit.fit_together(waiting, idle, context) if len(waiting) >= needed > 0 else None
    if placed is None or placed >= needed:
        return
    least = _taken_at_the_gate(subject, context)
    yield Violation(
        ("status", "phase"),
        f"let in, and only {placed} of its {len(waiting)} waiting pods fit, even when all nodes are idle; it needs "
        f"{needed}. It waits for ever" + (f", and others do without {least}" if least else ""),
        "delete it, or make its pods smaller",
    )


def _taken_at_the_gate(subject: Subject, context: Context) -> str:
    known = {resource for spec in speaking_volcano(context) for resource in spec.resources.all()}
    least = objects.readable_pod_group(subject.document.raw)[0].min_resources or {}
    return ", ".join(f"{resource}={amount // NANO}" for resource, amount in least.items() if resource in known)


def speaking_volcano(context: Context) -> tuple[VendorSpec, ...]:
    """The vendors that are asked in Volcano's words."""
    return tuple(spec for spec in context.registry if spec.dialect is Dialect.VOLCANO)


def _is_made(subject: Subject) -> bool:
    """Whether a controller made the PodGroup; snapshot files of ours keep its name, and not its owner."""
    return subject.name.startswith(_MADE) or bool(subject.inside("metadata").get("ownerReferences"))


def _members(group: Subject, context: Context) -> Iterator[Pod]:
    """The pods that name a group: those among the manifests, else those that wait in the cluster."""
    seen = False
    for subject in context.subjects:
        for pod in subject.pods:
            if subject.namespace == group.namespace and queues.group_named(pod)[1] == group.name and pod.pod:
                copies = queues.replicas(subject) or 1
                seen = True
                yield from [pod.pod] * min(copies, fit.MOST_MEMBERS)
    if not seen:
        yield from context.occupants.waiting.get(group.full_name, ())


def _sum_of_devices(pods: Iterable[Pod], context: Context) -> Mapping[str, int]:
    """What pods ask of Volcano's resources, in nano units."""
    known = {resource for spec in speaking_volcano(context) for resource in spec.resources.all()}
    total: dict[str, int] = {}
    for pod in pods:
        for resource, amount in pod.constraints.requests:
            if resource in known and amount > 0:
                total[resource] = total.get(resource, 0) + amount
    return total


def _quota(namespace: str, context: Context) -> NamespaceQuota | None:
    """The quota of a namespace, from the cluster and the manifests together."""
    known = None if context.snapshot is None else context.snapshot.quotas.get(namespace)
    for subject in context.subjects:
        if (subject.group, subject.kind, subject.namespace) == ("", "ResourceQuota", namespace):
            try:
                found = objects.resource_quota(
                    {**subject.document.raw, "metadata": {"name": subject.name, "namespace": namespace}}
                )
            except WireError:
                continue
            known = found if known is None else known.together_with(found)
    return known


RULES: Final = (
    VetRule(
        id="HP721",
        name="cap-of-plain-requests",
        severity=VetSeverity.WARNING,
        summary="A queue caps device memory or cores, and pods take more of them than they count for.",
        why="Volcano compares the cap with what containers ask plainly: not times the number of cards, and nothing "
        "where no memory is asked, which is a whole card. More than twice a cap was seen handed out.",
        fix="Also cap the number of cards, and have every container ask for one card and its memory.",
        check=cap_of_plain_requests,
        quirk=volcano_releases.PLAIN_CAPS,
    ),
    VetRule(
        id="HP722",
        name="gang-without-resources",
        severity=VetSeverity.WARNING,
        summary="A PodGroup made by hand has no minResources, and its pods ask for vGPUs.",
        why="Volcano has nothing to compare: it enqueues the gang however full the cluster is, and does not count the "
        "gang's devices when it enqueues others.",
        fix="Write minResources: what minMember pods ask together.",
        check=gang_without_resources,
        quirk=volcano_releases.OPEN_GATE,
    ),
    VetRule(
        id="HP723",
        name="no-gang",
        severity=VetSeverity.NOTE,
        summary="A Job without minAvailable, or a PodGroup without minMember: its pods need not start together.",
        why="Volcano's webhook fills in minAvailable; without that webhook the PodGroup needs no member, and the job "
        "counts as running while its pods wait.",
        fix="Write how many pods have to start together.",
        check=no_gang,
        quirk=volcano_releases.NO_GANG,
    ),
    VetRule(
        id="HP724",
        name="part-of-a-gang",
        severity=VetSeverity.WARNING,
        summary="A ResourceQuota lets in fewer pods of a Job than have to start together.",
        why="The job's pods are created one by one, so a part of them passes the quota; which part is chance.",
        fix="Make the job smaller, or have the quota raised.",
        check=part_of_a_gang,
        quirk=volcano_releases.PARTIAL_GANG,
    ),
    VetRule(
        id="HP725",
        name="guarantee-kept-back",
        severity=VetSeverity.NOTE,
        summary="A queue's guarantee of vGPUs is kept from all other queues.",
        why="It is taken off what others may have whether the queue uses it or not.",
        fix="Guarantee what has to be there at once, no more.",
        check=kept_back,
        quirk=volcano_releases.HELD_BACK,
    ),
    VetRule(
        id="HP726",
        name="held-for-ever",
        severity=VetSeverity.WARNING,
        summary="A PodGroup is enqueued (Inqueue), and its pods can never fit.",
        why="It is never dequeued, and its request counts against every gang that is enqueued after it.",
        fix="Delete it, or make its pods smaller.",
        check=held_for_ever,
        quirk=volcano_releases.HELD_GATE,
    ),
)
