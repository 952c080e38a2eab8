"""Whose turn it is in a plan: what stops pods before they are decided, gangs, and the order of all of it.

The order of Volcano 1.14 (``peers.md`` 8): quotas when pods are created; its gate, by priority and age; then gangs that
are not complete, before the surplus of those that are; Volcano Jobs one session later than pods that exist. Pods of
other schedulers are decided by priority and age alone.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from hami_plugins.engine import gangs, queues, resource_quota
from hami_plugins.engine.apply import assigned
from hami_plugins.engine.gangs import Need
from hami_plugins.engine.intake import Intake
from hami_plugins.engine.inventory import GROUP_KEY, TASK_KEY
from hami_plugins.engine.queues import Amounts, Gate
from hami_plugins.model.cluster import ClusterSnapshot, PodGroup
from hami_plugins.model.decisions import Placed
from hami_plugins.model.pods import Pod
from hami_plugins.model.vendor import Dialect
from hami_plugins.report.desk import Desk
from hami_plugins.report.pods import VOLCANO
from hami_plugins.report.stages import PodPlan, Stage, Unit

UNNAMED: Final = "default-scheduler"
"""The scheduler of pods that name none."""

GATED: Final = "it has scheduling gates; no scheduler looks at it before they are removed"


@dataclass(frozen=True, slots=True)
class _Member:
    """One pod of a job. ``waits`` says that it was there before; ``intake`` is what it says, once it has been read."""

    pod: Pod
    task: str
    waits: bool = False
    intake: Intake | None = None


class _Stop(NamedTuple):
    """Where a pod stops before any decision, and why."""

    stage: Stage
    why: str
    words: str = ""


@dataclass(slots=True)
class _Job:
    """A unit on its way: ``members`` wait for a place, ``have`` counts those with one, ``gated`` those that cannot.

    ``holds`` is what the planned members hold, which tells whose turn it is among equals.
    """

    unit: Unit
    at: int
    priority: int
    volcano: bool
    known: PodGroup | None
    need: Need
    members: list[_Member]
    have: Counter[str]
    gated: list[_Member] = field(default_factory=list)
    holds: dict[str, int] = field(default_factory=dict)

    @property
    def queue(self) -> str:
        """The queue of the gang."""
        return (self.known.queue if self.known is not None else self.unit.queue) or queues.DEFAULT

    @property
    def ready(self) -> bool:
        """Whether the gang is complete."""
        return not gangs.missing(self.need, self.have)


class Turns:
    """One run of a planner: ``plans`` grow in the order of the decisions, ``snapshot`` is the cluster after them."""

    def __init__(self, desk: Desk, snapshot: ClusterSnapshot, units: Iterable[Unit]) -> None:
        self.snapshot = snapshot
        self.plans: list[PodPlan] = []
        self._desk = desk
        self._jobs = [_job(snapshot, at, unit) for at, unit in enumerate(units)]
        self._gate: Gate | None = queues.gate_of(snapshot) if any(job.volcano for job in self._jobs) else None
        self._taken: dict[str, dict[str, int]] = {}

    def take(self) -> None:
        """Decide every pod of every unit."""
        for job in self._jobs:
            if not job.unit.made_late:
                self._create(job)
        for job in sorted(self._jobs, key=lambda job: (-job.priority, job.at)):
            if job.volcano and job.members:
                self._admit(job)
        for made_late in (False, True):
            self._session(job for job in self._jobs if job.unit.made_late is made_late)

    def _create(self, job: _Job) -> None:
        """What happens when the pods are created: webhooks, then quotas. Those that remain are the job's members."""
        created: list[_Member] = []
        for member in job.members:
            if self._is_for_another(member.pod):
                self._emit(job, member, Stage.ELSEWHERE, _elsewhere(member.pod))
                continue
            if member.waits:
                created.append(member)
                continue
            read = self._read(job, member)
            if read.intake is not None and (read.intake.refusal or not read.intake.admission.allowed):
                self.plans.append(self._desk.refused(self.snapshot, job.unit.name, read.intake))
            elif self._within_quota(job, read):
                created.append(read)
        job.members = [member for member in created if not member.pod.gated]
        job.gated = [member for member in created if member.pod.gated]
        for member in job.gated:
            self._emit(job, member, Stage.GATE, GATED)

    def _read(self, job: _Job, member: _Member) -> _Member:
        """The member as the webhook leaves it, where that is needed now; HAMi's own quota is looked at in its turn."""
        if not job.volcano and member.pod.namespace not in self.snapshot.quotas:
            return member
        intake = self._desk.read(member.pod)
        return replace(member, intake=intake)

    def _is_for_another(self, pod: Pod) -> bool:
        """Whether a pod asks for Volcano's devices without asking for Volcano."""
        if pod.scheduler == VOLCANO:
            return False
        return any(
            spec.dialect is Dialect.VOLCANO and (spec.asked_of(container.limits) or spec.asked_of(container.requests))
            for spec in self._desk.registry
            for container in pod.containers
        )

    def _within_quota(self, job: _Job, member: _Member) -> bool:
        quota = self.snapshot.quotas.get(member.pod.namespace)
        if quota is None or member.intake is None:
            return True
        pod = member.intake.pod
        missing = resource_quota.unnamed(quota, pod)
        if missing:
            self._emit(job, member, Stage.QUOTA, f"its namespace's quota wants every container to name {missing}")
            return False
        taken = self._taken.get(pod.namespace)
        if taken is None:
            taken = self._taken[pod.namespace] = resource_quota.taken(self.snapshot, pod.namespace)
        counts = resource_quota.counted(pod)
        broken = resource_quota.excesses(quota, taken, counts)
        if broken:
            why = "; ".join(map(str, broken))
            self._emit(job, member, Stage.QUOTA, why, resource_quota.words(pod, broken))
            return False
        resource_quota.add(taken, counts)
        return True

    def _admit(self, job: _Job) -> None:
        """Volcano's gate. The pods of a Volcano Job are created only when it has passed."""
        why, words = self._closed(job)
        least = None if why else _least(job)
        if least is not None and self._gate is not None:
            lacks = self._gate.objections(job.queue, least)
            if lacks:
                why, words = f"held at Volcano's gate: {'; '.join(map(str, lacks))}", queues.words(lacks)
            else:
                self._gate = self._gate.let_in(job.queue, _without_gated(job, least))
        if why:
            stage = Stage.ADMISSION if job.unit.made_late and not words else Stage.GATE
            self._emit_all(job, stage, why, words)
            return
        if job.unit.made_late:
            self._create(job)
        there = job.have + Counter(member.task for member in (*job.members, *job.gated))
        missing = gangs.missing(job.need, there)
        if missing:
            self._emit_all(job, Stage.GANG, _incomplete(missing, "exist"))

    def _closed(self, job: _Job) -> tuple[str, str]:
        """Why the gang cannot even be made, and Volcano's words where there are any."""
        if not job.unit.exists and job.known is None:
            return f"it names the PodGroup {job.unit.group}, which nobody has made", ""
        if not self.snapshot.queues:
            return "", ""
        queue = self.snapshot.queues.get(job.queue)
        if queue is None:
            return f"there is no queue {job.queue}", ""
        if job.unit.made_late and any(each.parent == queue.name for each in self.snapshot.queues.values()):
            return f"queue {job.queue} has child queues, and jobs go into queues without", ""
        return ("", "") if queue.open else (f"queue {job.queue} is closed", "")

    def _session(self, jobs: Iterable[_Job]) -> None:
        """Give every job its turns until nobody has anything left to try."""
        waiting = [(self._rank(job), job) for job in jobs if job.members]
        heapq.heapify(waiting)
        while waiting:
            _, job = heapq.heappop(waiting)
            going_on = self._complete(job) if not job.ready else self._one_more(job)
            if going_on and job.members:
                heapq.heappush(waiting, (self._rank(job), job))

    def _rank(self, job: _Job) -> tuple[int, bool, float, int]:
        """Priority, then incomplete gangs, then who holds the smallest share of the cluster, then age."""
        share = 0.0
        if job.volcano and self._gate is not None:
            most = self._gate.most
            share = max((held / most[name] for name, held in job.holds.items() if most.get(name)), default=0.0)
        return -job.priority, job.volcano and job.ready, share, job.at

    def _complete(self, job: _Job) -> bool:
        """Try to find places for the members that have to start together. Without all of them none gets one."""
        snapshot, gate, have, holds = self.snapshot, self._gate, job.have.copy(), dict(job.holds)
        tried: list[PodPlan] = []
        left = list(job.members)
        for at in gangs.in_turn([member.task for member in job.members], job.need, have):
            member = job.members[at]
            left.remove(member)
            plan = self._decide(job, member, snapshot, gate)
            tried.append(plan)
            if isinstance(plan.decision, Placed):
                snapshot = assigned(snapshot, plan.pod, plan.decision)
                gate = _given(gate, job, plan.pod)
                holds = queues.plus(holds, queues.requests_of(plan.pod))
                have[member.task] += 1
                if not gangs.missing(job.need, have):
                    break
        missing = gangs.missing(job.need, have)
        if missing:
            self.plans.extend(_held_back(plan, _incomplete(missing, "would fit")) for plan in tried)
            return False
        self.plans.extend(tried)
        self.snapshot, self._gate, job.have, job.holds, job.members = snapshot, gate, have, holds, left
        return True

    def _one_more(self, job: _Job) -> bool:
        """Members beyond the least: each for itself. Volcano gives one place a turn, other schedulers go on."""
        while job.members:
            member = job.members.pop(0)
            plan = self._decide(job, member, self.snapshot, self._gate)
            self.plans.append(plan)
            if isinstance(plan.decision, Placed):
                self.snapshot = assigned(self.snapshot, plan.pod, plan.decision)
                self._gate = _given(self._gate, job, plan.pod)
                job.holds = queues.plus(job.holds, queues.requests_of(plan.pod))
                job.have[member.task] += 1
                if job.volcano:
                    return True
        return False

    def _decide(self, job: _Job, member: _Member, snapshot: ClusterSnapshot, gate: Gate | None) -> PodPlan:
        """One member on the cluster as it is in this turn."""
        if not job.volcano:
            intake = self._desk.read_within_quota(snapshot, member.pod)
        else:
            intake = member.intake or self._desk.read(member.pod)
        if intake.refusal or not intake.admission.allowed:
            return self._desk.refused(snapshot, job.unit.name, intake)
        if job.volcano and gate is not None:
            lacks = gate.overdrawn(job.queue, queues.requests_of(intake.pod))
            if lacks:
                why = f"its queue may hold no more: {'; '.join(map(str, lacks))}"
                return _stopped(job, intake, snapshot, _Stop(Stage.GATE, why, queues.words(lacks)))
        return self._desk.decided(snapshot, job.unit.name, intake)

    def _emit_all(self, job: _Job, stage: Stage, why: str, words: str = "") -> None:
        for member in job.members:
            self._emit(job, member, stage, why, words)
        job.members = []

    def _emit(self, job: _Job, member: _Member, stage: Stage, why: str, words: str = "") -> None:
        """The plan of a member that does not come to a decision."""
        intake = member.intake or self._desk.read(member.pod)
        self.plans.append(_stopped(job, intake, self.snapshot, _Stop(stage, why, words)))


