"""Units on their way through a plan: which pods are to start together, which wait, and what they need first."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from hami_plugins.engine import replicas
from hami_plugins.engine.alike import Sets
from hami_plugins.engine.intake import PodInfo
from hami_plugins.inputs.workloads.gangs import known_group
from hami_plugins.inputs.workloads.pods import VOLCANO
from hami_plugins.model.cluster import ClusterSnapshot, PodGroup
from hami_plugins.model.pods import Pod
from hami_plugins.queueing import gangs, queues
from hami_plugins.queueing.gangs import Need
from hami_plugins.queueing.queues import Amounts, EnqueueAdmission
from hami_plugins.queueing.stages import PlanUnit, PodPlan, Stop
from hami_plugins.wire import kubernetes_gangs
from hami_plugins.wire.gang_keys import TASK_INDEX_KEY, TASK_KEY


@dataclass(frozen=True, slots=True, eq=False)
class JobMember:
    """One pod of a job, and ``count`` - 1 replicas numbered after it.

    ``waits`` says that it was there before; ``intake`` is what it says, once it has been read.
    """

    pod: Pod
    task: str
    waits: bool = False
    intake: PodInfo | None = None
    count: int = 1

    def part(self, first: int, count: int) -> JobMember:
        """``count`` of its pods, without those before ``first``."""
        if first == 0:
            return self if count == self.count else replace(self, count=count)
        pod = replicas.later(self.pod, first)
        intake = None if self.intake is None else replicas.intake_of(pod, self.intake)
        return replace(self, pod=pod, intake=intake, count=count)

    def rest(self) -> JobMember | None:
        """Its pods but the first, if there are any."""
        return self.part(1, self.count - 1) if self.count > 1 else None


@dataclass(slots=True, eq=False)
class QueuedJob:
    """A unit on its way: ``members`` wait for a place, ``have`` counts those with one per task.

    ``gated`` have scheduling gates, ``held`` were stopped before any decision. ``created``: its pods exist; ``holds``
    is the planned members' usage, which decides whose turn it is among equals. ``counts`` is the amount it counts for
    in enqueue admission, ``None`` until it is admitted. ``sets`` are the devices that members were allocated, by their
    numbers. ``stop`` is why it is not enqueued, where it gets places by evictions alone.
    """

    unit: PlanUnit
    at: int
    priority: int
    volcano: bool
    known: PodGroup | None
    need: Need
    members: deque[JobMember]
    have: Counter[str]
    created: bool
    gated: list[JobMember] = field(default_factory=list)
    held: list[JobMember] = field(default_factory=list)
    holds: dict[str, int] = field(default_factory=dict)
    counts: Amounts | None = None
    sets: Sets = field(default_factory=dict)
    stop: Stop | None = None

    @property
    def queue(self) -> str:
        """The queue of the gang."""
        return (self.known.queue if self.known is not None else self.unit.queue) or queues.DEFAULT

    @property
    def ready(self) -> bool:
        """Whether the gang is complete."""
        return not gangs.missing(self.need, self.have)


@dataclass(slots=True, eq=False)
class Trial:
    """A try at a whole gang, and the cluster after it. ``sets`` are devices that are wished, ``used`` those given."""

    snapshot: ClusterSnapshot
    gate: EnqueueAdmission | None
    have: Counter[str]
    holds: dict[str, int]
    sets: Sets
    used: Sets
    plans: list[PodPlan] = field(default_factory=list)
    left: deque[JobMember] = field(default_factory=deque)


def job_of(snapshot: ClusterSnapshot, at: int, unit: PlanUnit) -> QueuedJob:
    """A unit with what the cluster knows of its gang: members that run or wait already, and what it is worth."""
    known = known_group(unit.group, snapshot.pod_groups) if unit.group else None
    pods = [_with_priority(pod, snapshot) for pod in unit.pods]
    members = [
        JobMember(pod, task, count=count)
        for pod, task, count in zip(pods, unit.tasks or ("",) * len(pods), unit.numbers, strict=True)
    ]
    have: Counter[str] = Counter()
    if known is not None:
        named = {pod.full_name for pod in pods}
        name = unit.group.partition("/")[2]
        members = [*_waiting(snapshot, known.namespace, name, named), *members]
        have = gangs.running(snapshot, known.namespace, name)
    volcano = any(pod.scheduler == VOLCANO for pod in pods)
    of_class = known.priority_class if known is not None else unit.priority_class
    priority = max((pod.priority for pod in pods), default=0)
    if volcano and (known is not None or of_class or unit.made_late):
        # A gang goes by the class of its PodGroup, whatever its pods are worth.
        priority = snapshot.priorities.get(of_class, 0)
    return QueuedJob(
        unit=unit,
        at=at,
        priority=priority,
        volcano=volcano,
        known=known,
        need=Need(unit.min_member, unit.min_by_task) if unit.gang else Need(1 if volcano else 0),
        members=deque(sorted(members, key=lambda member: -member.pod.priority)),
        have=have,
        created=not unit.made_late,
    )


def counted(members: Iterable[JobMember]) -> Counter[str]:
    """How many pods of each task there are."""
    found: Counter[str] = Counter()
    for member in members:
        found[member.task] += member.count
    return found


def requests_of(member: JobMember) -> Amounts:
    """What all pods of a member ask for together."""
    requests = queues.requests_of(member.pod)
    return requests if member.count == 1 else {name: amount * member.count for name, amount in requests.items()}


def in_order(members: Iterable[JobMember]) -> list[JobMember]:
    """Members in the order in which Volcano tries them: by priority, then by their number within their task.

    So the first pods of all tasks come before the second ones (``CompareTask`` of Volcano 1.14.1). Pods without a
    number keep their order.
    """
    return sorted(members, key=lambda member: turn_of(member.pod))


def turn_of(pod: Pod) -> tuple[int, int]:
    """The sort key of the members of a gang."""
    text = pod.annotations.get(TASK_INDEX_KEY, "")
    return -pod.priority, int(text) if text.isascii() and text.isdigit() else 0


def _with_priority(pod: Pod, snapshot: ClusterSnapshot) -> Pod:
    """The pod with the value of its priority class, which the API server writes when it is created."""
    if pod.priority or not pod.priority_class:
        return pod
    return replace(pod, priority=snapshot.priorities.get(pod.priority_class, 0))


def _waiting(snapshot: ClusterSnapshot, namespace: str, group: str, submitted: set[str]) -> list[JobMember]:
    """The members of a group that wait already and are not submitted again."""
    return [
        JobMember(pod, pod.annotations.get(TASK_KEY, ""), waits=True)
        for pod in snapshot.pending
        if pod.namespace == namespace
        and kubernetes_gangs.group_of(pod) == group
        and pod.full_name not in submitted
        and not pod.terminating
    ]


def least_of(job: QueuedJob) -> Amounts | None:
    """The resources that have to be free before the gang is enqueued; ``None`` when it asks for none, or it is enqueued
    already.
    """
    if job.known is not None:
        if job.known.phase in queues.ADMITTED or job.known.min_resources is None:
            return None
        return queues.plain(job.known.min_resources)
    return gangs.least_requests(
        ((member.task, _counted_at_enqueue(member.pod), member.count) for member in job.members), job.need
    )


def _counted_at_enqueue(pod: Pod) -> Amounts:
    """The requests that count in ``minResources``: of a Volcano Job those that its template has (Volcano 1.14.1
    ``pkg/controllers/util/util.go`` ``CalTaskRequests``), so that devices which only its limits name do not count.
    """
    return queues.requests_of(pod) if pod.template_requests is None else dict(pod.template_requests)


def without_gated(job: QueuedJob, least: Amounts) -> dict[str, int]:
    """The reason why a gang waits while some of its pods have scheduling gates."""
    gated: Amounts = {}
    for member in job.gated:
        gated = queues.plus(gated, requests_of(member))
    return {resource: max(amount - gated.get(resource, 0), 0) for resource, amount in least.items()}
