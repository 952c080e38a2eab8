"""The order of a plan: checks before pods are decided, gangs, and whose turn it is.

The order of Volcano 1.14 (``trials.md`` V18 and V19): quotas when pods are created; its gate, by priority and age; then
gangs that are not complete, before the surplus of those that are; Volcano Jobs one session later than pods that exist.
Pods of other schedulers are decided by priority and age alone.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final

from hami_plugins.engine import alike
from hami_plugins.engine.alike import Sets
from hami_plugins.engine.apply import assigned
from hami_plugins.inputs import old_names, typos
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.decisions import Placed
from hami_plugins.model.pods import Pod
from hami_plugins.queueing import gangs, queues, result, usage
from hami_plugins.queueing.evaluator import PodEvaluator
from hami_plugins.queueing.evictions import Evictor, RoomRequest, needed
from hami_plugins.queueing.jobs import (
    JobMember,
    QueuedJob,
    Trial,
    counted,
    in_order,
    job_of,
    least_of,
    requests_of,
    without_gated,
)
from hami_plugins.queueing.member_plans import about, held_back, incomplete
from hami_plugins.queueing.members import MemberDecisions, stopped
from hami_plugins.queueing.queues import Amounts, EnqueueAdmission, QueueSortKey
from hami_plugins.queueing.quota_counts import QuotaCounts
from hami_plugins.queueing.stages import EnqueueBlock, PlanUnit, PodPlan, Stage, Stop
from hami_plugins.wire import kubernetes_gangs, scheduling_gates
from hami_plugins.wire.gang_keys import GROUP_KEY

_CREATED: Final = frozenset({Stage.REQUEST, Stage.GATE, Stage.GANG, Stage.NODES, Stage.ELSEWHERE, Stage.UNKNOWN})
"""Stages of pods that exist without a node."""

_Rank = tuple[int, bool, float, int]


class SchedulingCycle:
    """One run of a planner: ``plans`` grow in the order of the decisions, ``snapshot`` is the cluster after them.

    With an ``evictor``, pods that do not fit get places by evictions, each in its turn. Jobs that were not enqueued for
    lack of room then have a turn as well: without the action ``enqueue``, which preemption cannot use, there is no
    enqueue admission.
    """

    def __init__(
        self,
        evaluator: PodEvaluator,
        snapshot: ClusterSnapshot,
        units: Iterable[PlanUnit],
        progress: Callable[[int], None] | None = None,
        evictor: Evictor | None = None,
    ) -> None:
        self._progress = progress or (lambda _amount: None)
        self._evictor = evictor
        self.snapshot = snapshot
        self.plans: list[PodPlan] = []
        self._evaluator = evaluator
        self._jobs = [job_of(snapshot, at, unit) for at, unit in enumerate(units)]
        known = any(job.volcano for job in self._jobs)
        self._gate: EnqueueAdmission | None = usage.gate_by(snapshot, evaluator.rules) if known else None
        self._quotas = QuotaCounts(snapshot)
        self._members = MemberDecisions(evaluator, snapshot, self._progress)
        self._seen: tuple[ClusterSnapshot | None, ClusterSnapshot] = None, snapshot
        """The cluster of the last search for victims, and as Volcano sees it."""

    def take(self) -> None:
        """Decide every pod of every unit."""
        for job in self._jobs:
            if not job.unit.made_late:
                self._create(job)
            elif job.known is None and (stop := self._quotas.count_job(job.unit)):
                self._emit_all(job, stop)
        self._gate = self._divided()
        for job in self._by_age():
            self._admit(job)
        for job in self._jobs:
            if not job.volcano and kubernetes_gangs.of_record(job.unit.group.partition("/")[2]):
                self._wait_for_group(job)
        for made_late in (False, True):
            self._session([job for job in self._jobs if job.unit.made_late is made_late and job.members])

    def standing(self) -> ClusterSnapshot:
        """The cluster afterwards as Volcano sees it."""
        waiting = [(plan.unit, plan.pod) for plan in self.plans if plan.stage in _CREATED and plan.by_eviction is None]
        return result.standing(self.snapshot, self._jobs, waiting, self._placed_replicas())

    def _placed_replicas(self) -> dict[str, str]:
        """The units of the pods that have places, where a unit does not list all of its pods."""
        units = {job.unit.name for job in self._jobs if job.unit.counts}
        return {plan.pod.full_name: plan.unit for plan in self.plans if plan.unit in units} if units else {}

    def _create(self, job: QueuedJob) -> None:
        """The creation of the pods: webhooks, then quotas. The remaining pods are the job's members."""
        created: list[JobMember] = []
        for member in job.members:
            elsewhere = self._evaluator.left_alone(member.pod)
            if elsewhere:
                self._emit(job, member, Stop(Stage.ELSEWHERE, elsewhere))
                continue
            if member.waits:
                created.append(member)
                continue
            read = self._read(job, member)
            if read.intake is not None and (read.intake.refusal or not read.intake.admission.allowed):
                refused = self._evaluator.refused(self.snapshot, job.unit.name, read.intake)
                self.plans.append(about(refused, read))
            else:
                created.extend(self._within_quota(job, read))
        job.members = deque(in_order(member for member in created if not member.pod.gated))
        job.gated = [member for member in created if member.pod.gated]
        for member in job.gated:
            self._emit(job, member, Stop(Stage.GATE, f"it has {scheduling_gates.told(member.pod)}"))

    def _within_quota(self, job: QueuedJob, member: JobMember) -> list[JobMember]:
        """What of a member the API server creates; for the others the plan says which quota is used up."""
        if member.intake is None:
            return [member]
        for at in range(member.count):
            if stop := self._quotas.count_pod(member.intake.pod):
                self._emit(job, member.part(at, member.count - at), stop)
                return [member.part(0, at)] if at else []
        return [member]

    def _read(self, job: QueuedJob, member: JobMember) -> JobMember:
        """The member as the webhook leaves it, where that is needed now; HAMi's own quota is looked at in its turn."""
        if not job.volcano and member.pod.namespace not in self.snapshot.quotas:
            return member
        intake = self._evaluator.read(member.pod)
        return replace(member, intake=intake)

    def _admit(self, job: QueuedJob) -> None:
        """Volcano's enqueue admission. The pods of a Volcano Job are created only once it is admitted."""
        stop = self._closed(job) or self._held(job)
        if stop is not None and (self._evictor is None or stop.hold is None or not stop.hold.shortages):
            self._emit_all(job, stop)
            return
        job.stop = stop
        if job.unit.made_late:
            self._create(job)
            job.created = True
        there = job.have + counted((*job.members, *job.gated))
        missing = gangs.missing(job.need, there)
        if missing:
            self._emit_all(job, stop or Stop(Stage.GANG, incomplete(missing, "exist")))

    def _wait_for_group(self, job: QueuedJob) -> None:
        """A gang of Kubernetes waits for its group, and for as many pods as that needs, before any node is looked at.

        kube-scheduler 1.35 and later: plugin ``GangScheduling``, ``PreEnqueue``.
        """
        group = kubernetes_gangs.plain_name(job.unit.group)
        if not job.unit.exists and job.known is None:
            why = f"it names the group {group} of {kubernetes_gangs.API_GROUP}, which does not exist; create it"
            self._emit_all(job, Stop(Stage.GATE, why))
            return
        missing = gangs.missing(job.need, job.have + counted((*job.members, *job.gated)))
        if missing:
            self._emit_all(job, Stop(Stage.GANG, incomplete(missing, "exist")))

    def _closed(self, job: QueuedJob) -> Stop | None:
        """Why the gang cannot even be made."""
        stage = Stage.ADMISSION if job.unit.made_late else Stage.GATE
        if not job.unit.exists and job.known is None:
            why = f"it names the PodGroup {job.unit.group}, which does not exist; create it, or drop {GROUP_KEY}"
            return Stop(stage, why)
        if not self.snapshot.queues:
            return None
        hold = EnqueueBlock(job.queue, least_of(job) or {})
        queue = self.snapshot.queues.get(job.queue)
        if queue is None:
            return Stop(stage, f"no queue {job.queue}; {typos.instead(job.queue, self.snapshot.queues)}", hold=hold)
        below = usage.below(self.snapshot.queues.values(), queue.name)
        if below and (job.unit.made_late or usage.reads_parents(self._evaluator.rules)):
            why = f"queue {job.queue} has child queues, and jobs go into queues without children, as {below[0]}"
            return Stop(stage, why, hold=hold)
        return None if queue.open else Stop(stage, f"queue {job.queue} is closed; open it, or use another", hold=hold)

    def _held(self, job: QueuedJob) -> Stop | None:
        """Why the gang has to wait before its pods are looked at; ``None`` lets it in."""
        least = least_of(job)
        if least is None or self._gate is None:
            return None
        shortages = self._gate.objections(job.queue, least)
        if shortages:
            said = "; ".join(f"{shortage}{old_names.remark(shortage.resource)}" for shortage in shortages)
            why = f"not enqueued by Volcano: {said}"
            return Stop(Stage.GATE, why, queues.words(shortages), EnqueueBlock(job.queue, least, shortages))
        job.counts = without_gated(job, least)
        self._gate = self._gate.let_in(job.queue, job.counts)
        return None

    def _session(self, jobs: Sequence[QueuedJob]) -> None:
        """Give every job its turns until none has anything left to try; the queue with the smallest part first."""
        self._gate = self._divided()
        lanes: dict[str, list[tuple[_Rank, QueuedJob]]] = {}
        for job in jobs:
            heapq.heappush(lanes.setdefault(_lane(job), []), (self._rank(job), job))
        while lanes:
            name = min(lanes, key=lambda lane: (self._turn(lane), lanes[lane][0][1].at))
            _, job = heapq.heappop(lanes[name])
            if job.stop is not None and job.stop.hold is not None:
                going_on = self._past_the_gate(job, job.stop, job.stop.hold)
            else:
                going_on = self._complete(job) if not job.ready else self._one_more(job)
            if going_on:
                heapq.heappush(lanes[name], (self._rank(job), job))
            if not lanes[name]:
                del lanes[name]

    def _divided(self) -> EnqueueAdmission | None:
        """The gate with the shares of the queues, for what waits in them now: planned pods that exist, and others."""
        if self._gate is None:
            return None
        asked: dict[str, Amounts] = {}
        planned: set[str] = set()
        for job in self._jobs:
            for member in (*job.members, *job.held) if job.volcano and job.created else ():
                asked[job.queue] = queues.plus(asked.get(job.queue, {}), requests_of(member))
                planned.add(member.pod.full_name)
        for pod in self.snapshot.pending:
            group = self.snapshot.pod_groups.get(f"{pod.namespace}/{pod.annotations.get(GROUP_KEY, '')}")
            if group is not None and pod.full_name not in planned:
                asked[group.queue] = queues.plus(asked.get(group.queue, {}), queues.requests_of(pod))
        return self._gate.divided(asked)

    def _by_age(self) -> list[QueuedJob]:
        """Volcano's jobs in their order of enqueue admission: queue by queue, and in a queue by priority and age."""
        jobs = [job for job in self._jobs if job.volcano and job.members]
        return sorted(jobs, key=lambda job: (self._turn(job.queue), -job.priority, job.at))

    def _turn(self, lane: str) -> QueueSortKey:
        """Which queue comes first."""
        return self._gate.turn(lane) if self._gate is not None and lane else QueueSortKey()

    def _rank(self, job: QueuedJob) -> _Rank:
        """Priority, then incomplete gangs, then who holds the smallest part of the cluster, then age."""
        part = 0.0
        if job.volcano and self._gate is not None:
            total = self._gate.total
            part = max((held / total[name] for name, held in job.holds.items() if total.get(name)), default=0.0)
        return -job.priority, job.volcano and job.ready, part, job.at

    def _complete(self, job: QueuedJob) -> bool:
        """Try to find places for the members that have to start together. Without all of them none gets one.

        Returns whether the gang is complete and has further members. Where members got different sets of devices, those
        of the last ones are tried first once more.
        """
        trial = self._tried(job, job.sets)
        missing = gangs.missing(job.need, trial.have)
        if missing:
            plans = [held_back(plan, incomplete(missing, "would fit")) for plan in trial.plans]
            if self._by_eviction(job, needed(job), plans):
                return bool(job.members)
            self.plans.extend(plans)
            return False
        if any(len(given) > 1 for given in trial.sets.values()):
            again = self._tried(job, alike.turned(trial.sets))
            if not gangs.missing(job.need, again.have) and alike.spread_of(again.used) < alike.spread_of(trial.used):
                trial = again
        self.plans.extend(trial.plans)
        self.snapshot, self._gate = trial.snapshot, trial.gate
        job.have, job.holds, job.members, job.sets = trial.have, trial.holds, trial.left, trial.used
        return bool(job.members)

    def _tried(self, job: QueuedJob, sets: Sets) -> Trial:
        """The result of a gang that has yet to start; ``sets`` are devices that its members should have."""
        trial = Trial(self.snapshot, self._gate, job.have.copy(), dict(job.holds), sets, job.sets)
        members = list(job.members)
        left = deque(gangs.turns([(member.task, member.count) for member in members], job.need, trial.have))
        while left:
            at, first, count = left.popleft()
            member = members[at].part(first, count)
            plan = self._members.decide(job, member, trial.snapshot, trial.gate, trial.sets)
            if not isinstance(plan.decision, Placed):
                # Nothing has changed for the replicas after it, so that they are refused alike.
                trial.plans.append(self._of_all(plan, member))
                continue
            trial.plans.append(plan)
            trial.sets = self._evaluator.given(trial.sets, plan, plan.decision)
            trial.used = self._evaluator.given(trial.used, plan, plan.decision)
            trial.snapshot = assigned(trial.snapshot, plan.pod, plan.decision)
            trial.gate = _given(trial.gate, job, plan.pod)
            trial.holds = queues.plus(trial.holds, queues.requests_of(plan.pod))
            trial.have[member.task] += 1
            if count > 1:
                left.appendleft(gangs.Turn(at, first + 1, count - 1))
            if not gangs.missing(job.need, trial.have):
                break
        trial.left = deque(members[turn.at].part(turn.first, turn.size) for turn in sorted(left))
        return trial

    def _one_more(self, job: QueuedJob) -> bool:
        """Members beyond the least, each for itself, and whether any is left. Volcano places one of them a turn."""
        while job.members:
            member = job.members.popleft()
            plan = self._members.decide(job, member, self.snapshot, self._gate, job.sets)
            refused = plan.stage is not Stage.PLACED
            if refused and not job.volcano and self._by_eviction(job, [member.part(0, 1)], [plan]):
                self._put_back(job, member)
                continue
            if not isinstance(plan.decision, Placed):
                self.plans.append(self._of_all(plan, member))
            else:
                self._put_back(job, member)
                self.plans.append(plan)
                job.sets = self._evaluator.given(job.sets, plan, plan.decision)
                self.snapshot = assigned(self.snapshot, plan.pod, plan.decision)
                self._gate = _given(self._gate, job, plan.pod)
                job.holds = queues.plus(job.holds, queues.requests_of(plan.pod))
                if job.volcano:
                    break
        return bool(job.members)

    def _put_back(self, job: QueuedJob, member: JobMember) -> None:
        """The replicas after the first pod of a member have their turn next."""
        rest = member.rest()
        if rest is not None:
            job.members.appendleft(rest)

    def _of_all(self, plan: PodPlan, member: JobMember) -> PodPlan:
        """The answer of the first pod of a member as that of all of its pods."""
        self._progress(member.count - 1)
        return about(plan, member)

    def _past_the_gate(self, job: QueuedJob, stop: Stop, hold: EnqueueBlock) -> bool:
        """Try only evictions for a job that was not enqueued for lack of room; returns whether it then has further
        members.
        """
        job.stop, members = None, needed(job)
        plans = [
            stopped(job, self._members.read(job, member, self.snapshot), self.snapshot, stop) for member in members
        ]
        if self._by_eviction(job, members, plans):
            job.counts = without_gated(job, hold.asked)
            return bool(job.members)
        self._emit_all(job, stop)
        return False

    def _by_eviction(self, job: QueuedJob, members: Sequence[JobMember], plans: Sequence[PodPlan]) -> bool:
        """Give places to members that start together by evicting other pods, where that makes room for all of them.

        ``plans`` are theirs without it, in the same order. Volcano evicts nothing for members beyond the least.
        """
        if self._evictor is None or not members:
            return False
        infos = [
            self._members.among_others(self.snapshot, self._members.read(job, each, self.snapshot)) for each in members
        ]
        if any(info.refusal or not info.admission.allowed for info in infos):
            return False
        gate = self._gate if job.volcano else None
        if self._seen[0] is not self.snapshot:
            self._seen = self.snapshot, result.grouped(self.snapshot, self._jobs, self._placed_replicas())
        made = self._evictor(RoomRequest(self._seen[1], infos, gate))
        if made is None:
            return False
        for member, plan, place in zip(members, plans, made.places, strict=False):
            self.plans.append(replace(plan, by_eviction=place))
            job.have[member.task] += 1
            job.holds = queues.plus(job.holds, queues.requests_of(plan.pod))
        self.snapshot = replace(made.after, pod_groups=self.snapshot.pod_groups)
        self._gate = self._gate if gate is None else made.usage
        left = (each for each in job.members if all(each is not member for member in members))
        job.members = deque(left)
        return True

    def _emit_all(self, job: QueuedJob, stop: Stop) -> None:
        for member in job.members:
            self._emit(job, member, stop)
        job.held.extend(job.members)
        job.members.clear()

    def _emit(self, job: QueuedJob, member: JobMember, stop: Stop) -> None:
        """The plan of a member that does not come to a decision."""
        self._progress(member.count)
        intake = member.intake or self._evaluator.read(member.pod)
        self.plans.append(about(stopped(job, intake, self.snapshot, stop), member))


def _lane(job: QueuedJob) -> str:
    """The queue whose turn it has to be; other schedulers know none."""
    return job.queue if job.volcano else ""


def _given(gate: EnqueueAdmission | None, job: QueuedJob, pod: Pod) -> EnqueueAdmission | None:
    return gate.given(job.queue, queues.requests_of(pod)) if gate is not None and job.volcano else gate