def _job(snapshot: ClusterSnapshot, at: int, unit: Unit) -> _Job:
    """A unit with what the cluster knows of its gang: members that run or wait already, and what it is worth."""
    known = snapshot.pod_groups.get(unit.group) if unit.group else None
    pods = [_with_priority(pod, snapshot) for pod in unit.pods]
    members = [_Member(pod, task) for pod, task in zip(pods, unit.tasks or ("",) * len(pods), strict=True)]
    have: Counter[str] = Counter()
    if known is not None:
        named = {pod.full_name for pod in pods}
        members = [*_waiting(snapshot, known, named), *members]
        have = gangs.running(snapshot, known.namespace, known.name)
    volcano = any(pod.scheduler == VOLCANO for pod in pods)
    of_class = known.priority_class if known is not None else unit.priority_class
    priority = max((pod.priority for pod in pods), default=0)
    if volcano and (known is not None or of_class or unit.made_late):
        # A gang goes by the class of its PodGroup, whatever its pods are worth.
        priority = snapshot.priorities.get(of_class, 0)
    return _Job(
        unit=unit,
        at=at,
        priority=priority,
        volcano=volcano,
        known=known,
        need=Need(unit.min_member, unit.min_by_task) if unit.gang else Need(1 if volcano else 0),
        members=sorted(members, key=lambda member: -member.pod.priority),
        have=have,
    )


