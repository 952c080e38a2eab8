"""The answers of a search for victims: a plan of evictions, or why there is none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.decisions import Placed
from hami_plugins.model.pods import Pod, PodRecord
from hami_plugins.model.units import NodeName
from hami_plugins.queueing.queues import EnqueueAdmission


class Rule(StrEnum):
    """Why a running pod may not be evicted for another pod, or why it is this one that is evicted."""

    PRIORITY = "priority"
    CRITICAL = "critical"
    MARKED = "preemptable"
    SAME_GANG = "same-gang"
    SCHEDULER = "scheduler"
    QUEUE = "queue"
    SHARE = "share"
    BUDGET = "budget"
    GANG = "gang"
    AFFINITY = "affinity"
    YOUNGEST = "youngest"


class Spared(NamedTuple):
    """A running pod that may not be evicted, the rule that forbids it, and the rule's numbers in words."""

    pod: PodRecord
    rule: Rule
    why: str

    def __str__(self) -> str:
        return f"may not evict {self.pod.full_name}: {self.why}"


class EvictedPod(NamedTuple):
    """A running pod that would be evicted, and its node."""

    pod: PodRecord
    node: NodeName


def leave_together(victims: Iterable[EvictedPod]) -> bool:
    """Whether several of the pods are of one PodGroup, which may have to leave as a whole."""
    groups = Counter(each.pod.full_group for each in victims if each.pod.group)
    return any(count > 1 for count in groups.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionPlan:
    """The pods to evict, and where the waiting pods go afterwards.

    ``ending`` are pods on the chosen nodes that are being deleted already: the places are free once they are also gone.
    ``after`` is the cluster without victims and ending pods, and with the placed pods; ``usage`` is that of the queues
    then, for pods of Volcano's. ``cut`` says that the search was given up, so that cheaper victims may exist.
    """

    victims: tuple[EvictedPod, ...]
    ending: tuple[EvictedPod, ...]
    places: tuple[tuple[Pod, Placed], ...]
    after: ClusterSnapshot
    usage: EnqueueAdmission | None = None
    cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NoVictims:
    """No allowed set of victims makes the pods fit.

    ``why`` is the reason, ``spared`` one pod for each rule that forbids an eviction, and how many it spares. ``cut``
    says that the search was given up, so that victims may exist.
    """

    why: str
    spared: tuple[tuple[Spared, int], ...] = ()
    cut: bool = False
