"""A model of Volcano 1.14.1's sessions over sums: the actions allocate and preempt, with the calls that each makes.

It is as its source has it: a statement for each job, a second phase that places members alone, refusals remembered for
all members of a task.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from hami_plugins.allocations.mode import PreemptionMode
from hami_plugins.allocator.kept_room import keep_again
from hami_plugins.wire.fields import Json
from tests.unit.volcano_vgpu.allocation.cluster import IDS, NODE, a_node, a_pod, written
from tests.unit.volcano_vgpu.allocation.sessions import Sessions, member

CARD = 40_960
FITS, MAY_BE_MADE_TO, NEVER = 0, 2, 3


class SchedulerDiedError(Exception):
    """The scheduler is gone in the middle of a session."""


@dataclass(eq=False)
class ModelPod:
    """A pod as the API server has it. ``ending`` is whether it is being deleted."""

    name: str
    job: str
    memory: int
    priority: int
    created: int
    node: str = ""
    card: str = ""
    ending: bool = False
    nominated: str = ""

    @property
    def raw(self) -> Json:
        ids = f"{self.card},NVIDIA,{self.memory},0:" if self.card else ""
        pod = member(a_pod(self.name, memory=self.memory, node=self.node, ids=ids), self.job, self.priority)
        metadata = {
            **pod["metadata"],
            "creationTimestamp": f"2026-08-21T10:{self.created // 60:02}:{self.created % 60:02}Z",
        }
        if self.ending:
            metadata["deletionTimestamp"] = "2026-08-21T12:00:00Z"
        status = {**pod["status"], **({"nominatedNodeName": self.nominated} if self.nominated else {})}
        return {**pod, "metadata": metadata, "status": status}


Undo = Callable[[], None]


@dataclass
class Model:
    """Nodes of equal cards, and pods. ``dies_at`` is the call in which the scheduler dies, counted from now."""

    nodes: int
    cards: int
    mode: PreemptionMode = PreemptionMode.FULL
    pods: dict[str, ModelPod] = field(default_factory=dict)
    minimum: dict[str, int] = field(default_factory=dict)
    dies_at: int = -1
    evicted: list[ModelPod] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.start_server()

    # The server

    def start_server(self) -> None:
        """A server that knows what the API server has, and nothing else."""
        self.server = Sessions(*(a_node(name, cards=self.cards) for name in self.names), mode=self.mode)
        for job, least in self.minimum.items():
            self.server.group(job, least)
        for pod in self.pods.values():
            self.server.shows(pod.raw)
        self.server.time = 100.0
        keep_again(self.server.cache, volcano=True)

    @property
    def names(self) -> list[str]:
        return [f"n{at}" for at in range(self.nodes)]

    def on(self, node: str) -> Iterator[ModelPod]:
        return (pod for pod in self.pods.values() if pod.node == node)

    # What users and kubelets do

    def submit(self, job: str, members: int, memory: int, priority: int, created: int) -> None:
        self.minimum[job] = members
        self.server.group(job, members)
        for at in range(members):
            pod = ModelPod(f"{job}-{at}", job, memory, priority, created)
            self.pods[pod.name] = pod
            self.server.shows(pod.raw)

    def remove(self, pod: ModelPod) -> None:
        """It is gone."""
        del self.pods[pod.name]
        self.server.shows(pod.raw, "deleted")

    def delete(self, pod: ModelPod) -> None:
        """It gets a deletion timestamp."""
        if pod.name in self.pods and not pod.ending:
            pod.ending = True
            self.evicted.append(pod)
            self.server.shows(pod.raw)

    # Sessions

    def session(self) -> list[ModelPod]:
        """One session; who was evicted by it."""
        self.evicted = []
        self._status = {
            pod.name: "releasing" if pod.ending and pod.node else "running" if pod.node else "pending"
            for pod in self.pods.values()
        }
        self._place = {pod.name: pod.node for pod in self.pods.values()}
        self._never: dict[str, set[str]] = {}
        self._evicting: set[str] = set()
        try:
            self._allocate()
            self._preempt()
            self._call()
            self.server.closes()
        except SchedulerDiedError:
            self.dies_at = -1
        for name, node in self.server.evictor.written.items():
            self._nominate(name, node)
        self.server.evictor.written.clear()
        for _, victims in self.server.evictor.asked:
            for name in victims:
                if name in self.pods:
                    self.delete(self.pods[name])
        self.server.evictor.asked.clear()
        return self.evicted

    def _nominate(self, name: str, node: str) -> None:
        if name in self.pods and not self.pods[name].node:
            self.pods[name].nominated = node
            self.server.shows(self.pods[name].raw)

    def _call(self) -> None:
        if self.dies_at == 0:
            raise SchedulerDiedError
        self.dies_at -= 1

    def _idle(self, node: str, *, future: bool) -> int:
        """What is left of a node's sum: now, or when those that are given up are gone."""
        left = CARD * self.cards
        for pod in self.pods.values():
            status = self._status[pod.name]
            if self._place[pod.name] != node or status == "pending":
                continue
            if status in ("running", "allocated") or (status == "releasing") != future or status == "pipelined":
                left -= pod.memory if not (status == "pipelined" and not future) else 0
        return left

    def _jobs(self) -> list[str]:
        jobs = {pod.job: pod for pod in self.pods.values()}
        return sorted(jobs, key=lambda job: (-jobs[job].priority, jobs[job].created, job))

    def _members(self, job: str, *status: str) -> list[ModelPod]:
        return [pod for pod in self.pods.values() if pod.job == job and self._status[pod.name] in status]

    def _starving(self, job: str) -> bool:
        """Whether too few of a job's pods run, or are about to."""
        return len(self._members(job, "running", "allocated", "pipelined")) < self.minimum[job]

    def _asked(self, pod: ModelPod, nodes: Iterable[str], refused: set[str], allowed: tuple[int, ...]) -> list[str]:
        """The nodes on which a pod may be placed, the best first; refusals hold for the rest of its job."""
        found = []
        for node in nodes:
            if node in refused:
                continue
            self._call()
            code = self.server.asks(pod.raw, node)[node]
            if code == NEVER:
                self._never.setdefault(pod.name, set()).add(node)
            if code in allowed:
                found.append(node)
            else:
                refused.add(node)
        return self.server.ranks(pod.raw, *found) if found else []

    def _allocate(self) -> None:
        for job in self._jobs():
            refused: set[str] = set()
            undo: list[Undo] = []
            for pod in self._members(job, "pending"):
                for future in (False, True):
                    nodes = [node for node in self.names if self._idle(node, future=future) >= pod.memory]
                    ranked = self._asked(pod, nodes, refused, (FITS,))
                    if ranked and self._put(pod, ranked[0], "pipelined" if future else "allocated", undo):
                        break
            if len(self._members(job, "running", "allocated")) >= self.minimum[job]:
                for pod in self._members(job, "allocated"):
                    self._bind(pod)
            elif self._starving(job):
                self._take_back(undo)

    def _put(self, pod: ModelPod, node: str, status: str, undo: list[Undo]) -> bool:
        self._call()
        if status == "pipelined":
            refused = self.server.pipelines(pod.raw, node)
        else:
            refused = self.server.event("allocate", pod.raw, node, job=f"x/{pod.job}")
        if refused:
            self._call()
            self.server.event("deallocate", pod.raw, node, job=f"x/{pod.job}")
            return False
        self._status[pod.name], self._place[pod.name] = status, node

        def undone() -> None:
            self._status[pod.name], self._place[pod.name] = "pending", ""
            self.server.takes_back(pod.raw, node)

        undo.append(undone)
        return True

    def _take_back(self, undo: list[Undo]) -> None:
        for each in reversed(undo):
            self._call()
            each()

    def _bind(self, pod: ModelPod) -> None:
        node = self._place[pod.name]
        answer = self.server.bind(pod.raw, node)
        if not answer.operations:
            self._status[pod.name], self._place[pod.name] = "pending", ""
            return
        notes = written(answer)
        assert notes[NODE] == node
        pod.node, pod.card = node, notes[IDS].split(",")[0]
        self._status[pod.name] = "running"
        self.server.shows(pod.raw)

    def _preempt(self) -> None:
        starving = [job for job in self._jobs() if self._starving(job)]
        for job in starving:
            refused: set[str] = set()
            undo: list[Undo] = []
            given_up: list[ModelPod] = []
            for pod in self._members(job, "pending"):
                if self._starving(job):
                    others = {name for name, each in self.pods.items() if each.job != job}
                    self._preempt_for(pod, others, refused, undo, given_up)
            if self._starving(job):
                self._take_back(undo)
                continue
            self._call()
            for victim in given_up:
                self.delete(victim)
            for pod in self._members(job, "pipelined") if given_up else ():
                if pod.name in self._evicting:
                    self._nominate(pod.name, self._place[pod.name])
        for job in starving:
            refused = set()
            for pod in self._members(job, "pending"):
                own = {name for name, each in self.pods.items() if each.job == job}
                self._preempt_for(pod, own, refused, [], [])

    def _preempt_for(
        self, pod: ModelPod, others: set[str], refused: set[str], undo: list[Undo], given_up: list[ModelPod]
    ) -> None:
        nodes = [node for node in self.names if node not in self._never.get(pod.name, ())]
        for node in self._asked(pod, nodes, refused, (FITS, MAY_BE_MADE_TO)):
            candidates = [
                each
                for each in self.on(node)
                if each.name in others and self._status[each.name] == "running" and each.priority < pod.priority
            ]
            self._call()
            named = self.server.may_evict(pod.raw, *(each.raw for each in candidates))
            victims = sorted((self.pods[name] for name in named), key=lambda each: (each.priority, -each.created))
            if self._idle(node, future=True) + sum(each.memory for each in victims) < pod.memory:
                continue
            while victims and self._idle(node, future=True) < pod.memory:
                self._evicting.add(pod.name)
                self._give_up(victims.pop(0), undo, given_up)
            self._put(pod, node, "pipelined", undo)
            return

    def _give_up(self, victim: ModelPod, undo: list[Undo], given_up: list[ModelPod]) -> None:
        self._call()
        self._status[victim.name] = "releasing"
        self.server.gives_up(victim.raw)
        given_up.append(victim)

        def undone() -> None:
            self._status[victim.name] = "running"
            given_up.remove(victim)
            self.server.spares(victim.raw)

        undo.append(undone)


def chosen(rng: random.Random, *weighted: tuple[Callable[[], Any], int]) -> None:
    """Does one of some things."""
    acts, weights = zip(*weighted, strict=True)
    rng.choices(acts, weights)[0]()