def _with_priority(pod: Pod, snapshot: ClusterSnapshot) -> Pod:
    """The pod with the value of its priority class, which the API server writes when it is created."""
    if pod.priority or not pod.priority_class:
        return pod
    return replace(pod, priority=snapshot.priorities.get(pod.priority_class, 0))


def _waiting(snapshot: ClusterSnapshot, group: PodGroup, submitted: set[str]) -> list[_Member]:
    """The members of a group that wait already and are not submitted again."""
    return [
        _Member(pod, pod.annotations.get(TASK_KEY, ""), waits=True)
        for pod in snapshot.pending
        if pod.namespace == group.namespace
        and pod.annotations.get(GROUP_KEY) == group.name
        and pod.full_name not in submitted
        and not pod.terminating
    ]


def _least(job: _Job) -> Amounts | None:
    """What has to be free before the gang is let in; ``None`` when nothing is asked, or it has been let in already."""
    if job.known is not None:
        if job.known.phase in queues.ADMITTED or job.known.min_resources is None:
            return None
        return queues.plain(job.known.min_resources)
    return gangs.least_requests(((member.task, queues.requests_of(member.pod)) for member in job.members), job.need)


def _without_gated(job: _Job, least: Amounts) -> dict[str, int]:
    """What a gang waits for while some of its pods have scheduling gates."""
    gated: Amounts = {}
    for member in job.gated:
        gated = queues.plus(gated, queues.requests_of(member.pod))
    return {resource: max(amount - gated.get(resource, 0), 0) for resource, amount in least.items()}


def _given(gate: Gate | None, job: _Job, pod: Pod) -> Gate | None:
    return gate.given(job.queue, queues.requests_of(pod)) if gate is not None and job.volcano else gate


def _incomplete(missing: Iterable[gangs.Missing], what: str) -> str:
    parts = [
        f"{each.needed} {f'of task {each.task} ' if each.task else ''}have to start together and {each.have} {what}"
        for each in missing
    ]
    return f"its gang waits: {', '.join(parts)}"


def _elsewhere(pod: Pod) -> str:
    scheduler = pod.scheduler or UNNAMED
    return f"left alone: {scheduler} does not look at Volcano's devices; set schedulerName: {VOLCANO}"


def _stopped(job: _Job, intake: Intake, snapshot: ClusterSnapshot, stop: _Stop) -> PodPlan:
    return PodPlan(unit=job.unit.name, intake=intake, stage=stop.stage, before=snapshot, why=stop.why, words=stop.words)


def _held_back(plan: PodPlan, why: str) -> PodPlan:
    """A gang member that would have fitted, or not, but must wait for the others either way."""
    if plan.stage is not Stage.PLACED:
        return plan
    return PodPlan(unit=plan.unit, intake=plan.intake, stage=Stage.GANG, before=plan.before, why=why)
