"""The answers of pods that found no place: their replicas get the same ones, as long as nothing has changed."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import NamedTuple

from hami_plugins.engine import replicas
from hami_plugins.engine.alike import Sets
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.pods import Pod
from hami_plugins.queueing.jobs import QueuedJob
from hami_plugins.queueing.queues import EnqueueAdmission
from hami_plugins.queueing.stages import PodPlan, Stage


class RefusalState(NamedTuple):
    """All that an answer depends on besides the pod; ``sets`` are the devices that other members of the gang have."""

    job: QueuedJob
    snapshot: ClusterSnapshot
    gate: EnqueueAdmission | None
    sets: Sets

    def is_same(self, other: RefusalState | None) -> bool:
        """Whether nothing has changed: snapshots and gates are values, so that the same object is the same state."""
        return (
            other is not None
            and other.job is self.job
            and other.snapshot is self.snapshot
            and other.gate is self.gate
            and other.sets == self.sets
        )


class RefusedReplicas:
    """Remembers refusals of one state at a time."""

    def __init__(self) -> None:
        self._state: RefusalState | None = None
        self._plans: dict[Hashable, PodPlan] = {}

    def answer(self, state: RefusalState, pod: Pod) -> PodPlan | None:
        """The plan of a pod, if a replica of it was refused in the same state."""
        known = self._plans.get(replicas.key_of(pod)) if state.is_same(self._state) else None
        return None if known is None else replace(known, intake=replicas.intake_of(pod, known.intake))

    def keep(self, state: RefusalState, pod: Pod, plan: PodPlan) -> None:
        """Remember a refusal. One that may name the pod is not kept, nor is a placement, which changes the state."""
        if plan.stage is Stage.PLACED or not replicas.are_shared(plan.intake):
            return
        if not state.is_same(self._state):
            self._state, self._plans = state, {}
        self._plans[replicas.key_of(pod)] = plan
