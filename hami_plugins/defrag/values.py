"""The answers of a defragmentation: moves in the order in which they can be carried out, or why there are none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.decisions import Placed
from hami_plugins.model.pods import Pod, PodRecord
from hami_plugins.model.units import NodeName
from hami_plugins.preemption.values import Rule


class StayRule(StrEnum):
    """Why a running pod may not be moved, besides the rules about every eviction."""

    CONTROLLER = "controller"
    NODE_BOUND = "node-bound"
    ENDING = "ending"
    REQUEST = "request"


class RunningPod(NamedTuple):
    """A pod as it is written. ``controller`` is the kind of the object that makes it anew; empty for none."""

    pod: Pod
    controller: str


class RunningCluster(NamedTuple):
    """A cluster, and its running pods as they are written, by ``namespace/name``."""

    snapshot: ClusterSnapshot
    pods: Mapping[str, RunningPod]


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveOptions:
    """How pods may move.

    ``most`` moves at most; with ``sure`` only such that end as planned while nothing is held; with ``alone`` also pods
    that no controller makes anew.
    """

    most: int = 10
    sure: bool = False
    alone: bool = False


class Staying(NamedTuple):
    """A running pod that may not be moved, the rule that forbids it, and the rule's numbers in words."""

    pod: PodRecord
    rule: Rule | StayRule
    why: str

    def __str__(self) -> str:
        return f"{self.pod.full_name} stays: {self.why}"


class Move(NamedTuple):
    """A pod that is evicted and made anew by its controller.

    ``placed`` is its proven new place. ``sure`` is whether the decision function chooses that place by itself, also
    while the old pod still ends; otherwise the pod lands there only while the room of the waiting pods is held.
    """

    pod: PodRecord
    source: NodeName
    placed: Placed
    sure: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DefragPlan:
    """Moves, each possible after those before it.

    ``places`` are where the waiting pods fit afterwards; ``after`` is the cluster with the moved pods, and without the
    waiting ones. ``stranded`` is the free memory (MiB) that no request could get before and after. ``staying`` is one
    pod for each rule that forbids a move, with the number of such pods; ``movable`` is how many pods may move.
    """

    moves: tuple[Move, ...]
    before: ClusterSnapshot
    after: ClusterSnapshot
    places: tuple[tuple[Pod, Placed], ...]
    stranded: tuple[int, int]
    staying: tuple[tuple[Staying, int], ...]
    movable: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NoMoves:
    """No allowed moves reach the goal. ``placed`` is how many of the waiting pods would have had a place."""

    why: str
    staying: tuple[tuple[Staying, int], ...] = ()
    movable: int = 0
    placed: int = 0
