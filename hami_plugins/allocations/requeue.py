"""Which waiting pods kube-scheduler should try again now that more devices may be had.

kube-scheduler puts a pod that an extender refused aside, for up to five minutes, until it hears of an event of the
cluster. It hears of none where a quota was raised, where a promise ended, or where it asked before this server had seen
what it had seen (``scheduling_queue.go`` of Kubernetes 1.34). Chosen are pods that the devices can hold now, the most
important first, each counted as if it had its devices already: never more than there is room for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from hami_plugins.engine import quota
from hami_plugins.engine.apply import record_with, with_pod
from hami_plugins.engine.decide import Decider, PodDemand
from hami_plugins.engine.device_names import allocated
from hami_plugins.engine.intake import PodInfo
from hami_plugins.model.nodes import NodeEntry
from hami_plugins.model.pods import PodRecord
from hami_plugins.model.policy import Policy
from hami_plugins.model.units import NodeName, PodUid, VendorName
from hami_plugins.model.vendor import Headroom
from hami_plugins.model.verdicts import Fit

NEW: Final = 5.0
"""Seconds that a pod of which its scheduler has not asked is left to it: it is in its queue."""

UNDER_WAY: Final = 30.0
"""Seconds that a pod for which nodes were found is left to its scheduler, which is binding it."""

FIRST_PAUSE: Final = 15.0
LONGEST_PAUSE: Final = 300.0
"""Seconds before a pod that was chosen is chosen again if its scheduler has not asked since, twice as long each time:
the scheduler's own back-off lasts 10 s, and where devices are not what the pod waits for it never asks."""

BURST: Final = 50
PER_SECOND: Final = 20.0
"""Pods that are chosen at once, and in each further second."""

ALL_ASKED: Final = 100
"""kube-scheduler looks for at least so many nodes (``minFeasibleNodesToFind``): when it asks about fewer, all others
are out of the question for reasons of its own."""


class RequeueView(Protocol):
    """The cluster as it is now."""

    def fitting(self, intake: PodInfo, nodes: Sequence[NodeName] | None) -> Sequence[NodeEntry]:
        """Those of these nodes (``None``: of all) that can hold the pod, the best first."""

    def left(self, namespace: str) -> Mapping[VendorName, Headroom]:
        """What the quotas of a namespace leave, per vendor."""

    def allows(self, node: NodeName, intake: PodInfo) -> bool:
        """Whether nothing but devices is in the pod's way on a node."""


def exhaustive(nodes: Sequence[NodeName]) -> tuple[NodeName, ...] | None:
    """The nodes of a call, where they are all that the scheduler lets the pod go to; else ``None``."""
    return tuple(nodes) if len(nodes) < ALL_ASKED else None


@dataclass(slots=True)
class _Waiting:
    """What is known of a waiting pod since it was first seen.

    ``nodes`` are all that its scheduler asks about, ``None`` for any. ``chosen`` counts how often it was chosen since
    its scheduler asked last, which was ``at`` the latest.
    """

    since: float
    asked: float | None = None
    fits: bool = False
    nodes: tuple[NodeName, ...] | None = None
    chosen: int = 0
    at: float = 0.0

    @property
    def due(self) -> float:
        """When it may be chosen."""
        if self.chosen:
            return self.at + min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** (self.chosen - 1))
        if self.asked is None:
            return self.since + NEW
        return self.asked + UNDER_WAY if self.fits else self.asked

    def takes_room(self, now: float) -> bool:
        """Whether its scheduler is about to place it."""
        if self.chosen:
            return now < self.at + FIRST_PAUSE
        return self.fits and now < self.due


class Chosen(NamedTuple):
    """The pods to be tried again, and when to choose again (``None``: when more may be had)."""

    pods: tuple[PodInfo, ...]
    again: float | None = None


