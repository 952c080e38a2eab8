"""Which running pods may move, and what each asks for when its controller makes it anew.

A move is an eviction, so the rules for evictions hold (``preemption.rules``), except those about priorities and queues:
a moved pod keeps what it has. Moves come one after another, and each pod has landed before the next one leaves, so
budgets and gangs are asked about one pod at a time.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final

from hami_plugins.defrag.values import RunningCluster, Staying, StayRule
from hami_plugins.engine.decide import PodDemand
from hami_plugins.engine.intake import PodInfo, Rules, take_in
from hami_plugins.engine.registry import Registry
from hami_plugins.model.pods import Pod, PodRecord
from hami_plugins.model.policy import Policy
from hami_plugins.preemption.preemptor import Preemptor
from hami_plugins.preemption.rules import SYSTEM_CRITICAL, EvictionRules
from hami_plugins.preemption.values import Rule, Spared

NODE_BOUND: Final[Mapping[str, str]] = {
    "DaemonSet": "its DaemonSet creates it again on the same node",
    "Node": "the kubelet of its node runs it (static pod)",
}
"""Kinds of controllers that make their pods anew on the same node."""


class MoveRules:
    """Who may move in one cluster.

    With ``alone`` pods without a controller may move as well; they are not made anew. ``waiting`` are the pods that
    need room: members of their gang stay, and pods that they have to be near.
    """

    def __init__(
        self,
        cluster: RunningCluster,
        registry: Registry,
        rules: Rules,
        *,
        waiting: Collection[PodInfo] = (),
        alone: bool = False,
    ) -> None:
        group = Preemptor.of(cluster.snapshot, tuple(waiting)).group if waiting else ""
        # No priority is below the system's, so the comparison of priorities forbids nothing.
        anybody = Preemptor(infos=tuple(waiting), priority=SYSTEM_CRITICAL, group=group, queue="", requests={})
        self._evictions = EvictionRules(cluster.snapshot, anybody, None)
        self._pods = cluster.pods
        self._registry = registry
        self._rules = rules
        self._alone = alone
        self._written = frozenset(key for spec in registry for key in spec.keys.written())
        self._infos: dict[str, PodInfo] = {}
        self._verdicts: dict[str, Staying | None] = {}
        self._demands: dict[PodDemand, PodDemand] = {}
        self._policies: dict[Policy, Policy] = {}

    def staying(self, record: PodRecord) -> Staying | None:
        """Why a pod may not move, ``None`` where it may."""
        name = record.full_name
        if name not in self._verdicts:
            self._verdicts[name] = self._staying(record)
        return self._verdicts[name]

    def info(self, record: PodRecord) -> PodInfo:
        """The request of a movable pod when it is recreated."""
        return self._infos[record.full_name]

    def priority_of(self, record: PodRecord) -> int:
        """The value of a running pod."""
        return self._evictions.priority_of(record)

    def _staying(self, record: PodRecord) -> Staying | None:
        if record.terminating:
            return Staying(record, StayRule.ENDING, "it is being deleted")
        spared = self._evictions.objection(record) or self._evictions.conflict([record])
        if spared is not None:
            return Staying(record, spared.rule, _why(spared))
        running = self._pods.get(record.full_name)
        if running is None:
            return Staying(record, StayRule.REQUEST, "the listing does not have its specification")
        if found := self._not_made_anew(running.controller) or _claimed(running.pod):
            return Staying(record, *found)
        info = self._made_anew(running.pod)
        if info.refusal:
            return Staying(record, StayRule.REQUEST, info.refusal)
        self._infos[record.full_name] = info
        return None

    def _not_made_anew(self, controller: str) -> tuple[StayRule, str] | None:
        """Why a pod would not be made anew, or not elsewhere."""
        if controller in NODE_BOUND:
            return StayRule.NODE_BOUND, NODE_BOUND[controller]
        if not controller and not self._alone:
            return StayRule.CONTROLLER, "no controller creates it again; --alone allows the move"
        return None

    def _made_anew(self, pod: Pod) -> PodInfo:
        """The pod without its node and its allocation; equal demands are one object, which the decision needs less
        time for."""
        kept = {key: text for key, text in pod.annotations.items() if key not in self._written}
        anywhere = replace(pod.constraints, node=None)
        submitted = replace(pod, node=None, phase="Pending", annotations=kept, constraints=anywhere)
        info = take_in(submitted, self._registry, self._rules, admitted=True)
        demand = self._demands.setdefault(info.demand, info.demand)
        return replace(info, demand=demand, policy=self._policies.setdefault(info.policy, info.policy))


def _claimed(pod: Pod) -> tuple[StayRule, str] | None:
    """Why a pod with claims stays."""
    if not pod.claims:
        return None
    return StayRule.REQUEST, "it has claims, and no move of their devices is worked out"


def _why(spared: Spared) -> str:
    """The reason without the words about another pod."""
    if spared.rule is Rule.SAME_GANG:
        return "it is a member of the gang that waits"
    return spared.why
