"""The input of a plan and its result for each pod: values alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from hami_plugins.engine.intake import PodInfo
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.decisions import Decision, Placed
from hami_plugins.model.pods import Pod
from hami_plugins.queueing.queues import Amounts, QueueShortage


class Stage(StrEnum):
    """How far a pod gets.

    ``GATE``: something holds it back before any node is looked at (a queue's limit, Volcano's admission of gangs, a
    scheduling gate). ``GANG``: it would fit, but its gang is not complete. ``ELSEWHERE``: its scheduler does not look
    at the devices it asks for. ``UNKNOWN``: no node is known to take it, and some may.
    """

    PLACED = "placed"
    ADMISSION = "admission"
    REQUEST = "request"
    QUOTA = "quota"
    GATE = "gate"
    GANG = "gang"
    NODES = "nodes"
    ELSEWHERE = "elsewhere"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanUnit:
    """Pods that are planned together. ``min_member`` of them (and ``min_by_task`` of each task) start, or none does.

    ``name`` is the workload's ``kind/namespace/name``; ``tasks`` names each pod's task, where there are tasks.
    ``group`` is the PodGroup's full name, ``exists`` whether anybody has made it, ``queue`` the Volcano queue.
    ``made_late`` says that the pods are made only when the gang has been let in (a Volcano Job's). ``notes`` are what
    has to be known about all of its pods. ``counts`` says how many pods each of ``pods`` stands for: itself and the
    replicas numbered after it; without it each is one.
    """

    name: str
    pods: tuple[Pod, ...]
    min_member: int = 1
    gang: bool = False
    group: str = ""
    queue: str = ""
    tasks: tuple[str, ...] = ()
    min_by_task: tuple[tuple[str, int], ...] = ()
    priority_class: str = ""
    exists: bool = True
    made_late: bool = False
    notes: tuple[str, ...] = ()
    counts: tuple[int, ...] = ()

    @property
    def numbers(self) -> tuple[int, ...]:
        """How many pods each of ``pods`` stands for."""
        return self.counts or (1,) * len(self.pods)

    @property
    def size(self) -> int:
        """How many pods it has."""
        return sum(self.counts) if self.counts else len(self.pods)


class EnqueueBlock(NamedTuple):
    """The reason why Volcano does not enqueue a pod: its gang's request to a queue, and the resources that are short.

    ``shortages`` is empty if the queue admits no pod: it is closed, or does not exist. ``inside``: the gang is
    enqueued, and the queue may hold no more for now.
    """

    queue: str
    asked: Amounts
    shortages: tuple[QueueShortage, ...] = ()
    inside: bool = False


class Stop(NamedTuple):
    """Where a pod stops before any decision, and why."""

    stage: Stage
    why: str
    words: str = ""
    hold: EnqueueBlock | None = None


class Difference(NamedTuple):
    """One thing that a release of Volcano does otherwise with one pod: which rule it is, and the sentence."""

    rule: str
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PodPlan:
    """What happens to one pod.

    ``before`` is the snapshot it was decided on; ``decision`` is ``None`` when it never came to one; ``words`` is the
    reason as the upstream scheduler spells it (empty when placed), ``why`` the reason in ours. ``notes`` say where the
    upstream scheduler may do otherwise, and what of the cluster one may not expect; ``differences`` are those of them
    that are about a release of Volcano. ``hold`` is set where a queue or the cluster's gate is the reason.
    ``by_eviction`` is the place that a pod without one gets once other pods have been evicted for it. ``count`` is how
    many pods it is about: this one and the replicas numbered after it, all with the same answer.
    """

    unit: str
    intake: PodInfo
    stage: Stage
    before: ClusterSnapshot
    decision: Decision | None = None
    why: str = ""
    words: str = ""
    annotations: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    hold: EnqueueBlock | None = None
    differences: tuple[Difference, ...] = ()
    by_eviction: Placed | None = None
    count: int = 1

    @property
    def place(self) -> Placed | None:
        """Where it goes, at once or after evictions."""
        if self.stage is Stage.PLACED and isinstance(self.decision, Placed):
            return self.decision
        return self.by_eviction

    @property
    def pod(self) -> Pod:
        """The pod as admitted."""
        return self.intake.pod
