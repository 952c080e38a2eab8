"""What waits for devices, and why: pods without a node, those that ask for the same together, and what would help.

Each is looked at by itself on the cluster as it is: no queue, quota of Volcano, or order of turns is considered. So a
pod that fits may wait all the same, and then its scheduler is named. ``explain`` says more of one pod.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from hami_plugins.engine import quota
from hami_plugins.engine.decide import DecisionRequest, PodDemand
from hami_plugins.engine.intake import PodInfo, take_in
from hami_plugins.engine.shortfall import why_not
from hami_plugins.explain import messages
from hami_plugins.explain.answers import CountedReason, WayOut, causes_of, ways_out_of
from hami_plugins.explain.counterfactuals import counterfactuals
from hami_plugins.explain.messages import counted
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.pods import Pod
from hami_plugins.model.policy import Policy
from hami_plugins.model.verdicts import Fit
from hami_plugins.plan import Planner
from hami_plugins.wire import scheduling_gates

MOST_EXPLAINED: Final = 12
"""Different requests for which reasons and changes are looked for, those of the pods that wait longest."""

_Asked: TypeAlias = tuple[PodDemand, Policy, str, str]
"""All that an explanation depends on: demand, policy, namespace, and why no node is asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingGroup:
    """Pods that ask for the same, those that wait longest first. ``why`` is one sentence, ``causes`` its parts.

    ``fitting`` is how many nodes have room for one of them now.
    """

    pods: tuple[Pod, ...]
    why: str
    causes: tuple[CountedReason, ...] = ()
    ways_out: tuple[WayOut, ...] = ()
    fitting: int = 0

    @property
    def since(self) -> int | None:
        """When the first of them was created (Unix seconds); ``None`` where that is not known."""
        return self.pods[0].made_at


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingReport:
    """All that wait: ``pods`` of them, of which ``more`` are in no group because others have waited longer."""

    pods: int = 0
    groups: tuple[WaitingGroup, ...] = ()
    more: int = 0


def asking(snapshot: ClusterSnapshot, planner: Planner) -> Iterator[PodInfo]:
    """The pods of a snapshot that wait for devices, with what they ask for."""
    for pod in snapshot.pending:
        if any(planner.registry.asked_by(each) for each in pod.containers):
            left = quota.left_in(snapshot, pod.namespace, planner.registry)
            intake = take_in(pod, planner.registry, planner.rules, left, written=bool(pod.uid))
            if intake.refusal or intake.demand.devices.wants_devices:
                yield intake


def waiting(
    intakes: Iterable[PodInfo],
    snapshot: ClusterSnapshot,
    planner: Planner,
    *,
    blocked: Callable[[PodInfo], str] = lambda _intake: "",
    spare: Callable[[], bool] = lambda: True,
) -> WaitingReport:
    """Explain those that wait on this snapshot.

    ``blocked`` is why a pod gets nothing whatever is free. ``spare`` is called before each explanation but the first,
    and ends them when no time is left.
    """
    alike: dict[_Asked, list[PodInfo]] = {}
    pods = 0
    for intake in sorted(intakes, key=_age):
        if not intake.submitted.terminating:
            pods += 1
            alike.setdefault(_asked(intake), []).append(intake)
    groups: list[WaitingGroup] = []
    for each in alike.values():
        if groups and (len(groups) == MOST_EXPLAINED or not spare()):
            break
        groups.append(_explained(each, snapshot, planner, blocked))
    return WaitingReport(pods=pods, groups=tuple(groups), more=pods - sum(len(each.pods) for each in groups))


def _explained(
    intakes: Sequence[PodInfo], snapshot: ClusterSnapshot, planner: Planner, blocked: Callable[[PodInfo], str]
) -> WaitingGroup:
    first, pods = intakes[0], tuple(each.submitted for each in intakes)
    if why := _without_nodes(first) or blocked(first):
        return WaitingGroup(pods=pods, why=why)
    decider, registry = planner.decider, planner.registry
    answers = decider.answers(snapshot, first.demand, first.policy)
    fitting = [entry.name for entry, answer in answers if isinstance(answer, Fit)]
    if fitting:
        return WaitingGroup(pods=pods, why=_unplaced(first.pod, len(fitting), fitting[0]), fitting=len(fitting))
    found = why_not(DecisionRequest(first.demand, first.policy), answers, registry, decider.uncounted)
    names = tuple(container.name for container in first.pod.containers)
    changes = counterfactuals(planner, snapshot, first.submitted, limit=1)
    return WaitingGroup(
        pods=pods,
        why=messages.summary(found, registry, names),
        causes=causes_of(found, registry, names),
        ways_out=ways_out_of(changes, names, registry),
    )


def _without_nodes(intake: PodInfo) -> str:
    """Why no node is asked; empty where they are."""
    if intake.refusal:
        return intake.refusal
    return f"has {scheduling_gates.told(intake.pod)}" if intake.pod.gated else ""


def _unplaced(pod: Pod, fitting: int, example: str) -> str:
    have = "has" if fitting == 1 else "have"
    return (
        f"{counted(fitting, 'node')} {have} room for it now, such as {example}; {pod.scheduler} has not placed it yet"
    )


def _asked(intake: PodInfo) -> _Asked:
    return intake.demand, intake.policy, intake.submitted.namespace, _without_nodes(intake)


def _age(intake: PodInfo) -> tuple[bool, int, str]:
    pod = intake.submitted
    return pod.made_at is None, pod.made_at or 0, pod.full_name
