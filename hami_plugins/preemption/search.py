"""The cheapest victims in a cluster, for one pod or a whole gang, proven by the decision function.

"Cheapest" is, in this order: the lowest highest priority; the fewest pods; fewest pods of the highest priority, of the
next, and so on; the least work lost, which means the youngest pods. Pods that are being deleted count as gone.
Victims are pods of the nodes that get the waiting pods, and the rest of gangs that are evicted as a whole.

For members with equal demands the set is the cheapest there is; members with different demands are placed one demand
after another. Not looked for are victims that only make a quota of devices larger from another node, or that keep the
pod away by their anti-affinity.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final

from hami_plugins.engine.decide import Decider, PodDemand
from hami_plugins.engine.intake import PodInfo, Rules
from hami_plugins.engine.registry import Registry
from hami_plugins.model.cluster import ClusterSnapshot
from hami_plugins.model.decisions import Placed
from hami_plugins.model.pods import Pod
from hami_plugins.model.policy import Policy
from hami_plugins.model.units import NodeName
from hami_plugins.preemption.bounds import RoomBounds
from hami_plugins.preemption.costs import CostScale
from hami_plugins.preemption.demand_search import DemandSearch, Knowledge
from hami_plugins.preemption.grounds import Ground, grounds_of
from hami_plugins.preemption.preemptor import Preemptor
from hami_plugins.preemption.reclaim import divided_gate
from hami_plugins.preemption.rules import EvictionRules
from hami_plugins.preemption.running import RunningPodIndex
from hami_plugins.preemption.values import EvictedPod, EvictionPlan, NoVictims
from hami_plugins.queueing.queues import EnqueueAdmission, requests_of

MOST_DEMANDS: Final = 8
"""Demands whose nodes are remembered."""


class VictimSearch:
    """Searches for victims. Keeps verdicts, and of the last demands what is known of nodes that have not changed.

    ``rules`` say how the cluster divides itself among queues; ``uncounted`` is as in ``Decider``. With ``devices_only``
    pods may go to any node that is searched, as for an extender: its scheduler has looked at other pods and at labels.
    """

    def __init__(
        self,
        registry: Registry,
        rules: Rules | None = None,
        *,
        uncounted: Collection[str] | None = None,
        devices_only: bool = False,
    ) -> None:
        self._decider = Decider(registry, uncounted=uncounted)
        self._rules = rules or Rules()
        self._devices_only = devices_only
        self._known: OrderedDict[Hashable, Knowledge] = OrderedDict()
        self._running = RunningPodIndex()

    def find(
        self,
        snapshot: ClusterSnapshot,
        infos: Sequence[PodInfo],
        gate: EnqueueAdmission | None = None,
        *,
        within: Collection[NodeName] | None = None,
    ) -> EvictionPlan | NoVictims:
        """The cheapest evictions after which all these pods of one gang, or this one pod, have a place.

        ``gate`` holds queue usage with the shares of this moment; without it, it is worked out from the snapshot.
        The places are on the nodes ``within``, where these are named.
        """
        self.running_in(snapshot)
        preemptor = Preemptor.of(snapshot, infos)
        if preemptor.never:
            return NoVictims(why=preemptor.never)
        gate = self._gate(snapshot, preemptor, gate)
        current = snapshot
        victims, ending, places = list[EvictedPod](), list[EvictedPod](), list[tuple[Pod, Placed]]()
        remaining, cut = list(_by_demand(infos)), False
        while remaining:
            members, running = remaining[0], self.running_in(current)
            rules = EvictionRules(current, Preemptor.of(current, [*chain(*remaining)]), gate, running)
            search = self._search(current, rules, members, within)
            solution = search.cheapest()
            found = None if solution is None else search.proof.placed(solution)
            cut = cut or search.cut
            if solution is None or found is None:
                return search.refusal()
            victims += solution.victims
            ending += solution.ending
            places += found.places
            remaining = remaining[1:]
            current = _with_fewer_allowed(found.after, rules, solution.victims)
            gate = rules.reclaim.usage_after(victim.pod for victim in solution.victims)
            if gate is not None:
                for info in members:
                    gate = gate.given(preemptor.queue, requests_of(info.pod))
        after = replace(current, budgets=snapshot.budgets)
        return EvictionPlan(
            victims=tuple(victims), ending=tuple(ending), places=tuple(places), after=after, usage=gate, cut=cut
        )

    def running_in(self, snapshot: ClusterSnapshot) -> RunningPodIndex:
        """The running pods of a snapshot, until the search is asked about another one."""
        self._running.see(snapshot)
        return self._running

    def grounds(
        self,
        snapshot: ClusterSnapshot,
        infos: Sequence[PodInfo],
        found: EvictionPlan,
        gate: EnqueueAdmission | None = None,
    ) -> tuple[tuple[Ground, ...], ...]:
        """By which rules each victim of a plan is evicted; the other arguments are those the plan was found with."""
        running = self.running_in(snapshot)
        preemptor = Preemptor.of(snapshot, infos)
        rules = EvictionRules(snapshot, preemptor, self._gate(snapshot, preemptor, gate), running)
        return grounds_of(snapshot, rules, found.victims)

    def _gate(
        self, snapshot: ClusterSnapshot, preemptor: Preemptor, gate: EnqueueAdmission | None
    ) -> EnqueueAdmission | None:
        if gate is None and preemptor.queue:
            return divided_gate(snapshot, preemptor, self._rules, self._running)
        return gate

    def _search(
        self,
        snapshot: ClusterSnapshot,
        rules: EvictionRules,
        members: Sequence[PodInfo],
        within: Collection[NodeName] | None,
    ) -> DemandSearch:
        """The search for one demand; what an earlier one for its like knows of unchanged nodes is taken over."""
        demand, policy = members[0].demand, members[0].policy
        priorities = self._running.priorities
        scale = CostScale(priorities.union(snapshot.priorities.values(), (info.pod.priority for info in members)))
        key = demand, policy, len(members), scale.priorities
        known = self._known.pop(key, None)
        if known is None or known.rules.context != rules.context:
            bounds = RoomBounds(demand, policy, self._decider.registry, self._decider.uncounted)
            known = Knowledge(rules, scale, bounds, {})
        rules.recall(known.rules)
        search = DemandSearch(
            self._decider, snapshot, rules, members, known, within=within, devices_only=self._devices_only
        )
        self._known[key] = known._replace(nodes=search.nodes)
        if len(self._known) > MOST_DEMANDS:
            self._known.popitem(last=False)
        return search


def _by_demand(infos: Iterable[PodInfo]) -> Iterable[Sequence[PodInfo]]:
    """The members with equal demands together, in the order of their first ones."""
    found: dict[tuple[PodDemand, Policy], list[PodInfo]] = {}
    for info in infos:
        found.setdefault((info.demand, info.policy), []).append(info)
    return found.values()


def _with_fewer_allowed(
    snapshot: ClusterSnapshot, rules: EvictionRules, victims: Iterable[EvictedPod]
) -> ClusterSnapshot:
    """The cluster whose budgets have been used by these evictions."""
    used = Counter((each.namespace, each.name) for victim in victims for each in rules.budgets_of(victim.pod))
    budgets = (replace(each, allowed=each.allowed - used[each.namespace, each.name]) for each in snapshot.budgets)
    return replace(snapshot, budgets=tuple(budgets))
