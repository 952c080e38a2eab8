"""The answer to one member of a job in its turn, on the cluster as it is then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hami_plugins.engine import alike, neighbours
from hami_plugins.engine.alike import Sets
from hami_plugins.engine.intake import PodInfo
from hami_plugins.engine.node_filters import noted
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.queueing import queues
from hami_plugins.queueing.evaluator import PodEvaluator
from hami_plugins.queueing.jobs import JobMember, QueuedJob
from hami_plugins.queueing.queues import EnqueueAdmission
from hami_plugins.queueing.refused import RefusalState, RefusedReplicas
from hami_plugins.queueing.stages import EnqueueBlock, PodPlan, Stage, Stop


class MemberDecisions:
    """The members of all jobs of one plan; ``progress`` is called with each decision."""

    def __init__(self, evaluator: PodEvaluator, snapshot: ClusterSnapshot, progress: Callable[[int], None]) -> None:
        self._evaluator = evaluator
        self._progress = progress
        self._neighbours_matter = neighbours.matter(snapshot)
        self._noted = noted(snapshot.nodes)
        self._refused = RefusedReplicas()

    def read(self, job: QueuedJob, member: JobMember, snapshot: ClusterSnapshot) -> PodInfo:
        """What a member asks for; HAMi's quota counts where HAMi decides."""
        if not job.volcano:
            return self._evaluator.read_within_quota(snapshot, member.pod)
        return member.intake or self._evaluator.read(member.pod)

    def decide(
        self, job: QueuedJob, member: JobMember, snapshot: ClusterSnapshot, gate: EnqueueAdmission | None, sets: Sets
    ) -> PodPlan:
        """One member on the cluster as it is in this turn; ``sets`` are the devices that other members have.

        A replica of a pod that found no place gets the same answer, as long as nothing has changed since.
        """
        self._progress(1)
        state = RefusalState(job, snapshot, gate, sets)
        known = self._refused.answer(state, member.pod)
        if known is not None:
            return known
        plan = self._decided(job, member, snapshot, gate, sets)
        self._refused.keep(state, member.pod, plan)
        return plan

    def _decided(
        self, job: QueuedJob, member: JobMember, snapshot: ClusterSnapshot, gate: EnqueueAdmission | None, sets: Sets
    ) -> PodPlan:
        intake = self.read(job, member, snapshot)
        if intake.refusal or not intake.admission.allowed:
            return self._evaluator.refused(snapshot, job.unit.name, intake)
        if job.volcano and gate is not None:
            shortages = gate.overdrawn(job.queue, queues.requests_of(intake.pod))
            if shortages:
                why = f"its queue may hold no more: {'; '.join(map(str, shortages))}"
                hold = EnqueueBlock(job.queue, queues.requests_of(intake.pod), shortages, inside=True)
                return stopped(job, intake, snapshot, Stop(Stage.GATE, why, queues.words(shortages), hold))
        demand = replace(intake.demand, devices=alike.wishing(intake.demand.devices, sets)) if sets else intake.demand
        intake = self.among_others(snapshot, replace(intake, demand=demand) if sets else intake)
        return self._evaluator.decided(snapshot, job.unit.name, intake)

    def among_others(self, snapshot: ClusterSnapshot, intake: PodInfo) -> PodInfo:
        """What the pod asks, with the nodes that vendors and other pods keep it from."""
        pod = intake.pod
        barred = self._evaluator.barred(self._noted, pod)
        if self._neighbours_matter or any(pod.neighbours):
            self._neighbours_matter = self._neighbours_matter or bool(pod.neighbours.apart)
            barred += neighbours.barred(snapshot, pod)
        if not barred:
            return intake
        constraints = replace(intake.demand.constraints, barred=barred)
        return intake.with_constraints(constraints)


def stopped(job: QueuedJob, intake: PodInfo, snapshot: ClusterSnapshot, stop: Stop) -> PodPlan:
    """The plan of a pod that does not come to a decision."""
    return PodPlan(
        unit=job.unit.name,
        intake=intake,
        stage=stop.stage,
        before=snapshot,
        why=stop.why,
        words=stop.words,
        hold=stop.hold,
    )