@dataclass(slots=True)
class RequeuePlanner:
    """Remembers the tries of waiting pods. Times are seconds of a clock that only goes forward."""

    decider: Decider
    _waiting: dict[PodUid, _Waiting] = field(default_factory=dict)
    _budget: float = BURST
    _paid: float = 0.0

    def asked(self, uid: PodUid, nodes: tuple[NodeName, ...] | None, now: float, *, fits: bool) -> None:
        """A scheduler has asked which of these nodes (see ``exhaustive``) take a pod, and whether one does."""
        known = self._waiting.setdefault(uid, _Waiting(now))
        known.asked, known.fits, known.chosen = now, fits, 0
        known.nodes = nodes

    def choose(self, pods: Iterable[PodInfo], cluster: RequeueView, now: float) -> Chosen:
        """The pods that are tried again now, of all that wait."""
        waiting = {each.pod.uid: each for each in pods}
        self._waiting = {uid: known for uid, known in self._waiting.items() if uid in waiting}
        room = _Room(cluster, self.decider)
        found: list[PodInfo] = []
        again: list[float] = []
        self._earn(now)
        for uid, intake in waiting.items():
            known = self._waiting.setdefault(uid, _Waiting(now))
            if known.takes_room(now):
                room.take(intake, known.nodes)
        for intake in sorted(waiting.values(), key=lambda each: (-each.pod.priority, each.pod.full_name)):
            known = self._waiting[intake.pod.uid]
            if known.takes_room(now):
                continue
            if now < known.due:
                again += [known.due] if room.has(intake, known.nodes) else []
            elif self._budget < 1:
                again.append(now + 1 / PER_SECOND)
                break
            elif room.take(intake, known.nodes):
                known.chosen, known.at = known.chosen + 1, now
                self._budget -= 1
                found.append(intake)
        return Chosen(tuple(found), min(again, default=None))

    def _earn(self, now: float) -> None:
        self._budget = min(float(BURST), self._budget + (now - self._paid) * PER_SECOND)
        self._paid = now


class _Room:
    """The remaining quota after pods have taken their devices."""

    def __init__(self, cluster: RequeueView, decider: Decider) -> None:
        self._cluster = cluster
        self._decider = decider
        self._changed: dict[NodeName, NodeEntry] = {}
        self._taken: dict[str, list[tuple[NodeEntry | None, PodRecord]]] = {}
        self._fitting: dict[tuple[PodDemand, Policy, tuple[NodeName, ...] | None], Sequence[NodeEntry]] = {}

    def has(self, intake: PodInfo, nodes: tuple[NodeName, ...] | None) -> bool:
        """Whether a node can hold the pod."""
        return self._place(intake, nodes) is not None

    def take(self, intake: PodInfo, nodes: tuple[NodeName, ...] | None) -> bool:
        """Gives the pod devices of the best node that can hold it, if there is one."""
        found = self._place(intake, nodes)
        if found is None:
            return False
        entry, fit = found
        record = record_with(intake.pod, allocated(entry, fit, intake.demand.devices, self._decider.registry))
        self._changed[entry.name] = with_pod(entry, record)
        self._taken.setdefault(intake.pod.namespace, []).append((entry, record))
        return True

    def _place(self, intake: PodInfo, nodes: tuple[NodeName, ...] | None) -> tuple[NodeEntry, Fit] | None:
        namespace = intake.pod.namespace
        left = self._cluster.left(namespace)
        key = (_demand(intake, left), intake.policy, nodes)
        if key not in self._fitting:
            self._fitting[key] = self._cluster.fitting(intake, nodes)
        if not (candidates := self._fitting[key]):
            return None
        used = quota.used(self._taken.get(namespace, ()), self._decider.registry) if left else {}
        ask = self._decider.asking(_demand(intake, quota.less(left, used)), intake.policy)
        entries = (self._changed.get(each.name, each) for each in candidates)
        fits = ((each, fit) for each in entries if isinstance(fit := ask(each), Fit))
        return next((each for each in fits if self._cluster.allows(each[0].name, intake)), None)


def _demand(intake: PodInfo, left: Mapping[VendorName, Headroom]) -> PodDemand:
    return PodDemand(intake.demand.devices, headroom=tuple(sorted(left.items())))
